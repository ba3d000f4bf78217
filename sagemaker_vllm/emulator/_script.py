"""The scripted container: queued replies, or a function of the request."""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import orjson

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm.emulator._container import ContainerAnswer
from sagemaker_vllm.emulator._faults import Origin, ServiceFaultError, validation_error
from sagemaker_vllm.emulator._parts import as_splitter
from sagemaker_vllm.emulator._rendering import render_chunks, render_json, sse
from sagemaker_vllm.emulator._replies import (
    AnyReply,
    ContainerFault,
    Hang,
    JSONReply,
    Reply,
    ServiceFault,
    StreamReply,
)
from sagemaker_vllm.emulator._requests import RecordedRequest

Responder = Callable[[RecordedRequest], AnyReply | Awaitable[AnyReply]]


class ScriptedContainer:
    """Answers with what a test wrote down."""

    def __init__(self, script: Iterable[AnyReply] | Responder) -> None:
        self._responder = script if callable(script) else None
        self._queue = deque([] if callable(script) else script)
        for reply in self._queue:
            _check_reply(reply)

    def enqueue(self, *replies: AnyReply) -> None:
        if self._responder is not None:
            raise ConfigurationError(
                "the script of this emulator is a function, which has no queue; give "
                "`Emulator(script=[...])` instead",
            )
        for reply in replies:
            _check_reply(reply)
        self._queue.extend(replies)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    @asynccontextmanager
    async def answer(self, request: RecordedRequest) -> AsyncIterator[ContainerAnswer]:
        yield await _answer(await self._next_reply(request), request)

    async def _next_reply(self, request: RecordedRequest) -> AnyReply:
        if self._responder is None:
            if not self._queue:
                raise validation_error("The emulator's script is empty: enqueue a reply.")
            return self._queue.popleft()
        try:
            reply = self._responder(request)
            return await reply if inspect.isawaitable(reply) else reply
        except Exception as error:  # noqa: BLE001 - a container answers 500 whatever breaks in it
            return ContainerFault(500, f"the script raised {error!r}")


def _check_reply(reply: object) -> None:
    if not isinstance(reply, AnyReply):
        raise ConfigurationError(
            f"script item {reply!r} is none of Reply, JSONReply, StreamReply, ServiceFault, "
            "ContainerFault and Hang",
        )


async def _answer(reply: AnyReply, request: RecordedRequest) -> ContainerAnswer:
    match reply:
        case Reply():
            return _rendered(reply, request)
        case JSONReply(body, status, content_type):
            return ContainerAnswer([_encode(body)], status=status, content_type=content_type)
        case StreamReply():
            return ContainerAnswer(
                _pieces(reply.data),
                content_type=reply.content_type,
                splitter=as_splitter(reply.parts),
                delay=reply.delay,
                end=reply.end,
            )
        case ServiceFault():
            raise ServiceFaultError(reply)
        case ContainerFault(status, body):
            return ContainerAnswer([_encode(body)], status=status)
        case Hang(seconds):
            await asyncio.sleep(seconds)
            raise Origin(request.endpoint_name, "us-east-1").timeout_error()
    return ContainerAnswer([b"the script answered %r" % (reply,)], status=500)


def _rendered(reply: Reply, request: RecordedRequest) -> ContainerAnswer:
    try:
        body = request.json
    except ValueError as error:
        return ContainerAnswer([_bad_request(f"JSON decode error: {error}")], status=400)
    if not isinstance(body, dict):
        return ContainerAnswer([_bad_request("The body is not a JSON object")], status=400)
    if not body.get("stream"):
        return ContainerAnswer([orjson.dumps(render_json(reply, body))])
    return ContainerAnswer(
        sse(*render_chunks(reply, body)),
        content_type="text/event-stream; charset=utf-8",
        delay=reply.delay,
    )


def _bad_request(message: str) -> bytes:
    error = {"message": message, "type": "Bad Request", "param": None, "code": 400}
    return orjson.dumps({"error": error})


def _encode(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return body if isinstance(body, bytes) else orjson.dumps(body)


def _pieces(
    data: bytes | Iterable[bytes] | AsyncIterable[bytes],
) -> list[bytes] | AsyncIterator[bytes]:
    if isinstance(data, bytes):
        return [data]
    return aiter(data) if isinstance(data, AsyncIterable) else list(data)
