"""Events of every server dialect become chunks of one, or errors."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import (
    APIError,
    InvalidRequestError,
    SageMakerVLLMError,
    ServerError,
    StreamDecodeError,
)
from sagemaker_vllm._accumulator import Accumulator
from sagemaker_vllm._chunks import ChunkDecoder, normalise_usage
from sagemaker_vllm._parameters import RequestKind


def decode(*chunks: Any, kind: RequestKind = "chat") -> list[dict[str, Any]]:
    decoder = ChunkDecoder(kind, endpoint_name="e")
    return [decoder.decode(orjson.dumps(chunk)) for chunk in chunks] + decoder.finish()


def chat(delta: Any, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}


def delta_of(chunk: dict[str, Any]) -> dict[str, Any]:
    delta: dict[str, Any] = chunk["choices"][0]["delta"]
    return delta


@pytest.mark.parametrize(
    ("delta", "reasoning"),
    [
        ({"reasoning": "why"}, "why"),
        ({"reasoning_content": "why"}, "why"),
        ({"reasoning": "why", "reasoning_content": "why"}, "why"),
        ({"reasoning": None, "reasoning_content": "why"}, "why"),
        ({"reasoning": None, "reasoning_content": None}, None),
    ],
)
def test_reasoning_is_in_one_place_once(delta: dict[str, Any], reasoning: str | None) -> None:
    (chunk,) = decode(chat(delta))

    assert delta_of(chunk).get("reasoning") == reasoning
    assert "reasoning_content" not in delta_of(chunk)


def test_tool_calls_of_two_choices_do_not_mix() -> None:
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}
    second = {"index": 0, "id": "b", "function": {"name": "g", "arguments": "["}}
    more = {"index": 0, "function": {"arguments": "}"}}

    chunks = decode(
        chat({"tool_calls": [first]}),
        chat({"tool_calls": [second]}, index=1),
        chat({"tool_calls": [more]}),
    )

    assert [delta_of(chunk)["tool_calls"][0]["index"] for chunk in chunks] == [0, 0, 0]
    assert [delta_of(chunk)["tool_calls"][0].get("id") for chunk in chunks] == ["a", "b", None]


def test_call_that_never_got_an_id_gets_one_in_a_last_chunk() -> None:
    *_, last = decode(chat({"tool_calls": [{"index": 3, "function": {"name": "f"}}]}))

    (call,) = delta_of(last)["tool_calls"]
    assert call["index"] == 3
    assert len(call["id"]) == 9


@pytest.mark.parametrize(
    ("given", "expected"),
    [("eos_token", "stop"), ("stop_sequence", "stop"), ("length", "length"), (None, None)],
)
def test_lmi_finish_reasons_become_vllms(given: str | None, expected: str | None) -> None:
    (chunk,) = decode(chat({"content": "x"}, finish_reason=given))

    assert chunk["choices"][0]["finish_reason"] == expected


@pytest.mark.parametrize(
    "chunk", [{"choices": None}, {"choices": []}, {"usage": {"total_tokens": 1}}]
)
def test_chunk_without_choices_has_an_empty_list(chunk: dict[str, Any]) -> None:
    assert decode(chunk)[0]["choices"] == []


def test_absent_fields_get_their_defaults() -> None:
    (chunk,) = decode({"choices": [{"delta": None}]})

    assert chunk["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]


@pytest.mark.parametrize(
    ("event", "kind", "status", "sentence"),
    [
        ({"error": {"message": "engine queue full", "type": "x", "code": 503}}, ServerError, 503, "engine queue full"),
        ({"error": {"object": "error", "message": "bad", "code": 400}}, InvalidRequestError, 400, "bad"),
        ({"object": "error", "message": "m", "code": 400}, InvalidRequestError, 400, "m"),
        ({"error": "text only"}, ServerError, None, "text only"),
        ({"error": {"message": "no code", "code": None}}, ServerError, None, "no code"),
        ({"code": 500, "message": "engine died"}, ServerError, 500, "engine died"),
        ({"code": 424, "error": "bad input"}, InvalidRequestError, 424, "bad input"),
        ({"error": {"code": 500, "message": ""}}, ServerError, 500, "error"),
        ({"error": [1]}, ServerError, None, "[1]"),
        ({"error": "x", "choices": []}, ServerError, None, "x"),
    ],
)  # fmt: skip
def test_error_event_raises_by_its_own_status(
    event: dict[str, Any], kind: type[APIError], status: int | None, sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        decode(event)

    assert sentence in caught.value.message
    assert caught.value.status_code == status
    assert caught.value.body == orjson.dumps(event)


@pytest.mark.parametrize("data", [b"", b"{", b"not json", b"\xff\xfe", b'{"a": NaN}'])
def test_what_is_not_json_is_refused_with_the_data_in_reach(data: bytes) -> None:
    with pytest.raises(StreamDecodeError, match="not JSON") as caught:
        ChunkDecoder("chat", endpoint_name="e").decode(data)

    assert caught.value.body == data


@pytest.mark.parametrize(
    "chunk",
    [
        {"token": {"text": " hi"}, "generated_text": None},
        [],
        [1],
        7,
        "text",
        None,
        {},
        {"choices": 5},
        {"choices": "ab"},
        {"choices": {"a": 1}},
        {"choices": [5]},
        {"choices": [None]},
        {"choices": [{"index": "0", "delta": {}}]},
        {"choices": [{"index": [], "delta": {"content": "x"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": 5}]},
        {"choices": [{"index": 0, "delta": {"content": 5}}]},
        {"choices": [{"index": 0, "delta": {"content": ["x"]}}]},
        {"choices": [{"index": 0, "delta": {"reasoning": 5}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": 5}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [5]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"function": 5}]}}]},
        {"choices": [{"index": 0, "text": "x"}]},
        {"choices": [{"index": 0, "text": "x", "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": []}]},
    ],
)
def test_what_is_not_a_chunk_is_refused(chunk: Any) -> None:
    with pytest.raises(StreamDecodeError, match="not a chat or text completion chunk"):
        decode(chunk)


@pytest.mark.parametrize(
    "choice",
    [
        {"index": 0, "text": None},
        {"index": 0, "text": 5},
        {"index": 0, "delta": {"content": "x"}},
        {"index": 0, "delta": {"content": "x"}, "finish_reason": None},
    ],
)
def test_what_is_not_a_chunk_of_text_is_refused(choice: dict[str, Any]) -> None:
    with pytest.raises(StreamDecodeError, match="not a chat or text completion chunk"):
        decode({"choices": [choice]}, kind="text")


def test_chunk_of_text_without_text_has_none() -> None:
    (chunk,) = decode({"choices": [{"finish_reason": "stop"}]}, kind="text")

    assert chunk["choices"] == [{"index": 0, "text": "", "finish_reason": "stop"}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "index", "delta", "content", "text", "tool_calls", "function", "name",
             "arguments", "id", "finish_reason", "logprobs", "usage", "error", "message", "code",
             "reasoning", "reasoning_content", "role", "refusal", "stop_reason", "token_ids"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip
LIKELY = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"index": st.just(0) | JSON, "delta": JSON}), max_size=2
        )
    },
    optional={"usage": JSON, "error": st.none()},
)


@given(st.lists(JSON | LIKELY, max_size=4))
def test_any_json_is_accumulated_or_refused(values: list[Any]) -> None:
    from sagemaker_vllm import InvocationMetadata
    from sagemaker_vllm._answer import AnswerDecoder

    stream = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)
    answer = AnswerDecoder("chat", metadata=InvocationMetadata(endpoint_name="e"))

    try:
        chunks = [*answer.feed(stream), *answer.finish()]
    except SageMakerVLLMError:
        chunks = []

    orjson.dumps([chunks, answer.completion.response], option=orjson.OPT_NON_STR_KEYS)


def test_usage_is_the_last_one() -> None:
    accumulator = Accumulator("chat")
    for tokens in (1, 2):
        accumulator.add(
            {**decode(chat({"content": "x"}))[0], "usage": {"completion_tokens": tokens}}
        )
    accumulator.add({"choices": [], "usage": {"completion_tokens": 2}})

    assert accumulator.response()["usage"] == {"completion_tokens": 2}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"total_tokens": 3, "own": "x"}, {"total_tokens": 3, "own": "x"}),
        ({"prompt_tokens_details": None}, {"prompt_tokens_details": None}),
        ({"total_tokens": "3", "prompt_tokens": True, "completion_tokens": 1.5}, {}),
        (
            {"prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": []}},
            {"prompt_tokens_details": {"cached_tokens": 2}},
        ),
        ({"completion_tokens_details": 7}, {"completion_tokens_details": None}),
        (True, None),
    ],
)
def test_token_counts_that_cannot_be_read_are_left_out(given: Any, kept: Any) -> None:
    assert normalise_usage(given) == kept
