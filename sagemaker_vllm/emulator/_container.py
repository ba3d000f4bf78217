"""The seam between the service and what answers behind it: a script, a server, a model."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from sagemaker_vllm.emulator._parts import Splitter
from sagemaker_vllm.emulator._replies import StreamEnd
from sagemaker_vllm.emulator._requests import RecordedRequest

_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class ContainerAnswer:
    """An HTTP answer of a container.

    Attributes:
        pieces: The body: a sequence when it is there at once, an iterator when it comes in time.
        status: HTTP status.
        content_type: Its content type.
        headers: Other headers that the service passes on.
        splitter: Cuts the pieces into parts; `None` leaves that to the emulator's setting.
        delay: Seconds before each piece.
        end: How the stream ends, other than well.
    """

    pieces: Sequence[bytes] | AsyncIterator[bytes]
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    splitter: Splitter | None = None
    delay: float = 0.0
    end: StreamEnd | None = None

    async def paced_parts(
        self,
        splitter: Splitter | None = None,
    ) -> AsyncIterator[list[bytes]]:
        """Give the pieces in their time, cut by a splitter if there is one.

        Parts that are there at once come several together, which saves writes.
        """
        if not isinstance(self.pieces, Sequence):
            async for piece in self.pieces:
                yield _cut(piece, splitter)
            return
        if self.delay:
            for piece in self.pieces:
                for part in _cut(piece, splitter):
                    await asyncio.sleep(self.delay)
                    yield [part]
            return
        # Pieces without timing are cut as one, so that a part can also hold several of them.
        parts = _cut(b"".join(self.pieces), splitter) if splitter else self.pieces
        for start in range(0, len(parts), _AT_ONCE):
            yield list(parts[start : start + _AT_ONCE])
            # Others get their turn, and a client that left is noticed.
            await asyncio.sleep(0)


def _cut(piece: bytes, splitter: Splitter | None) -> list[bytes]:
    return list(splitter(piece)) if splitter else [piece]


class Container(Protocol):
    """Answers requests. Runs on the emulator's event loop; leaving `answer` stops the work."""

    async def start(self) -> None:
        """Get ready to answer; an exception stops the emulator from starting."""

    def answer(self, request: RecordedRequest) -> AbstractAsyncContextManager[ContainerAnswer]:
        """Answer one request; raises `ServiceFaultError` for what the service does itself."""

    async def stop(self) -> None:
        """Free everything."""
