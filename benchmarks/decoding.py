"""Decoding alone: no network, the bytes of a stream of 2,000 tokens."""

from collections.abc import Callable

import orjson
from botocore.eventstream import EventStreamBuffer

from benchmarks import server
from sagemaker_vllm import InvocationMetadata
from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._chunks import ChunkDecoder
from sagemaker_vllm._frames import FrameDecoder, part_of
from sagemaker_vllm._sse import SSEDecoder

_PARTS = server.events("tokens-2000")
_FRAMES = [server.frame(part) for part in _PARTS]


def bare() -> int:
    """The least that a reader of events does: split bytes, parse JSON."""
    count, rest = 0, b""
    for part in _PARTS:
        *events, rest = (rest + part).split(b"\n\n")
        for event in events:
            if event[6:] != b"[DONE]":
                orjson.loads(event[6:])
                count += 1
    return count


def chunks() -> int:
    """Split, parse, check and normalise."""
    count, lines, decoder = 0, SSEDecoder(), ChunkDecoder("chat", endpoint_name="e")
    for part in _PARTS:
        for event in lines.feed(part):
            if event != b"[DONE]":
                decoder.decode(event)
                count += 1
    return count


def answer() -> int:
    """The same, and accumulate the answer that a broken stream would keep."""
    decoder = AnswerDecoder("chat", metadata=InvocationMetadata())
    return sum(1 for part in _PARTS for _ in decoder.feed(part))


def our_frames() -> int:
    decoder = FrameDecoder()
    return sum(len(part_of(frame)) > 0 for read in _FRAMES for frame in decoder.feed(read))


def botocore_frames() -> int:
    count, frames = 0, EventStreamBuffer()
    for read in _FRAMES:
        frames.add_data(read)
        count += sum(len(frame.to_response_dict()) > 0 for frame in frames)
    return count


EVENTS: dict[str, Callable[[], int]] = {
    "bytes split + orjson": bare,
    "parts → chunks": chunks,
    "parts → chunks and answer": answer,
}
FRAMES: dict[str, Callable[[], int]] = {
    "botocore": botocore_frames,
    "core": our_frames,
}
