"""Tools and tool choices of every spelling."""

from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.tools import StructuredTool, Tool, tool
from pydantic import BaseModel, Field

from langchain_sagemaker_vllm._errors import ConfigurationError
from langchain_sagemaker_vllm._tools import wire_tool, wire_tool_choice


def get_weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: The city's name.
    """
    return f"rain in {city}"


class GetWeather(BaseModel):
    """Tell the weather."""

    city: str = Field(description="The city's name.")


class WeatherDict(TypedDict):
    """Tell the weather."""

    city: Annotated[str, ..., "The city's name."]


class Open(BaseModel):
    """A tool with an open map."""

    scores: dict[str, int]


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The city's name."}},
    "required": ["city"],
}
WIRE = {"name": "get_weather", "description": "Tell the weather.", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
F = {"type": "function", "function": {"name": "f"}}


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the titles that Pydantic writes."""
    return {
        name: without_titles(value) if isinstance(value, dict) else value
        for name, value in schema.items()
        if name != "title"
    }


@pytest.mark.parametrize(
    "given",
    [
        get_weather,
        tool(get_weather, parse_docstring=True),
        StructuredTool.from_function(get_weather, parse_docstring=True),
        GetWeather,
        WeatherDict,
        {"type": "function", "function": WIRE},
        WIRE,
        {"title": "get_weather", "description": "Tell the weather.", **SCHEMA},
        {"name": "get_weather", "description": "Tell the weather.", "input_schema": SCHEMA},
    ],
)
def test_every_spelling_of_a_tool_becomes_a_function(given: Any) -> None:
    made = wire_tool(given)

    assert made["type"] == "function"
    assert made["function"]["name"].lower().replace("_", "") in ("getweather", "weatherdict")
    assert made["function"]["description"] == "Tell the weather."
    assert without_titles(made["function"]["parameters"]) == SCHEMA


def test_a_single_input_tool_takes_one_string() -> None:
    made = wire_tool(Tool(name="echo", description="Echo.", func=str))

    assert made["function"]["parameters"]["properties"]["__arg1"]["type"] == "string"


@pytest.mark.parametrize("strict", [True, False])
def test_strict_is_a_flag_and_never_rewrites_the_schema(strict: bool) -> None:
    made = wire_tool(Open, strict=strict)["function"]

    assert made["strict"] is strict
    assert made["parameters"] == wire_tool(Open)["function"]["parameters"]
    assert made["parameters"]["properties"]["scores"]["additionalProperties"] == {"type": "integer"}


def test_a_tools_own_strict_is_kept() -> None:
    given = {"type": "function", "function": {**WIRE, "strict": True}}

    assert wire_tool(given)["function"]["strict"] is True
    assert wire_tool(given, strict=True)["function"]["strict"] is True


def test_a_conflicting_strict_is_refused() -> None:
    given = {"type": "function", "function": {**WIRE, "strict": True}}

    with pytest.raises(ConfigurationError, match="strict=False conflicts with 'strict': True"):
        wire_tool(given, strict=False)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"type": "web_search"}, "type 'web_search' without a function"),
        ({"type": "function", "name": "f"}, "without a function"),
        ({"type": "function", "function": {}}, "without a function"),
        ({"colour": "red"}, "no tool"),
        ("get_weather", "no tool"),
        (3, "no tool"),
    ],
)
def test_what_is_no_tool_is_refused(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        wire_tool(given)


def test_a_tool_that_the_provider_would_run_is_refused() -> None:
    given = Tool(name="echo", description="Echo.", func=str, metadata={"type": "custom_tool"})

    with pytest.raises(ConfigurationError, match="type 'custom'"):
        wire_tool(given)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ({"type": "any"}, "required"),
        ("auto", "auto"),
        ({"type": "auto"}, "auto"),
        ("none", "none"),
        (None, None),
        (False, None),
        ("f", F),
        (F, F),
        ({"type": "tool", "name": "f"}, F),
    ],
)
def test_every_spelling_of_a_tool_choice_is_understood(choice: Any, sent: Any) -> None:
    assert wire_tool_choice(choice, TOOLS) == sent


def test_a_tools_name_wins_over_a_word() -> None:
    named = {"type": "function", "function": {"name": "any"}}

    assert wire_tool_choice("any", [named]) == named


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ("nope", "tool_choice='nope' is none of the tools"),
        ("requird", "Did you mean 'required'"),
        ({"type": "function", "function": {"name": "g"}}, "tool_choice='g' is none of the tools"),
        (3, "tool_choice=3 must be"),
        ({}, "tool_choice=None must be"),
    ],
)
def test_a_choice_of_no_tool_is_refused(choice: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        wire_tool_choice(choice, TOOLS)


@pytest.mark.parametrize("choice", ["any", True, "auto"])
def test_a_choice_without_tools_is_refused(choice: Any) -> None:
    with pytest.raises(ConfigurationError, match="needs tools"):
        wire_tool_choice(choice, [])


def test_none_of_no_tools_is_nothing() -> None:
    assert wire_tool_choice("none", []) is None
