"""Data of events → normalised chunks (pure, incremental).

Every server's dialect becomes one here, so that nothing after it needs to know vLLM's versions:
reasoning is in `delta.reasoning`, tool-call deltas are unambiguous, an error event raises.
"""

from typing import Any

import orjson

from sagemaker_vllm._error_table import failed_choice, stream_event_error
from sagemaker_vllm._errors import StreamDecodeError
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._tool_calls import ToolCallTracker

Chunk = dict[str, Any]
"""A `chat.completion.chunk` or a streamed `text_completion`, as wire JSON."""

# LMI's rolling batch has names of its own for a normal end.
FINISH_REASONS: dict[str | None, str] = {"eos_token": "stop", "stop_sequence": "stop"}
_SHOWN = 200


class ChunkDecoder:
    """Reads the chunks of one stream."""

    def __init__(self, kind: RequestKind, *, endpoint_name: str) -> None:
        """Start before the first chunk of the stream from `endpoint_name`."""
        self._is_chat = kind == "chat"
        self._endpoint_name = endpoint_name
        self._trackers: dict[int, ToolCallTracker] = {}

    def decode(self, data: bytes) -> Chunk:
        """Return the chunk in one event's data.

        Raises:
            APIError: The event says that the container failed; its own status chooses the class.
            StreamDecodeError: The data is not JSON, or not a chunk.
        """
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            message = f"An event of the stream is not JSON ({len(data)} bytes)."
            raise StreamDecodeError(message, body=data) from error
        try:
            if "error" in chunk or "choices" not in chunk or chunk["choices"] is None:
                self._check(chunk, data)
            for choice in chunk["choices"]:
                # The common chunk holds a piece of text and nothing else.
                if self._is_chat:
                    delta = choice.get("delta")
                    is_text = delta and len(delta) == 1 and "content" in delta
                    text = delta["content"] if is_text else None
                else:
                    text = choice.get("text")
                if not (
                    text.__class__ is str
                    and "finish_reason" in choice
                    and choice["finish_reason"] is None
                    and "index" in choice
                    and choice["index"].__class__ is int
                    and ("logprobs" not in choice or choice["logprobs"] is None)
                ):
                    self._normalise(choice, data)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StreamDecodeError(_unexpected(chunk), body=data) from error
        return chunk  # type: ignore[no-any-return]  # a dict, else the checks above had raised

    def finish(self) -> list[Chunk]:
        """Return a last chunk for calls that never got an id from the server."""
        choices = [
            {"index": index, "delta": {"tool_calls": deltas}, "finish_reason": None}
            for index, tracker in self._trackers.items()
            if (deltas := tracker.missing_ids())
        ]
        return [{"object": "chat.completion.chunk", "choices": choices}] if choices else []

    def _check(self, chunk: Chunk, data: bytes) -> None:
        """Raise for an error event and for what is no chunk at all."""
        error = stream_event_error(chunk, endpoint_name=self._endpoint_name, body=data)
        if error is not None:
            raise error
        if chunk.get("choices") is None:
            if "choices" not in chunk and not chunk.get("usage"):
                raise StreamDecodeError(_unexpected(chunk), body=data)
            chunk["choices"] = []

    def _normalise(self, choice: dict[str, Any], data: bytes) -> None:
        index = choice.setdefault("index", 0)
        reason = choice.setdefault("finish_reason", None)
        require(index, int)
        require(reason, str, type(None))
        if error := failed_choice(reason, endpoint_name=self._endpoint_name, body=data):
            raise error
        choice["finish_reason"] = FINISH_REASONS.get(reason, reason)
        if choice.get("logprobs") is not None:
            choice["logprobs"] = normalise_logprobs(choice["logprobs"])
        own, other = ("delta", "text") if self._is_chat else ("text", "delta")
        if other in choice and own not in choice:
            raise KeyError(own)
        if not self._is_chat:
            require(choice.setdefault("text", ""), str)
            return
        delta = choice["delta"] = choice.get("delta") or {}
        normalise_reasoning(delta)
        require(delta.get("content"), str, type(None))
        require(delta.get("reasoning"), str, type(None))
        if calls := delta.pop("tool_calls", None):
            tracker = self._trackers.get(index)
            if tracker is None:
                tracker = self._trackers[index] = ToolCallTracker()
            delta["tool_calls"] = [tracker.rewrite(call) for call in calls]


def normalise_reasoning(message: dict[str, Any]) -> None:
    """Move `reasoning_content` to `reasoning`; servers that send both repeat themselves."""
    older = message.pop("reasoning_content", None)
    if older is not None and message.get("reasoning") is None:
        message["reasoning"] = older


def normalise_logprobs(logprobs: object) -> dict[str, Any] | None:
    """Keep the lists that can be joined with those of other chunks."""
    if not isinstance(logprobs, dict):
        return None
    return {name: value for name, value in logprobs.items() if isinstance(value, list | None)}


def normalise_usage(usage: object) -> dict[str, Any] | None:
    """Keep the token counts that can be read; an odd one must not cost the answer."""
    if not isinstance(usage, dict):
        return None
    kept: dict[str, Any] = {}
    for name, given in usage.items():
        value = normalise_usage(given) if name.endswith("_details") else given
        if value is None or type(value) is int or not name.endswith("_tokens"):
            kept[name] = value
    return kept


def require(value: object, *kinds: type) -> None:
    """Refuse a value of another type; a `bool` is no `int` here."""
    if type(value) not in kinds:
        message = f"unexpected {type(value).__name__}"
        raise TypeError(message)


def _unexpected(chunk: object) -> str:
    keys = sorted(map(str, chunk)) if isinstance(chunk, dict) else [type(chunk).__name__]
    shown = ", ".join(keys)[:_SHOWN]
    return (
        f"An event of the stream is not a chat or text completion chunk (it holds: {shown}). Is "
        "the container vLLM, or LMI with the OpenAI schema?"
    )
