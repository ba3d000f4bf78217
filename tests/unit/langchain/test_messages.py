"""Conversations of every form become what vLLM takes, and stay unchanged themselves."""

import copy
import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)

from langchain_sagemaker_vllm._errors import ConfigurationError
from langchain_sagemaker_vllm._messages import to_wire_messages

PNG = "iVBORw0KGgo="
DATA_URL = f"data:image/png;base64,{PNG}"
IMAGE = {"type": "image_url", "image_url": {"url": DATA_URL}}


def wire(*messages: BaseMessage, **options: Any) -> list[dict[str, Any]]:
    """Convert messages, and check that they are not changed by it."""
    before = copy.deepcopy(messages)
    made = to_wire_messages(messages, **options)
    assert list(messages) == list(before)
    json.dumps(made)
    return made


def call(name: str = "f", args: Any = None, call_id: str | None = "c1") -> dict[str, Any]:
    """Return a tool call as LangChain keeps it."""
    return {"name": name, "args": args or {}, "id": call_id}


def wire_call(arguments: str, name: str = "f", call_id: str = "c1") -> dict[str, Any]:
    """Return a tool call as vLLM takes it."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (HumanMessage("a"), "user"),
        (AIMessage("a"), "assistant"),
        (SystemMessage("a"), "system"),
        (ChatMessage(content="a", role="critic"), "critic"),
        (convert_to_messages([("developer", "a")])[0], "developer"),
    ],
)
def test_every_role_has_its_name(message: BaseMessage, role: str) -> None:
    assert wire(message) == [{"role": role, "content": "a"}]


def test_function_messages_keep_their_name() -> None:
    assert wire(FunctionMessage(content="a", name="f")) == [
        {"role": "function", "content": "a", "name": "f"}
    ]


def test_a_message_that_only_langgraph_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"messages\[1\] \(remove\) is a RemoveMessage"):
        wire(HumanMessage("a"), RemoveMessage(id="1"))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ("", ""),
        ([], ""),
        ([{"type": "text", "text": ""}], ""),
        (["a", {"type": "text", "text": "b"}, {"text": "c"}], "a\nb\nc"),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}], "a"),
        ([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}], "a\nb"),
        ([{"type": "text-plain", "text": "a", "mime_type": "text/plain"}], "a"),
        ([{"type": "refusal", "refusal": "no"}], "no"),
        ([{"type": "non_standard", "value": {"type": "text", "text": "a"}}], "a"),
    ],
)
@pytest.mark.parametrize("kind", [HumanMessage, SystemMessage, AIMessage])
def test_text_alone_is_a_string(content: Any, text: str, kind: type[HumanMessage]) -> None:
    assert wire(kind(content=content))[0]["content"] == text


def test_the_order_of_texts_and_images_is_kept() -> None:
    message = HumanMessage(
        [
            {"type": "text", "text": "A:"},
            {"type": "image", "base64": PNG, "mime_type": "image/png"},
            "B:",
            {"type": "image", "url": "https://example.invalid/b.png"},
            {"type": "text", "text": "compare"},
        ]
    )

    assert wire(message)[0]["content"] == [
        {"type": "text", "text": "A:"},
        IMAGE,
        {"type": "text", "text": "B:"},
        {"type": "image_url", "image_url": {"url": "https://example.invalid/b.png"}},
        {"type": "text", "text": "compare"},
    ]


def test_calls_are_sent_with_arguments_as_text_and_null_content() -> None:
    message = AIMessage("", tool_calls=[call(args={"p": "é", "n": None})])

    (made,) = wire(message)

    assert made["content"] is None
    assert made["tool_calls"] == [wire_call('{"p": "é", "n": null}')]


def test_arguments_that_are_no_json_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        wire(AIMessage("", tool_calls=[call(args={"when": object})]))


def test_text_beside_a_call_is_kept() -> None:
    (made,) = wire(AIMessage("Let me look.", tool_calls=[call()]))

    assert made["content"] == "Let me look."
    assert made["tool_calls"] == [wire_call("{}")]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"city": "Par', '{"INVALID_JSON": "{\\"city\\": \\"Par"}'),
        ("468.424", '{"INVALID_JSON": "468.424"}'),
        ('{"city": "Paris"}', '{"city": "Paris"}'),
        (None, '{"INVALID_JSON": ""}'),
    ],
)
def test_invalid_calls_are_replayed_as_an_object_that_says_so(
    arguments: str | None, sent: str
) -> None:
    invalid = {"name": "f", "args": arguments, "id": "c1", "error": None}

    (made,) = wire(AIMessage("", invalid_tool_calls=[invalid]))

    assert made["tool_calls"] == [wire_call(sent)]


def test_calls_without_an_id_get_the_same_one_on_every_turn() -> None:
    messages = [AIMessage("", tool_calls=[call(call_id=None), call("g", call_id=None)])]

    ids = [each["id"] for each in wire(*messages)[0]["tool_calls"]]

    assert len(set(ids)) == 2
    assert all(each.isalnum() and len(each) == 9 for each in ids)
    assert ids == [each["id"] for each in wire(*messages)[0]["tool_calls"]]


def test_an_anthropic_call_block_beside_tool_calls_is_not_sent_twice() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}
    message = AIMessage([{"type": "text", "text": "Hm."}, block], tool_calls=[call(args={"x": 1})])

    assert wire(message) == [
        {"role": "assistant", "content": "Hm.", "tool_calls": [wire_call('{"x": 1}')]}
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
        {"type": "tool_call", "id": "c1", "name": "f", "args": {"x": 1}},
    ],
)
def test_a_call_that_is_only_a_block_is_sent(block: dict[str, Any]) -> None:
    assert wire(AIMessage([block]))[0]["tool_calls"] == [wire_call('{"x": 1}')]


def test_anthropic_tool_results_become_tool_messages() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "12 degrees"}],
    }

    made = wire(
        AIMessage("", tool_calls=[call()]),
        HumanMessage([result, {"type": "text", "text": "And now?"}]),
    )

    assert made[1:] == [
        {"role": "tool", "content": "12 degrees", "tool_call_id": "c1"},
        {"role": "user", "content": "And now?"},
    ]


def test_only_tool_results_make_no_empty_user_message() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}

    made = wire(AIMessage("", tool_calls=[call()]), HumanMessage([result]))

    assert [each["role"] for each in made] == ["assistant", "tool"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
    ],
)
def test_images_of_tools_follow_all_tool_messages(block: dict[str, Any]) -> None:
    made = wire(
        AIMessage("", tool_calls=[call(), call("g", call_id="c2")]),
        ToolMessage([{"type": "text", "text": "shot"}, block], tool_call_id="c1"),
        ToolMessage("ok", tool_call_id="c2"),
        HumanMessage("And?"),
    )

    assert made[1:] == [
        {"role": "tool", "content": "shot", "tool_call_id": "c1"},
        {"role": "tool", "content": "ok", "tool_call_id": "c2"},
        {"role": "user", "content": [IMAGE]},
        {"role": "user", "content": "And?"},
    ]


def test_artifacts_and_notification_metadata_are_never_sent() -> None:
    made = wire(
        AIMessage("", tool_calls=[call()]),
        ToolMessage("ok", tool_call_id="c1", artifact={"secret": "artifact"}),
        HumanMessage("a", additional_kwargs={"lc_source": "x", "lc_data": {"y": 1}}),
    )

    assert made[1:] == [
        {"role": "tool", "content": "ok", "tool_call_id": "c1"},
        {"role": "user", "content": "a"},
    ]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("4", additional_kwargs={"reasoning_content": "because"}),
        AIMessage("4", additional_kwargs={"reasoning": "because"}),
        AIMessage([{"type": "reasoning", "reasoning": "because"}, {"type": "text", "text": "4"}]),
        AIMessage([{"type": "thinking", "thinking": "because", "signature": "x"}, "4"]),
        AIMessage(
            [{"type": "reasoning_content", "reasoning_content": {"text": "because"}}, "4"],
        ),
        AIMessage([{"type": "reasoning", "summary": [{"text": "because"}]}, "4"]),
        AIMessage(
            [{"type": "reasoning", "reasoning": "because"}, "4"],
            additional_kwargs={"reasoning_content": "because"},
        ),
    ],
)
def test_reasoning_goes_back_as_reasoning(message: AIMessage) -> None:
    assert wire(message) == [{"role": "assistant", "content": "4", "reasoning": "because"}]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("4", additional_kwargs={"reasoning_content": ""}),
        AIMessage("4", additional_kwargs={"reasoning": {"summary": []}}),
        AIMessage([{"type": "redacted_thinking", "data": "x"}, "4"]),
    ],
)
def test_what_is_no_reasoning_text_is_left_out(message: AIMessage) -> None:
    assert wire(message) == [{"role": "assistant", "content": "4"}]


@pytest.mark.parametrize("block", [{"type": "reasoning", "reasoning": "x"}, {"type": "tool_use"}])
def test_reasoning_and_calls_of_a_user_are_refused(block: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="belong into an AIMessage"):
        wire(HumanMessage([block]))


@pytest.mark.parametrize("name", ["bob", "a b!"])
def test_names_are_sent_as_they_are(name: str) -> None:
    made = wire(
        HumanMessage("a", name=name),
        AIMessage("", name=name, tool_calls=[call()]),
        ToolMessage("c", name=name, tool_call_id="c1"),
    )

    assert [each["name"] for each in made] == [name] * 3


def test_absent_names_are_not_sent() -> None:
    assert all("name" not in each for each in wire(HumanMessage("a", name=None), AIMessage("b")))


def test_names_can_be_left_out() -> None:
    (made,) = wire(HumanMessage("a", name="bob"), send_names=False)

    assert made == {"role": "user", "content": "a"}


def test_neighbours_of_one_role_stay_apart_unless_asked() -> None:
    assert len(wire(HumanMessage("a"), HumanMessage("b"))) == 2


def test_neighbours_of_one_role_can_be_joined() -> None:
    made = wire(
        SystemMessage("s"),
        HumanMessage("a"),
        HumanMessage(["b", IMAGE]),
        AIMessage("c"),
        AIMessage("d", tool_calls=[call()]),
        ToolMessage("x", tool_call_id="c1"),
        ToolMessage("y", tool_call_id="c2"),
        merge_consecutive=True,
    )

    assert made == [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, IMAGE],
        },
        {"role": "assistant", "content": "c\n\nd", "tool_calls": [wire_call("{}")]},
        {"role": "tool", "content": "x", "tool_call_id": "c1"},
        {"role": "tool", "content": "y", "tool_call_id": "c2"},
    ]
