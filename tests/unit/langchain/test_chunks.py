"""Summed chunks equal the plain message, whatever the calls hold and wherever they are cut."""

import copy
import functools
import json
import operator
import pickle
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.load import dumps, load
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    message_chunk_to_message,
)
from langchain_core.outputs import ChatGenerationChunk

from langchain_sagemaker_vllm._chunks import PROVIDER, VLLMMessageChunk, read_call
from langchain_sagemaker_vllm._replies import from_wire_chunk


def chunk(args: str | None = None, *, index: int = 0, content: str = "", **first: Any) -> Any:
    """Return a delta with a piece of a call, or without one."""
    calls = [] if args is None else [{"index": index, "args": args, "id": None, "name": None}]
    return VLLMMessageChunk(
        content=content,
        tool_call_chunks=[{**call, **first} for call in calls],
        response_metadata={"model_provider": PROVIDER},
    )


def last(finish_reason: str = "tool_calls", **fields: Any) -> VLLMMessageChunk:
    """Return the delta that ends a stream."""
    metadata = {"model_provider": PROVIDER, "finish_reason": finish_reason}
    return VLLMMessageChunk(content="", response_metadata=metadata, chunk_position="last", **fields)


def total(*chunks: AIMessageChunk) -> Any:
    """Add chunks one after the other."""
    return functools.reduce(operator.add, chunks)


def wire(**delta: Any) -> dict[str, Any]:
    """Return a wire chunk."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@given(st.text(), st.text(), st.sampled_from([None, {"content": [{"token": "a"}]}]))
@settings(max_examples=100)
def test_a_piece_of_text_is_what_validation_would_make(
    text: str, reasoning: str, logprobs: Any
) -> None:
    assume(text or reasoning)
    validated = VLLMMessageChunk(
        content=text,
        additional_kwargs={"reasoning_content": reasoning} if reasoning else {},
        response_metadata={"model_provider": PROVIDER},
    )
    info = {"logprobs": logprobs} if logprobs else None
    chunk = wire(content=text, reasoning=reasoning)
    chunk["choices"][0]["logprobs"] = logprobs

    made = from_wire_chunk(chunk)

    assert_same_model(made, ChatGenerationChunk(message=validated, generation_info=info))


@given(st.text(min_size=1) | st.sampled_from(['"', "1", "nul", " }", "\n{", '{"a', "[", "null"]))
@settings(max_examples=100)
def test_a_piece_of_arguments_is_what_validation_would_make(arguments: str) -> None:
    delta = {"index": 1, "function": {"arguments": arguments}}
    message = chunk(arguments, index=1)

    made = from_wire_chunk(wire(tool_calls=[delta]))

    assert_same_model(made, ChatGenerationChunk(message=message))


def assert_same_model(made: Any, expected: Any) -> None:
    """Compare what pydantic keeps of a model, in its order, but for which fields were given."""
    for one, other in ((made, expected), (made.message, expected.message)):
        assert type(one) is type(other)
        assert repr(one) == repr(other)
        mine, theirs = one.__getstate__(), other.__getstate__()
        assert mine | {"__pydantic_fields_set__": None} == theirs | {
            "__pydantic_fields_set__": None
        }
        assert list(mine["__dict__"]) == list(theirs["__dict__"])


def test_pieces_share_nothing_that_can_change() -> None:
    first, second = (from_wire_chunk(wire(content=text)) for text in "ab")
    assert first
    assert second

    for name, value in first.message.__dict__.items():
        if isinstance(value, list | dict | set):
            assert value is not second.message.__dict__[name], name
    assert first.message.model_fields_set is not second.message.model_fields_set
    assert first.message.model_extra is not second.message.model_extra


def test_a_whole_call_is_read() -> None:
    made = total(chunk('{"x":', id="a", name="f"), chunk("1}"), last())

    assert made.tool_calls == [{"name": "f", "args": {"x": 1}, "id": "a", "type": "tool_call"}]
    assert made.invalid_tool_calls == []


@pytest.mark.parametrize("arguments", ['{"city": "Par', '{"city": ', "{", "468.424", '"a"', "[1]"])
@pytest.mark.parametrize("reason", ["length", "tool_calls"])
def test_arguments_that_are_no_object_are_never_repaired(arguments: str, reason: str) -> None:
    made = total(chunk(arguments, id="a", name="f"), last(reason))

    assert made.tool_calls == []
    (invalid,) = made.invalid_tool_calls
    assert (invalid["id"], invalid["name"], invalid["args"]) == ("a", "f", arguments)
    assert ("max_tokens" in invalid["error"]) == (reason == "length")


def test_a_call_cut_before_its_arguments_is_invalid() -> None:
    made = total(chunk("", id="a", name="f"), last("length"))

    assert made.tool_calls == []
    assert made.invalid_tool_calls[0]["args"] == ""


@pytest.mark.parametrize("arguments", ["", " ", "\n"])
def test_a_call_without_arguments_has_none(arguments: str) -> None:
    made = total(chunk(arguments, id="a", name="f"), last())

    assert made.tool_calls == [{"name": "f", "args": {}, "id": "a", "type": "tool_call"}]


def test_a_call_without_a_name_is_invalid() -> None:
    made = total(chunk("{}", id="a"), last())

    assert made.invalid_tool_calls[0]["error"] == "The call has no name."


def test_while_the_stream_runs_arguments_show_what_has_come() -> None:
    made = total(chunk('{"city": "Par', id="a", name="f"), chunk("is"))

    assert made.tool_calls[0]["args"] == {"city": "Paris"}


@settings(max_examples=40)
@given(
    st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3)), max_size=3),
    st.data(),
)
def test_any_cut_and_any_order_of_pieces_give_the_same_calls(
    calls: list[dict[str, Any]], data: st.DataObject
) -> None:
    pieces: list[AIMessageChunk] = []
    for index, arguments in enumerate(calls):
        text = json.dumps(arguments)
        at = data.draw(st.integers(0, len(text)))
        pieces.append(chunk(text[:at], index=index, id=f"c{index}", name="f"))
        place = data.draw(st.integers(pieces.index(pieces[-1]) + 1, len(pieces)))
        pieces.insert(place, chunk(text[at:], index=index))

    made = total(*pieces, last()) if pieces else last()

    assert [call["args"] for call in made.tool_calls] == calls
    assert made.invalid_tool_calls == []


def test_a_sum_becomes_a_plain_message() -> None:
    made = message_chunk_to_message(
        total(chunk(content="Hm. "), chunk("{", id="a", name="f"), last("length"))
    )

    assert type(made) is AIMessage
    assert made.content == "Hm. "
    assert made.invalid_tool_calls[0]["args"] == "{"
    assert made.tool_calls == []


@pytest.mark.parametrize("begin", [AIMessageChunk(content=""), AIMessageChunk(content="So: ")])
def test_a_sum_that_begins_with_langchains_own_chunk_is_strict_too(begin: AIMessageChunk) -> None:
    made = total(begin, chunk('{"x', id="a", name="f", content="a"), last("length"))

    assert made.content == f"{begin.content}a"
    assert made.tool_calls == []
    assert len(made.invalid_tool_calls) == 1


def test_a_list_of_chunks_can_be_added_at_once() -> None:
    made = operator.add(chunk('{"x', id="a", name="f"), [chunk('": 1}'), last()])

    assert made.tool_calls[0]["args"] == {"x": 1}


def test_other_things_cannot_be_added() -> None:
    with pytest.raises(TypeError):
        _ = object() + chunk()


def pickled(value: Any) -> Any:
    """Return a copy through pickle."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_sum_survives_copies_and_pickles(copied: Any) -> None:
    made = total(chunk("{", id="a", name="f"), last("length"))

    again = copied(made)

    assert again == made
    assert again.invalid_tool_calls == made.invalid_tool_calls


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_a_chunk_is_serialised_as_langchains_own() -> None:
    made = total(chunk(content="a"), last("stop"))

    again = load(json.loads(dumps(made)), allowed_objects="core")

    assert type(again) is AIMessageChunk
    assert again.content == "a"


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    """Return the standard blocks without what only says where they came from."""
    drop = ("index", "error")
    return [{k: v for k, v in block.items() if k not in drop} for block in message.content_blocks]


def test_the_standard_blocks_of_a_sum_are_those_of_the_plain_message() -> None:
    kept = {"reasoning_content": "Hm.", "refusal": "No."}
    plain = AIMessage(
        "Look.",
        additional_kwargs=kept,
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "a"}],
        invalid_tool_calls=[{"name": "g", "args": "{", "id": "b", "error": "e"}],
        response_metadata={"model_provider": PROVIDER},
    )
    first = VLLMMessageChunk(
        content="Look.",
        additional_kwargs=kept,
        response_metadata={"model_provider": PROVIDER},
    )

    made = total(
        first,
        chunk('{"x": 1}', id="a", name="f"),
        chunk("{", index=1, id="b", name="g"),
        last("length"),
    )

    assert blocks_of(plain) == [
        {"type": "reasoning", "reasoning": "Hm."},
        {"type": "text", "text": "Look."},
        {"type": "tool_call", "name": "f", "args": {"x": 1}, "id": "a"},
        {"type": "invalid_tool_call", "name": "g", "args": "{", "id": "b"},
        {"type": "refusal", "refusal": "No."},
    ]
    assert blocks_of(made) == blocks_of(plain)


def test_blocks_of_a_running_stream_hold_pieces_of_calls() -> None:
    assert chunk('{"x', id="a", name="f").content_blocks == [
        {"type": "tool_call_chunk", "id": "a", "name": "f", "args": '{"x', "index": "lc_call_0"}
    ]


@pytest.mark.parametrize("reason", [None, 3, ["length", "length"]])
def test_a_finish_reason_that_is_no_text_is_none(reason: Any) -> None:
    assert read_call("f", "", "a", reason)["args"] == {}


def test_piece_of_text_is_the_message_that_validation_makes() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}

    pieces = [from_wire_chunk(chunk), from_wire_chunk(chunk)]

    validated = VLLMMessageChunk(content="Hi", response_metadata={"model_provider": PROVIDER})
    messages = [piece.message for piece in pieces if piece]
    assert messages == [validated, validated]
    assert dumps(messages[0]) == dumps(validated)
    first, second = (
        {id(value) for value in vars(each).values() if isinstance(value, dict | list)}
        for each in messages
    )
    assert not first & second
