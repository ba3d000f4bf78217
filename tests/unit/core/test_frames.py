"""AWS event-stream frames, held equal to botocore's own decoder."""

import itertools
import struct
from typing import Any
from zlib import crc32

import botocore.eventstream as theirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import StreamDecodeError, StreamInterruptedError
from sagemaker_vllm._frames import (
    MAX_HEADERS,
    MAX_PAYLOAD,
    FrameDecoder,
    HeaderValue,
    part_of,
)


def encode(headers: bytes, payload: bytes) -> bytes:
    """Write a frame from header bytes, right or wrong."""
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    start = lengths + struct.pack(">I", crc32(lengths)) + headers + payload
    return start + struct.pack(">I", crc32(start))


def header(name: str, kind: int, value: bytes) -> bytes:
    raw = name.encode()
    return bytes([len(raw)]) + raw + bytes([kind]) + value


def text(name: str, value: str) -> bytes:
    raw = value.encode()
    return header(name, 7, struct.pack(">H", len(raw)) + raw)


def part(payload: bytes) -> bytes:
    return encode(text(":event-type", "PayloadPart") + text(":message-type", "event"), payload)


def read_ours(reads: list[bytes]) -> tuple[list[Any], bool]:
    """Return the frames, and whether the bytes are damaged."""
    decoder = FrameDecoder()
    frames: list[Any] = []
    try:
        for read in reads:
            frames += list(decoder.feed(read))
    except StreamDecodeError:
        return frames, True
    return frames, False


def read_theirs(reads: list[bytes]) -> tuple[list[Any], bool]:
    buffer = theirs.EventStreamBuffer()
    frames: list[Any] = []
    try:
        for read in reads:
            buffer.add_data(read)
            frames.extend([(each.headers, each.payload) for each in buffer])
    except (theirs.ParserError, struct.error, UnicodeDecodeError, IndexError, KeyError):
        return frames, True
    return frames, False


VALUES = st.one_of(
    st.sampled_from([(0, b""), (1, b"")]),
    st.binary(min_size=1, max_size=1).map(lambda value: (2, value)),
    st.binary(min_size=2, max_size=2).map(lambda value: (3, value)),
    st.binary(min_size=4, max_size=4).map(lambda value: (4, value)),
    st.binary(min_size=8, max_size=8).map(lambda value: (5, value)),
    st.binary(max_size=9).map(lambda value: (6, struct.pack(">H", len(value)) + value)),
    st.text(max_size=9).map(
        lambda value: (7, struct.pack(">H", len(value.encode())) + value.encode())
    ),
    st.binary(min_size=8, max_size=8).map(lambda value: (8, value)),
    st.binary(min_size=16, max_size=16).map(lambda value: (9, value)),
    st.tuples(st.integers(10, 255), st.binary(max_size=4)),
)
HEADERS = st.lists(
    st.tuples(st.text("abc:-", max_size=3), VALUES).map(
        lambda found: header(found[0], found[1][0], found[1][1])
    ),
    max_size=4,
).map(b"".join)
FRAMES = st.builds(encode, HEADERS, st.binary(max_size=40))
STREAMS = st.lists(
    st.one_of(FRAMES, st.binary(min_size=1, max_size=30).map(part)), min_size=1, max_size=4
).map(b"".join)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=6))
def test_decoder_reads_what_botocore_reads(data: bytes, cuts: list[int]) -> None:
    reads = split(data, cuts)

    assert read_ours(reads) == read_theirs(reads)


@given(
    STREAMS,
    st.integers(0, 10_000),
    st.integers(1, 255),
    st.lists(st.integers(0, 10_000), max_size=3),
)
def test_decoder_refuses_what_botocore_refuses(
    data: bytes, at: int, flip: int, cuts: list[int]
) -> None:
    damaged = bytearray(data)
    damaged[at % len(data)] ^= flip
    reads = split(bytes(damaged), cuts)

    assert read_ours(reads) == read_theirs(reads)


@given(st.binary(max_size=60))
def test_decoder_treats_any_bytes_as_botocore_does(data: bytes) -> None:
    assert read_ours([data]) == read_theirs([data])


@pytest.mark.parametrize(
    ("total", "headers"),
    [(16 + MAX_HEADERS + 1, MAX_HEADERS + 1), (16 + MAX_PAYLOAD + 1, 0), (8, 0), (20, 8)],
    ids=["headers too long", "payload too long", "shorter than a frame", "headers past the end"],
)
def test_decoder_refuses_impossible_lengths_at_once(total: int, headers: int) -> None:
    lengths = struct.pack(">II", total, headers)
    prelude = lengths + struct.pack(">I", crc32(lengths))

    with pytest.raises(StreamDecodeError, match="damaged"):
        list(FrameDecoder().feed(prelude))


def test_frames_before_a_damaged_one_are_not_lost() -> None:
    damaged = bytearray(part(b"second"))
    damaged[-1] ^= 1
    frames = FrameDecoder().feed(part(b"first") + bytes(damaged))

    first = next(frames)

    assert first[1] == b"first"
    with pytest.raises(StreamDecodeError, match="checksum"):
        next(frames)


def test_end_inside_a_frame_is_an_interruption() -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(part(b"whole") + part(b"cut")[:-3]))

    with pytest.raises(StreamInterruptedError, match="inside an event"):
        decoder.finish()


def test_end_between_frames_is_fine() -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(part(b"whole")))

    decoder.finish()


def test_what_is_known_of_frames_is_bounded() -> None:
    decoder = FrameDecoder()
    data = b"".join(encode(text("n", str(number)), bytes(number)) for number in range(1000))

    frames = list(decoder.feed(data))

    assert [headers["n"] for headers, _ in frames] == [str(number) for number in range(1000)]
    assert len(decoder._parsed) < 100
    assert len(decoder._measured) < 100


def test_part_of_an_unknown_event_is_empty() -> None:
    assert part_of(({":message-type": "event", ":event-type": "News"}, b"x")) == b""


def test_model_stream_error_keeps_its_error_code() -> None:
    headers: dict[str, HeaderValue] = {
        ":message-type": "exception",
        ":exception-type": "ModelStreamError",
    }
    payload = b'{"Message": "took too long", "ErrorCode": "ModelInvocationTimeExceeded"}'

    with pytest.raises(StreamInterruptedError, match="took too long") as caught:
        part_of((headers, payload))

    assert caught.value.error_code == "ModelInvocationTimeExceeded"
    assert not caught.value.is_retryable


@pytest.mark.parametrize("payload", [b"plain words", b"[1]"])
def test_exception_without_json_object_shows_its_text(payload: bytes) -> None:
    headers: dict[str, HeaderValue] = {
        ":message-type": "exception",
        ":exception-type": "InternalStreamFailure",
    }

    with pytest.raises(StreamInterruptedError, match="InternalStreamFailure") as caught:
        part_of((headers, payload))

    assert caught.value.body == payload.decode()


def test_error_message_raises_with_its_code() -> None:
    headers: dict[str, HeaderValue] = {
        ":message-type": "error",
        ":error-code": "Overloaded",
        ":error-message": "busy",
    }

    with pytest.raises(StreamInterruptedError, match="busy") as caught:
        part_of((headers, b""))

    assert caught.value.error_code == "Overloaded"
