"""Response streams: order, parts, every way to end, and clients that leave."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from botocore.exceptions import EventStreamError, ResponseStreamingError
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from sagemaker_vllm.emulator import (
    ContainerFault,
    Cut,
    Emulator,
    ErrorMessageFault,
    Hang,
    InternalStreamFault,
    ModelStreamFault,
    Reply,
    StreamReply,
    random_parts,
    sse,
)

BODY = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "stream": True})
DATA = sse({"a": "日本"}, {"b": 2})


@pytest.fixture
def open_stream() -> Iterator[Callable[[Any], Any]]:
    """Open a stream; botocore does not close the broken ones itself."""
    with ExitStack() as stack:

        def start(runtime: Any) -> Any:
            response = runtime.invoke_endpoint_with_response_stream(
                EndpointName="emulated", ContentType="application/json", Body=BODY
            )
            return stack.enter_context(closing(response["Body"]))

        yield start


def invoke(runtime: Any) -> bytes:
    response = runtime.invoke_endpoint(
        EndpointName="emulated", ContentType="application/json", Body=BODY
    )
    with closing(response["Body"]) as body:
        plain: bytes = body.read()
        return plain


def parts(stream: Any) -> list[bytes]:
    return [event["PayloadPart"]["Bytes"] for event in stream]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


class Gate:
    """A container that sends one piece, then waits until the test lets it go on."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.was_left = threading.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            # The test's thread opens it, so no event of this loop can.
            while not self.is_open.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            yield b"second"
        finally:
            self.was_left.set()


def test_each_piece_is_one_part(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(StreamReply(DATA))

    assert parts(open_stream(runtime)) == DATA


def test_first_part_arrives_before_the_second_is_made(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    gate = Gate()
    emulator.enqueue(StreamReply(gate.pieces()))
    stream = iter(open_stream(runtime))

    first = next(stream)["PayloadPart"]["Bytes"]
    was_waiting = not gate.was_left.is_set()
    gate.is_open.set()

    assert first == b"first"
    assert was_waiting
    assert parts(stream) == [b"second"]


def test_parts_of_a_reply_come_one_by_one_with_a_delay(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(Reply("a b c", delay=0.001))

    received = parts(open_stream(runtime))

    assert len(received) == 6
    assert received[-1] == b"data: [DONE]\n\n"


@pytest.mark.parametrize("part_size", [1, 5, 1000, random_parts(3, 9)])
def test_part_size_cuts_anywhere_and_loses_nothing(
    connect: Callable[..., Any], part_size: Any, open_stream: Callable[[Any], Any]
) -> None:
    with Emulator(script=[StreamReply(DATA)], part_size=part_size) as emulator:
        received = parts(open_stream(connect(emulator)))

    assert b"".join(received) == b"".join(DATA)
    assert received != DATA


def test_reply_may_say_its_own_part_size(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(
        StreamReply(b"abcdef", parts=4), StreamReply([b"abc", b"de"], parts=2, delay=0.001)
    )

    assert parts(open_stream(runtime)) == [b"abcd", b"ef"]
    assert parts(open_stream(runtime)) == [b"ab", b"c", b"de"]


def test_pieces_made_in_time_are_cut_one_by_one(
    connect: Callable[..., Any], open_stream: Callable[[Any], Any]
) -> None:
    gate = Gate()
    gate.is_open.set()

    with Emulator(script=[StreamReply(gate.pieces())], part_size=4) as emulator:
        assert parts(open_stream(connect(emulator))) == [b"firs", b"t", b"seco", b"nd"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ModelStreamFault("ModelInvocationTimeExceeded", "too slow"), "ModelStreamError"),
        (InternalStreamFault("broken"), "InternalStreamFailure"),
        (ErrorMessageFault("InternalFailure", "odd"), "InternalFailure"),
        (Hang(0.001), "ModelStreamError"),
    ],
)
def test_fault_ends_the_stream_after_what_came(
    emulator: Emulator, runtime: Any, end: Any, code: str, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(StreamReply(DATA, end=end))
    stream = iter(open_stream(runtime))

    received = [next(stream)["PayloadPart"]["Bytes"] for _ in DATA]
    with pytest.raises(EventStreamError) as caught:
        next(stream)

    assert received == DATA
    assert caught.value.response["Error"]["Code"] == code


def test_cut_connection_breaks_the_http_body(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(StreamReply(DATA, end=Cut("connection")))
    stream = iter(open_stream(runtime))

    received = [next(stream)["PayloadPart"]["Bytes"] for _ in DATA]

    assert received == DATA
    with pytest.raises(ProtocolError):
        next(stream)


@pytest.mark.parametrize("how", ["frame", "clean"])
def test_other_cuts_end_the_http_body_cleanly(
    emulator: Emulator, runtime: Any, how: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(StreamReply(DATA[:1], end=Cut(how)))

    assert parts(open_stream(runtime)) == DATA[:1]


def test_hang_after_the_data_is_silence(
    emulator: Emulator, connect: Callable[..., Any], open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(StreamReply(DATA, end=Hang(60)))
    stream = iter(open_stream(connect(emulator, read_timeout=0.2)))

    received = [next(stream)["PayloadPart"]["Bytes"] for _ in DATA]

    assert received == DATA
    with pytest.raises(ReadTimeoutError):
        next(stream)


@pytest.mark.parametrize("how", ["frame", "connection"])
def test_cut_plain_answer_is_shorter_than_promised(
    emulator: Emulator,
    runtime: Any,
    how: Any,
) -> None:
    emulator.enqueue(StreamReply(b"{", end=Cut(how)))

    with pytest.raises((ProtocolError, ResponseStreamingError)):
        invoke(runtime)


def test_fault_in_a_plain_answer_is_an_internal_failure(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(StreamReply(b"{", end=ModelStreamFault()))

    with pytest.raises(runtime.exceptions.InternalFailure):
        invoke(runtime)


def test_error_before_the_stream_is_an_http_error(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(ContainerFault(503, "busy"))

    with pytest.raises(runtime.exceptions.ModelError):
        open_stream(runtime)


def test_open_streams_count_what_is_being_written(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    gate = Gate()
    emulator.enqueue(StreamReply(gate.pieces()))

    before = emulator.open_streams
    stream = open_stream(runtime)
    during = emulator.open_streams
    gate.is_open.set()
    list(stream)

    assert (before, during, emulator.open_streams) == (0, 1, 0)


def test_client_that_leaves_stops_the_work(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    gate = Gate()
    emulator.enqueue(StreamReply(gate.pieces()))
    stream = open_stream(runtime)

    next(iter(stream))
    stream.close()

    wait_for(lambda: emulator.open_streams == 0)
    assert gate.was_left.wait(20)


def test_client_that_leaves_stops_a_scripted_list(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    emulator.enqueue(StreamReply([b"x"] * 1_000_000, delay=0.001))
    stream = open_stream(runtime)

    next(iter(stream))
    stream.close()

    wait_for(lambda: emulator.open_streams == 0)


def test_streams_run_side_by_side(
    emulator: Emulator, runtime: Any, open_stream: Callable[[Any], Any]
) -> None:
    gates = [Gate(), Gate()]
    emulator.enqueue(*(StreamReply(gate.pieces()) for gate in gates))
    first, second = open_stream(runtime), open_stream(runtime)

    gates[1].is_open.set()
    finished_second = parts(second)
    gates[0].is_open.set()

    assert finished_second == [b"first", b"second"]
    assert parts(first) == [b"first", b"second"]
