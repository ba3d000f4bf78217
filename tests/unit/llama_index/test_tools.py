"""Tools on the wire, every spelling of the tool choice, and arguments that are no JSON object."""

from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, ToolCallBlock
from llama_index.core.tools import FunctionTool

from llama_index_sagemaker_vllm._tools import (
    own_names,
    to_selections,
    to_wire_tool_choice,
    to_wire_tools,
)
from sagemaker_vllm import ConfigurationError, StructuredOutputError


def make_tool(name: str = "f") -> FunctionTool:
    def add(x: int, y: int = 2) -> int:
        """Add two numbers."""
        return x + y

    return FunctionTool.from_defaults(add, name=name)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def response(
    tool_kwargs: Any, *, finish_reason: str = "tool_calls", raw: Any = None
) -> ChatResponse:
    block = ToolCallBlock(tool_call_id="c", tool_name="f", tool_kwargs=tool_kwargs)
    message = ChatMessage(role=MessageRole.ASSISTANT, blocks=[block])
    return ChatResponse(
        message=message, raw=raw, additional_kwargs={"finish_reason": finish_reason}
    )


CHUNK = {"object": "chat.completion.chunk", "choices": []}
WIRE_TOOLS = to_wire_tools([make_tool("f"), make_tool("g")], strict=None)


@pytest.mark.parametrize(
    ("strict", "sent"), [(None, {}), (True, {"strict": True}), (False, {"strict": False})]
)
def test_tool_is_sent_with_its_schema(strict: bool | None, sent: dict[str, Any]) -> None:
    wire = to_wire_tools([make_tool()], strict=strict)[0]

    assert wire["type"] == "function"
    assert {k: v for k, v in wire["function"].items() if k == "strict"} == sent
    assert wire["function"]["name"] == "f"
    assert "Add two numbers." in wire["function"]["description"]
    assert wire["function"]["parameters"]["required"] == ["x"]


def test_name_is_cleaned_and_the_own_one_remembered() -> None:
    tools = [make_tool("Box[int]"), make_tool("plain"), make_tool("x" * 100)]

    names = [each["function"]["name"] for each in to_wire_tools(tools, strict=None)]

    assert names == ["Box_int", "plain", "x" * 64]
    assert own_names(tools) == {"Box_int": "Box[int]", "x" * 64: "x" * 100}


@pytest.mark.parametrize("names", [("f", "f"), ("a b", "a_b")])
def test_tools_with_one_name_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="Two tools are called"):
        to_wire_tools([make_tool(name) for name in names], strict=None)


@pytest.mark.parametrize(
    ("choice", "required", "sent"),
    [
        (None, False, None),
        (None, True, "required"),
        (False, False, None),
        (True, False, "required"),
        ("any", False, "required"),
        ("required", False, "required"),
        ("auto", False, "auto"),
        ("auto", True, "auto"),
        ("none", True, "none"),
        ("g", False, named("g")),
        (named("g"), False, named("g")),
    ],
)
def test_tool_choice_is_read_in_every_spelling(choice: Any, required: bool, sent: Any) -> None:
    assert to_wire_tool_choice(choice, WIRE_TOOLS, required=required) == sent


@pytest.mark.parametrize("choice", ["nope", named("nope"), {}, {"function": "f"}, 3])
def test_choice_of_no_tool_is_refused(choice: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"one of \['f', 'g'\]"):
        to_wire_tool_choice(choice, WIRE_TOOLS, required=False)


def test_choice_by_the_own_name_of_a_tool_is_the_cleaned_one() -> None:
    tools = to_wire_tools([make_tool("Box[int]")], strict=None)

    assert to_wire_tool_choice("Box[int]", tools, required=False) == named("Box_int")


@pytest.mark.parametrize(
    ("tool_kwargs", "arguments"),
    [({"x": 1}, {"x": 1}), ('{"x": 1}', {"x": 1}), ("", {}), (" ", {})],
)
def test_selection_has_the_arguments(tool_kwargs: Any, arguments: dict[str, Any]) -> None:
    selection = to_selections(response(tool_kwargs))[0]

    assert (selection.tool_id, selection.tool_name) == ("c", "f")
    assert selection.tool_kwargs == arguments


@pytest.mark.parametrize(
    ("tool_kwargs", "finish_reason", "reason"),
    [
        ("468.424", "tool_calls", "invalid"),
        ('{"x": ', "tool_calls", "invalid"),
        ('{"x": ', "length", "cut"),
        ("", "length", "cut"),
        ("[1]", "stop", "invalid"),
    ],
)
def test_arguments_that_are_no_object_are_an_error_with_the_models_text(
    tool_kwargs: str, finish_reason: str, reason: str
) -> None:
    with pytest.raises(StructuredOutputError, match="call to 'f'") as caught:
        to_selections(response(tool_kwargs, finish_reason=finish_reason))

    assert (caught.value.reason, caught.value.text) == (reason, tool_kwargs)


@pytest.mark.parametrize(
    ("tool_kwargs", "arguments"),
    [
        ("", {}),
        ('{"x', {}),
        ('{"x": 1, "y": "ab', {"x": 1, "y": "ab"}),
        ("468", {}),
        ("}", {}),
        ({"x": 1}, {"x": 1}),
    ],
)
def test_growing_arguments_are_what_can_be_read_so_far(
    tool_kwargs: Any, arguments: dict[str, Any]
) -> None:
    selection = to_selections(response(tool_kwargs, raw=CHUNK))[0]

    assert selection.tool_kwargs == arguments
