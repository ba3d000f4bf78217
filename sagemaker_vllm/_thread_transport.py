"""Asynchronous calls through a boto3 client of the user's own, in threads of our own.

The event loop's default pool has few threads and serves everybody; a call that waits for a model
must not take one.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sagemaker_vllm._boto_transport import BotoTransport
from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._operations import Operation
from sagemaker_vllm._transport import AsyncRawStream, RawAnswer

_T = TypeVar("_T")


class ThreadTransport:
    """Runs a `BotoTransport` in at most `max_concurrency` threads."""

    def __init__(self, config: EndpointConfig, client: Any) -> None:
        """Keep the settings; no thread starts before the first call."""
        self._config = config
        self._boto = BotoTransport(config, client)
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    async def invoke(self, operation: Operation, arguments: Mapping[str, Any]) -> RawAnswer:
        """Call an operation and read its whole body."""
        return await self._run(lambda: self._boto.invoke(operation, arguments))

    async def open(self, operation: Operation, arguments: Mapping[str, Any]) -> AsyncRawStream:
        """Call a streaming operation; the parts are read as they are iterated."""
        opened = await self._run(lambda: self._boto.open(operation, arguments))

        async def close() -> None:
            # Does not wait for the network, and wakes a thread that does.
            opened.close()

        return AsyncRawStream(opened.output, self._parts(opened.parts), close)

    async def aclose(self) -> None:
        """End the threads; the client stays the caller's."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool[1].shutdown(wait=False, cancel_futures=True)

    async def _parts(self, parts: Iterable[bytes]) -> AsyncIterator[bytes]:
        iterator = iter(parts)
        while (part := await self._run(lambda: _next(iterator))) is not None:
            yield part

    async def _run(self, call: Callable[[], _T]) -> _T:
        if self._pool is None or self._pool[0] != os.getpid():
            pool = ThreadPoolExecutor(self._config.max_concurrency, "sagemaker-vllm")
            self._pool = (os.getpid(), pool)
        return await asyncio.get_running_loop().run_in_executor(self._pool[1], call)


def _next(iterator: Iterator[bytes]) -> bytes | None:
    # A StopIteration cannot cross into a coroutine.
    return next(iterator, None)
