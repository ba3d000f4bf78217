"""Encoder of `application/vnd.amazon.eventstream`, the framing of a SageMaker response stream.

A frame is `total length u32 | headers length u32 | CRC32 of those | headers | payload | CRC32 of
all before`, big-endian. It shares no code with any decoder, so that tests prove something.
"""

import json
import struct
import zlib
from typing import Final

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_PRELUDE: Final = struct.Struct(">II")
_CHECKSUM: Final = struct.Struct(">I")
_STRING_TYPE: Final = 7
_FRAME_OVERHEAD: Final = 16


def _encode_headers(headers: dict[str, str]) -> bytes:
    encoded = bytearray()
    for name, value in headers.items():
        raw_name, raw_value = name.encode(), value.encode()
        encoded += struct.pack(">B", len(raw_name)) + raw_name
        encoded += struct.pack(">BH", _STRING_TYPE, len(raw_value)) + raw_value
    return bytes(encoded)


def _encode_frame(headers: bytes, payload: bytes) -> bytes:
    prelude = _PRELUDE.pack(_FRAME_OVERHEAD + len(headers) + len(payload), len(headers))
    body = b"".join((prelude, _CHECKSUM.pack(zlib.crc32(prelude)), headers, payload))
    return body + _CHECKSUM.pack(zlib.crc32(body))


_PART_HEADERS: Final = _encode_headers(
    {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    },
)


def encode_part(payload: bytes) -> bytes:
    """Encode one `PayloadPart` event."""
    return _encode_frame(_PART_HEADERS, payload)


def encode_exception(exception_type: str, members: dict[str, str]) -> bytes:
    """Encode an exception event, such as `ModelStreamError` with `Message` and `ErrorCode`."""
    headers = {
        ":exception-type": exception_type,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return _encode_frame(_encode_headers(headers), json.dumps(members).encode())


def encode_error(code: str, message: str) -> bytes:
    """Encode an unmodelled error message, which carries its text in the headers."""
    headers = {":error-code": code, ":error-message": message, ":message-type": "error"}
    return _encode_frame(_encode_headers(headers), b"")
