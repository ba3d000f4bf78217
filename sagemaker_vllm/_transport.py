"""What the transports hand to the clients."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A plain answer: the operation's output members and the container's bytes."""

    output: Mapping[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True)
class RawStream:
    """An open stream: the operation's output members, the container's bytes, and how to close."""

    output: Mapping[str, Any]
    parts: Iterable[bytes]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class AsyncRawStream:
    """The asynchronous twin of `RawStream`."""

    output: Mapping[str, Any]
    parts: AsyncIterable[bytes]
    close: Callable[[], Awaitable[None]]
