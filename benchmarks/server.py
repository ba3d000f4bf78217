"""A scripted endpoint in its own process, fast enough not to be what is measured.

It sends pre-rendered bytes: for SageMaker's two invocation routes (JSON, and vLLM's SSE events in
AWS event-stream frames), and for the OpenAI route (JSON and plain SSE). The endpoint's name says
what it answers: `tokens-100`, `tools-100`, `prompts`; `tokens-100-each` writes every event by
itself, as a model that generates them does.
"""

import asyncio
import re
import struct
import sys
from functools import cache
from typing import cast
from zlib import crc32

import orjson

# Shapes as vLLM 0.32 sends them.
_BASE = {
    "id": "chatcmpl-95ec1e326b7638fd",
    "object": "chat.completion.chunk",
    "created": 1795985337,
    "model": "/opt/ml/model",
}
_USAGE = {"prompt_tokens": 37, "total_tokens": 137, "completion_tokens": 100}
_HEAD = (
    b"HTTP/1.1 200 OK\r\nx-amzn-RequestId: 3f1b8a52-8f5c-4e6e-9a53-5f2d6c3b7a10\r\n"
    b"x-Amzn-Invoked-Production-Variant: AllTraffic\r\nConnection: keep-alive\r\n"
)
_ROUTE = re.compile(rb"POST (?:/endpoints/(\S+)/(invocations\S*)|/(\S+)/v1/chat/completions) ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def _chunk(delta: dict[str, object], finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {**_BASE, "choices": [{**choice, "token_ids": None}]}


@cache
def events(script: str) -> tuple[bytes, ...]:
    """Return the SSE events of a streamed answer."""
    kind, count = script.split("-")[:2]
    chunks = [_chunk({"role": "assistant", "content": ""})]
    if kind == "tools":
        function = {"name": "search", "arguments": '{"query": "'}
        call = {"id": "call_a1b2c3d4e", "type": "function", "index": 0, "function": function}
        chunks.append(_chunk({"tool_calls": [call]}))
        pieces = [" word"] * int(count) + ['"}']
        chunks += [
            _chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
            for piece in pieces
        ]
        chunks.append(_chunk({"content": ""}, "tool_calls"))
    else:
        chunks += [_chunk({"content": f" word{n % 1000}"}) for n in range(int(count))]
        chunks.append(_chunk({"content": ""}, "stop"))
    chunks.append({**_BASE, "choices": [], "usage": _USAGE})
    return tuple(b"data: %b\n\n" % data for data in (*map(orjson.dumps, chunks), b"[DONE]"))


def frame(payload: bytes) -> bytes:
    """Return an AWS event-stream frame."""
    fields = {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }
    headers = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in fields.items()
    )
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    start = lengths + struct.pack(">I", crc32(lengths)) + headers + payload
    return start + struct.pack(">I", crc32(start))


def _plain(answer: object) -> bytes:
    body = orjson.dumps(answer)
    head = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return _HEAD + head + body


@cache
def plain(script: str) -> bytes:
    """Return the HTTP answer to a call that does not stream."""
    words = "".join(f" word{n % 1000}" for n in range(int(script.split("-")[1])))
    message = {"role": "assistant", "content": words, "refusal": None, "tool_calls": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return _plain({**_BASE, "object": "chat.completion", "choices": [choice], "usage": _USAGE})


def _completions(body: bytes) -> bytes:
    """Return the HTTP answer to a text completion of one or many prompts."""
    prompts = orjson.loads(body)["prompt"]
    choices = [
        {"index": index, "text": " word" * 20, "logprobs": None, "finish_reason": "length"}
        for index in range(1 if isinstance(prompts, str) else len(prompts))
    ]
    return _plain({**_BASE, "object": "text_completion", "choices": choices, "usage": _USAGE})


@cache
def streamed(script: str, *, framed: bool) -> tuple[bytes, ...]:
    """Return the HTTP answer to a streamed call: each event is a chunk of the transfer coding."""
    kind = b"application/vnd.amazon.eventstream" if framed else b"text/event-stream"
    head = _HEAD + b"Content-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % kind
    bodies = [frame(event) if framed else event for event in events(script)]
    chunks = [b"%x\r\n%b\r\n" % (len(body), body) for body in bodies]
    if script.endswith("-each"):
        return (head, *chunks, b"0\r\n\r\n")
    return (b"".join([head, *chunks, b"0\r\n\r\n"]),)


class Connection(asyncio.Protocol):
    """One client's connection."""

    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._received = bytearray()
        self._writing = asyncio.Event()
        self._writing.set()

    def pause_writing(self) -> None:
        self._writing.clear()

    def resume_writing(self) -> None:
        self._writing.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self._writing.set()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(received[:end])
        length = _LENGTH.search(head)
        size = end + 4 + int(length[1] if length else 0)
        if len(received) < size:
            if b"100-continue" in head and len(received) == end + 4:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        body = bytes(received[end + 4 : size])
        del received[:size]
        parts = _answer(head, body)
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._sending = asyncio.ensure_future(self._send(parts))

    async def _send(self, parts: tuple[bytes, ...]) -> None:
        for part in parts:
            if self._transport.is_closing():
                return
            self._transport.write(part)
            await asyncio.sleep(0)
            await self._writing.wait()


def _answer(head: bytes, body: bytes) -> tuple[bytes, ...]:
    route = _ROUTE.match(head)
    assert route, head
    script = (route[1] or route[3]).decode()
    if route[1]:
        if route[2] == b"invocations-response-stream":
            return streamed(script, framed=True)
        return (_completions(body) if script == "prompts" else plain(script),)
    if b'"stream":true' in body.replace(b" ", b""):
        return streamed(script, framed=False)
    return (plain(script),)


async def serve() -> None:
    """Listen on a free port, print it, and run until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
