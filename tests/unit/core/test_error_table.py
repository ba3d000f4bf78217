"""The containers' words, and what of them is shown."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import (
    APIError,
    ContextOverflowError,
    InvalidRequestError,
    ModelNotReadyError,
    ServerError,
)
from sagemaker_vllm._error_table import (
    ContainerFault,
    as_status,
    container_error,
    failed_choice,
    read_container_fault,
    redact,
    service_error,
    stream_event_error,
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"error":{"message":"m","type":"T","code":400}}', ContainerFault("m", 400, "T")),
        ('{"object":"error","message":"m","type":"T","code":400}', ContainerFault("m", 400, "T")),
        ('{"code":424,"error":"m"}', ContainerFault("m", 424)),
        ('{"code":500,"message":"m"}', ContainerFault("m", 500)),
        ('{"detail":"m"}', ContainerFault("m")),
        ('{"detail":[{"loc":["body"]}]}', ContainerFault('[{"loc":["body"]}]')),
        ('{"error":{"type":"T","code":400}}', ContainerFault("T", 400, "T")),
        ('{"error":{"message":"","code":"503"}}', ContainerFault("error", 503)),
        ('{"error":"m","code":"many"}', ContainerFault("m")),
        ("plain words ", ContainerFault("plain words")),
        ("", ContainerFault("")),
        ("[1]", ContainerFault("[1]")),
        ('{"unknown":1}', ContainerFault('{"unknown":1}')),
        ('{"error":null}', ContainerFault('{"error":null}')),
    ],
)
def test_container_fault_of_every_shape(text: str, fault: ContainerFault) -> None:
    assert read_container_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"error":{"code":400,"message":"a \\"b\\" c', ContainerFault('a "b" c', 400)),
        ('{"error":{"message":"cut in an escape \\u00e', ContainerFault("cut in an escape \\u00e")),
        ("{'error': {'message': 'it', 'code': 404}} and more", ContainerFault("it", 404)),
    ],
    ids=["JSON", "escape", "printed"],
)
def test_cut_off_fault_keeps_its_sentence(text: str, fault: ContainerFault) -> None:
    assert read_container_fault(text) == fault


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        (
            "{'error': {'message': 'm', 'type': 'BadRequestError', 'code': 400}}",
            ContainerFault("m", 400),
        ),
        ("ErrorResponse(error={'message': 'm'})", ContainerFault("m", 424)),
        ('{"message": 1}', ContainerFault('{"message": 1}', 424)),
        ("he said {'message': 'no'}", ContainerFault("he said {'message': 'no'}", 424)),
    ],
)
def test_error_that_lmi_prints_into_its_own_is_read(sentence: str, fault: ContainerFault) -> None:
    assert read_container_fault(json.dumps({"code": 424, "error": sentence})) == fault


@given(st.text() | st.dictionaries(st.text(), st.text() | st.integers()).map(str))
def test_no_words_of_a_container_are_lost_or_break_anything(text: str) -> None:
    fault = read_container_fault(text)

    assert fault.sentence or not text.strip()


@pytest.mark.parametrize(
    ("value", "status"),
    [(400, 400), ("503", 503), (99, None), (600, None), ("x", None), (None, None), (4.0, None)],
)
def test_status_is_a_number_of_http(value: object, status: int | None) -> None:
    assert as_status(value) == status


def test_message_shows_no_account_no_link_no_input_and_no_novel() -> None:
    text = (
        "bad input_value={'content': 'my secret question'}, input_type=dict in account "
        "123456789012. See https://x.console.aws.amazon.com/y in account 123456789012 for more "
        "information."
    )

    assert redact(text) == "bad input_value=..., input_type=dict in account <account>."
    assert len(redact("x" * 5000)) == 1003


@pytest.mark.parametrize(
    ("sentence", "status", "kind", "is_retryable"),
    [
        ("maximum context length is 8", 400, ContextOverflowError, False),
        ("longer than the maximum model length of 8", 500, ContextOverflowError, False),
        ("not ready for inference", 400, ModelNotReadyError, True),
        ("anything", 400, InvalidRequestError, False),
        ("anything", 500, ServerError, False),
        ("anything", 503, ServerError, True),
        ("anything", None, ServerError, False),
    ],
)
def test_sentence_goes_before_the_status(
    sentence: str, status: int | None, kind: type[APIError], is_retryable: bool
) -> None:
    error = container_error(
        ContainerFault(sentence, status), endpoint_name="e", body=b"", request_id="r"
    )

    assert type(error) is kind
    assert error.is_retryable is is_retryable


@pytest.mark.parametrize("parsed", [{}, {"Error": {}}, {"Error": {"Code": None, "Message": None}}])
def test_error_without_any_word_is_still_an_error(parsed: dict[str, Any]) -> None:
    error = service_error(parsed, endpoint_name="e", region_name="eu-west-1")

    assert type(error) is ServerError
    assert error.error_code == "Unknown"
    assert "eu-west-1" in error.message


def test_raw_words_are_kept_once() -> None:
    error = {"Code": "ModelError", "Message": "it said: boom"}

    assert service_error({"Error": error, "OriginalMessage": "boom"}, endpoint_name="e").body == (
        "it said: boom"
    )
    assert service_error({"Error": error, "OriginalMessage": "bang"}, endpoint_name="e").body == (
        "it said: boom\nbang"
    )


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"error": {"message": "m", "code": 503}}, 503),
        ({"object": "error", "message": "m", "code": 400}, 400),
        ({"code": 500, "message": "m"}, 500),
        ({"error": {}, "object": "error"}, None),
        ({"error": "m"}, None),
    ],
)
def test_event_that_says_the_container_failed(event: dict[str, Any], status: int | None) -> None:
    error = stream_event_error(event, endpoint_name="e", body=b"raw")

    assert error is not None
    assert (error.status_code, error.body) == (status, b"raw")


@pytest.mark.parametrize(
    "event", [{"choices": []}, {"choices": [], "error": None}, {"usage": {}}, {"code": 1}]
)
def test_ordinary_event_is_no_error(event: dict[str, Any]) -> None:
    assert stream_event_error(event, endpoint_name="e", body=b"") is None


def test_choice_that_failed_is_an_error() -> None:
    assert failed_choice("stop", endpoint_name="e", body=b"") is None
    assert isinstance(failed_choice("error", endpoint_name="e", body=b"raw"), ServerError)
