"""Streamed tool-call deltas of every server dialect → one dialect (pure).

The servers differ (wire facts A3.3, and the recordings): ids come once, on every delta, anew each
time, late, empty or never; an index may be missing, text, or 0 for all calls; a name may come on
every delta; arguments may be missing, null or whole.
"""

import json
import secrets
import string
from typing import Any

import orjson

from sagemaker_vllm._errors import StreamDecodeError

_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 9


def new_call_id() -> str:
    """Make an id for a call that the server gave none.

    Nine letters and digits, since that is all that the strictest chat templates (Mistral's) accept.
    """
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def arguments_text(arguments: object) -> str:
    """Return a call's arguments as text: the model's own, or the JSON of what a server parsed."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else orjson.dumps(arguments).decode()


def parse_arguments(arguments: str, *, finish_reason: str | None) -> dict[str, Any] | None:
    """Read a call's arguments.

    Args:
        arguments: The model's text.
        finish_reason: The choice's. With `length` a call without arguments was cut before them.

    Returns:
        The arguments; `{}` for a call without any; `None` when they are not a JSON object.
    """
    if not arguments.strip():
        return None if finish_reason == "length" else {}
    try:
        if not isinstance(orjson.loads(arguments), dict):
            return None
        # orjson turns whole numbers beyond 64 bits into floats; they may be ids.
        found: dict[str, Any] = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return found


class _Call:
    """One call: what has come of it."""

    __slots__ = ("arguments", "id", "index", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name: str | None = None
        self.arguments: list[str] = []

    def is_whole(self) -> bool:
        return parse_arguments("".join(self.arguments) or "-", finish_reason=None) is not None


class ToolCallTracker:
    """Assigns the deltas of one choice to its calls, and rewrites them into the one dialect."""

    def __init__(self) -> None:
        """Start without calls."""
        self._calls: list[_Call] = []
        # The call that a server's own index means now.
        self._at: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._taken: set[int] = set()
        # Behind all calls: for one whose own index is missing or another's.
        self._next = 0

    def rewrite(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Return a delta with its call's own index; id and name only where they come first.

        Raises:
            StreamDecodeError: A field has a type that cannot be read.
        """
        function = delta.get("function") or {}
        call_id, name = delta.get("id") or None, function.get("name") or None
        arguments = arguments_text(function.get("arguments"))
        if not isinstance(call_id, str | None) or not isinstance(name, str | None):
            message = "A tool call's id or name in the stream is not text."
            raise StreamDecodeError(message)
        call = self._find(delta.get("index"), call_id, name, arguments)
        rewritten: dict[str, Any] = {"index": call.index}
        if call_id and call.id is None:
            call.id = call_id
            self._by_id[call_id] = call
            rewritten |= {"id": call_id, "type": "function"}
        piece: dict[str, Any] = {"arguments": arguments}
        if name and call.name is None:
            call.name = name
            piece["name"] = name
        if arguments:
            call.arguments.append(arguments)
        rewritten["function"] = piece
        return rewritten

    def missing_ids(self) -> list[dict[str, Any]]:
        """Return a last delta for each call that never got an id."""
        deltas = []
        for call in self._calls:
            if call.id is None:
                call.id = new_call_id()
                deltas.append(
                    {
                        "index": call.index,
                        "id": call.id,
                        "type": "function",
                        "function": {"arguments": ""},
                    }
                )
        return deltas

    def _find(self, index: object, call_id: str | None, name: str | None, arguments: str) -> _Call:
        position = _as_index(index)
        if position is not None:
            current = self._at.get(position)
        else:
            current = self._calls[-1] if self._calls else None
            if call_id:
                # Without an index only the id tells calls apart.
                current = self._by_id.get(call_id, None if name else current)
        if current is None or _begins(current, call_id, name, arguments):
            current = self._open(position)
        if position is not None:
            self._at[position] = current
        return current

    def _open(self, position: int | None) -> _Call:
        index = self._next if position is None or position in self._taken else position
        self._taken.add(index)
        self._next = max(self._next, index + 1)
        call = _Call(index)
        self._calls.append(call)
        return call


def _begins(current: _Call, call_id: str | None, name: str | None, arguments: str) -> bool:
    """Whether a delta at a known index begins another call.

    A call begins with its name. The same name again is another call only with another id, or when
    the call before is whole and new arguments begin; else the server repeats itself.
    """
    if name is None or current.name is None:
        return False
    if call_id and current.id:
        return call_id != current.id and (name != current.name or not _open_arguments(current))
    return name != current.name or (arguments.lstrip().startswith("{") and current.is_whole())


def _open_arguments(call: _Call) -> bool:
    """Whether the call's arguments have begun and are not whole."""
    return bool(call.arguments) and not call.is_whole()


def _as_index(index: object) -> int | None:
    if isinstance(index, bool):
        return None
    if isinstance(index, str) and index.isdecimal():
        return int(index)
    return index if isinstance(index, int) and index >= 0 else None
