"""LlamaIndex's messages on the wire; what a whole conversation shows is tested in the core."""

import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from llama_index_sagemaker_vllm._messages import to_wire_messages
from sagemaker_vllm import ConfigurationError

URL = "https://example.invalid/a.png"


def assistant(*blocks: Any, **kwargs: Any) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=list(blocks), additional_kwargs=kwargs)


def tool(content: Any, **kwargs: Any) -> ChatMessage:
    return ChatMessage(role=MessageRole.TOOL, content=content, additional_kwargs=kwargs)


def wire_call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


@pytest.mark.parametrize(
    ("role", "wire_role"),
    [
        (MessageRole.SYSTEM, "system"),
        (MessageRole.DEVELOPER, "developer"),
        (MessageRole.USER, "user"),
        (MessageRole.ASSISTANT, "assistant"),
        (MessageRole.CHATBOT, "assistant"),
        (MessageRole.MODEL, "assistant"),
    ],
)
def test_role_is_named_as_vllm_names_it(role: MessageRole, wire_role: str) -> None:
    wire = to_wire_messages([ChatMessage(role=role, content="hi")])

    assert wire == [{"role": wire_role, "content": "hi"}]


@pytest.mark.parametrize("role", [MessageRole.TOOL, MessageRole.FUNCTION])
def test_tool_results_carry_the_id_of_their_call(role: MessageRole) -> None:
    call = assistant(ToolCallBlock(tool_call_id="c1", tool_name="f"))
    result = ChatMessage(role=role, content="3", additional_kwargs={"tool_call_id": "c1"})

    wire = to_wire_messages([call, result])

    assert wire == [
        {"role": "assistant", "content": "", "tool_calls": [wire_call("c1")]},
        {"role": "tool", "content": "3", "tool_call_id": "c1"},
    ]


def test_text_blocks_alone_become_one_string_as_in_content() -> None:
    message = ChatMessage(blocks=[TextBlock(text="a"), TextBlock(text="b")])

    wire = to_wire_messages([message])

    assert wire[0]["content"] == message.content == "a\nb"


def test_order_of_text_and_images_is_kept() -> None:
    texts = [TextBlock(text=each) for each in ("A:", "B:", "compare")]
    images = [ImageBlock(url=f"{URL}?{each}") for each in (1, 2)]
    message = ChatMessage(blocks=[texts[0], images[0], texts[1], images[1], texts[2]])

    content = to_wire_messages([message])[0]["content"]

    shown = [part.get("text") or part["image_url"]["url"] for part in content]
    assert shown == ["A:", f"{URL}?1", "B:", f"{URL}?2", "compare"]


@pytest.mark.parametrize("content", [None, "", []])
def test_empty_content_is_an_empty_string_never_the_word_none(content: Any) -> None:
    wire = to_wire_messages([ChatMessage(role="assistant", content=content)])

    assert wire == [{"role": "assistant", "content": ""}]


def test_thinking_is_sent_back_as_reasoning() -> None:
    message = assistant(ThinkingBlock(content="hm"), ThinkingBlock(), TextBlock(text="4"))

    assert to_wire_messages([message]) == [{"role": "assistant", "content": "4", "reasoning": "hm"}]


@pytest.mark.parametrize(
    ("tool_kwargs", "arguments"),
    [
        ({"p": "é", "n": None}, '{"p": "é", "n": null}'),
        ('{"p":1}', '{"p":1}'),
        ({}, "{}"),
        ("", "{}"),
        (" ", "{}"),
        ('{"p": ', '{"INVALID_JSON": "{\\"p\\": "}'),
    ],
    ids=["dict", "str", "no-arguments", "empty", "blank", "cut"],
)
def test_arguments_are_one_json_string(tool_kwargs: Any, arguments: str) -> None:
    message = assistant(ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs=tool_kwargs))

    wire = to_wire_messages([message])

    assert wire[0]["tool_calls"] == [wire_call("c", arguments=arguments)]


def test_arguments_that_are_no_json_are_refused() -> None:
    message = assistant(ToolCallBlock(tool_name="f", tool_kwargs={"when": object()}))

    with pytest.raises(ConfigurationError, match="call to 'f' cannot be written as JSON"):
        to_wire_messages([message])


@pytest.mark.parametrize(
    "older",
    [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        SimpleNamespace(id="c", function=SimpleNamespace(name="f", arguments='{"x": 1}')),
    ],
    ids=["dict", "object"],
)
def test_older_forms_of_tool_calls_are_read(older: Any) -> None:
    wire = to_wire_messages([assistant(tool_calls=[older])])

    assert wire[0]["tool_calls"] == [wire_call("c", arguments='{"x": 1}')]


def test_older_form_beside_blocks_is_not_sent_twice() -> None:
    older = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    message = assistant(ToolCallBlock(tool_call_id="c", tool_name="f"), tool_calls=[older])

    assert to_wire_messages([message])[0]["tool_calls"] == [wire_call("c")]


@pytest.mark.parametrize(
    "calls",
    [["f"], True, {"id": "c"}, [{"id": 3, "function": {"name": "f", "arguments": "{}"}}]],
)
def test_older_form_that_is_no_call_is_refused(calls: Any) -> None:
    with pytest.raises(ConfigurationError, match="no tool call"):
        to_wire_messages([assistant(tool_calls=calls)])


@pytest.mark.parametrize("block", [ThinkingBlock(content="hm"), ToolCallBlock(tool_name="f")])
def test_thinking_and_calls_belong_to_the_assistant(block: Any) -> None:
    with pytest.raises(ConfigurationError, match="user message holds"):
        to_wire_messages([ChatMessage(blocks=[block])])


@pytest.mark.parametrize(
    ("kwargs", "sent"), [({}, None), ({"name": None}, None), ({"name": "bob"}, "bob")]
)
def test_name_is_sent_only_when_there_is_one(kwargs: dict[str, Any], sent: str | None) -> None:
    wire = to_wire_messages([ChatMessage(content="hi", additional_kwargs=kwargs)])

    assert wire[0].get("name") == sent
    assert "null" not in json.dumps(wire)


def test_other_additional_kwargs_are_not_sent() -> None:
    message = ChatMessage(content="hi", additional_kwargs={"prompt_tokens": 3, "ref_doc_id": "x"})

    assert to_wire_messages([message]) == [{"role": "user", "content": "hi"}]


def test_images_of_a_tool_result_follow_in_a_user_message() -> None:
    call = assistant(ToolCallBlock(tool_call_id="c", tool_name="f"))
    result = tool([TextBlock(text="shot"), ImageBlock(url=URL)], tool_call_id="c")

    wire = to_wire_messages([call, result])

    assert wire[1:] == [
        {"role": "tool", "content": "shot", "tool_call_id": "c"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]},
    ]


def test_name_of_a_tool_is_cleaned_as_in_the_request() -> None:
    message = assistant(ToolCallBlock(tool_call_id="c", tool_name="Box[int]"))

    assert to_wire_messages([message])[0]["tool_calls"][0]["function"]["name"] == "Box_int"


def test_messages_are_left_as_they_are() -> None:
    messages = [
        assistant(ThinkingBlock(content="hm"), ToolCallBlock(tool_name="f", tool_kwargs="")),
        tool([TextBlock(text="shot"), ImageBlock(url=URL)]),
    ]
    before = copy.deepcopy(messages)

    to_wire_messages(messages, merge_consecutive=True, send_names=False)

    assert messages == before
