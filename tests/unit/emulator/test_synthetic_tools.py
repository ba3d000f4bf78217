"""When the synthetic model calls tools, which, and with what."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.emulator.synthetic import answer, calls, deltas, message, render, tool

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
WEATHER = tool("get_weather", "Weather of a city", city=STRING)
ADD = tool("add", "Add two numbers", a=INTEGER, b=INTEGER)
SUM = tool("my_adder", "Takes two integers, a and b, and returns their sum.", a=INTEGER, b=INTEGER)
CLOCK = tool("current_time", "Tell the time")
NAMED = {"type": "function", "function": {"name": "add"}}


@pytest.mark.parametrize(
    ("text", "tools", "expected"),
    [
        ("What is the weather in Paris?", [WEATHER, ADD], [("get_weather", {"city": "Paris"})]),
        ("Use get_weather for Rome.", [ADD, WEATHER], [("get_weather", {"city": "Rome"})]),
        ("What is 3 + 4?", [WEATHER, SUM], [("my_adder", {"a": 3, "b": 4})]),
        ("Run current_time()", [CLOCK, WEATHER], [("current_time", {})]),
        (
            "Compare the weather in Paris, Rome and Oslo.",
            [WEATHER],
            [("get_weather", {"city": city}) for city in ("Paris", "Rome", "Oslo")],
        ),
        (
            "First add 2 and 3, then tell the weather in Paris.",
            [WEATHER, ADD],
            [("add", {"a": 2, "b": 3}), ("get_weather", {"city": "Paris"})],
        ),
        ("Hello!", [WEATHER, ADD], []),
        ("Which city do you like?", [WEATHER], []),
    ],
)
def test_auto_calls_the_tools_that_the_user_speaks_of(
    text: str, tools: list[dict[str, Any]], expected: list[Any]
) -> None:
    assert calls(text, *tools) == expected


@pytest.mark.parametrize(
    ("choice", "finish_reason", "content"),
    [(None, "tool_calls", None), ("required", "tool_calls", ""), (NAMED, "stop", "")],
)
def test_calls_end_and_look_as_measured(
    choice: Any, finish_reason: str, content: str | None
) -> None:
    given = {} if choice is None else {"tool_choice": choice}

    (found,) = answer("add 2 and 3", tools=[ADD], **given)["choices"]

    assert found["finish_reason"] == finish_reason
    assert found["message"]["content"] == content
    (call,) = found["message"]["tool_calls"]
    assert call["id"].startswith("chatcmpl-tool-")
    assert json.loads(call["function"]["arguments"]) == {"a": 2, "b": 3}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_forced_calls_come_without_being_spoken_of(choice: Any) -> None:
    ((name, arguments),) = calls("Hello!", ADD, WEATHER, tool_choice=choice)

    assert name == "add"
    assert arguments == {"a": 1, "b": 1}


def test_none_and_no_tools_are_answered_in_text() -> None:
    text = "What is the weather in Paris?"

    assert calls(text, WEATHER, tool_choice="none") == []
    assert message(text)["content"] == f'You said: "{text}".'


def test_parallel_calls_can_be_switched_off() -> None:
    text = "weather in Paris and Rome"

    assert len(calls(text, WEATHER)) == 2
    assert calls(text, WEATHER, parallel_tool_calls=False) == [("get_weather", {"city": "Paris"})]


def turn(*later: dict[str, Any], called: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Write a conversation in which the weather in Paris was asked for, and maybe more."""
    call = {"id": "1", "type": "function", "function": called or {}}
    assistant = {"role": "assistant", "content": None, "tool_calls": [call]}
    user = {"role": "user", "content": "What is the weather in Paris?"}
    return [user, *([assistant] if called else []), *later]


CALLED = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "12 degrees, rain"}


def test_results_are_answered_in_text() -> None:
    body = {"messages": turn(RESULT, called=CALLED), "tools": [WEATHER]}

    (choice,) = render(body)["choices"]

    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == "The result of get_weather is: 12 degrees, rain."


def test_media_of_a_tool_that_a_client_moved_into_a_user_message_end_no_turn() -> None:
    moved = {"role": "user", "content": "The image that get_weather returned:"}
    body = {"messages": turn(RESULT, moved, called=CALLED), "tools": [WEATHER]}

    assert "tool_calls" not in render(body)["choices"][0]["message"]


def test_required_prefers_a_tool_without_a_result_and_fills_it_from_results() -> None:
    report = tool("Report", "A report", temperature=INTEGER, city=STRING)
    body = {"messages": turn(RESULT, called=CALLED), "tools": [WEATHER, report]}

    (call,) = render({**body, "tool_choice": "required"})["choices"][0]["message"]["tool_calls"]

    assert call["function"]["name"] == "Report"
    assert json.loads(call["function"]["arguments"]) == {"temperature": 12, "city": "Paris"}


def test_required_repeats_the_last_tool_when_all_were_called() -> None:
    body = {"messages": turn(RESULT, called=CALLED), "tools": [WEATHER, ADD]}
    both = [*body["messages"], *turn(RESULT, called={"name": "add", "arguments": "{}"})[1:]]

    (call,) = render({**body, "messages": both, "tool_choice": "required"})["choices"][0][
        "message"
    ]["tool_calls"]

    assert call["function"]["name"] == "add"


def test_json_after_results_reports_them() -> None:
    schema = {"type": "object", "properties": {"city": STRING, "temperature": INTEGER}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    asked = {"role": "user", "content": "What is the weather in Paris for 7 days?"}
    messages = [asked, *turn(RESULT, called=CALLED)[1:]]
    body = {"messages": messages, "tools": [WEATHER], "response_format": wanted}

    content = render(body)["choices"][0]["message"]["content"]

    assert json.loads(content) == {"city": "Paris", "temperature": 12}


def test_the_next_question_may_call_again() -> None:
    later = [
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "And the weather in Rome?"},
    ]
    body = {"messages": turn(RESULT, *later, called=CALLED), "tools": [WEATHER]}

    (call,) = render(body)["choices"][0]["message"]["tool_calls"]

    assert json.loads(call["function"]["arguments"]) == {"city": "Rome"}


def test_json_and_tools_on_auto_stand_beside_each_other() -> None:
    schema = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    beyond = {**schema, "allOf": [{}, {}]}
    only_json = {"type": "json_schema", "json_schema": {"name": "x", "schema": beyond}}

    assert calls("add 2 and 3", ADD, response_format=wanted) == [("add", {"a": 2, "b": 3})]
    assert message("Hello", tools=[ADD], response_format=wanted)["content"] == '{"n": 1}'
    # xgrammar does not know several `allOf`, and then vLLM leaves no room for calls
    assert message("add 2 and 3", tools=[ADD], response_format=only_json)["content"] == '{"n": 2}'


def test_a_cut_call_is_markup_in_plain_answers_and_a_name_in_streams() -> None:
    (plain,) = answer("add 2 and 3", tools=[ADD], max_tokens=13)["choices"]
    streamed = deltas("add 2 and 3", tools=[ADD], max_tokens=13)

    assert plain["finish_reason"] == streamed[-1]["finish_reason"] == "length"
    assert plain["message"]["content"].startswith('<tool_call>\n{"name": "add"')
    assert "tool_calls" not in plain["message"]
    heads = [call for one in streamed for call in one["delta"].get("tool_calls", ())]
    assert [head["function"] for head in heads] == [{"name": "add"}]


def test_calls_that_a_constraint_forces_are_parsed() -> None:
    markup = r'Look\. <tool_call>\{"name": "f", "arguments": \{\}\}</tool_call>'

    found = message("Hello", tools=[tool("f")], structured_outputs={"regex": markup})

    assert found["content"] == "Look. "
    assert [call["function"]["arguments"] for call in found["tool_calls"]] == ["{}"]


def test_markup_that_is_no_json_stays_text() -> None:
    markup = r"<tool_call>\{\}\}</tool_call>"

    found = message("Hello", tools=[tool("f")], structured_outputs={"regex": markup})

    assert found["content"] == "<tool_call>{}}</tool_call>"
    assert "tool_calls" not in found


@given(
    st.dictionaries(
        st.sampled_from(["city", "age", "when", "flag", "tags", "unit"]),
        st.sampled_from(
            [
                STRING,
                INTEGER,
                {"type": "boolean"},
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
                {"enum": ["a", "b"]},
                {"anyOf": [INTEGER, {"type": "null"}], "default": None},
                {"type": "string", "format": "date-time"},
            ]
        ),
    ),
    st.sampled_from(["Ana is 31, 'x' and 'y', a b c.", "Hello", ""]),
)
def test_forced_arguments_are_valid_for_the_schema(properties: dict[str, Any], text: str) -> None:
    wanted = tool("f", **properties)

    ((_, arguments),) = calls(text, wanted, tool_choice="required")[:1]

    jsonschema.Draft202012Validator(wanted["function"]["parameters"]).validate(arguments)


@pytest.mark.parametrize("parameters", [None, {}, {"type": "string"}, {"type": "bogus"}])
def test_tools_without_a_usable_schema_get_no_arguments(parameters: Any) -> None:
    function = {"name": "f", "parameters": parameters}
    wanted = {"type": "function", "function": function}

    assert calls("Hello", wanted, tool_choice="required") == [("f", {})]
