"""Messages of any content: sent as JSON, or refused with a `ConfigurationError`."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)

from langchain_sagemaker_vllm import _messages as langchain_messages
from langchain_sagemaker_vllm import _replies
from llama_index_sagemaker_vllm import _messages as llama_index_messages
from llama_index_sagemaker_vllm._responses import Reading, from_wire_completion
from sagemaker_vllm import Completion, ConfigurationError, chat_request
from tests.fuzz.strategies import anything, nested

KINDS = st.sampled_from(
    [
        "text", "image", "image_url", "audio", "input_audio", "audio_url", "video", "video_url",
        "file", "document", "reasoning", "thinking", "tool_use", "tool_call", "tool_result",
        "input_image", "refusal", "non_standard", "text-plain", "image_embeds", "nonsense",
    ]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "text", "url", "image_url", "source", "source_type", "data", "base64", "mime_type", "file",
        "media_type", "input_audio", "format", "id", "name", "input", "args", "content", "value",
        "summary", "thinking", "reasoning", "file_id", "extras", "detail", "uuid", "tool_use_id",
        "video_url", "audio_url", "path",
    ]
)  # fmt: skip
SOURCES = st.sampled_from(
    ["https://example.com/a.png", "data:image/png;base64,aGVsbG8=", "data:,", "aGVsbG8=", "/etc"]
)
URLS = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,aGVsbG8=", "data:,"])
VALUES = anything | SOURCES
INNER = VALUES | st.dictionaries(KEYS, VALUES, max_size=3)
BLOCKS = st.builds(
    lambda kind, fields: {**kind, **fields},
    st.one_of(st.just({}), st.builds(lambda kind: {"type": kind}, KINDS)),
    st.dictionaries(KEYS, INNER, max_size=4),
)
CONTENTS = st.one_of(
    st.text(max_size=9), st.lists(st.one_of(st.text(max_size=9), BLOCKS), max_size=3)
)


@given(st.lists(st.tuples(st.sampled_from("shat"), CONTENTS, anything), max_size=4))
def test_langchain_messages_are_sent_or_refused(rows: list[tuple[str, Any, Any]]) -> None:
    messages = [langchain_message(*row) for row in rows]
    before = copy.deepcopy(messages)

    with suppress(ConfigurationError):
        json.dumps(chat_request(langchain_messages.to_wire_messages(messages)))

    assert messages == before


def langchain_message(role: str, content: Any, extra: Any) -> Any:
    match role:
        case "s":
            return SystemMessage(content)
        case "h":
            return HumanMessage(content)
        case "t":
            return ToolMessage(content, tool_call_id="call12345")
    kept = extra if isinstance(extra, dict) else {}
    calls = [{"name": "f", "args": kept, "id": "call12345", "type": "tool_call"}]
    return AIMessage(content, additional_kwargs=kept, tool_calls=calls if kept else [])


BLOCK_MAKERS = st.one_of(
    st.builds(TextBlock, text=st.text(max_size=9)),
    st.builds(ThinkingBlock, content=st.none() | st.text(max_size=9)),
    st.builds(
        ToolCallBlock,
        tool_name=st.text(max_size=5),
        tool_call_id=st.none() | st.text(max_size=9),
        tool_kwargs=st.text(max_size=9)
        | st.dictionaries(st.text(max_size=4), anything, max_size=3),
    ),
    *(
        st.builds(kind, **{field: st.binary(max_size=12)})
        for kind, field in ((ImageBlock, "image"), (AudioBlock, "audio"), (DocumentBlock, "data"))
    ),
    st.builds(VideoBlock, url=URLS),
    st.builds(ImageBlock, url=URLS),
    st.builds(ImageBlock),
)


@given(
    st.lists(
        st.builds(
            ChatMessage,
            role=st.sampled_from(["system", "user", "assistant", "tool", "function", "developer"]),
            blocks=st.lists(BLOCK_MAKERS, max_size=4),
            additional_kwargs=st.dictionaries(
                st.sampled_from(["tool_calls", "tool_call_id", "name", "other"]), anything
            ),
        ),
        max_size=4,
    )
)
def test_llama_index_messages_are_sent_or_refused(messages: list[ChatMessage]) -> None:
    before = copy.deepcopy(messages)

    with suppress(ConfigurationError):
        json.dumps(chat_request(llama_index_messages.to_wire_messages(messages)))

    assert messages == before


# Numbers that no float holds and halves of characters are not read as JSON, but kept as text.
arguments = anything.filter(
    lambda value: "0" * 400 not in repr(value) and "\\ud83d" not in repr(value)
)
ANSWER = st.fixed_dictionaries(
    {
        "content": st.none() | st.text(max_size=9),
        "reasoning": st.none() | st.text(min_size=1, max_size=9),
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {
                    "id": st.text("abc123", min_size=1, max_size=9),
                    "type": st.just("function"),
                    "function": st.fixed_dictionaries(
                        {
                            "name": st.sampled_from(["f", "get_weather"]),
                            "arguments": st.builds(
                                json.dumps,
                                st.dictionaries(st.text(max_size=4), arguments, max_size=3),
                            ),
                        }
                    ),
                }
            ),
            max_size=2,
            unique_by=lambda call: str(call["id"]),
        ),
    }
)


@given(ANSWER)
def test_an_answer_that_is_sent_back_says_the_same(message: dict[str, Any]) -> None:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "finish_reason": "stop",
        "stop_reason": None,
        "logprobs": None,
    }
    completion = Completion(response={"choices": [choice], "usage": None})

    by_langchain = _replies.to_chat_result(completion).generations[0].message
    by_llama_index = from_wire_completion(completion, Reading()).message

    expected = {
        "content": message["content"] or "",
        "reasoning": message["reasoning"] or "",
        "calls": [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message["tool_calls"]
        ],
    }
    assert said(langchain_messages.to_wire_messages([by_langchain])) == expected
    assert said(llama_index_messages.to_wire_messages([by_llama_index])) == expected


def said(wire: list[dict[str, Any]]) -> dict[str, Any]:
    (message,) = wire
    return {
        "content": message["content"] or "",
        "reasoning": message.get("reasoning") or "",
        "calls": [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", ())
        ],
    }


@pytest.mark.parametrize("depth", [100, 900, 5_000])
def test_deeply_nested_tool_arguments_are_sent_or_refused(depth: int) -> None:
    arguments: dict[str, Any] = {"a": nested(depth)}
    by_langchain = AIMessage("")
    # Assigned, since LangChain itself reads arguments as deep as these no more.
    by_langchain.tool_calls = [
        {"name": "f", "args": arguments, "id": "call12345", "type": "tool_call"}
    ]
    block = ToolCallBlock(tool_name="f", tool_call_id="call12345", tool_kwargs={})
    block.tool_kwargs = arguments
    by_llama_index = ChatMessage(role="assistant", blocks=[block])

    refusals = [
        refusal_of(langchain_messages, by_langchain),
        refusal_of(llama_index_messages, by_llama_index),
    ]

    assert refusals == [None] * 2 if depth < 500 else all(refusals) or not any(refusals)


def refusal_of(converter: Any, message: Any) -> str | None:
    try:
        converter.to_wire_messages([message])
    except ConfigurationError as error:
        return error.message
    return None
