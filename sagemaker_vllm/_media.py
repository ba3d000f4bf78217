"""Turn images, audio and video from any usual source into vLLM content parts.

The kind of the bytes is read from their first few (magic numbers), so no source needs a file
name or a MIME type. Everything but an http(s) URL is sent inline, as base64: an endpoint with
network isolation can fetch nothing. Mind that base64 adds a third to the size, and that SageMaker
takes 6 MiB a request.
"""

from __future__ import annotations

import base64
import io
import os
import re
import string
from typing import Any, Literal, Protocol, TypeAlias, cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from sagemaker_vllm._errors import ConfigurationError

Kind = Literal["image", "audio", "video"]


class PILImage(Protocol):
    """What is used of a `PIL.Image.Image`; Pillow itself is never imported."""

    @property
    def mode(self) -> str:
        """How its pixels are stored, such as `RGB`."""
        ...

    def convert(self, mode: str = ...) -> PILImage:
        """Return the image with its pixels in another mode."""
        ...

    def save(self, fp: Any, format: str = ...) -> None:  # noqa: A002 - Pillow's own name
        """Write the image in the named format."""
        ...


MediaSource: TypeAlias = str | bytes | bytearray | memoryview | os.PathLike[str] | PILImage

_SNIFFED: dict[Kind, str] = {
    "image": "PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF",
    "audio": "WAV, MP3, FLAC, Ogg",
    "video": "MP4, QuickTime, WebM, Matroska",
}
_MAGIC = tuple(
    (re.compile(pattern, re.DOTALL), mime_type)
    for pattern, mime_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBP", "image/webp"),
        (rb"BM.{4}\0\0\0\0", "image/bmp"),
        (rb"II\*\0|MM\0\*", "image/tiff"),
        (rb".{4}ftypavif", "image/avif"),
        (rb"RIFF....WAVE", "audio/wav"),
        # An ID3 tag, or an MPEG audio frame: sync bits, a real version, layer III.
        (rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]", "audio/mpeg"),
        (rb"fLaC", "audio/flac"),
        (rb"OggS", "audio/ogg"),
        (rb".{4}ftypM4A ", "audio/mp4"),
        (rb".{4}ftypqt  ", "video/quicktime"),
        # Brands he.., mif. and msf. are still pictures (HEIC) in an MP4 container.
        (rb".{4}ftyp(?!he|mif|msf)", "video/mp4"),
        (rb"\x1aE\xdf\xa3.*webm", "video/webm"),
        (rb"\x1aE\xdf\xa3", "video/x-matroska"),
        (rb"RIFF....AVI ", "video/x-msvideo"),
        (rb"%PDF-", "application/pdf"),
    )
)
_HEAD_BYTES = 64
# Pillow writes these modes as PNG; the others (CMYK, YCbCr, LAB, HSV, F) need RGB first.
_PNG_MODES = frozenset({"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"})
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "x-flac": "flac"}


def image_part(
    source: MediaSource,
    *,
    mime_type: str | None = None,
    detail: str | None = None,
    uuid: str | None = None,
) -> dict[str, Any]:
    """Build an `image_url` content part.

    Args:
        source: An http(s) URL (sent as it is, the server fetches it), a base64 data URL, base64
            text, bytes, the path of a file, or a Pillow image (sent as PNG).
        mime_type: MIME type of the bytes. Default: read from their first bytes.
        detail: OpenAI's `detail`. vLLM takes it and ignores it.
        uuid: Your own key for vLLM's cache of processed media.

    Returns:
        The content part, as vLLM's chat API takes it.

    Raises:
        ConfigurationError: If the file is missing, the data URL is not base64, or the source is
            not an image.
    """
    if _is_pil_image(source):
        source, mime_type = _png_bytes(cast("PILImage", source)), "image/png"
    payload = {"url": _media_url(source, "image", mime_type)}
    return _part("image_url", payload | ({"detail": detail} if detail else {}), uuid)


def audio_part(
    source: MediaSource, *, mime_type: str | None = None, uuid: str | None = None
) -> dict[str, Any]:
    """Build an audio content part: `audio_url` for a URL, else OpenAI's `input_audio`.

    Args:
        source: An http(s) or base64 data URL, base64 text, bytes, or the path of a file.
        mime_type: MIME type of the bytes. Default: read from their first bytes.
        uuid: Your own key for vLLM's cache of processed media.

    Returns:
        The content part, as vLLM's chat API takes it.

    Raises:
        ConfigurationError: If the file is missing, the data URL is not base64, or the source is
            not audio.
    """
    url = _media_url(source, "audio", mime_type)
    if isinstance(source, str) and _is_url(source):
        return _part("audio_url", {"url": url}, uuid)
    head, _, encoded = url.partition(",")
    subtype = head.removeprefix("data:audio/").removesuffix(";base64")
    audio_format = _AUDIO_FORMATS.get(subtype, subtype)
    return _part("input_audio", {"data": encoded, "format": audio_format}, uuid)


def video_part(
    source: MediaSource, *, mime_type: str | None = None, uuid: str | None = None
) -> dict[str, Any]:
    """Build a `video_url` content part (vLLM's own; OpenAI has none).

    Args:
        source: An http(s) or base64 data URL, base64 text, bytes, or the path of a file.
        mime_type: MIME type of the bytes. Default: read from their first bytes.
        uuid: Your own key for vLLM's cache of processed media.

    Returns:
        The content part, as vLLM's chat API takes it.

    Raises:
        ConfigurationError: If the file is missing, the data URL is not base64, or the source is
            not a video.
    """
    return _part("video_url", {"url": _media_url(source, "video", mime_type)}, uuid)


def sniff_mime_type(head: bytes) -> str | None:
    """Name the MIME type of bytes by their first 64, or `None` when they are of no known kind."""
    return next((mime_type for magic, mime_type in _MAGIC if magic.match(head)), None)


def _part(name: str, payload: dict[str, str], uuid: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"type": name, name: payload}
    return part | ({"uuid": uuid} if uuid else {})


def _is_url(source: str) -> bool:
    return source[:8].lower().startswith(("http://", "https://", "data:"))


def _media_url(source: object, kind: Kind, mime_type: str | None) -> str:
    if isinstance(source, str):
        return _url_of_text(source, kind, mime_type)
    if isinstance(source, os.PathLike):
        return _url_of_file(os.fspath(source), kind, mime_type)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _url_of_bytes(bytes(source), kind, mime_type, f"{len(source)} bytes")
    raise ConfigurationError(
        f"The {kind} source is a {type(source).__name__!r}; give a URL, a data URL, base64 text, "
        "bytes or the path of a file."
    )


def _url_of_text(source: str, kind: Kind, mime_type: str | None) -> str:
    scheme = source[:16].partition(":")[0].lower()
    if scheme in {"http", "https"}:
        return source
    if scheme == "data":
        return _checked_data_url(source, kind, mime_type)
    if scheme == "file":
        return _url_of_file(url2pathname(unquote(urlsplit(source).path)), kind, mime_type)
    if "://" in source[:32]:
        raise ConfigurationError(
            f"The {kind} URL {source[:64]!r} is neither http(s) nor data nor file. "
            "Give a presigned https URL, or the bytes."
        )
    return _url_of_bare_text(source, kind, mime_type)


def _url_of_bare_text(source: str, kind: Kind, mime_type: str | None) -> str:
    """Tell base64 text from a path.

    A JPEG in base64 begins with `/9j/`, as a path might: text whose bytes are known media is
    base64, whatever files there are. Other text is a path when that file exists, and base64 when
    a MIME type came with it.
    """
    encoded = _base64_of(source)
    head = _head_of(encoded or "")
    if head and (sniff_mime_type(head) or (mime_type and not os.path.isfile(source))):  # noqa: PTH113 - a str is all there is
        return f"data:{_mime_type(head, kind, mime_type, 'base64 text')};base64,{encoded}"
    return _url_of_file(source, kind, mime_type)


def _url_of_file(path: str, kind: Kind, mime_type: str | None) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a str is all there is
            raw = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"The {kind} {path[:64]!r} cannot be read: {reason}. Give the path of a file, "
            "an http(s) URL, a data URL, base64 text, or bytes."
        ) from error
    return _url_of_bytes(raw, kind, mime_type, repr(path))


def _url_of_bytes(raw: bytes, kind: Kind, mime_type: str | None, where: str) -> str:
    found = _mime_type(raw[:_HEAD_BYTES], kind, mime_type, where)
    return f"data:{found};base64,{base64.b64encode(raw).decode('ascii')}"


def _checked_data_url(source: str, kind: Kind, mime_type: str | None) -> str:
    start, comma, text = source.partition(",")
    stated, *parameters = start[len("data:") :].split(";")
    encoded = _base64_of(text) if comma and "base64" in parameters else None
    if encoded is None:
        raise ConfigurationError(
            f"The {kind} data URL {start[:64]!r} is not valid base64, the only kind vLLM takes. "
            "Encode it as 'data:<mime type>;base64,<data>', or give the bytes."
        )
    found = _mime_type(_head_of(encoded), kind, stated or mime_type, "data URL")
    is_kept = encoded is text and start == f"data:{found};base64"
    return source if is_kept else f"data:{found};base64,{encoded}"


_BASE64 = (string.ascii_letters + string.digits + "+/").encode()


def _base64_of(text: str) -> str | None:
    """Return base64 text without line breaks; `None` for anything else.

    Pictures are large: to take the alphabet away is a third of the work of decoding.
    """
    if len(text) % 4 == 0 and text.isascii():
        padding = text.encode().translate(None, _BASE64)
        if padding in (b"", b"=", b"==") and text.endswith(padding.decode()):
            return text
    joined = "".join(text.split())
    return _base64_of(joined) if joined != text else None


def _head_of(encoded: str) -> bytes:
    # Four characters are three bytes.
    return base64.b64decode(encoded[: 4 * (_HEAD_BYTES // 3 + 1)])


def _mime_type(head: bytes, kind: Kind, stated: str | None, where: str) -> str:
    """Name the MIME type of media by its first bytes, and by what the caller said."""
    if not head:
        raise ConfigurationError(f"The {kind} ({where}) is empty.")
    sniffed = sniff_mime_type(head)
    # A container of sound and pictures may hold either; an image stays one, whatever its name.
    is_other = sniffed and (kind == "image") is not sniffed.startswith("image/")
    found = sniffed if is_other else stated or sniffed
    if found == "application/pdf":
        raise ConfigurationError(
            f"The {kind} ({where}) is a PDF, which vLLM cannot read. Render its pages to images, "
            "or extract its text."
        )
    if not found or not found.startswith(f"{kind}/"):
        what = f"is {found!r}" if found else "is of no kind known by its first bytes"
        raise ConfigurationError(
            f"The {kind} ({where}) {what}. Known are {_SNIFFED[kind]}; for another "
            f"format pass mime_type='{kind}/...'."
        )
    return found


def _is_pil_image(source: object) -> bool:
    return callable(getattr(source, "save", None)) and hasattr(source, "mode")


def _png_bytes(image: PILImage) -> bytes:
    buffer = io.BytesIO()
    (image if image.mode in _PNG_MODES else image.convert("RGB")).save(buffer, format="PNG")
    return buffer.getvalue()
