"""Five hundred streams at once, some of which break: right answers, right errors, nothing left."""

import asyncio
import gc
import logging
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    PermissionDeniedError,
    SageMakerVLLMClient,
    SageMakerVLLMError,
    ServerError,
    StreamInterruptedError,
    chat_request,
)
from sagemaker_vllm.emulator import (
    Cut,
    Emulator,
    ModelStreamFault,
    RecordedRequest,
    ServiceFault,
    StreamReply,
    random_parts,
    sse,
)
from tests.callers import until

STREAMS = 500
WORDS = [f"wörd-{number} " for number in range(10)]

# What becomes of a call, by its number.
FATES = ("good", "slow", "cut", "frame", "fault", "throttled", "busy", "denied", "error", "good")
ENDS: dict[str, Any] = {
    "cut": Cut("connection"),
    "frame": Cut("frame"),
    "fault": ModelStreamFault("StreamBroken"),
}
# Fate → error class, and how much of the answer has come by then.
ERRORS: dict[str, tuple[type[SageMakerVLLMError], int | None]] = {
    "cut": (StreamInterruptedError, 5),
    "frame": (StreamInterruptedError, 5),
    "fault": (StreamInterruptedError, 5),
    "denied": (PermissionDeniedError, None),
    "error": (ServerError, 5),
}


def fate(number: int) -> str:
    return FATES[number % len(FATES)]


def chunk(number: int, text: str, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {
        "index": 0,
        "delta": {"content": f"{number}:{text}"},
        "finish_reason": finish_reason,
    }
    return {"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def text(number: int, words: int = len(WORDS)) -> str:
    return "".join(f"{number}:{word}" for word in WORDS[:words])


class Crowd:
    """A script that lets no stream go on before all of a round are open."""

    def __init__(self, streams: int) -> None:
        self.expected = sum(fate(number) != "denied" for number in range(streams))
        self.begin()

    def begin(self) -> None:
        self.open = 0
        self.tries: Counter[int] = Counter()
        self.all_open = asyncio.Event()

    async def answer(self, request: RecordedRequest) -> Any:
        number = int(request.json["messages"][0]["content"])
        self.tries[number] += 1
        match fate(number):
            case "denied":
                return ServiceFault("AccessDeniedException", 403, "no")
            case "throttled" if self.tries[number] < 3:
                return ServiceFault("ThrottlingException", 429, "slow down")
            case "busy" if self.tries[number] < 2:
                return ServiceFault("ServiceUnavailable", 503, "busy")
        return StreamReply(
            self._pieces(number), parts=random_parts(number), end=ENDS.get(fate(number))
        )

    async def _pieces(self, number: int) -> AsyncIterator[bytes]:
        mine = fate(number)
        breaks = mine in ERRORS
        for position, word in enumerate(WORDS[:5] if breaks else WORDS):
            is_last = position == len(WORDS) - 1
            [piece] = sse(chunk(number, word, "stop" if is_last else None), done=False)
            yield piece
            if position == 0:
                self.open += 1
                if self.open == self.expected:
                    self.all_open.set()
                await self.all_open.wait()
            if mine == "slow":
                await asyncio.sleep(0.01)
        if mine == "error":
            yield sse({"error": {"message": "died", "code": 500}}, done=False)[0]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagemaker_vllm._retry._FIRST_DELAY", 0.01)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that threads and file handles are those of before."""

    def held() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    before = held()
    yield
    gc.collect()
    # A server closes its side a moment after the client.
    for _ in range(500):
        left = [max(0, now - then) for now, then in zip(held(), before, strict=True)]
        if not any(left):
            break
        time.sleep(0.01)
    assert left == [0, 0]


def outcome(number: int, completion: Any, error: SageMakerVLLMError | None) -> str | None:
    """Say what is wrong with the end of a call, if anything is."""
    if fate(number) not in ERRORS:
        ended = completion is not None and completion.text == text(number)
        return None if ended else f"{number}: {error!r}"
    kind, words = ERRORS[fate(number)]
    if type(error) is not kind:
        return f"{number}: {error!r} in place of {kind}"
    partial = "" if error.partial is None else error.partial.text
    return None if partial == text(number, words or 0) else f"{number}: {partial!r}"


def question(number: int) -> dict[str, Any]:
    return chat_request([{"role": "user", "content": str(number)}])


async def call_async(client: AsyncSageMakerVLLMClient, number: int) -> str | None:
    try:
        async with await client.stream_chat(question(number)) as stream:
            async for _ in stream:
                pass
    except SageMakerVLLMError as error:
        return outcome(number, None, error)
    return outcome(number, stream.completion, None)


def call_sync(client: SageMakerVLLMClient, number: int) -> str | None:
    try:
        with client.stream_chat(question(number)) as stream:
            for _ in stream:
                pass
    except SageMakerVLLMError as error:
        return outcome(number, None, error)
    return outcome(number, stream.completion, None)


async def rounds(emulator: Emulator, crowd: Crowd, streams: int, *, count: int) -> list[int]:
    """Run rounds of calls; gives the bytes in use after each."""
    used = []
    client = AsyncSageMakerVLLMClient(endpoint_name=emulator.endpoint_name, max_concurrency=streams)
    async with client:
        for _ in range(count):
            crowd.begin()
            calls = (call_async(client, number) for number in range(streams))
            wrong = [each for each in await asyncio.gather(*calls) if each]
            assert wrong == []
            assert crowd.open == crowd.expected
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await until(lambda: emulator.open_streams == 0)
            emulator.requests.clear()
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0)
    return used


@pytest.mark.usefixtures("nothing_left")
def test_every_one_of_500_streams_ends_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(STREAMS)
    with Emulator(script=crowd.answer) as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)

        asyncio.run(rounds(emulator, crowd, STREAMS, count=1))


@pytest.mark.usefixtures("nothing_left")
def test_memory_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(60)
    tracemalloc.start(1)
    try:
        with Emulator(script=crowd.answer) as emulator:
            for name, value in emulator.environment().items():
                monkeypatch.setenv(name, value)

            first, *_, last = asyncio.run(rounds(emulator, crowd, 60, count=3))
    finally:
        tracemalloc.stop()

    # A stream that is kept takes some kilobytes; there were a hundred and twenty.
    assert last - first < 200_000


@pytest.mark.usefixtures("nothing_left")
def test_debug_mode_of_asyncio_has_no_complaint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd = Crowd(20)
    with Emulator(script=crowd.answer) as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)

        asyncio.run(rounds(emulator, crowd, 20, count=2), debug=True)

    # A slow machine makes slow steps; anything else is ours.
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert [message for message in told if not message.startswith("Executing ")] == []


@pytest.mark.usefixtures("nothing_left")
def test_every_stream_of_60_threads_ends_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(60)
    with Emulator(script=crowd.answer) as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)

        with SageMakerVLLMClient(max_concurrency=60) as client, ThreadPoolExecutor(60) as pool:
            wrong = [each for each in pool.map(lambda n: call_sync(client, n), range(60)) if each]

        assert wrong == []
        assert crowd.open == crowd.expected
        asyncio.run(until(lambda: emulator.open_streams == 0))
