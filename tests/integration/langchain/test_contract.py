"""Sync and async, plain and streamed: the same answer, calls, metadata and errors."""

import gc
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelRateLimitError,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import (
    ConfigurationError,
    InvalidRequestError,
    SageMakerVLLMError,
    ServerError,
    StreamInterruptedError,
)
from sagemaker_vllm.emulator import (
    ContainerFault,
    Cut,
    ModelStreamFault,
    Reply,
    ServiceFault,
    StreamReply,
)
from tests.callers import until
from tests.integration.langchain.conftest import DONE, StartEmulator, Way, data, event, stream

USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 2,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 4, "created_cache_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
PNG = "iVBORw0KGgo="


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"rain in {city}"


def same_everywhere(message: AIMessage) -> dict[str, Any]:
    """Return the metadata that may not depend on the way of calling."""
    drop = ("id", "created", "request_id")
    return {k: v for k, v in message.response_metadata.items() if k not in drop}


async def test_text_usage_and_metadata_are_the_same(
    way: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([Reply("Hello there", usage=USAGE, stop_reason="END")])

    message = await way.ask(ChatSageMakerVLLM())

    assert message.content == "Hello there"
    assert message.usage_metadata == {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 7,
        "input_token_details": {"cache_read": 4, "cache_creation": 1},
        "output_token_details": {"reasoning": 1},
    }
    assert same_everywhere(message) == {
        "model_provider": "sagemaker_vllm",
        "model_name": "/opt/ml/model",
        "token_usage": USAGE,
        "finish_reason": "stop",
        "normalized_finish_reason": "stop",
        "stop_reason": "END",
        "endpoint_name": "emulated",
        "invoked_production_variant": "AllTraffic",
        "system_fingerprint": "vllm-0.32.0-emulated",
    }
    assert message.response_metadata["id"].startswith("chatcmpl-")
    assert message.response_metadata["request_id"]


async def test_reasoning_is_kept_beside_the_text(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([Reply("4", reasoning="2 and 2 make 4")])

    message = await way.ask(ChatSageMakerVLLM())

    assert message.content == "4"
    assert message.additional_kwargs == {"reasoning_content": "2 and 2 make 4"}
    assert message.content_blocks == [
        {"type": "reasoning", "reasoning": "2 and 2 make 4"},
        {"type": "text", "text": "4"},
    ]


async def test_an_answer_of_reasoning_alone_has_empty_text(
    way: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([Reply(None, reasoning="Hm", finish_reason="length")])

    message = await way.ask(ChatSageMakerVLLM())

    assert message.content == ""
    assert message.additional_kwargs["reasoning_content"] == "Hm"
    assert message.response_metadata["normalized_finish_reason"] == "length"


async def test_reasoning_goes_back_in_the_next_turn(
    way: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply("4", reasoning="Hm"), Reply("8")])
    model = ChatSageMakerVLLM()
    first = await way.ask(model)

    await way.ask(model, [HumanMessage("2 + 2"), first, HumanMessage("And twice that?")])

    assert emulator.requests[1].json["messages"][1] == {
        "role": "assistant",
        "content": "4",
        "reasoning": "Hm",
    }


async def test_calls_of_tools_are_the_same(way: Way, start_emulator: StartEmulator) -> None:
    calls: list[dict[str, Any]] = [
        {"name": "get_weather", "arguments": {"city": "Łódź"}, "id": "call_a"},
        {"name": "get_weather", "arguments": '{"city": "Rome"}', "id": "call_b"},
    ]
    start_emulator([Reply("Let me look.", tool_calls=calls)])

    message = await way.ask(ChatSageMakerVLLM().bind_tools([get_weather]))

    assert message.content == "Let me look."
    assert message.tool_calls == [
        {"name": "get_weather", "args": {"city": "Łódź"}, "id": "call_a", "type": "tool_call"},
        {"name": "get_weather", "args": {"city": "Rome"}, "id": "call_b", "type": "tool_call"},
    ]
    assert message.invalid_tool_calls == []
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert message.response_metadata["normalized_finish_reason"] == "tool_call"


@pytest.mark.parametrize(
    ("arguments", "finish_reason"),
    [
        ('{"city": "Par', "length"),
        ('{"city": }', "tool_calls"),
        ("468.424", "stop"),
        ('["Paris"]', "tool_calls"),
        ("", "length"),
    ],
)
async def test_arguments_that_are_no_object_are_invalid_calls(
    way: Way, start_emulator: StartEmulator, arguments: str, finish_reason: str
) -> None:
    call = {"name": "get_weather", "arguments": arguments, "id": "a"}
    start_emulator([Reply(tool_calls=[call], finish_reason=finish_reason)])

    message = await way.ask(ChatSageMakerVLLM().bind_tools([get_weather]))

    assert message.tool_calls == []
    (invalid,) = message.invalid_tool_calls
    assert (invalid["id"], invalid["name"], invalid["args"]) == ("a", "get_weather", arguments)
    assert [block["type"] for block in message.content_blocks] == ["invalid_tool_call"]


async def test_a_turn_with_calls_and_results_is_replayed(
    way: Way, start_emulator: StartEmulator
) -> None:
    call = {"name": "get_weather", "arguments": "", "id": "chatcmpl-tool-0123456789abcdef"}
    emulator = start_emulator([Reply(tool_calls=[call]), Reply("Rain.")])
    model = ChatSageMakerVLLM().bind_tools([get_weather])
    first = await way.ask(model)
    (made,) = first.tool_calls

    await way.ask(model, [HumanMessage("?"), first, ToolMessage("ok", tool_call_id=made["id"])])

    assert made["args"] == {}
    assert emulator.requests[1].json["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "chatcmpl-tool-0123456789abcdef",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": "{}"},
                }
            ],
        },
        {"role": "tool", "content": "ok", "tool_call_id": "chatcmpl-tool-0123456789abcdef"},
    ]


async def test_the_body_is_the_same(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])
    model = ChatSageMakerVLLM(temperature=0, top_k=5, stop=["X"], extra_body={"new": True})
    content: list[Any] = [
        {"type": "text", "text": "What?"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]

    await way.ask(model.bind_tools([get_weather]), [SystemMessage("s"), HumanMessage(content)])

    body = emulator.requests[0].json
    streamed = {"stream": True, "stream_options": {"include_usage": True}} if way.is_stream else {}
    tool = {
        "name": "get_weather",
        "description": "Tell the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
    assert body == {
        "model": "/opt/ml/model",
        "tools": [{"type": "function", "function": tool}],
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What?"},
                    {
                        "type": "image_url",
                        "image_url": {"url": f"data:image/png;base64,{PNG}"},
                    },
                ],
            },
        ],
        "temperature": 0.0,
        "stop": ["X"],
        "top_k": 5,
        "new": True,
        **streamed,
    }
    assert list(body)[:3] == ["model", "tools", "messages"]
    assert emulator.requests[0].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("value", [True, False])
async def test_parallel_calls_can_be_switched(
    way: Way, start_emulator: StartEmulator, value: bool
) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.ask(ChatSageMakerVLLM().bind_tools([get_weather], parallel_tool_calls=value))

    assert emulator.requests[0].json["parallel_tool_calls"] is value


async def test_no_tools_are_not_sent(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.ask(ChatSageMakerVLLM().bind_tools([]))

    assert "tools" not in emulator.requests[0].json


async def test_options_become_headers_in_every_way(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])
    model = ChatSageMakerVLLM(
        inference_component_name="ic", target_variant="a", accept="application/json"
    )

    await way.ask(model.bind(target_variant="b", custom_attributes="k=v", prefix_aware_id="p"))

    headers = emulator.requests[0].headers
    assert "application/json" in (headers.get("X-Amzn-SageMaker-Accept"), headers.get("Accept"))
    assert "accept" not in emulator.requests[0].json
    assert headers["X-Amzn-SageMaker-Inference-Component"] == "ic"
    assert headers["X-Amzn-SageMaker-Target-Variant"] == "b"
    assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "k=v"
    assert headers["X-Amzn-SageMaker-Prefix-Aware-Id"] == "p"


async def test_the_model_of_a_call_is_sent(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.ask(ChatSageMakerVLLM(), model="my-adapter")

    assert emulator.requests[0].json["model"] == "my-adapter"


@pytest.mark.parametrize("schema", [Person, Person.model_json_schema()])
@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
async def test_a_structured_answer_is_the_same(
    way: Way, start_emulator: StartEmulator, schema: Any, method: Any
) -> None:
    emulator = start_emulator([Reply('{"name": "Bo", "age": 12}')])
    model = ChatSageMakerVLLM().with_structured_output(schema, method=method)

    value = await way.last(model)

    assert value == (Person(name="Bo", age=12) if schema is Person else {"name": "Bo", "age": 12})
    sent = emulator.requests[0].json["response_format"]
    if method == "json_mode":
        assert sent == {"type": "json_object"}
    else:
        assert sent["json_schema"] == {"name": "Person", "schema": Person.model_json_schema()}


@pytest.mark.parametrize("strict", [True, None])
async def test_a_structured_answer_by_a_tool_is_the_same(
    way: Way, start_emulator: StartEmulator, strict: bool | None
) -> None:
    arguments = '{"name": "Bo", "age": 12}'
    call = {"name": "Person", "arguments": arguments, "id": "a"}
    emulator = start_emulator([Reply(tool_calls=[call], finish_reason="stop")])
    model = ChatSageMakerVLLM().with_structured_output(
        Person, method="function_calling", strict=strict
    )

    assert await way.last(model) == Person(name="Bo", age=12)
    body = emulator.requests[0].json
    assert body["tool_choice"] == {"type": "function", "function": {"name": "Person"}}
    assert body["tools"][0]["function"].get("strict") is strict


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply('{"name": "B', finish_reason="length"), "cut"),
        (Reply("", finish_reason="stop"), "empty"),
        (Reply("sorry"), "invalid"),
        (Reply('{"name": "Bo"}'), "invalid"),
        (Reply(None, reasoning="Hm", finish_reason="length"), "cut"),
    ],
)
@pytest.mark.parametrize("include_raw", [True, False])
async def test_a_bad_structured_answer_says_why(
    way: Way, start_emulator: StartEmulator, reply: Reply, reason: str, include_raw: bool
) -> None:
    start_emulator([reply])
    model = ChatSageMakerVLLM().with_structured_output(Person, include_raw=include_raw)

    if not include_raw:
        with pytest.raises(SageMakerVLLMError) as caught:
            await way.last(model)
        error: Any = caught.value
        message = error.raw_message
    else:
        found = await way.last(model)
        error, message = found["parsing_error"], found["raw"]
        assert found["parsed"] is None

    assert error.reason == reason
    assert message.text == (reply.content or "")
    assert message.usage_metadata["total_tokens"] > 0


async def test_a_called_tool_beside_a_schema_is_in_the_raw_message(
    way: Way, start_emulator: StartEmulator
) -> None:
    call = {"name": "get_weather", "arguments": {"city": "Rome"}, "id": "a"}
    emulator = start_emulator([Reply(tool_calls=[call])])
    model = ChatSageMakerVLLM().with_structured_output(
        Person, tools=[get_weather], include_raw=True, strict=True
    )

    found = await way.last(model)

    assert found["raw"].tool_calls[0]["args"] == {"city": "Rome"}
    assert (found["parsed"], found["parsing_error"]) == (None, None)
    body = emulator.requests[0].json
    assert body["tools"][0]["function"]["strict"] is True
    assert body["response_format"]["json_schema"]["strict"] is True


NESTED = {"error": {"message": "context too long", "type": "BadRequestError", "code": 400}}


@pytest.mark.parametrize(
    ("fault", "family", "sentence"),
    [
        (ContainerFault(400, NESTED), ModelInvalidRequestError, "context too long"),
        (
            ContainerFault(
                400,
                {"object": "error", "message": "maximum context length is 8 tokens", "code": 400},
            ),
            ContextOverflowError,
            "maximum context length is 8 tokens",
        ),
        (ContainerFault(404, {"error": {"message": "no such model"}}), ModelNotFoundError, "model"),
        (ContainerFault(500, b"boom"), ModelAPIError, "boom"),
        (ServiceFault("ThrottlingException", 400, "Rate exceeded"), ModelRateLimitError, "Rate"),
        (ServiceFault("ModelNotReadyException", 429, "loading"), ModelAPIError, "loading"),
    ],
)
async def test_failures_are_of_both_families(
    way: Way, start_emulator: StartEmulator, fault: Any, family: type[ModelError], sentence: str
) -> None:
    start_emulator([fault])

    with pytest.raises(family, match=sentence) as caught:
        await way.ask(ChatSageMakerVLLM(max_retries=0))

    assert isinstance(caught.value, SageMakerVLLMError)
    assert caught.value.endpoint_name == "emulated"


async def test_a_container_error_shows_its_sentence_and_status(
    way: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([ContainerFault(400, NESTED)])

    with pytest.raises(InvalidRequestError, match="context too long") as caught:
        await way.ask(ChatSageMakerVLLM())

    assert caught.value.status_code == 400
    assert "context too long" in str(caught.value.body)


async def test_a_failure_that_may_pass_is_sent_again(
    way: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([ServiceFault("ServiceUnavailable", 503), Reply("ok")])

    message = await way.ask(ChatSageMakerVLLM(max_retries=1))

    assert message.content == "ok"
    assert len(emulator.requests) == 2


async def test_an_error_inside_a_stream_is_raised(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    problem = {"error": {"message": "engine queue full", "code": 503}}
    start_emulator([stream(event({"content": "Hi"}), data(problem), DONE)])

    with pytest.raises(ServerError, match="engine queue full") as caught:
        await streamed.ask(ChatSageMakerVLLM())

    assert caught.value.status_code == 503
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"


@pytest.mark.parametrize(
    "end", [None, Cut("clean"), Cut("frame"), Cut("connection"), ModelStreamFault()]
)
async def test_a_stream_that_stops_early_raises_and_keeps_its_text(
    streamed: Way, start_emulator: StartEmulator, end: Any
) -> None:
    emulator = start_emulator([StreamReply([event({"content": "Hi"})], end=end)])

    with pytest.raises(SageMakerVLLMError) as caught:
        await streamed.ask(ChatSageMakerVLLM())

    assert isinstance(caught.value, ModelError)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"
    assert len(emulator.requests) == 1


async def test_what_came_before_a_stream_broke_is_handed_out(
    start_emulator: StartEmulator,
) -> None:
    start_emulator([StreamReply([event({"content": "Hi"})], end=Cut("clean"))])
    chunks = ChatSageMakerVLLM().stream("Hi")

    assert next(chunks).content == "Hi"
    with pytest.raises(StreamInterruptedError):
        next(chunks)


async def test_leaving_a_stream_closes_the_connection(
    start_emulator: StartEmulator,
) -> None:
    emulator = start_emulator(
        [StreamReply([event({"content": "a"})] * 1000, delay=0.01) for _ in range(2)]
    )
    model = ChatSageMakerVLLM()

    chunks: Any = model.stream("Hi")
    next(chunks)
    chunks.close()
    achunks: Any = model.astream("Hi")
    await anext(achunks)
    await achunks.aclose()

    await until(lambda: not emulator.open_streams)


async def test_a_dropped_model_closes_its_connections(start_emulator: StartEmulator) -> None:
    start_emulator([Reply("a"), Reply("b")])

    # What is left open is a ResourceWarning, which is an error here.
    await ChatSageMakerVLLM().ainvoke("Hi")
    await ChatSageMakerVLLM().ainvoke("Hi")
    gc.collect()


class Tokens(BaseCallbackHandler):
    """Keeps what callbacks are told."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.answers: list[Any] = []
        self.errors: list[BaseException] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **_: Any) -> None:
        self.answers.append(response)

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        self.errors.append(error)


async def test_callbacks_get_every_token(streamed: Way, start_emulator: StartEmulator) -> None:
    start_emulator([Reply(chunks=["a", "b", "c"])])
    handler = Tokens()

    await streamed.ask(ChatSageMakerVLLM(callbacks=[handler]))

    assert [token for token in handler.tokens if token] == ["a", "b", "c"]
    assert handler.answers[0].generations[0][0].text == "abc"


async def test_a_streaming_model_streams_plain_calls_too(
    plain: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply(chunks=["a", "b", "c"], usage=USAGE)])
    handler = Tokens()

    message = await plain.ask(ChatSageMakerVLLM(streaming=True, callbacks=[handler]))

    assert message.content == "abc"
    assert message.usage_metadata is not None
    assert message.usage_metadata["total_tokens"] == 7
    assert [token for token in handler.tokens if token] == ["a", "b", "c"]
    assert emulator.requests[0].operation == "InvokeEndpointWithResponseStream"


async def test_callbacks_get_the_error_and_what_came(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([StreamReply([event({"content": "Hi"})], end=Cut("clean"))])
    handler = Tokens()

    with pytest.raises(StreamInterruptedError):
        await streamed.ask(ChatSageMakerVLLM(callbacks=[handler]))

    assert isinstance(handler.errors[0], StreamInterruptedError)


async def test_several_answers_have_the_counts_once(
    start_emulator: StartEmulator,
) -> None:
    replies = [Reply(choices=[Reply("a"), Reply("b")], usage=USAGE) for _ in range(2)]
    start_emulator(replies)
    model = ChatSageMakerVLLM(n=2)

    for result in (
        model.generate([[HumanMessage("Hi")]]),
        await model.agenerate([[HumanMessage("Hi")]]),
    ):
        messages: list[Any] = [each.message for each in result.generations[0]]  # type: ignore[union-attr]  # of a chat
        assert [message.content for message in messages] == ["a", "b"]
        assert messages[0].usage_metadata["total_tokens"] == 7
        assert messages[1].usage_metadata is None


async def test_a_batch_adds_up_the_counts(start_emulator: StartEmulator) -> None:
    start_emulator([Reply("a", usage=USAGE), Reply("b", usage=USAGE)])

    result = ChatSageMakerVLLM().generate([[HumanMessage("1")], [HumanMessage("2")]])

    assert result.llm_output is not None
    assert result.llm_output["token_usage"]["total_tokens"] == 14
    assert result.llm_output["model_name"] == "/opt/ml/model"


async def test_the_blocks_of_version_1_are_the_same(
    way: Way, start_emulator: StartEmulator
) -> None:
    calls = [
        {"name": "f", "arguments": '{"x": 1}', "id": "a"},
        {"name": "g", "arguments": '{"y":', "id": "b"},
    ]
    reply = Reply("Look.", reasoning="Hm", tool_calls=calls, finish_reason="length")
    start_emulator([reply])

    message = await way.ask(ChatSageMakerVLLM(output_version="v1"))

    blocks: list[Any] = list(message.content)
    shown = [{k: v for k, v in block.items() if k not in ("index", "error")} for block in blocks]
    assert shown == [
        {"type": "reasoning", "reasoning": "Hm"},
        {"type": "text", "text": "Look."},
        {"type": "tool_call", "name": "f", "args": {"x": 1}, "id": "a"},
        {"type": "invalid_tool_call", "name": "g", "args": '{"y":', "id": "b"},
    ]
    assert message.content_blocks == blocks


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"temprature": 1}, "Did you mean 'temperature'"),
        ({"tool_choice": "nope", "tools": [get_weather]}, "tool_choice='nope' is none"),
        ({"tool_choice": "any"}, "needs tools"),
        ({"top_p": 2}, "top_p=2 must be at most 1"),
        ({"response_format": "json"}, "gives no JSON schema"),
    ],
)
async def test_wrong_keywords_send_nothing(
    way: Way, start_emulator: StartEmulator, keywords: dict[str, Any], sentence: str
) -> None:
    emulator = start_emulator([])

    with pytest.raises(ConfigurationError, match=sentence):
        await way.ask(ChatSageMakerVLLM(), **keywords)

    assert emulator.requests == []


async def test_a_stream_of_a_target_model_sends_nothing(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([])

    with pytest.raises(ConfigurationError, match="target_model"):
        await streamed.ask(ChatSageMakerVLLM(target_model="m.tar.gz"))

    assert emulator.requests == []


async def test_usage_can_be_left_out_of_a_stream(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply("ok"), Reply("ok")])

    for message in (
        await streamed.ask(ChatSageMakerVLLM(stream_usage=False)),
        await streamed.ask(ChatSageMakerVLLM(), stream_usage=False),
    ):
        assert message.usage_metadata is None
    assert all("stream_options" not in request.json for request in emulator.requests)


async def test_a_closed_model_connects_again(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([Reply("one"), Reply("two")])
    model = ChatSageMakerVLLM()

    first = await way.ask(model)
    model.close()
    await model.aclose()
    second = await way.ask(model)

    assert (first.text, second.text) == ("one", "two")
