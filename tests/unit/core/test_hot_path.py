"""What a token costs, counted: a regression of twice the work fails, on any machine.

The bounds are about one and a half of what is needed today.
"""

import base64
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import orjson
import pytest

from sagemaker_vllm import InvocationMetadata, image_part
from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._frames import FrameDecoder, part_of
from sagemaker_vllm.emulator._framing import encode_part
from tests.counting import count_calls, count_instructions

EVENTS = 200


def chunk(kind: str, delta: dict[str, Any]) -> bytes:
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": None}
    choice |= {"token_ids": None} | ({"delta": delta} if kind == "chat" else delta)
    data = {"id": "c", "object": "chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: %b\n\n" % orjson.dumps(data)


STREAMS: dict[str, tuple[Any, bytes]] = {
    "text of a chat": ("chat", chunk("chat", {"content": " word"})),
    "reasoning": ("chat", chunk("chat", {"reasoning": " word"})),
    "arguments of a tool": (
        "chat",
        chunk("chat", {"tool_calls": [{"index": 0, "function": {"arguments": "1"}}]}),
    ),
    "text of a completion": ("text", chunk("text", {"text": " word"})),
}


def decode(kind: Any, event: bytes, events: int) -> Callable[[], None]:
    frames = [encode_part(event)] * events

    def run() -> None:
        decoder = FrameDecoder()
        answer = AnswerDecoder(kind, metadata=InvocationMetadata())
        count = 0
        for read in frames:
            for frame in decoder.feed(read):
                for _ in answer.feed(part_of(frame)):
                    count += 1
        assert count == events

    return run


def per_event(
    count: Callable[[Callable[[], None]], int], stream: str, events: int = EVENTS
) -> float:
    """Count what an event adds: twice the events less the events, so that set-up drops out."""
    kind, event = STREAMS[stream]
    once, twice = decode(kind, event, events), decode(kind, event, 2 * events)
    once()
    return (count(twice) - count(once)) / events


@pytest.mark.parametrize(
    ("stream", "instructions", "calls"),
    [
        ("text of a chat", 650, 50),
        ("reasoning", 900, 72),
        ("arguments of a tool", 1300, 110),
        ("text of a completion", 620, 48),
    ],
)
def test_an_event_costs_few_instructions_and_calls(
    stream: str, instructions: int, calls: int
) -> None:
    assert per_event(count_instructions, stream) < instructions
    assert per_event(count_calls, stream) < calls


@pytest.mark.parametrize("stream", STREAMS)
def test_an_event_of_a_long_stream_costs_what_one_of_a_short_stream_does(stream: str) -> None:
    short = per_event(count_instructions, stream, events=50)
    long = per_event(count_instructions, stream, events=2000)

    assert long == pytest.approx(short, rel=0.05)


def test_a_stream_keeps_little_more_than_its_text() -> None:
    decoder = AnswerDecoder("chat", metadata=InvocationMetadata())
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    for number in range(2000):
        for _ in decoder.feed(chunk("chat", {"content": f" word{number}"})):
            pass

    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / 2000 < 150


def test_a_large_frame_in_small_reads_is_joined_once() -> None:
    data, size = encode_part(bytes(2**20)), 1024
    reads = [data[start : start + size] for start in range(0, len(data), size)]
    decoder = FrameDecoder()

    def run() -> None:
        assert sum(len(part_of(frame)) for read in reads for frame in decoder.feed(read)) == 2**20

    assert count_instructions(run) / len(reads) < 60


def test_a_picture_that_is_base64_already_is_neither_decoded_nor_encoded() -> None:
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(2**20)).decode()
    url = f"data:image/png;base64,{picture}"
    coded: list[int] = []

    def profile(frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and getattr(function, "__module__", "") == "binascii":
            coded.append(
                max(len(each) for each in frame.f_locals.values() if hasattr(each, "__len__"))
            )

    sys.setprofile(profile)
    try:
        parts = [image_part(picture), image_part(url)]
    finally:
        sys.setprofile(None)

    assert parts[0]["image_url"]["url"] == url
    assert parts[1]["image_url"]["url"] is url
    # The first bytes tell what it is.
    assert max(coded) < 100
