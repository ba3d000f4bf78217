"""Plain answers of every server dialect."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import APIError, InvalidRequestError, SageMakerVLLMError, ServerError
from sagemaker_vllm._plain import read_response


def read(body: Any, kind: Any = "chat") -> dict[str, Any]:
    return read_response(orjson.dumps(body), kind=kind, endpoint_name="e")


def message_of(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    response = read({"choices": [{"message": message, **choice}]})
    found: dict[str, Any] = response["choices"][0]["message"]
    return found


def test_absent_fields_get_their_defaults() -> None:
    assert read({"choices": [{"message": {"role": "assistant"}}]}) == {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None,
                    "reasoning": None,
                    "tool_calls": [],
                },
                "logprobs": None,
                "finish_reason": None,
                "stop_reason": None,
            }
        ],
        "usage": None,
    }


@pytest.mark.parametrize("content", ["", None])
def test_no_text_is_none(content: str | None) -> None:
    assert message_of({"content": content})["content"] is None


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning": "why"},
        {"reasoning_content": "why"},
        {"reasoning": "why", "reasoning_content": "why"},
    ],
)
def test_reasoning_is_in_one_place(message: dict[str, Any]) -> None:
    found = message_of(message)

    assert found["reasoning"] == "why"
    assert "reasoning_content" not in found


@pytest.mark.parametrize("calls", [None, []])
def test_no_calls_are_an_empty_list(calls: Any) -> None:
    assert message_of({"tool_calls": calls})["tool_calls"] == []


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ({"arguments": '{"a": 1}'}, '{"a": 1}'),
        ({"arguments": None}, ""),
        ({}, ""),
        ({"arguments": {"a": 1}}, '{"a":1}'),
    ],
)
def test_arguments_are_text(function: dict[str, Any], arguments: str) -> None:
    (call,) = message_of({"tool_calls": [{"id": "c", "function": {"name": "f", **function}}]})[
        "tool_calls"
    ]

    assert call == {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }


@pytest.mark.parametrize("call_id", [None, ""])
def test_call_without_id_gets_one(call_id: str | None) -> None:
    (call,) = message_of({"tool_calls": [{"id": call_id, "function": {"name": "f"}}]})["tool_calls"]

    assert len(call["id"]) == 9


def test_lmi_finish_reason_becomes_vllms() -> None:
    response = read({"choices": [{"text": "x", "finish_reason": "eos_token"}]}, "text")

    assert response["choices"][0]["finish_reason"] == "stop"


def test_fields_that_are_not_known_are_kept() -> None:
    assert read({"choices": [{"message": {}}], "news": 1})["news"] == 1


def test_answer_that_lacks_choices_is_an_error() -> None:
    body = orjson.dumps({"choices": [{"text": "x"}]})

    with pytest.raises(ServerError, match="1 of 2 choices") as caught:
        read_response(body, kind="text", endpoint_name="e", expected_choices=2)

    assert caught.value.body == body


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"error": {"message": "no", "code": 400}}, InvalidRequestError, 400),
        ({"object": "error", "message": "no", "code": 400}, InvalidRequestError, 400),
        ({"code": 500, "message": "no"}, ServerError, 500),
    ],
)
def test_error_inside_a_200_is_an_error(
    body: dict[str, Any], kind: type[APIError], status: int
) -> None:
    with pytest.raises(kind, match="no") as caught:
        read(body)

    assert caught.value.status_code == status


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"[]",
        b"5",
        b"{}",
        b'[{"generated_text": "hi"}]',
        b'{"choices": 5}',
        b'{"choices": {}}',
        b'{"choices": []}',
        b'{"choices": [5]}',
        b'{"choices": [{"text": "a text, not a chat"}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b'{"choices": [{"message": {"reasoning": 5}}]}',
        b'{"choices": [{"message": {"tool_calls": [5]}}]}',
        b'{"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]}',
        b'{"choices": [{"message": {}, "finish_reason": []}]}',
    ],
)
def test_what_is_not_a_completion_is_an_error_with_the_raw_answer(body: bytes) -> None:
    with pytest.raises(ServerError, match="not a completion") as caught:
        read_response(body, kind="chat", endpoint_name="e")

    assert caught.value.body == body
    assert not caught.value.is_retryable


def test_failure_given_as_finish_reason_is_an_error() -> None:
    with pytest.raises(ServerError) as caught:
        read({"choices": [{"text": "so far", "finish_reason": "error"}]}, "text")

    assert b"so far" in caught.value.body  # type: ignore[operator]  # bytes, as they came


def test_text_that_is_not_text_is_an_error() -> None:
    with pytest.raises(ServerError, match="not a completion"):
        read({"choices": [{"text": 5}]}, "text")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "text",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "error",
                    "code",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(JSON, st.sampled_from(["chat", "text"]))
def test_any_json_is_read_or_refused(body: Any, kind: Any) -> None:
    try:
        response = read_response(json.dumps(body).encode(), kind=kind, endpoint_name="e")
    except SageMakerVLLMError:
        return

    assert isinstance(response["choices"], list)
