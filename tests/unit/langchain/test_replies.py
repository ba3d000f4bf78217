"""Answers of every dialect become messages, with nothing lost."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration

from langchain_sagemaker_vllm._completions import from_wire_text_chunk, last_text_chunk
from langchain_sagemaker_vllm._replies import (
    combined_output,
    from_wire_chunk,
    last_chunk,
    to_chat_result,
    usage_metadata,
)
from sagemaker_vllm import Completion, InvocationMetadata


def completion(message: Any = None, finish_reason: str | None = "stop", **top: Any) -> Completion:
    """Return a plain answer of one choice."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "tool_calls": [], **(message or {})},
        "finish_reason": finish_reason,
        "logprobs": None,
    }
    choice |= top.pop("choice", {})
    return Completion(response={"model": "m", "choices": [choice], "usage": None, **top})


def metadata(answer: Completion) -> dict[str, Any]:
    """Return the metadata of the only message."""
    found: dict[str, Any] = to_chat_result(answer).generations[0].message.response_metadata
    return found


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
CUT = {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"x": '}}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hello"},
        {"content": None, "reasoning": "why"},
        {"content": "a", "refusal": "no", "annotations": [{"a": 1}]},
        {"tool_calls": [CALL, CUT]},
        {"content": "a", "tool_calls": [CALL]},
    ],
)
def test_an_answer_is_what_validation_would_make(message: dict[str, Any]) -> None:
    (made,) = to_chat_result(completion(message, usage={"prompt_tokens": 3})).generations

    assert isinstance(made.message, AIMessage)
    for one, validated in (
        (made.message, AIMessage(**made.message.__dict__)),
        (made, ChatGeneration(**made.__dict__)),
    ):
        mine, theirs = one.__getstate__(), validated.__getstate__()
        given = {"__pydantic_fields_set__": None}
        assert mine | given == theirs | given
        assert list(mine["__dict__"]) == list(theirs["__dict__"])
        assert repr(one) == repr(validated)


def test_answers_share_nothing_that_can_change() -> None:
    first, second = (to_chat_result(completion()).generations[0].message for _ in range(2))

    for name, value in first.__dict__.items():
        if isinstance(value, list | dict):
            assert value is not second.__dict__[name], name
    assert first.model_extra is not second.model_extra


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, None),
        ({}, None),
        (
            {"prompt_tokens": 3, "completion_tokens": 2},
            {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": None, "total_tokens": 3},
            {"input_tokens": 3, "output_tokens": 0, "total_tokens": 3},
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {}},
            {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        ),
    ],
)
def test_token_counts(usage: Any, counts: Any) -> None:
    assert usage_metadata(usage) == counts


@pytest.mark.parametrize(
    ("finish_reason", "normalized"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_call"),
        ("content_filter", "content_filter"),
        ("abort", None),
        ("repetition", None),
        (None, None),
    ],
)
def test_finish_reasons_have_langchains_words(
    finish_reason: str | None, normalized: str | None
) -> None:
    found = metadata(completion(finish_reason=finish_reason))

    assert found.get("finish_reason") == finish_reason
    assert found.get("normalized_finish_reason") == normalized


def test_a_forced_tool_that_ends_with_stop_is_a_call() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    found = metadata(completion({"tool_calls": [call]}))

    assert (found["finish_reason"], found["normalized_finish_reason"]) == ("stop", "tool_call")


def test_a_refusal_is_kept() -> None:
    message: Any = to_chat_result(completion({"refusal": "No."})).generations[0].message

    assert message.additional_kwargs == {"refusal": "No."}
    assert message.content_blocks == [{"type": "refusal", "refusal": "No."}]
    assert message.response_metadata["normalized_finish_reason"] == "refusal"


def test_what_only_some_servers_bring_is_kept_and_nulls_are_not() -> None:
    answer = Completion(
        response={
            "id": "r1",
            "object": "chat.completion",
            "created": 1,
            "model": None,
            "service_tier": None,
            "kv_transfer_params": {"x": 1},
            "choices": [
                {
                    "index": 0,
                    "message": {"content": "a", "annotations": ["n"], "audio": None},
                    "finish_reason": "stop",
                    "stop_reason": 7,
                    "token_ids": [1, 2],
                }
            ],
        },
        metadata=InvocationMetadata(endpoint_name="e", new_session_id="s", content_type="x"),
    )

    message = to_chat_result(answer).generations[0].message

    assert message.additional_kwargs == {"annotations": ["n"]}
    assert message.response_metadata == {
        "model_provider": "sagemaker_vllm",
        "id": "r1",
        "created": 1,
        "kv_transfer_params": {"x": 1},
        "finish_reason": "stop",
        "normalized_finish_reason": "stop",
        "stop_reason": 7,
        "token_ids": [1, 2],
        "endpoint_name": "e",
        "new_session_id": "s",
    }


def wire(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    """Return a chunk of one choice."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}


@pytest.mark.parametrize(
    "chunk", [{"choices": []}, wire({}), wire({"role": "assistant", "content": ""})]
)
def test_a_chunk_that_brings_nothing_is_left_out(chunk: dict[str, Any]) -> None:
    assert from_wire_chunk(chunk) is None


def test_a_streamed_refusal_is_kept() -> None:
    chunk: Any = from_wire_chunk(wire({"refusal": "No."}))

    assert chunk.message.additional_kwargs == {"refusal": "No."}


def test_logprobs_without_text_are_kept() -> None:
    chunk: Any = from_wire_chunk(wire({}, logprobs={"content": [{"token": ""}]}))

    assert chunk.generation_info == {"logprobs": {"content": [{"token": ""}]}}


def test_the_last_chunk_repeats_nothing() -> None:
    answer = completion(
        {"content": "a", "reasoning": "Hm", "refusal": "No.", "annotations": ["n"]},
        choice={"logprobs": {"content": []}, "stop_reason": "X"},
        usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    )

    chunk: Any = last_chunk(answer)

    assert chunk.message.content == ""
    assert chunk.message.additional_kwargs == {"annotations": ["n"]}
    assert chunk.message.chunk_position == "last"
    assert chunk.message.response_metadata["stop_reason"] == "X"
    assert "logprobs" not in chunk.message.response_metadata
    assert chunk.message.usage_metadata["total_tokens"] == 2


def test_a_stream_without_choices_ends_with_its_metadata() -> None:
    chunk: Any = last_chunk(Completion(response={"model": "m", "choices": [], "usage": None}))

    assert chunk.message.response_metadata["model_name"] == "m"
    assert chunk.generation_info is None


def test_outputs_of_several_calls_add_up() -> None:
    counts = {"prompt_tokens": 1, "total_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    output = {"token_usage": counts, "model_name": "m"}

    assert combined_output([]) == combined_output([None]) == {}
    assert combined_output([output]) == output
    assert combined_output([output, None, output]) == {
        "token_usage": {"prompt_tokens": 2, "total_tokens": 4},
        "model_name": "m",
    }


def test_a_text_chunk_that_brings_nothing_is_left_out() -> None:
    assert from_wire_text_chunk({"choices": []}) is None
    assert from_wire_text_chunk({"choices": [{"index": 0, "text": ""}]}) is None


def test_a_text_stream_without_choices_ends_with_its_metadata() -> None:
    chunk = last_text_chunk(Completion(response={"model": "m", "choices": []}))

    assert chunk.generation_info == {"model_provider": "sagemaker_vllm", "model_name": "m"}
