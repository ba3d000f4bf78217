"""Looks at images and audio: enough to refuse what is none, and to say what came."""

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from sagemaker_vllm.emulator._synthetic_refusal import RefusedError

_COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "white": (255, 255, 255),
    "black": (0, 0, 0),
}
_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
}


def describe_media(modality: str, part: Mapping[str, Any]) -> str:
    """Say what a content part holds, such as `image/png 8x8 red`.

    Args:
        modality: `image`, `audio` or `video`.
        part: The content part.

    Raises:
        RefusedError: vLLM would not take its URL or its bytes.
    """
    source = part.get(f"{modality}_url", part.get(f"input_{modality}"))
    if isinstance(source, Mapping) and "data" in source:
        source = f"data:{modality}/{source['format']};base64,{source['data']}"
    url = source.get("url") if isinstance(source, Mapping) else source
    scheme, _, rest = str(url).partition(":")
    if scheme in ("http", "https"):
        return f"{modality} from {rest.lstrip('/').partition('/')[0]}"
    if scheme != "data":
        raise RefusedError("The URL must be either a HTTP, data or file URL.")
    head, _, encoded = rest.partition(",")
    if not head.endswith(";base64"):
        raise RefusedError("Only base64 data URLs are supported for now.", status=501)
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise RefusedError("Non-base64 digit found") from None
    return _describe_image(data) if modality == "image" else f"{head[:-7]} {len(data)} bytes"


def _describe_image(data: bytes) -> str:
    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if kind is None:
        problem = "cannot identify image file <_io.BytesIO object>"
        raise RefusedError(f"Failed to load image: {problem}")
    if kind != "image/png":
        return kind
    width, height = (int.from_bytes(data[start : start + 4]) for start in (16, 20))
    return f"{kind} {width}x{height} {_first_colour(data)}".strip()


def _first_colour(png: bytes) -> str:
    """Name the colour of the first pixel, which no PNG filter changes, of plain RGB and RGBA."""
    if png[24:26] not in (b"\x08\x02", b"\x08\x06"):
        return ""
    try:
        pixels = zlib.decompressobj().decompress(png[png.index(b"IDAT") + 4 :], 4)
    except (zlib.error, ValueError):
        return ""
    return min(_COLOURS, key=lambda name: _distance(pixels[1:4], _COLOURS[name]))


def _distance(one: Sequence[int], two: Sequence[int]) -> int:
    return sum(abs(a - b) for a, b in zip(one, two, strict=False))
