"""Hostile JSON: right in form, wrong in everything else."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.recordings import Recording, all_recordings

RECORDINGS = [each for each in all_recordings() if each.version != "synthetic"]

scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**53 + 1, 2**64, -(2**63) - 1, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["", "null", "{}", '{"a"', "stop", "tool_calls", "length", "data: x", "\ud83d"]
    ),
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


def nested(depth: int) -> Any:
    """Nest lists and objects in turn."""
    found: Any = 0
    for level in range(depth):
        found = [found] if level % 2 else {"a": found}
    return found


def encode(value: Any) -> bytes:
    """Write JSON, lone surrogates and all."""
    return json.dumps(value, ensure_ascii=True).encode()


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the way to every value inside of a JSON value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(each for key, inner in items for each in paths(inner, (*path, key)))]


def change(value: Any, path: tuple[Any, ...], edit: Callable[[Any, Any], None]) -> Any:
    """Apply `edit(parent, key)` at a path of a copy."""
    copied = {"root": json.loads(json.dumps(value))}
    parent: Any = copied
    *way, key = ("root", *path)
    for step in way:
        parent = parent[step]
    edit(parent, key)
    return copied.get("root")


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """Replace, remove or add one to three values of a JSON value."""
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(value)))
        kind = draw(st.sampled_from(["replace", "remove", "add"]))
        new, name = draw(anything), draw(st.text(max_size=6))

        def edit(parent: Any, key: Any, kind: str = kind, new: Any = new, name: str = name) -> None:
            if kind == "remove":
                del parent[key]
            elif kind == "add" and isinstance(parent[key], dict):
                parent[key][name] = new
            elif kind == "add" and isinstance(parent[key], list):
                parent[key].append(new)
            else:
                parent[key] = new

        value = change(value, path, edit)
    return value


def events_of(recording: Recording) -> list[bytes]:
    """Return the data of a recorded stream's events."""
    lines = recording.body.split(b"\n")
    return [line[6:] for line in lines if line.startswith(b"data: ")]


@st.composite
def hostile_streams(draw: st.DrawFn, recordings: list[Recording]) -> tuple[Recording, bytes]:
    """Damage a recorded stream: its events, their order, their JSON, its bytes."""
    recording = draw(st.sampled_from(recordings))
    events = events_of(recording)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, max(len(events) - 1, 0)))
        match draw(st.sampled_from(["mutate", "drop", "repeat", "swap", "insert"])):
            case "mutate" if events and events[position].startswith(b"{"):
                events[position] = encode(draw(mutated(json.loads(events[position]))))
            case "drop":
                del events[position : position + 1]
            case "repeat":
                events[position:position] = events[position : position + 1]
            case "swap":
                events[position : position + 2] = reversed(events[position : position + 2])
            case _:
                events.insert(position, encode(draw(anything)))
    stream = b"".join(b"data: " + event + b"\n\n" for event in events)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(stream)))
        stream = stream[:place] + draw(st.binary(max_size=3)) + stream[place + 1 :]
    return recording, stream
