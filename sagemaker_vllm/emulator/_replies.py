"""What a script can answer: good answers, raw container bytes, and every kind of fault."""

from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sagemaker_vllm.emulator._parts import Splitter


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer, rendered as vLLM 0.32 would: plain or streamed, chat or text, as asked.

    Attributes:
        content: The text. Every choice gets it, unless `choices` is given.
        reasoning: Text of a reasoning model's thinking (chat only).
        tool_calls: Mappings with `name`, `arguments` (a JSON string, or an object to encode) and
            maybe `id` (chat only).
        finish_reason: Default `tool_calls` when there are calls (`stop` when the request forced
            one by name, as vLLM does), else `stop`.
        usage: Replaces the usage record, which else counts the pieces as tokens.
        logprobs: For chat the list of `{token, logprob, bytes, top_logprobs}`; for text the
            mapping of `tokens`, `token_logprobs`, `top_logprobs`, `text_offset`. A stream gives
            one entry to each piece.
        chunks: The pieces `content` is streamed in. Default: its words. Without `content`, their
            concatenation is the content.
        stop_reason: The stop string or token id that ended the answer.
        choices: One `Reply` for each choice, when they differ. The outer one then gives only
            `usage`, `model` and `delay`.
        model: The name of the served model.
        delay: Seconds before each streamed chunk.
    """

    content: str | None = None
    reasoning: str | None = None
    tool_calls: Sequence[Mapping[str, Any]] = ()
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    logprobs: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None
    chunks: Sequence[str] | None = None
    stop_reason: str | int | None = None
    choices: Sequence["Reply"] | None = None
    model: str = "/opt/ml/model"
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class JSONReply:
    """The container's own body, as it is.

    Attributes:
        body: JSON to encode, or raw bytes.
        status: HTTP status of the container; from 400 on it becomes a `ModelError`.
        content_type: Content type of the container.
    """

    body: Any
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class ModelStreamFault:
    """A stream that ends with a `ModelStreamError` event.

    Attributes:
        code: `ModelInvocationTimeExceeded` or `StreamBroken`.
        message: The service's sentence.
    """

    code: str = "StreamBroken"
    message: str = "The model container closed the stream before it was complete."


@dataclass(frozen=True, slots=True)
class InternalStreamFault:
    """A stream that ends with an `InternalStreamFailure` event."""

    message: str = "The stream processing failed because of an internal error."


@dataclass(frozen=True, slots=True)
class ErrorMessageFault:
    """A stream that ends with an `error` message, the framing's form of an unmodelled error."""

    code: str = "InternalFailure"
    message: str = "An internal failure occurred."


@dataclass(frozen=True, slots=True)
class Cut:
    """A stream that just ends.

    Attributes:
        how: `connection` closes the socket inside the HTTP body, `frame` ends the HTTP body
            cleanly inside an event-stream frame, `clean` ends it cleanly between two frames.
    """

    how: Literal["frame", "connection", "clean"] = "connection"


@dataclass(frozen=True, slots=True)
class Hang:
    """A container that sends nothing.

    Attributes:
        seconds: How long; then the service gives up, as it does with a container that does not
            answer in time.
    """

    seconds: float


StreamEnd = ModelStreamFault | InternalStreamFault | ErrorMessageFault | Cut | Hang
"""How a stream can end, other than well."""


@dataclass(frozen=True, slots=True)
class StreamReply:
    """Raw bytes of a container's stream: server-sent events, JSON lines, or anything.

    Attributes:
        data: All bytes, or pieces, or an async iterable of pieces made as they are asked for
            (it runs on the emulator's event loop and must not block it). Each piece becomes one
            part, unless they are cut further by `parts`.
        parts: Part size in bytes or a splitter; default the emulator's `part_size`.
        delay: Seconds before each piece.
        end: How the stream ends; `None` means well.
        content_type: Content type of the container.
    """

    data: bytes | Sequence[bytes] | AsyncIterable[bytes]
    parts: int | Splitter | None = None
    delay: float = 0.0
    end: StreamEnd | None = None
    content_type: str = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ServiceFault:
    """SageMaker's own refusal or failure, before any container is asked.

    Attributes:
        code: Error type such as `ThrottlingException`; empty sends none, as a 413 does.
        status: HTTP status.
        message: The service's sentence.
        headers: More response headers.
    """

    code: str
    status: int
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerFault:
    """A container that answers with an error status: the client sees a 424 `ModelError`.

    Attributes:
        status: The container's status.
        body: The container's body; JSON is encoded.
    """

    status: int
    body: Any = b""


AnyReply = Reply | JSONReply | StreamReply | ServiceFault | ContainerFault | Hang
"""What a script may answer."""
