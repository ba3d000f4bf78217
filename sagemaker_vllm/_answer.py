"""Parts of a container's stream → chunks, and the knowledge whether the answer is whole (pure)."""

from collections.abc import Iterator

from sagemaker_vllm._accumulator import Accumulator
from sagemaker_vllm._chunks import Chunk, ChunkDecoder
from sagemaker_vllm._errors import StreamDecodeError, StreamInterruptedError
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._results import Completion, InvocationMetadata
from sagemaker_vllm._sse import SSEDecoder

_DONE = b"[DONE]"


class AnswerDecoder:
    """Decodes and accumulates one streamed answer."""

    def __init__(
        self, kind: RequestKind, *, expected_choices: int = 1, metadata: InvocationMetadata
    ) -> None:
        """Start before the first part.

        Args:
            kind: `chat` or `text`.
            expected_choices: How many choices the request asks for: prompts times `n`.
            metadata: What SageMaker said when it opened the stream.
        """
        self.metadata = metadata
        self._endpoint_name = metadata.endpoint_name or ""
        self._expected = expected_choices
        self._lines = SSEDecoder()
        self._chunks = ChunkDecoder(kind, endpoint_name=self._endpoint_name)
        self._accumulator = Accumulator(kind)
        self._done = False

    @property
    def is_whole(self) -> bool:
        """Whether `[DONE]` came, or a finish reason for every choice."""
        seen = self._accumulator.choices_seen
        finished = self._accumulator.choices_finished
        return seen > 0 and (self._done or finished == seen >= self._expected)

    @property
    def completion(self) -> Completion:
        """What has come so far."""
        return Completion(response=self._accumulator.response(), metadata=self.metadata)

    def feed(self, part: bytes) -> Iterator[Chunk]:
        """Yield the chunks that `part` completes.

        Raises:
            APIError: An event says that the container failed.
            StreamDecodeError: An event is not a chunk.
        """
        return self._decode(self._lines.feed(part))

    def finish(self) -> Iterator[Chunk]:
        """Yield what the end of the body completes, then check that the answer is whole.

        Raises:
            StreamInterruptedError: The answer is not whole.
        """
        yield from self._decode(self._lines.finish())
        for chunk in self._chunks.finish():
            self._accumulator.add(chunk)
            yield chunk
        if not self.is_whole:
            raise StreamInterruptedError(self._why(), endpoint_name=self._endpoint_name)

    def _decode(self, events: list[bytes]) -> Iterator[Chunk]:
        decode, add = self._chunks.decode, self._accumulator.add
        for data in events:
            if self._done:
                return
            if data == _DONE:
                self._done = True
                return
            chunk = decode(data)
            try:
                add(chunk)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                message = "An event of the stream holds a field of an unexpected type."
                raise StreamDecodeError(message, body=data) from error
            yield chunk

    def _why(self) -> str:
        seen, finished = self._accumulator.choices_seen, self._accumulator.choices_finished
        if not seen:
            return f"The stream from endpoint {self._endpoint_name!r} ended without any answer."
        return (
            f"The stream from endpoint {self._endpoint_name!r} ended early: {finished} of "
            f"{max(self._expected, seen)} answers are finished and [DONE] did not come. What came "
            "is in the error's `partial`."
        )
