"""The container that runs a GGUF file with llama.cpp, in this process."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm.emulator._container import ContainerAnswer
from sagemaker_vllm.emulator._gguf_answer import (
    ChoiceStream,
    LlamaError,
    error_body,
    merged_reply,
    read_chunks,
    usage_of,
)
from sagemaker_vllm.emulator._gguf_request import (
    RefusedRequestError,
    SubRequest,
    choice_request,
    forced_tools,
    sub_requests,
)
from sagemaker_vllm.emulator._rendering import FINGERPRINT, answer_head, render_json, sse
from sagemaker_vllm.emulator._requests import RecordedRequest

JSON = dict[str, Any]

_CONTEXT_TOKENS = 8192
_PARALLEL = 4


class GGUFContainer:
    """Answers as vLLM would, with a small model.

    llama.cpp's own server, on a loopback port of this process, does the work: it batches, streams
    tokens as they are made and stops when a connection closes. Each choice of an answer is one
    generation there, so that indexes and usage are vLLM's.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._server: Any = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self._server = await asyncio.to_thread(self._load)
        self._session = aiohttp.ClientSession(
            self._server.listening_address,
            timeout=aiohttp.ClientTimeout(total=None),
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
        # The last reference ends llama.cpp's threads.
        self._session = self._server = None

    def _load(self) -> Any:
        if not self._path.is_file():
            raise ConfigurationError(f"gguf={str(self._path)!r} is not a file; give a GGUF model")
        try:
            import xllamacpp
        except ImportError:
            raise ConfigurationError(
                "gguf needs llama.cpp: pip install 'sagemaker-vllm[demo]'",
            ) from None
        settings = xllamacpp.CommonParams()
        settings.model.path = str(self._path)
        settings.n_ctx = _CONTEXT_TOKENS
        settings.n_parallel = _PARALLEL
        settings.kv_unified = True
        settings.warmup = False
        settings.verbosity = -1
        # Spinning threads starve each other when a core is taken by something else.
        threads = max(1, (os.cpu_count() or 1) // 2)
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        try:
            return xllamacpp.Server(settings)
        except (RuntimeError, ValueError) as error:
            raise ConfigurationError(
                f"llama.cpp cannot load {str(self._path)!r}: {error}",
            ) from error

    @asynccontextmanager
    async def answer(self, request: RecordedRequest) -> AsyncIterator[ContainerAnswer]:
        async with AsyncExitStack() as stack:
            try:
                answer = await self._answer(_parse(request.body), stack)
            except RefusedRequestError as error:
                answer = _failed(400, error_body(400, str(error)))
            except LlamaError as error:
                answer = _failed(error.status, error.body)
            yield answer

    async def _answer(self, body: JSON, stack: AsyncExitStack) -> ContainerAnswer:
        tools = forced_tools(body)
        tool = await self._choose(body, tools) if len(tools) > 1 else next(iter(tools), None)
        parts = sub_requests(body, tool)
        merged = await stack.enter_async_context(aclosing(self._merged(parts)))
        if not body.get("stream"):
            reply = merged_reply([item async for item in merged], body.get("n") or 1)
            return ContainerAnswer([orjson.dumps(render_json(reply, body))])
        # What fails before the first token is an HTTP error, as with vLLM.
        first = await anext(merged)
        pieces = await stack.enter_async_context(aclosing(_stream(first, merged, parts, body)))
        return ContainerAnswer(pieces, content_type="text/event-stream; charset=utf-8")

    async def _choose(self, body: JSON, tools: list[str]) -> str:
        chosen = SubRequest(0, "/v1/chat/completions", choice_request(body, tools))
        async with aclosing(self._generate(chosen)) as answers:
            name: str = (await anext(answers))["choices"][0]["message"]["content"]
        return name if name in tools else tools[0]

    async def _merged(self, parts: list[SubRequest]) -> AsyncGenerator[tuple[SubRequest, JSON]]:
        """Run the generations side by side; gives what they say in the order it comes."""
        queue: asyncio.Queue[tuple[SubRequest, JSON] | Exception | None] = asyncio.Queue()

        async def pump(part: SubRequest) -> None:
            try:
                async for answer in self._generate(part):
                    queue.put_nowait((part, answer))
                queue.put_nowait(None)
            except Exception as error:  # noqa: BLE001 - it is raised where the queue is read
                queue.put_nowait(error)

        tasks = [asyncio.create_task(pump(part)) for part in parts]
        left = len(tasks)
        try:
            while left:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    left -= 1
                else:
                    yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _generate(self, part: SubRequest) -> AsyncGenerator[JSON]:
        """Give the whole answer of one generation, or its chunks if it streams."""
        if self._session is None:
            raise RuntimeError("the container is not started")
        async with self._session.post(part.path, json=part.body) as response:
            if not response.ok:
                raise LlamaError(response.status, await response.json(content_type=None))
            if not part.body.get("stream"):
                yield await response.json()
                return
            async for chunk in read_chunks(response.content):
                yield chunk


async def _stream(
    first: tuple[SubRequest, JSON],
    rest: AsyncIterator[tuple[SubRequest, JSON]],
    parts: list[SubRequest],
    body: JSON,
) -> AsyncGenerator[bytes]:
    head = answer_head(is_chat="messages" in body, chat_object="chat.completion.chunk")
    streams = {part.index: ChoiceStream(part, body) for part in parts}
    usages: dict[int, dict[str, int]] = {}
    try:
        async for part, chunk in _chain(first, rest):
            for choice in streams[part.index].choices(chunk):
                (event,) = sse(head | {"choices": [choice]}, done=False)
                yield event
            if "usage" in chunk:
                usages[part.index] = chunk["usage"]
    except LlamaError as error:
        for event in sse(error.body):
            yield event
        return
    usage = usage_of(usages, body.get("n") or 1)
    last = head | {"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}
    is_wanted = (body.get("stream_options") or {}).get("include_usage")
    for event in sse(last) if is_wanted else sse():
        yield event


async def _chain(
    first: tuple[SubRequest, JSON],
    rest: AsyncIterator[tuple[SubRequest, JSON]],
) -> AsyncIterator[tuple[SubRequest, JSON]]:
    yield first
    async for item in rest:
        yield item


def _parse(body: bytes) -> JSON:
    try:
        request = orjson.loads(body)
    except ValueError as error:
        raise RefusedRequestError(f"JSON decode error: {error}") from None
    if not isinstance(request, dict):
        raise RefusedRequestError("The body is not a JSON object.")
    return request


def _failed(status: int, body: JSON) -> ContainerAnswer:
    return ContainerAnswer([orjson.dumps(body)], status=status)
