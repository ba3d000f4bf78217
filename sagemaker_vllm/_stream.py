"""Streams: iterate chunks, know whether the answer is whole, always close the connection."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from types import TracebackType
from typing import Self

from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._chunks import Chunk
from sagemaker_vllm._errors import SageMakerVLLMError, StreamInterruptedError
from sagemaker_vllm._results import Completion, InvocationMetadata


class _Streamed:
    """What the four streams share: the state of the answer."""

    def __init__(self, answer: AnswerDecoder) -> None:
        self._answer = answer

    @property
    def metadata(self) -> InvocationMetadata:
        """What SageMaker said when it opened the stream."""
        return self._answer.metadata

    @property
    def completion(self) -> Completion:
        """What has come so far; whole after the end of the iteration."""
        return self._answer.completion

    @property
    def is_whole(self) -> bool:
        """Whether every choice is finished, or the server said that the answer is complete."""
        return self._answer.is_whole


def _matters(error: SageMakerVLLMError, answer: AnswerDecoder) -> bool:
    """Attach what came, and tell whether the error matters.

    A connection that breaks after the whole answer has come takes nothing away.
    """
    if isinstance(error, StreamInterruptedError) and answer.is_whole:
        return False
    metadata = answer.metadata
    error.partial = answer.completion
    error.endpoint_name = error.endpoint_name or metadata.endpoint_name
    error.request_id = error.request_id or metadata.request_id
    return True


class SyncStream(_Streamed):
    """An answer as it comes: an iterator of chunks and a context manager.

    Leaving the iteration early, an error and `close()` close the connection at once.

    Raises:
        APIError: The container failed while it answered.
        StreamInterruptedError: The stream ended before the answer was whole.
        StreamDecodeError: The stream holds something else than chunks.
    """

    def __init__(
        self, parts: Iterable[bytes], answer: AnswerDecoder, *, close: Callable[[], None]
    ) -> None:
        """Wrap an open stream.

        Args:
            parts: The container's bytes; raises only errors of this package.
            answer: Decodes them.
            close: Closes the connection; may be called more than once.
        """
        super().__init__(answer)
        self._close = close
        self._chunks = _run(parts, answer, close)

    def __iter__(self) -> Iterator[Chunk]:
        """Return the chunks that have not been read yet."""
        return self._chunks

    def __next__(self) -> Chunk:
        """Return the next chunk."""
        return next(self._chunks)

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; nothing more can be read."""
        self._chunks.close()
        self._close()


# Not a method: a stream that is dropped must close its connection without waiting for the garbage
# collector, so its generator must not refer back to it.
def _run(
    parts: Iterable[bytes], answer: AnswerDecoder, close: Callable[[], None]
) -> Generator[Chunk, None, None]:
    try:
        try:
            for part in parts:
                yield from answer.feed(part)
        except SageMakerVLLMError as error:
            if _matters(error, answer):
                raise
        try:
            yield from answer.finish()
        except SageMakerVLLMError as error:
            _matters(error, answer)
            raise
    finally:
        close()


class AsyncStream(_Streamed):
    """The asynchronous twin of `SyncStream`: use it with `async with` and `async for`.

    Raises:
        APIError: The container failed while it answered.
        StreamInterruptedError: The stream ended before the answer was whole.
        StreamDecodeError: The stream holds something else than chunks.
    """

    def __init__(
        self,
        parts: AsyncIterable[bytes],
        answer: AnswerDecoder,
        *,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        """Wrap an open stream; arguments as for `SyncStream`."""
        super().__init__(answer)
        self._close = close
        self._chunks = _run_async(parts, answer, close)

    def __aiter__(self) -> AsyncIterator[Chunk]:
        """Return the chunks that have not been read yet."""
        return self._chunks

    async def __anext__(self) -> Chunk:
        """Return the next chunk."""
        return await anext(self._chunks)

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; nothing more can be read."""
        await self._chunks.aclose()
        await self._close()


async def _run_async(
    parts: AsyncIterable[bytes], answer: AnswerDecoder, close: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Chunk, None]:
    try:
        try:
            async for part in parts:
                for chunk in answer.feed(part):
                    yield chunk
        except SageMakerVLLMError as error:
            if _matters(error, answer):
                raise
        try:
            for chunk in answer.finish():
                yield chunk
        except SageMakerVLLMError as error:
            _matters(error, answer)
            raise
    finally:
        await close()


class ChatStream(SyncStream):
    """Chunks of a chat answer (`chat.completion.chunk`)."""


class TextStream(SyncStream):
    """Chunks of a text completion; the choices of many prompts interleave."""


class AsyncChatStream(AsyncStream):
    """Chunks of a chat answer (`chat.completion.chunk`)."""


class AsyncTextStream(AsyncStream):
    """Chunks of a text completion; the choices of many prompts interleave."""
