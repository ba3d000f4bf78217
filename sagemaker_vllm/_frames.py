"""AWS event-stream frames → the container's bytes (pure, incremental).

Frame: total length, header length, CRC of those eight bytes, headers, payload, CRC of all before;
big-endian. botocore's `EventStreamBuffer` reads the same in about ten times the time and drops
`ModelStreamError`'s `ErrorCode`; a property test holds the two equal on any bytes.
"""

import struct
from collections.abc import Iterator
from zlib import crc32

import orjson

from sagemaker_vllm._error_table import stream_fault
from sagemaker_vllm._errors import StreamDecodeError, StreamInterruptedError

# The limits of botocore's decoder.
MAX_HEADERS = 128 * 1024
MAX_PAYLOAD = 24 * 1024 * 1024
_PRELUDE = 12
_OVERHEAD = _PRELUDE + 4
# Of lengths and headers that are known by their bytes.
_KEPT = 64

_prelude = struct.Struct(">III").unpack
_checksum = struct.Struct(">I").unpack_from

HeaderValue = bool | int | str | bytes
Frame = tuple[dict[str, HeaderValue], bytes]
"""One frame: its headers and its payload."""


class FrameDecoder:
    """Cuts a byte stream into frames, wherever the reads may have cut it."""

    def __init__(self) -> None:
        """Start with an empty buffer."""
        # The open frame; it is joined only when all of it is there.
        self._buffer = bytearray()
        self._needed = _PRELUDE
        # Frames of a stream have the same headers, and differ little in length.
        self._measured: dict[bytes, tuple[int, int]] = {}
        self._parsed: dict[bytes, dict[str, HeaderValue]] = {}

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that `data` completes.

        Raises:
            StreamDecodeError: A length or checksum is wrong; raised after the frames before it.
        """
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        start, size, self._needed = 0, len(data), _PRELUDE
        try:
            while size - start >= _PRELUDE:
                prelude = data[start : start + _PRELUDE]
                total, body = self._measured.get(prelude) or self._measure(prelude)
                end = start + total
                if end > size:
                    self._needed = total
                    break
                if crc32(data[start : end - 4]) != _checksum(data, end - 4)[0]:
                    raise StreamDecodeError(_damaged("message checksum mismatch"))
                raw = data[start + _PRELUDE : start + body]
                headers = self._parsed.get(raw) or self._headers(raw)
                payload = data[start + body : end - 4]
                start = end
                yield headers, payload
        finally:
            self._buffer += data[start:]

    def finish(self) -> None:
        """Check that the stream ended between two frames.

        Raises:
            StreamInterruptedError: It ended inside a frame, which HTTP alone does not show.
        """
        if self._buffer:
            message = f"The stream ended inside an event ({len(self._buffer)} bytes of it came)."
            raise StreamInterruptedError(message, error_code="StreamTruncated")

    def _measure(self, prelude: bytes) -> tuple[int, int]:
        """Return a frame's length, and where in it the payload begins."""
        total, headers_length, checksum = _prelude(prelude)
        if crc32(prelude[:8]) != checksum:
            raise StreamDecodeError(_damaged("prelude checksum mismatch"))
        payload_length = total - headers_length - _OVERHEAD
        if headers_length > MAX_HEADERS or not 0 <= payload_length <= MAX_PAYLOAD:
            raise StreamDecodeError(_damaged(f"lengths {total} and {headers_length}"))
        measured = total, _PRELUDE + headers_length
        if len(self._measured) < _KEPT:
            self._measured[prelude] = measured
        return measured

    def _headers(self, raw: bytes) -> dict[str, HeaderValue]:
        headers = _parse_headers(raw)
        if len(self._parsed) < _KEPT:
            self._parsed[raw] = headers
        return headers


def part_of(frame: Frame) -> bytes:
    """Return the container's bytes in a frame; none for an event of unknown kind.

    Raises:
        StreamInterruptedError: The frame is an exception or error of the service.
    """
    headers, payload = frame
    kind = headers.get(":message-type")
    if kind == "event":
        return payload if headers.get(":event-type") == "PayloadPart" else b""
    if kind == "error":
        raise stream_fault(str(headers.get(":error-code")), str(headers.get(":error-message", "")))
    try:
        body = orjson.loads(payload)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        body = {"Message": payload.decode(errors="replace")}
    raise stream_fault(
        str(headers.get(":exception-type")),
        str(body.get("Message") or body.get("message") or ""),
        error_code=body.get("ErrorCode"),
    )


def _damaged(why: str) -> str:
    return f"The event stream is damaged: {why}."


_FIXED = {2: ">b", 3: ">h", 4: ">i", 5: ">q", 8: ">q"}
_TRUE, _FALSE, _BYTES, _STRING, _UUID = 0, 1, 6, 7, 9


def _parse_headers(raw: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    position = 0
    try:
        while position < len(raw):
            name_end = position + 1 + raw[position]
            name = raw[position + 1 : name_end].decode()
            kind = raw[name_end]
            value, position = _parse_value(raw, name_end + 1, kind)
            if name in headers or position > len(raw):
                raise StreamDecodeError(_damaged(f"header {name!r}"))
            headers[name] = value
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise StreamDecodeError(_damaged("headers cannot be read")) from error
    return headers


def _parse_value(raw: bytes, position: int, kind: int) -> tuple[HeaderValue, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, position
    if kind == _UUID:
        return raw[position : position + 16], position + 16
    if kind in (_BYTES, _STRING):
        (length,) = struct.unpack_from(">H", raw, position)
        end = position + 2 + length
        value = raw[position + 2 : end]
        return (value.decode() if kind == _STRING else value), end
    layout = _FIXED[kind]
    (number,) = struct.unpack_from(layout, raw, position)
    return number, position + struct.calcsize(layout)
