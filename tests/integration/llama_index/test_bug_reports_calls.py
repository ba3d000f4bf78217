"""Public reports about calls: concurrency, errors, retries, options, usage; on LlamaIndex."""

import asyncio
import copy
import pickle
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms import ChatMessage

from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import (
    APIError,
    ConfigurationError,
    EndpointNotFoundError,
    InvalidRequestError,
    PermissionDeniedError,
    RequestTimeoutError,
    StreamError,
)
from sagemaker_vllm.emulator import (
    ContainerFault,
    Cut,
    Emulator,
    Hang,
    InternalStreamFault,
    ModelStreamFault,
    Reply,
    ServiceFault,
    StreamReply,
)
from tests.integration.llama_index.conftest import AskerFactory
from tests.integration.llama_index.wire import DONE, either, event, stream, usage, whole

ASK = [ChatMessage(content="Hello?")]
ONLY_STREAMED = pytest.mark.parametrize("way", ["stream", "async stream"], indirect=True)
LONG = Reply(chunks=["word "] * 2000, delay=0.01)


@pytest.mark.parametrize("way", ["async plain"], indirect=True)
def test_b72_event_loop_goes_on_while_the_endpoint_thinks(asker: AskerFactory) -> None:
    released = threading.Event()

    async def answer(_: Any) -> Reply:
        # Released by the caller's event loop, which so is not blocked by the call.
        return Reply(str(await asyncio.to_thread(released.wait, 20)))

    ask = asker(answer)

    async def run() -> str | None:
        calling = asyncio.create_task(ask.llm.achat(ASK))
        while not ask.requests:  # noqa: ASYNC110 - the list belongs to another thread
            await asyncio.sleep(0.01)
        released.set()
        return str((await calling).message.content)

    assert ask.run(run()) == "True"


@pytest.mark.parametrize("way", ["async stream"], indirect=True)
def test_b72_first_token_comes_before_the_last_is_made(asker: AskerFactory) -> None:
    released = threading.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield event({"content": "first "})
        went_on = await asyncio.to_thread(released.wait, 20)
        yield event({"content": str(went_on)}, "stop") + DONE

    ask = asker(lambda _: StreamReply(pieces()))

    async def run() -> list[str | None]:
        seen = []
        async for response in await ask.llm.astream_chat(ASK):
            seen.append(response.delta)
            released.set()
        return seen

    assert ask.run(run()) == ["first ", "True", ""]


@pytest.mark.parametrize("way", ["plain"], indirect=True)
def test_b74_b75_threads_share_one_client(
    asker: AskerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    ask = asker(lambda _: Reply("ok"), max_concurrency=30)
    barrier = threading.Barrier(30)

    def call(_: int) -> str:
        barrier.wait()
        return str(ask.llm.chat(ASK).message.content)

    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(call, range(30)))

    assert answers == ["ok"] * 30
    assert "pool is full" not in caplog.text


@pytest.mark.parametrize("called_before", [False, True])
def test_b76_models_pickle_and_copy_before_and_after_a_call(
    asker: AskerFactory, called_before: bool
) -> None:
    ask = asker(lambda _: Reply("ok"))
    if called_before:
        ask.chat(ASK)

    copies = [
        pickle.loads(pickle.dumps(ask.llm)),  # noqa: S301 - the test's own bytes
        copy.copy(ask.llm),
        copy.deepcopy(ask.llm),
        ask.llm.model_copy(update={"temperature": 0.5}),
    ]

    for each in copies:
        ask.llm = each
        assert ask.chat(ASK)[-1].message.content == "ok"
        each.close()
        ask.run(each.aclose())
    assert ask.sent[-1]["temperature"] == 0.5


def is_closed(emulator: Emulator) -> bool:
    """Wait until the emulator has no stream open; give up after a while."""
    for _ in range(200):
        if emulator.open_streams == 0:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("way", ["stream"], indirect=True)
def test_b79_stream_that_is_left_is_closed(asker: AskerFactory) -> None:
    ask = asker(lambda _: LONG)

    found = ask.llm.stream_chat(ASK)
    next(found)
    found.close()

    assert is_closed(ask.emulator)


@pytest.mark.parametrize("way", ["async stream"], indirect=True)
@pytest.mark.parametrize("leave", ["aclose", "break", "cancel"])
def test_b79_async_stream_that_is_left_is_closed(asker: AskerFactory, leave: str) -> None:
    ask = asker(lambda _: LONG)

    async def read() -> None:
        async for _ in await ask.llm.astream_chat(ASK):
            if leave == "break":
                break

    async def run() -> bool:
        if leave == "aclose":
            found = await ask.llm.astream_chat(ASK)
            await anext(found)
            await found.aclose()
        elif leave == "break":
            await read()
        else:
            task = asyncio.create_task(read())
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return await asyncio.to_thread(is_closed, ask.emulator)

    assert ask.run(run())


@ONLY_STREAMED
@pytest.mark.parametrize(
    "end",
    [ModelStreamFault(), InternalStreamFault(), Cut("connection"), Cut("frame"), Hang(30)],
    ids=["model-error", "internal-failure", "connection", "frame", "timeout"],
)
def test_b81_stream_that_breaks_is_one_family_with_what_came(asker: AskerFactory, end: Any) -> None:
    ask = asker([stream(event({"content": "Hi"}), end=end)], timeout=2)

    with pytest.raises((StreamError, APIError)) as caught:
        ask.chat(ASK)

    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"
    assert len(ask.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        '{"object":"error","message":"context too long","code":400}',
        "context too long",
        '{"code":400,"message":"context too long"}',
        '{"error":{"message":"context too long","code":400}}',
    ],
    ids=["flat", "text", "lmi", "nested"],
)
def test_b82_sentence_of_the_container_is_the_message(asker: AskerFactory, body: str) -> None:
    ask = asker(lambda _: ContainerFault(400, body))

    with pytest.raises(InvalidRequestError, match="context too long") as caught:
        ask.chat(ASK)

    assert caught.value.status_code == 400
    assert len(ask.requests) == 1


def test_b83_timeout_of_the_user_is_kept(asker: AskerFactory) -> None:
    ask = asker(lambda _: Hang(30), timeout=0.3)

    with pytest.raises(RequestTimeoutError, match="timeout"):
        ask.chat(ASK)

    assert len(ask.requests) == 1


@pytest.mark.parametrize("way", ["plain"], indirect=True)
def test_b87_region_of_the_user_wins(asker: AskerFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = asker(lambda _: Reply("ok"), region_name="eu-central-1")
    monkeypatch.setenv("AWS_REGION", "us-west-2")

    ask.chat(ASK)

    assert "/eu-central-1/sagemaker/" in ask.requests[0].headers["Authorization"]


def test_b87_unknown_endpoint_is_named(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"), endpoint_name="elsewhere")

    with pytest.raises(EndpointNotFoundError, match="elsewhere"):
        ask.chat(ASK)

    assert len(ask.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        ServiceFault("ThrottlingException", 400, "Rate exceeded"),
        ServiceFault("ServiceUnavailable", 503, "Unavailable"),
        ServiceFault("ModelNotReadyException", 429, "Not ready"),
    ],
    ids=lambda fault: fault.code,
)
def test_b90_passing_faults_are_retried(asker: AskerFactory, fault: ServiceFault) -> None:
    ask = asker([fault, fault, Reply("ok")])

    assert ask.chat(ASK)[-1].message.content == "ok"
    assert len(ask.requests) == 3


def test_b90_lasting_faults_are_not(asker: AskerFactory) -> None:
    ask = asker([ServiceFault("AccessDeniedException", 403, "no"), Reply("ok")])

    with pytest.raises(PermissionDeniedError):
        ask.chat(ASK)

    assert len(ask.requests) == 1


@pytest.mark.parametrize("method", ["chat", "complete"])
@pytest.mark.parametrize(
    ("call", "stop"),
    [
        ({}, ["X"]),
        ({"stop": ["Y"]}, ["Y"]),
        ({"stop": None}, ["X"]),
        ({"stop": "Z"}, ["Z"]),
        ({"stop": []}, None),
    ],
)
def test_b97_stop_of_the_call_wins(
    asker: AskerFactory, method: str, call: dict[str, Any], stop: Any
) -> None:
    ask = asker(lambda _: Reply("ok"), stop=["X"])

    getattr(ask, method)(ASK if method == "chat" else "Hello?", **call)

    assert ask.sent[0].get("stop") == stop


@pytest.mark.parametrize(
    ("settings", "call", "limits"),
    [
        ({"max_tokens": 50}, {}, {"max_tokens": 50}),
        ({"max_tokens": 50}, {"max_tokens": 20}, {"max_tokens": 20}),
        ({"max_tokens": 50}, {"max_completion_tokens": 20}, {"max_completion_tokens": 20}),
        ({"additional_kwargs": {"max_completion_tokens": 9}}, {}, {"max_completion_tokens": 9}),
        ({"max_tokens": 50}, {"max_tokens": None}, {"max_tokens": 50}),
        ({"max_tokens": 0}, {}, {}),
    ],
)
def test_b98_one_limit_is_sent(
    asker: AskerFactory, settings: dict[str, Any], call: dict[str, Any], limits: dict[str, int]
) -> None:
    ask = asker(lambda _: Reply("ok"), **settings)

    ask.chat(ASK, **call)

    names = ("max_tokens", "max_completion_tokens")
    assert {name: ask.sent[0][name] for name in names if name in ask.sent[0]} == limits


@pytest.mark.parametrize("call", [{"max_tokens": 99}, {"max_completion_tokens": 99}])
def test_limit_beyond_the_context_is_refused_before_any_request(
    asker: AskerFactory, call: dict[str, Any]
) -> None:
    ask = asker(lambda _: Reply("ok"), context_window=50)

    with pytest.raises(ConfigurationError, match="context_window=50"):
        ask.chat(ASK, **call)

    assert ask.requests == []


@pytest.mark.parametrize("method", ["chat", "complete"])
def test_b101_callbacks_get_the_counts_of_the_server(
    asker: AskerFactory, events: list[Any], method: str
) -> None:
    counter = TokenCountingHandler(tokenizer=str.split)
    script = either(whole("ok"), event({"content": "ok"}, "stop"), usage(3, 2), DONE)
    ask = asker(script, callback_manager=CallbackManager([counter]))

    response = getattr(ask, method)(ASK if method == "chat" else "Hello?")[-1]

    assert (
        response.raw["usage"]["prompt_tokens"] == response.additional_kwargs["prompt_tokens"] == 3
    )
    assert (counter.prompt_llm_token_count, counter.completion_llm_token_count) == (3, 2)
    ended = [
        each for each in events if each.class_name() in ("LLMChatEndEvent", "LLMCompletionEndEvent")
    ]
    assert [each.response.additional_kwargs["completion_tokens"] for each in ended] == [2]


OPTIONS = {"inference_component_name": "ic", "target_variant": "v", "custom_attributes": "a=b"}
HEADERS = {
    "X-Amzn-SageMaker-Inference-Component": "ic",
    "X-Amzn-SageMaker-Target-Variant": "v",
    "X-Amzn-SageMaker-Custom-Attributes": "a=b",
}


@pytest.mark.parametrize("place", ["model", "call"])
@pytest.mark.parametrize("method", ["chat", "complete"])
def test_b109_options_go_along_on_every_call(asker: AskerFactory, place: str, method: str) -> None:
    ask = asker(lambda _: Reply("ok"), **(OPTIONS if place == "model" else {}))

    call = {} if place == "model" else OPTIONS
    getattr(ask, method)(ASK if method == "chat" else "Hello?", **call)

    assert {name: ask.requests[0].headers[name] for name in HEADERS} == HEADERS
    assert not OPTIONS.keys() & ask.sent[0].keys()


@ONLY_STREAMED
def test_option_that_streams_do_not_take_is_refused_before_any_request(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"), target_model="m.tar.gz")

    with pytest.raises(ConfigurationError, match="target_model"):
        ask.chat(ASK)

    assert ask.requests == []


def test_what_sagemaker_said_is_on_the_response(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"), inference_id="i-1")

    said = ask.chat(ASK)[-1].additional_kwargs

    assert said["endpoint_name"] == "emulated"
    assert said["invoked_production_variant"] == "AllTraffic"
    assert said["inference_id"] == "i-1"
    assert said["request_id"]


def test_model_of_the_call_is_sent(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"), model="one")

    ask.chat(ASK)
    ask.chat(ASK, model="two")

    assert [body["model"] for body in ask.sent] == ["one", "two"]


@pytest.mark.parametrize("way", ["async plain"], indirect=True)
def test_one_model_serves_several_event_loops(
    start_emulator: Callable[..., Emulator], way: str
) -> None:
    start_emulator(lambda _: Reply("ok"))
    llm = SageMakerVLLM()

    async def call() -> str:
        text: str = (await llm.acomplete("Hello?")).text
        await llm.aclose()
        return text

    assert [asyncio.run(call()) for _ in range(2)] == ["ok", "ok"]
