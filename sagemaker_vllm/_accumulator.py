"""Normalised chunks → one completion, in the shape of the plain answer (pure)."""

from typing import Any

from sagemaker_vllm._chunks import Chunk, normalise_usage
from sagemaker_vllm._parameters import RequestKind

_OBJECTS: dict[RequestKind, str] = {"chat": "chat.completion", "text": "text_completion"}
# What a chunk holds on every token; anything else is worth keeping.
_ORDINARY_KEYS = frozenset({"id", "object", "created", "model", "choices"})
_CHOICE_KEYS = frozenset({"index", "delta", "text", "logprobs", "finish_reason", "stop_reason"})


class _Choice:
    """What has come of one choice."""

    __slots__ = (
        "calls",
        "extra",
        "finish_reason",
        "logprobs",
        "message",
        "reasoning",
        "stop_reason",
        "text",
    )

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, dict[str, Any]] = {}
        self.message: dict[str, Any] = {}
        self.logprobs: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self.stop_reason: Any = None
        self.extra: dict[str, Any] = {}


class Accumulator:
    """Folds the chunks of one stream."""

    def __init__(self, kind: RequestKind) -> None:
        """Start empty; `kind` says which shape the completion has."""
        self._kind = kind
        self._top: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: Chunk) -> None:
        """Fold in one chunk."""
        if not self._top:
            self._top = {name: chunk[name] for name in ("id", "created", "model") if name in chunk}
        # The last usage is the total: servers may send a running one with every chunk.
        if not _ORDINARY_KEYS.issuperset(chunk):
            for name in chunk.keys() - _ORDINARY_KEYS:
                if chunk[name] is not None:
                    self._top[name] = chunk[name]
        for choice in chunk["choices"]:
            state = self._choices.get(choice["index"])
            if state is None:
                state = self._choices[choice["index"]] = _Choice()
            delta = choice.get("delta")
            text = choice["text"] if delta is None else delta.get("content")
            if text:
                state.text.append(text)
            if delta and (len(delta) > 1 or text is None):
                _add_delta(state, delta)
            # All but the index and the text is null, nearly always.
            if list(choice.values()).count(None) < len(choice) - 2:
                _add_rest(state, choice)

    @property
    def choices_seen(self) -> int:
        """How many choices have begun."""
        return len(self._choices)

    @property
    def choices_finished(self) -> int:
        """How many choices have a finish reason."""
        return sum(state.finish_reason is not None for state in self._choices.values())

    def response(self) -> dict[str, Any]:
        """Return what has come so far, as the plain call would have answered."""
        top = {"object": _OBJECTS[self._kind], **self._top}
        top["choices"] = [self._choice(index) for index in sorted(self._choices)]
        top["usage"] = normalise_usage(top.get("usage"))
        return top

    def _choice(self, index: int) -> dict[str, Any]:
        state = self._choices[index]
        found: dict[str, Any] = {"index": index}
        if self._kind == "text":
            found["text"] = "".join(state.text)
        else:
            found["message"] = {
                "role": "assistant",
                **state.message,
                "content": "".join(state.text) if state.text else None,
                "reasoning": "".join(state.reasoning) if state.reasoning else None,
                "tool_calls": [_call(state.calls[at]) for at in sorted(state.calls)],
            }
        return found | {
            "logprobs": state.logprobs,
            "finish_reason": state.finish_reason,
            "stop_reason": state.stop_reason,
            **state.extra,
        }


def _add_delta(state: _Choice, delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "reasoning":
            if value:
                state.reasoning.append(value)
        elif name == "tool_calls":
            for call in value:
                _add_call(state.calls, call)
        elif name == "refusal" and value:
            state.message[name] = state.message.get(name, "") + value
        elif name != "content" and value is not None:
            state.message[name] = value


def _add_call(calls: dict[int, dict[str, Any]], delta: dict[str, Any]) -> None:
    call = calls.setdefault(delta["index"], {"id": None, "name": "", "arguments": []})
    call["id"] = delta.get("id", call["id"])
    call["name"] = delta["function"].get("name", call["name"])
    call["arguments"].append(delta["function"]["arguments"])


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": "".join(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def _add_rest(state: _Choice, choice: dict[str, Any]) -> None:
    """Keep the end, the logprobs, and what only some servers or requests bring."""
    if choice["finish_reason"]:
        state.finish_reason = choice["finish_reason"]
    if logprobs := choice.get("logprobs"):
        if state.logprobs is None:
            state.logprobs = dict.fromkeys(logprobs)
        for name, value in logprobs.items():
            if value is not None:
                _join(state.logprobs, name, value)
    if choice.get("stop_reason") is not None:
        state.stop_reason = choice["stop_reason"]
    for name in choice.keys() - _CHOICE_KEYS:
        value = choice[name]
        if value is not None:
            _join(state.extra, name, value)


def _join(found: dict[str, Any], name: str, value: Any) -> None:
    """Append a list to the one that came before; keep the last of all else."""
    before = found.get(name)
    if isinstance(value, list) and isinstance(before, list):
        before.extend(value)
    else:
        found[name] = [*value] if isinstance(value, list) else value
