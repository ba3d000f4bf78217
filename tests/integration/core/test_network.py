"""Faults below HTTP, and event streams that no service would send."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, Self
from zlib import crc32

import pytest

from sagemaker_vllm import (
    ConnectionFailedError,
    SageMakerVLLMError,
    StreamDecodeError,
    StreamInterruptedError,
)
from sagemaker_vllm.emulator._framing import encode_part
from tests.callers import CALLERS, KEYS, Caller, Mode

# A boto3 client of the user's stands on the same transport as the synchronous one.
both_clients = pytest.mark.parametrize("caller", CALLERS[:2], ids=lambda caller: caller.name)
every_mode = pytest.mark.parametrize("mode", ["chat", "stream_chat"])

SETTINGS: dict[str, Any] = {"endpoint_name": "e", "region_name": "us-east-1", **KEYS}
EVENT_STREAM = b"application/vnd.amazon.eventstream"
ANSWER = encode_part(
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
)
BEGUN = encode_part(b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n')


class RawServer:
    """Answers every connection's first request with the same bytes, and hangs up."""

    def __init__(self, answer: bytes) -> None:
        self.connections = 0
        self._answer = answer
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._stopped.wait()
        server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = [
            line.partition(b":")[2]
            for line in head.lower().split(b"\r\n")
            if b"content-length" in line
        ]
        await reader.readexactly(int(length))
        writer.write(self._answer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], RawServer]]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(RawServer(answer))


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        pass

    monkeypatch.setattr("sagemaker_vllm._client.sleep", lambda seconds: None)
    monkeypatch.setattr("sagemaker_vllm._async_client.sleep", sleep)


def http(body: bytes, *, kind: bytes = EVENT_STREAM, length: int | None = None) -> bytes:
    size = b"%d" % (len(body) if length is None else length)
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nContent-Length: " + size + b"\r\n\r\n"
    ) + body


def failed(caller: Caller, mode: Mode, url: str, **settings: Any) -> SageMakerVLLMError:
    with pytest.raises(SageMakerVLLMError) as caught:
        caller.call(mode, endpoint_url=url, **(SETTINGS | settings))
    assert caught.value.endpoint_name == "e"
    return caught.value


@both_clients
@every_mode
@pytest.mark.parametrize("answer", [b"", b"not HTTP\r\n\r\n"], ids=["nothing", "garbage"])
def test_connection_that_breaks_before_the_answer_is_tried_again(
    caller: Caller, mode: Mode, answer: bytes, serve: Callable[[bytes], RawServer]
) -> None:
    server = serve(answer)

    error = failed(caller, mode, server.url)

    assert type(error) is ConnectionFailedError
    assert error.is_retryable
    assert server.connections == 3


@both_clients
@every_mode
def test_refused_connection(caller: Caller, mode: Mode) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = failed(caller, mode, f"http://127.0.0.1:{taken.getsockname()[1]}")

    assert type(error) is ConnectionFailedError
    assert "endpoint_url" in error.message


@both_clients
@every_mode
def test_name_that_is_not_in_the_dns(caller: Caller, mode: Mode) -> None:
    error = failed(caller, mode, "http://endpoint.invalid", max_retries=0)

    assert type(error) is ConnectionFailedError
    assert "DNS" in error.message


@both_clients
@every_mode
def test_connection_that_is_never_accepted(caller: Caller, mode: Mode) -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"

        error = failed(caller, mode, url, connect_timeout=0.1, max_retries=1)

    assert type(error) is ConnectionFailedError
    assert "Timeout" in str(error.error_code)


@both_clients
def test_plain_answer_that_is_cut_is_not_repeated(
    caller: Caller, serve: Callable[[bytes], RawServer]
) -> None:
    server = serve(http(b'{"choices"', kind=b"application/json", length=99))

    error = failed(caller, "chat", server.url)

    assert type(error) is ConnectionFailedError
    assert "is lost" in error.message
    assert server.connections == 1


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Encode any event, by the words of the format's description."""
    encoded = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(encoded) + len(payload), len(encoded))
    message = prelude + struct.pack(">I", crc32(prelude)) + encoded + payload
    return message + struct.pack(">I", crc32(message))


UNKNOWN = frame({":message-type": "event", ":event-type": "Later"}, b"{}")
INITIAL = frame({":message-type": "event", ":event-type": "initial-response"}, b"{}")


@both_clients
def test_events_of_unknown_kind_and_empty_parts_are_passed_over(
    caller: Caller, serve: Callable[[bytes], RawServer]
) -> None:
    server = serve(http(INITIAL + UNKNOWN + encode_part(b"") + ANSWER + UNKNOWN))

    assert caller.call("stream_chat", endpoint_url=server.url, **SETTINGS).text == "Hi"


def flipped(message: bytes, position: int) -> bytes:
    return message[:position] + bytes([message[position] ^ 1]) + message[position + 1 :]


HUGE = struct.pack(">II", 25 * 2**20, 0)


@both_clients
@pytest.mark.parametrize(
    "broken",
    [
        flipped(ANSWER, 3),
        flipped(ANSWER, 9),
        flipped(ANSWER, 40),
        flipped(ANSWER, len(ANSWER) - 1),
        HUGE + struct.pack(">I", crc32(HUGE)),
    ],
    ids=["length", "prelude", "header", "checksum", "size"],
)
def test_damaged_event_is_told_from_a_broken_connection(
    caller: Caller, broken: bytes, serve: Callable[[bytes], RawServer]
) -> None:
    server = serve(http(BEGUN + broken))

    error = failed(caller, "stream_chat", server.url)

    assert type(error) is StreamDecodeError
    assert "damaged" in error.message
    assert error.partial is not None
    assert error.partial.text == "Hi"
    assert server.connections == 1


@both_clients
@pytest.mark.parametrize("length", [1, 11, 12, len(ANSWER) - 1])
def test_body_that_ends_inside_an_event_is_no_end(
    caller: Caller, length: int, serve: Callable[[bytes], RawServer]
) -> None:
    server = serve(http(BEGUN + ANSWER[:length]))

    error = failed(caller, "stream_chat", server.url)

    assert type(error) is StreamInterruptedError
    assert error.error_code == "StreamTruncated"
    assert error.partial is not None
    assert error.partial.text == "Hi"


@both_clients
def test_body_shorter_than_promised_is_a_lost_connection(
    caller: Caller, serve: Callable[[bytes], RawServer]
) -> None:
    server = serve(http(BEGUN, length=10_000))

    error = failed(caller, "stream_chat", server.url)

    assert type(error) is StreamInterruptedError
    assert error.partial is not None
    assert error.partial.text == "Hi"


@both_clients
@pytest.mark.parametrize("body", [b"<html>oops</html>", b'{"message": "oops"}', b""])
@pytest.mark.parametrize("status", [400, 403, 502])
def test_error_page_of_something_in_between(
    caller: Caller, status: int, body: bytes, serve: Callable[[bytes], RawServer]
) -> None:
    page = http(body, kind=b"text/html").replace(b"200 OK", b"%d Odd" % status)

    error = failed(caller, "chat", serve(page).url, max_retries=0)

    assert error.status_code == status
    assert error.error_code == str(status)
