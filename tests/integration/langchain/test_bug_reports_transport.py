"""Public bug reports about concurrency, errors and retries, held against this package."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import pytest
from langchain_core.exceptions import ModelAuthenticationError, ModelError

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import (
    AuthenticationError,
    ConfigurationError,
    EndpointNotFoundError,
    InvalidRequestError,
    PermissionDeniedError,
    RequestTimeoutError,
    SageMakerVLLMError,
    ServerError,
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
from tests.callers import until
from tests.integration.langchain.conftest import StartEmulator, Way, event


@contextmanager
def ticks() -> Iterator[list[int]]:
    """Count, for as long as the event loop runs."""
    count = [0]

    async def tick() -> None:
        while True:
            count[0] += 1
            await asyncio.sleep(0.001)

    task = asyncio.create_task(tick())
    try:
        yield count
    finally:
        task.cancel()


async def test_b72_the_event_loop_runs_on_while_a_stream_waits(
    start_emulator: StartEmulator,
) -> None:
    start_emulator([Reply(chunks=["a", "b", "c"], delay=0.1)])

    with ticks() as count:
        seen = [count[0] async for chunk in ChatSageMakerVLLM().astream("Hi") if chunk.content]

    assert len(seen) == 3
    assert all(after - before > 2 for before, after in pairwise(seen))


async def test_b72_the_event_loop_runs_on_while_an_answer_is_made(
    start_emulator: StartEmulator,
) -> None:
    def slow(_: Any) -> Reply:
        time.sleep(0.2)
        return Reply("ok")

    start_emulator(slow)
    model = ChatSageMakerVLLM()

    with ticks() as count:
        await model.ainvoke("Hi")
        before = count[0]
        await model.ainvoke("Hi")

    assert count[0] - before > 2


def test_b74_the_pool_is_as_large_as_the_concurrency(
    start_emulator: StartEmulator, caplog: pytest.LogCaptureFixture
) -> None:
    start_emulator(lambda _: Reply("ok"))
    model = ChatSageMakerVLLM(max_concurrency=30)

    with caplog.at_level(logging.WARNING, "urllib3.connectionpool"), ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: model.invoke("Hi").content, range(90)))

    assert answers == ["ok"] * 90
    assert caplog.records == []


def test_b75_threads_share_one_client(start_emulator: StartEmulator) -> None:
    start_emulator(lambda _: Reply("ok"))
    model = ChatSageMakerVLLM()
    barrier = threading.Barrier(50)

    def first_call(_: int) -> tuple[int, Any]:
        barrier.wait()
        return id(model._sync_client()), model.invoke("Hi").content

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(first_call, range(50)))

    assert {content for _, content in found} == {"ok"}
    assert len({client for client, _ in found}) == 1


def test_b75_threads_build_models(start_emulator: StartEmulator) -> None:
    start_emulator(lambda _: Reply("ok"))
    barrier = threading.Barrier(10)

    def build(_: int) -> Any:
        barrier.wait()
        return ChatSageMakerVLLM().invoke("Hi").content

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(build, range(10))) == ["ok"] * 10


def test_b76_models_work_in_other_processes(start_emulator: StartEmulator) -> None:
    start_emulator(lambda request: Reply(request.json["messages"][0]["content"]))
    model = ChatSageMakerVLLM()
    model.invoke("warm")

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        messages = list(pool.map(model.invoke, ["a", "b"]))

    assert [message.content for message in messages] == ["a", "b"]


async def test_b79_a_cancelled_stream_is_closed(start_emulator: StartEmulator) -> None:
    emulator = start_emulator([StreamReply([event({"content": "a"})], end=Hang(60))])
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in ChatSageMakerVLLM().astream("Hi"):
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not emulator.open_streams)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ModelStreamFault("StreamBroken", "it broke"), "StreamBroken"),
        (InternalStreamFault("it broke"), "InternalStreamFailure"),
        (Cut("connection"), None),
        (Hang(60), None),
    ],
)
async def test_b81_failures_inside_a_stream(
    streamed: Way, start_emulator: StartEmulator, end: Any, code: str | None
) -> None:
    emulator = start_emulator([StreamReply([event({"content": "Hi"})], end=end)])

    with pytest.raises(SageMakerVLLMError) as caught:
        await streamed.ask(ChatSageMakerVLLM(timeout=0.5))

    assert isinstance(caught.value, ModelError)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"
    if code:
        assert caught.value.error_code == code
        assert "it broke" in str(caught.value)
    assert len(emulator.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (400, {"object": "error", "message": "context too long", "code": 400}, "context too long"),
        (400, "context too long", "context too long"),
        (500, {"error": {"message": "engine died", "code": 500}}, "engine died"),
        (400, {"code": 400, "message": "model_name missing"}, "model_name missing"),
    ],
)
async def test_b82_the_containers_sentence_is_shown(
    way: Way, start_emulator: StartEmulator, status: int, body: Any, sentence: str
) -> None:
    emulator = start_emulator([ContainerFault(status, body)])

    with pytest.raises((InvalidRequestError, ServerError), match=sentence) as caught:
        await way.ask(ChatSageMakerVLLM(max_retries=2))

    assert caught.value.status_code == status
    assert sentence in str(caught.value.body)
    assert len(emulator.requests) == 1


async def test_b83_a_timeout_reaches_the_transport_and_is_named(
    way: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Hang(60)])

    with pytest.raises(RequestTimeoutError, match="timeout") as caught:
        await way.ask(ChatSageMakerVLLM(timeout=0.3))

    assert caught.value.is_retryable is False
    assert len(emulator.requests) == 1


async def test_b86_expired_credentials_say_so(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator(
        lambda _: ServiceFault("ExpiredTokenException", 403, "The security token is expired")
    )

    with pytest.raises(AuthenticationError, match="expired") as caught:
        await way.ask(ChatSageMakerVLLM())

    assert isinstance(caught.value, ModelAuthenticationError)


async def test_b87_the_region_given_wins(
    way: Way, start_emulator: StartEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = start_emulator([Reply("ok")])
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")

    await way.ask(ChatSageMakerVLLM(region_name="eu-central-1"))

    assert "/eu-central-1/sagemaker/" in emulator.requests[0].headers["Authorization"]


async def test_b87_no_region_is_named(
    way: Way, start_emulator: StartEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = start_emulator([])
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)

    with pytest.raises(ConfigurationError, match="region_name"):
        await way.ask(ChatSageMakerVLLM())

    assert emulator.requests == []


async def test_b87_an_endpoint_that_is_not_there(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([])

    with pytest.raises(EndpointNotFoundError, match=r"nowhere.*eu-central-1"):
        await way.ask(ChatSageMakerVLLM(endpoint_name="nowhere", region_name="eu-central-1"))

    assert len(emulator.requests) == 1


@pytest.mark.parametrize(
    "fault",
    [
        ServiceFault("ThrottlingException", 400, "Rate exceeded"),
        ServiceFault("ServiceUnavailable", 503),
        ServiceFault("ModelNotReadyException", 429),
    ],
)
async def test_b90_what_may_pass_is_tried_again(
    way: Way, start_emulator: StartEmulator, fault: ServiceFault
) -> None:
    emulator: Emulator = start_emulator([fault, fault, Reply("ok")])

    assert (await way.ask(ChatSageMakerVLLM(max_retries=2))).content == "ok"
    assert len(emulator.requests) == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ServiceFault("AccessDeniedException", 403, "not allowed"), PermissionDeniedError),
        (ServiceFault("ValidationError", 400, "1 validation error"), InvalidRequestError),
    ],
)
async def test_b90_what_will_not_pass_is_raised_at_once(
    way: Way, start_emulator: StartEmulator, fault: ServiceFault, kind: type[Exception]
) -> None:
    emulator = start_emulator([fault])

    with pytest.raises(kind):
        await way.ask(ChatSageMakerVLLM(max_retries=2))

    assert len(emulator.requests) == 1
