"""Agents: the tool loop, structured answers, middleware, and every streaming mode."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelFallbackMiddleware, ModelRetryMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.rate_limiters import InMemoryRateLimiter
from pydantic import BaseModel

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import ServerError
from sagemaker_vllm.emulator import ContainerFault, Emulator, Reply, ServiceFault, SyntheticModel
from tests.integration.langchain.conftest import StartEmulator, Way


class Trip(BaseModel):
    """A plan of a trip."""

    city: str
    price: int


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"12 degrees in {city}"


def get_price(city: str) -> str:
    """Tell the price of a trip to a city."""
    return f"a trip to {city} costs 99 euros"


LOOK = {"name": "get_weather", "arguments": {"city": "Rome"}, "id": "c1"}
PRICE = {"name": "get_price", "arguments": {"city": "Rome"}, "id": "c2"}
TRIP = {"name": "Trip", "arguments": {"city": "Rome", "price": 99}, "id": "c3"}
QUESTION: dict[str, Any] = {"messages": [HumanMessage("Weather and price of Rome?")]}


def script(last: Reply) -> list[Reply]:
    """Return the answers of a model that calls two tools at once."""
    return [Reply("Let me look.", tool_calls=[LOOK, PRICE]), last]


def agent(response_format: Any = None, **settings: Any) -> Any:
    """Make an agent with two tools."""
    return create_agent(
        ChatSageMakerVLLM(**settings),
        tools=[get_weather, get_price],
        response_format=response_format,
    )


STRATEGIES = [
    (ToolStrategy(Trip), Reply(tool_calls=[TRIP])),
    (ProviderStrategy(Trip), Reply('{"city": "Rome", "price": 99}')),
    # The profile says that the endpoint can, so LangChain lets it.
    (Trip, Reply('{"city": "Rome", "price": 99}')),
]


@pytest.mark.parametrize(("strategy", "last"), STRATEGIES)
async def test_two_tools_and_a_structured_answer_in_streaming_mode(
    way: Way, start_emulator: StartEmulator, strategy: Any, last: Reply
) -> None:
    emulator = start_emulator(script(last))
    made = agent(strategy, streaming=True)

    found = await way.last(made, QUESTION)

    if way.is_stream:
        found = next(iter(found.values()))
    assert found["structured_response"] == Trip(city="Rome", price=99)
    assert {request.operation for request in emulator.requests} == {
        "InvokeEndpointWithResponseStream"
    }
    sent = emulator.requests[1].json["messages"]
    assert [(each["role"], each.get("tool_call_id")) for each in sent] == [
        ("user", None),
        ("assistant", None),
        ("tool", "c1"),
        ("tool", "c2"),
    ]
    assert sent[2]["content"] == "12 degrees in Rome"


async def test_the_raw_schema_chooses_the_providers_own_way(start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply('{"city": "Rome", "price": 99}')])

    await agent(Trip).ainvoke(QUESTION)

    body = emulator.requests[0].json
    assert body["response_format"]["type"] == "json_schema"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather", "get_price"]


async def test_a_profile_without_structured_output_chooses_a_tool(
    start_emulator: StartEmulator,
) -> None:
    emulator = start_emulator([Reply(tool_calls=[TRIP])])

    found = await agent(Trip, profile={"tool_calling": True}).ainvoke(QUESTION)

    assert found["structured_response"] == Trip(city="Rome", price=99)
    assert "response_format" not in emulator.requests[0].json


@pytest.mark.parametrize("mode", ["values", "updates", "messages"])
async def test_every_streaming_mode_shows_the_turns(
    streamed: Way, start_emulator: StartEmulator, mode: str
) -> None:
    start_emulator(script(Reply(chunks=["It", " is", " 12 degrees."])))

    items = await streamed.items(agent(), QUESTION, stream_mode=mode)

    if mode == "messages":
        texts = [message.text for message, _ in items if message.text]
        assert texts[-3:] == ["It", " is", " 12 degrees."]
        # Tools run at once, so either may be first.
        assert {m.content for m, _ in items if isinstance(m, ToolMessage)} == {
            "12 degrees in Rome",
            "a trip to Rome costs 99 euros",
        }
    else:
        last = items[-1] if mode == "values" else items[-1]["model"]
        assert last["messages"][-1].text == "It is 12 degrees."


async def test_a_cut_call_does_not_run(start_emulator: StartEmulator) -> None:
    cut = {"name": "get_weather", "arguments": '{"city": "Ro', "id": "c1"}
    start_emulator([Reply(tool_calls=[cut], finish_reason="length")])

    found = await agent(streaming=True).ainvoke(QUESTION)

    assert [message.type for message in found["messages"]] == ["human", "ai"]
    assert found["messages"][1].invalid_tool_calls[0]["args"] == '{"city": "Ro'


RETRY = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False, on_failure="error")


async def test_the_retry_middleware_retries_what_may_pass(start_emulator: StartEmulator) -> None:
    emulator = start_emulator([ServiceFault("ThrottlingException", 400), Reply("ok")])
    made: Any = create_agent(ChatSageMakerVLLM(max_retries=0), tools=[], middleware=[RETRY])

    found = await made.ainvoke(QUESTION)

    assert found["messages"][-1].content == "ok"
    assert len(emulator.requests) == 2


async def test_the_retry_middleware_leaves_the_rest(start_emulator: StartEmulator) -> None:
    too_long = {"error": {"message": "maximum context length is 8 tokens", "code": 400}}
    emulator = start_emulator([ContainerFault(400, too_long)])
    made: Any = create_agent(ChatSageMakerVLLM(max_retries=0), tools=[], middleware=[RETRY])

    with pytest.raises(ContextOverflowError):
        await made.ainvoke(QUESTION)

    assert len(emulator.requests) == 1


async def test_the_fallback_middleware_takes_the_other_endpoint(
    start_emulator: StartEmulator,
) -> None:
    broken = start_emulator([ContainerFault(500, b"boom")])
    healthy = start_emulator([Reply("from the other")])
    fallback = ModelFallbackMiddleware(_at(healthy))
    made: Any = create_agent(_at(broken), tools=[], middleware=[fallback])

    found = await made.ainvoke(QUESTION)

    assert found["messages"][-1].content == "from the other"


async def test_fallbacks_take_the_other_endpoint(way: Way, start_emulator: StartEmulator) -> None:
    broken = start_emulator([ContainerFault(500, b"boom")])
    healthy = start_emulator([Reply("from the other")])
    model = _at(broken).with_fallbacks([_at(healthy)])

    assert (await way.ask(model)).content == "from the other"


def _at(emulator: Emulator) -> ChatSageMakerVLLM:
    return ChatSageMakerVLLM(endpoint_url=emulator.url, max_retries=0)


async def test_with_retry_tries_again(plain: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([ContainerFault(500, b"boom"), Reply("ok")])
    model = _at(emulator).with_retry(
        retry_if_exception_type=(ServerError,), wait_exponential_jitter=False, stop_after_attempt=2
    )

    assert (await plain.ask(model)).content == "ok"


async def test_a_rate_limiter_is_asked(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([Reply("ok")])
    limiter = InMemoryRateLimiter(requests_per_second=100, check_every_n_seconds=0.01)

    assert (await way.ask(ChatSageMakerVLLM(rate_limiter=limiter))).content == "ok"
    assert limiter.available_tokens < 1


async def test_an_agent_runs_against_the_synthetic_model(start_emulator: StartEmulator) -> None:
    start_emulator(SyntheticModel())
    question = HumanMessage('Call get_weather and get_price for "Rome".')

    found = await agent(Trip, streaming=True).ainvoke({"messages": [question]})

    assert isinstance(found["structured_response"], Trip)
    called = {message.name for message in found["messages"] if isinstance(message, ToolMessage)}
    assert called == {"get_weather", "get_price"}
