"""Lines of a container's stream."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import StreamDecodeError
from sagemaker_vllm._sse import MAX_LINE, SSEDecoder


def read(*parts: bytes) -> list[bytes]:
    decoder = SSEDecoder()
    events = [event for part in parts for event in decoder.feed(part)]
    return events + decoder.finish()


@pytest.mark.parametrize(
    ("line", "data"),
    [
        (b'data: {"a":1}', b'{"a":1}'),
        (b'data:{"a":1}', b'{"a":1}'),
        (b'data:   {"a":1}  ', b'{"a":1}'),
        (b'{"a":1}', b'{"a":1}'),
        (b'\xef\xbb\xbfdata: {"a":1}', b'{"a":1}'),
        (b"data: [DONE]", b"[DONE]"),
        (b"data: data: x", b"data: x"),
        (b"Internal Server Error", b"Internal Server Error"),
    ],
)
def test_every_form_of_a_data_line_is_an_event(line: bytes, data: bytes) -> None:
    assert read(line + b"\n") == [data]


@pytest.mark.parametrize(
    "line", [b"", b": keep-alive", b"event: message", b"id: 7", b"retry: 1000", b"data", b"data:"]
)
def test_lines_without_data_are_no_events(line: bytes) -> None:
    assert read(line + b"\n\n" + b"data: x\n") == [b"x"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_every_line_end_ends_a_line(end: bytes) -> None:
    assert read(end.join([b"data: a", b"data: b", b""])) == [b"a", b"b"]


def test_last_line_without_newline_is_an_event() -> None:
    assert read(b"data: a\ndata: b") == [b"a", b"b"]


def test_separators_of_unicode_do_not_end_a_line() -> None:
    line = 'data: "a\u2028b\u0085c\x0cd"'.encode()

    assert read(line + b"\n") == [line[6:]]


LINES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_characters="\r\n"), min_size=1).map(
            lambda text: b"data: " + text.encode()
        ),
        st.sampled_from([b": ping", b"", b'{"bare": 1}', b"data:[DONE]"]),
    ),
    max_size=8,
)


@given(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
def test_any_split_of_the_bytes_gives_the_same_events(
    lines: list[bytes], end: bytes, data: st.DataObject
) -> None:
    stream = end.join([*lines, b""])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    edges = [0, *cuts, len(stream)]
    parts = [stream[a:b] for a, b in itertools.pairwise(edges)]

    assert read(*parts) == read(stream)
    assert read(*[stream[at : at + 1] for at in range(len(stream))]) == read(stream)


def test_line_of_ten_megabytes_in_small_parts_is_read() -> None:
    line = b"data: " + b"x" * 10_000_000
    parts = [line[at : at + 1000] for at in range(0, len(line), 1000)]

    assert read(*parts, b"\n") == [line[6:]]


def test_line_without_end_is_refused_at_the_limit() -> None:
    decoder = SSEDecoder()
    part = b"x" * (MAX_LINE // 4)
    for _ in range(4):
        assert decoder.feed(part) == []

    with pytest.raises(StreamDecodeError, match="longer than"):
        decoder.feed(b"x")
