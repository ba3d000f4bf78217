"""Tool calls with a real vLLM, whose own parsers and guided decoding make them.

The model is too small to call a tool by itself: with `tool_choice="auto"` it is made to write the
markup of a call, and everything from there on is vLLM's own.
"""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from llama_index.core.tools import FunctionTool

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from llama_index_sagemaker_vllm import SageMakerVLLM
from tests.faces import Answer
from tests.real_vllm.conftest import Ask, Endpoint
from tests.real_vllm.material import (
    ADD,
    GET_WEATHER,
    TOOLS,
    WEATHER_QUESTION,
    markup,
    named,
    user,
    writing,
)

pytestmark = pytest.mark.tools

PARIS, SUM = '{"city": "Paris"}', '{"a": 1, "b": 2}'
CITIES = ({"city": "Paris"}, {"city": "London"}, {"city": "Rome"})


def calls(answer: Answer) -> list[tuple[str, Any]]:
    assert all(call.id for call in answer.tool_calls)
    return [(call.name, call.arguments) for call in answer.tool_calls]


def test_named_tool_is_called(ask: Ask) -> None:
    tools = [GET_WEATHER, ADD]

    answer = ask("Add 2 and 3", tools=tools, tool_choice=named("add"), max_tokens=40)

    ((name, arguments),) = calls(answer)
    assert name == "add"
    assert arguments.keys() == {"a", "b"}
    assert all(isinstance(value, int) for value in arguments.values())


def test_some_tool_is_called_when_one_is_required(ask: Ask) -> None:
    answer = ask(WEATHER_QUESTION, tools=[GET_WEATHER], tool_choice="required", max_tokens=60)

    assert {name for name, _ in calls(answer)} == {"get_weather"}
    assert all(arguments in CITIES for _, arguments in calls(answer))
    assert answer.finish_reason == "tool_calls"


@pytest.mark.here
def test_call_that_the_model_writes_is_parsed(ask: Ask) -> None:
    text = markup("get_weather", PARIS)

    answer = ask(WEATHER_QUESTION, tools=TOOLS, max_tokens=80, **writing(text))

    assert calls(answer) == [("get_weather", {"city": "Paris"})]
    assert answer.text == ""
    assert answer.finish_reason == "tool_calls"


@pytest.mark.here
def test_parallel_calls_are_kept_apart(ask: Ask) -> None:
    text = f"{markup('get_weather', PARIS)}\n{markup('add', SUM)}"

    answer = ask(WEATHER_QUESTION, tools=TOOLS, max_tokens=120, **writing(text))

    assert calls(answer) == [("get_weather", {"city": "Paris"}), ("add", {"a": 1, "b": 2})]
    assert len({call.id for call in answer.tool_calls}) == 2


@pytest.mark.here
def test_only_the_first_of_parallel_calls_comes_when_they_are_forbidden(ask: Ask) -> None:
    text = f"{markup('get_weather', PARIS)}\n{markup('add', SUM)}"

    answer = ask(
        WEATHER_QUESTION, tools=TOOLS, parallel_tool_calls=False, max_tokens=120, **writing(text)
    )

    assert calls(answer) == [("get_weather", {"city": "Paris"})]


@pytest.mark.here
def test_text_before_a_call_is_kept(ask: Ask) -> None:
    text = f"Let me look.\n{markup('get_weather', PARIS)}"

    answer = ask(WEATHER_QUESTION, tools=TOOLS, max_tokens=80, **writing(text))

    assert answer.text.strip() == "Let me look."
    assert calls(answer) == [("get_weather", {"city": "Paris"})]


@pytest.mark.here
def test_call_without_arguments_has_none(ask: Ask) -> None:
    text = markup("get_weather", "{}")

    answer = ask(WEATHER_QUESTION, tools=TOOLS, max_tokens=60, **writing(text))

    assert calls(answer) == [("get_weather", {})]


@pytest.mark.here
def test_cut_call_is_never_a_whole_one(ask: Ask) -> None:
    text = markup("get_weather", PARIS)

    answer = ask(WEATHER_QUESTION, tools=TOOLS, max_tokens=16, **writing(text))

    # Plain, vLLM hands over the markup as text; streamed, a name without arguments.
    assert answer.finish_reason == "length"
    assert all(isinstance(call.arguments, str) for call in answer.tool_calls)
    assert answer.tool_calls or answer.text.startswith("<tool_call>")


@pytest.mark.here
def test_broken_arguments_stay_text(ask: Ask) -> None:
    text = markup("get_weather", '{"city": }')

    answer = ask(WEATHER_QUESTION, tools=TOOLS, max_tokens=60, **writing(text))

    assert all(isinstance(call.arguments, str) for call in answer.tool_calls)
    assert answer.tool_calls or answer.text.startswith("<tool_call>")


def test_tools_are_not_called_when_they_are_forbidden(ask: Ask) -> None:
    answer = ask(WEATHER_QUESTION, tools=TOOLS, tool_choice="none", max_tokens=6)

    assert answer.tool_calls == []
    assert answer.text


@pytest.mark.here
def test_calls_and_results_reach_the_model(ask: Ask) -> None:
    call = {
        "id": "call12345",
        "type": "function",
        "function": {"name": "get_weather", "arguments": PARIS},
    }
    answer = ask(
        [
            user(WEATHER_QUESTION),
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call12345", "content": "12 degrees, rain"},
        ],
        tools=TOOLS,
        max_tokens=4,
        extra_body={"return_prompt_text": True},
    )

    prompt = prompt_of(answer)
    compact = json.dumps(json.loads(PARIS))
    assert f'"name": "get_weather", "arguments": {compact}' in prompt
    assert "<tool_response>\n12 degrees, rain</tool_response>" in prompt
    assert prompt.index("get_weather") < prompt.index("12 degrees")


def prompt_of(answer: Answer) -> str:
    found = answer.framework
    raw = found if isinstance(found, dict) else getattr(found, "raw", None)
    return str((raw or found.response_metadata)["prompt_text"])


def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"{city}: rain"


def test_langchain_binds_functions(endpoint: Endpoint) -> None:
    model = ChatSageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=60)

    message = model.bind_tools([get_weather], tool_choice="any", strict=True).invoke("Paris?")

    assert isinstance(message, AIMessage)
    assert {call["name"] for call in message.tool_calls} == {"get_weather"}
    assert all(isinstance(call["args"]["city"], str) for call in message.tool_calls)


def test_llama_index_calls_functions(endpoint: Endpoint) -> None:
    model = SageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=60)
    tool = FunctionTool.from_defaults(get_weather)

    response = model.predict_and_call([tool], "Paris?", tool_required=True, strict=True)

    assert response.response.endswith(": rain")
