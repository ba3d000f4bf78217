"""Public bug reports about caches, agents and keywords, held against this package."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.caches import BaseCache, InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from pydantic import BaseModel

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import Reply
from tests.integration.langchain.conftest import StartEmulator, Way


class Weather(BaseModel):
    """The weather."""

    city: str
    degrees: int


def look(city: str) -> str:
    """Look out of the window in a city."""
    return f"12 degrees in {city}"


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"temperature": 1}),
    ({}, {"model": "other"}),
    ({}, {"target_variant": "b"}),
    ({}, {"stop": ["X"]}),
    ({}, {"min_tokens": 1}),
    ({"temperature": 0.5}, {}),
    ({"endpoint_url": "localhost"}, {}),
    ({"region_name": "eu-central-1"}, {}),
    ({"model_kwargs": {"min_tokens": 1}}, {}),
    ({"stop": ["X"]}, {}),
]
CHAT_CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"tools": [look]}),
    ({}, {"response_format": Weather}),
    ({}, {"response_format": {"type": "json_object"}}),
    ({"merge_consecutive_messages": True}, {}),
    ({"output_version": "v1"}, {}),
]


async def ask_twice(
    plain: Way, start_emulator: StartEmulator, cls: Any, change: tuple[dict[str, Any], Any]
) -> int:
    """Ask with and without a change, each twice, and return the number of requests."""
    emulator = start_emulator(lambda _: Reply("ok"))
    settings = {
        name: emulator.url.replace("127.0.0.1", value) if name == "endpoint_url" else value
        for name, value in change[0].items()
    }
    cache: BaseCache = InMemoryCache()
    for _ in range(2):
        await plain.items(cls(cache=cache))
        await plain.items(cls(cache=cache, **settings), **change[1])
    return len(emulator.requests)


@pytest.mark.parametrize("change", [*CHANGES, *CHAT_CHANGES])
async def test_b102_the_cache_of_a_chat(
    plain: Way, start_emulator: StartEmulator, change: Any
) -> None:
    assert await ask_twice(plain, start_emulator, ChatSageMakerVLLM, change) == 2


@pytest.mark.parametrize("change", CHANGES)
async def test_b102_the_cache_of_a_text(
    plain: Way, start_emulator: StartEmulator, change: Any
) -> None:
    assert await ask_twice(plain, start_emulator, SageMakerVLLM, change) == 2


def test_b102_the_order_of_a_schema_is_part_of_the_key() -> None:
    model = ChatSageMakerVLLM(endpoint_name="e")
    properties = Weather.model_json_schema()["properties"]
    turned = dict(reversed(properties.items()))

    keys = {
        model._get_llm_string(response_format={"type": "object", "properties": each})
        for each in (properties, turned)
    }

    assert len(keys) == 2


def test_b102_the_key_has_no_address_and_no_secret() -> None:
    model = ChatSageMakerVLLM(
        endpoint_name="e", aws_access_key_id="AKIDTEST", aws_secret_access_key="hidden"
    )

    key = model._get_llm_string(tools=[look], response_format=Weather)

    assert " at 0x" not in key
    assert "hidden" not in key
    assert "AKIDTEST" not in key


FORMATS = [
    Weather,
    Weather.model_json_schema(),
    {"type": "json_schema", "json_schema": {"name": "W", "schema": Weather.model_json_schema()}},
]


@pytest.mark.parametrize("strict", [True, None])
@pytest.mark.parametrize("response_format", FORMATS)
async def test_b104_strict_beside_a_response_format(
    way: Way, start_emulator: StartEmulator, response_format: Any, strict: bool | None
) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.ask(
        ChatSageMakerVLLM().bind_tools([look], strict=strict, response_format=response_format)
    )

    body = emulator.requests[0].json
    assert "strict" not in body
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == Weather.model_json_schema()
    assert body["response_format"]["json_schema"].get("strict") is strict
    assert body["tools"][0]["function"].get("strict") is strict


LOOK = {"name": "look", "arguments": {"city": "Rome"}, "id": "c1"}
ANSWER = {"name": "Weather", "arguments": {"city": "Rome", "degrees": 12}, "id": "c2"}


@pytest.mark.parametrize("streaming", [True, False])
async def test_b105_tools_and_an_answer_by_a_tool(
    start_emulator: StartEmulator, streaming: bool
) -> None:
    emulator = start_emulator([Reply(tool_calls=[LOOK]), Reply(tool_calls=[ANSWER])])
    agent: Any = create_agent(
        ChatSageMakerVLLM(streaming=streaming),
        tools=[look],
        response_format=ToolStrategy(Weather),
    )

    found = await agent.ainvoke({"messages": [HumanMessage("Rome?")]})

    assert found["structured_response"] == Weather(city="Rome", degrees=12)
    assert [request.json["tool_choice"] for request in emulator.requests] == ["required"] * 2


async def test_b105_tools_and_an_answer_by_the_provider(start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply(tool_calls=[LOOK]), Reply('{"city": "Rome", "degrees": 12}')])
    agent: Any = create_agent(
        ChatSageMakerVLLM(), tools=[look], response_format=ProviderStrategy(Weather)
    )

    found = await agent.ainvoke({"messages": [HumanMessage("Rome?")]})

    assert found["structured_response"] == Weather(city="Rome", degrees=12)
    body = emulator.requests[1].json
    assert "tool_choice" not in body
    assert body["response_format"]["json_schema"]["name"] == "Weather"


async def test_b105_two_answers_in_one_turn(start_emulator: StartEmulator) -> None:
    twice = [ANSWER, {**ANSWER, "id": "c3"}]
    emulator = start_emulator([Reply(tool_calls=twice), Reply(tool_calls=[ANSWER])])
    agent: Any = create_agent(
        ChatSageMakerVLLM(), tools=[look], response_format=ToolStrategy(Weather)
    )

    found = await agent.ainvoke({"messages": [HumanMessage("Rome?")]})

    assert found["structured_response"] == Weather(city="Rome", degrees=12)
    answered = [
        message["tool_call_id"]
        for message in emulator.requests[1].json["messages"]
        if message["role"] == "tool"
    ]
    assert answered == ["c2", "c3"]


async def test_b108_options_and_parameters_stay_apart(
    way: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply("ok")])
    kwargs = {"top_k": 5, "guided": {"x": 1}}
    model = ChatSageMakerVLLM(custom_attributes="a=b", target_variant="v", model_kwargs=kwargs)

    await way.ask(model.bind(top_k=7))

    request = emulator.requests[0]
    assert request.headers["X-Amzn-SageMaker-Custom-Attributes"] == "a=b"
    assert request.headers["X-Amzn-SageMaker-Target-Variant"] == "v"
    assert (request.json["top_k"], request.json["guided"]) == (7, {"x": 1})
    assert not request.json.keys() & {"custom_attributes", "target_variant"}
    assert kwargs == {"top_k": 5, "guided": {"x": 1}}


async def test_b109_the_inference_component(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok"), Reply("ok")])

    await way.ask(ChatSageMakerVLLM(inference_component_name="ic"))
    await way.items(SageMakerVLLM(inference_component_name="ic"))

    assert [
        request.headers["X-Amzn-SageMaker-Inference-Component"] for request in emulator.requests
    ] == ["ic", "ic"]


async def test_b109_an_option_that_the_operation_lacks(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([])

    with pytest.raises(ConfigurationError, match="InvokeEndpointWithResponseStream"):
        await streamed.ask(ChatSageMakerVLLM(target_model="a.tar.gz"))


class Tokens(BaseCallbackHandler):
    """Keeps the tokens that callbacks get."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        self.tokens.append(token)


OFF: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"disable_streaming": True}, {}),
    ({"disable_streaming": "tool_calling"}, {"tools": [look]}),
    ({"streaming": False}, {}),
]


@pytest.mark.parametrize(("settings", "keywords"), OFF)
async def test_b110_streaming_that_is_off_stays_off(
    start_emulator: StartEmulator, settings: dict[str, Any], keywords: dict[str, Any]
) -> None:
    emulator = start_emulator([Reply("a b c")])
    model = ChatSageMakerVLLM(**settings)

    events = [event async for event in model.astream_events("Hi", version="v2", **keywords)]

    ends = [event for event in events if event["event"] == "on_chat_model_end"]
    assert [end["data"]["output"].text for end in ends] == ["a b c"]
    assert not any(event["event"] == "on_chat_model_stream" for event in events)
    assert emulator.requests[0].operation == "InvokeEndpoint"


@pytest.mark.parametrize(("settings", "is_stream"), [({}, True), ({"streaming": False}, False)])
async def test_b110_messages_of_a_graph(
    start_emulator: StartEmulator, settings: dict[str, Any], is_stream: bool
) -> None:
    emulator = start_emulator([Reply(chunks=["a", " b", " c"])])
    handler = Tokens()
    agent: Any = create_agent(ChatSageMakerVLLM(callbacks=[handler], **settings), tools=[])

    messages = [
        message
        async for message, _ in agent.astream(
            {"messages": [HumanMessage("Hi")]}, stream_mode="messages"
        )
    ]

    assert "".join(message.text for message in messages) == "a b c"
    tokens = [token for token in handler.tokens if token]
    assert tokens == (["a", " b", " c"] if is_stream else [])
    wanted = "InvokeEndpointWithResponseStream" if is_stream else "InvokeEndpoint"
    assert emulator.requests[0].operation == wanted
