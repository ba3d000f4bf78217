"""Asynchronous calls through a boto3 client of the user's own."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from sagemaker_vllm._boto_transport import BotoTransport
from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._operations import Operation
from sagemaker_vllm._threads import Threads
from sagemaker_vllm._transport import AsyncRawStream, RawAnswer


class ThreadTransport:
    """Runs a `BotoTransport` in at most `max_concurrency` threads."""

    def __init__(self, config: EndpointConfig, client: Any) -> None:
        """Keep the settings; no thread starts before the first call."""
        self._boto = BotoTransport(config, client)
        self._threads = Threads(config.max_concurrency)

    async def invoke(self, operation: Operation, arguments: Mapping[str, Any]) -> RawAnswer:
        """Call an operation and read its whole body."""
        return await self._threads.run(lambda: self._boto.invoke(operation, arguments))

    async def open(self, operation: Operation, arguments: Mapping[str, Any]) -> AsyncRawStream:
        """Call a streaming operation; the parts are read as they are iterated."""
        opened = await self._threads.run(lambda: self._boto.open(operation, arguments))

        async def close() -> None:
            # Does not wait for the network, and wakes a thread that does.
            opened.close()

        return AsyncRawStream(opened.output, self._parts(opened.parts), close)

    async def knows(self, operation: Operation, member: str) -> bool:
        """Tell whether the client's botocore knows a member of an operation."""
        return self._boto.knows(operation, member)

    async def aclose(self) -> None:
        """End the threads; the client stays the caller's."""
        self._threads.close()

    async def _parts(self, parts: Iterable[bytes]) -> AsyncIterator[bytes]:
        iterator = iter(parts)
        while (part := await self._threads.run(lambda: _next(iterator))) is not None:
            yield part


def _next(iterator: Iterator[bytes]) -> bytes | None:
    # A StopIteration cannot cross into a coroutine.
    return next(iterator, None)
