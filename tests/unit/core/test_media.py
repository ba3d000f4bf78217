"""Media parts: every source, every kind, and clear errors for what vLLM cannot take."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm._media import audio_part, image_part, sniff_mime_type, video_part

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IMAGE_URL = "https://example.invalid/a.png"


def picture(image_format: str = "PNG", mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (3, 2), color=0 if mode != "RGB" else (1, 2, 3)).save(buffer, image_format)
    return buffer.getvalue()


PNG = picture()
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(20)
MP4 = b"\0\0\0\x18ftypisom" + bytes(20)


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def data_url(raw: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{encoded(raw)}"


PNG_PART = {"type": "image_url", "image_url": {"url": data_url(PNG, "image/png")}}


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (picture("PNG"), "image/png"),
        (picture("JPEG"), "image/jpeg"),
        (picture("GIF"), "image/gif"),
        (picture("WEBP"), "image/webp"),
        (picture("BMP"), "image/bmp"),
        (picture("TIFF"), "image/tiff"),
        (picture("AVIF"), "image/avif"),
        (b"MM\x00*rest", "image/tiff"),
        (b"GIF87arest", "image/gif"),
        (WAV, "audio/wav"),
        (b"RIFF\0\0\0\0AVI LIST", "video/x-msvideo"),
        (b"RIFF\0\0\0\0XXXX", None),
        (b"ID3\x04rest", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf3\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", None),
        (b"\xff", None),
        (b"fLaC\0", "audio/flac"),
        (b"OggS\0", "audio/ogg"),
        (MP4, "video/mp4"),
        (b"\0\0\0\x18ftypqt  ", "video/quicktime"),
        (b"\0\0\0\x18ftypM4A ", "audio/mp4"),
        (b"\0\0\0\x18ftypheic", None),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "video/webm"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska", "video/x-matroska"),
        (b"%PDF-1.7", "application/pdf"),
        (b"BM is how this text begins", None),
        (b"plain text", None),
        (b"", None),
    ],
)
def test_sniffing_names_the_kind_of_the_first_bytes(head: bytes, mime_type: str | None) -> None:
    assert sniff_mime_type(head[:64]) == mime_type


def test_image_url_is_kept_as_it_is() -> None:
    part = image_part(IMAGE_URL)

    assert part == {"type": "image_url", "image_url": {"url": IMAGE_URL}}


@pytest.mark.parametrize(
    "source",
    [
        PNG,
        bytearray(PNG),
        memoryview(PNG),
        encoded(PNG),
        f"{encoded(PNG)[:20]}\n{encoded(PNG)[20:]}\n",
        data_url(PNG, "image/png"),
        data_url(PNG, ""),
        data_url(PNG, "image/png;charset=utf-8"),
    ],
    ids=[
        "bytes",
        "bytearray",
        "memoryview",
        "base64",
        "base64-with-line-breaks",
        "data-url",
        "data-url-without-type",
        "data-url-with-parameter",
    ],
)
def test_inline_image_of_any_spelling_gives_one_part(source: Any) -> None:
    assert image_part(source) == PNG_PART


def test_base64_jpeg_is_not_taken_for_a_path() -> None:
    jpeg = picture("JPEG")

    part = image_part(encoded(jpeg))

    assert encoded(jpeg).startswith("/9j/")
    assert part["image_url"]["url"] == data_url(jpeg, "image/jpeg")


@pytest.mark.parametrize(
    "spelling",
    [lambda path: path, str, lambda path: path.as_uri()],
    ids=["path", "text", "file-url"],
)
def test_file_is_sent_inline_and_never_its_path(
    tmp_path: Path, spelling: Callable[[Path], Any]
) -> None:
    path = tmp_path / "my pic.png"
    path.write_bytes(PNG)

    part = image_part(spelling(path))

    assert part == PNG_PART


def test_existing_file_whose_name_is_base64_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "abcd").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)

    assert image_part("abcd", mime_type="image/png") == PNG_PART


def test_base64_of_unknown_bytes_needs_only_a_mime_type() -> None:
    part = image_part(encoded(b"new kind"), mime_type="image/jxl")

    assert part["image_url"]["url"] == data_url(b"new kind", "image/jxl")


def test_mime_type_given_wins_over_the_bytes() -> None:
    part = image_part(PNG, mime_type="image/apng")

    assert part["image_url"]["url"] == data_url(PNG, "image/apng")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "F"])
def test_pillow_image_of_any_mode_is_sent_as_png(mode: str) -> None:
    part = image_part(Image.new(mode, (3, 2)))

    raw = base64.b64decode(part["image_url"]["url"].removeprefix("data:image/png;base64,"))
    assert Image.open(io.BytesIO(raw)).size == (3, 2)


def test_detail_and_uuid_are_passed_on() -> None:
    part = image_part(IMAGE_URL, detail="low", uuid="k1")

    expected = {"type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "low"}, "uuid": "k1"}
    assert part == expected


@pytest.mark.parametrize(
    ("raw", "mime_type", "audio_format"),
    [
        (WAV, None, "wav"),
        (b"ID3\x04rest", None, "mp3"),
        (b"fLaC\0", None, "flac"),
        (b"OggS\0", None, "ogg"),
        (b"raw", "audio/x-wav", "wav"),
        (b"raw", "audio/aac", "aac"),
    ],
)
def test_inline_audio_is_input_audio(raw: bytes, mime_type: str | None, audio_format: str) -> None:
    part = audio_part(raw, mime_type=mime_type)

    payload = {"data": encoded(raw), "format": audio_format}
    assert part == {"type": "input_audio", "input_audio": payload}


@pytest.mark.parametrize("url", ["https://example.invalid/a.wav", data_url(WAV, "audio/wav")])
def test_audio_url_is_audio_url(url: str) -> None:
    assert audio_part(url, uuid="k") == {
        "type": "audio_url",
        "audio_url": {"url": url},
        "uuid": "k",
    }


@pytest.mark.parametrize(
    ("source", "url"),
    [(MP4, data_url(MP4, "video/mp4")), ("http://example.invalid/v", "http://example.invalid/v")],
)
def test_video_is_video_url(source: bytes | str, url: str) -> None:
    assert video_part(source) == {"type": "video_url", "video_url": {"url": url}}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("/nowhere/pic.png", "No such file"),
        ("neither path nor base64", "No such file"),
        ("with\0nul", "cannot be read"),
        ("s3://bucket/a.png", "presigned https URL"),
        ("data:image/png,abc", "not valid base64"),
        ("data:image/png;base64,***", "not valid base64"),
        ("data:image/png;base64", "not valid base64"),
        ("data:image/png;base64,", "is empty"),
        (data_url(WAV, "audio/wav"), "'audio/wav'"),
        (b"", "is empty"),
        (b"%PDF-1.7 ...", "Render its pages to images"),
        (b"plain text", "no kind known by its first bytes"),
        (WAV, "'audio/wav'"),
        (42, "'int'"),
        (None, "'NoneType'"),
    ],
)
def test_what_is_no_image_is_refused_with_the_cure(source: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        image_part(source)


def test_error_shows_no_more_than_the_head_of_a_long_text() -> None:
    with pytest.raises(ConfigurationError) as caught:
        image_part("secret? " * 100)

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("build", [audio_part, video_part])
@pytest.mark.parametrize("mime_type", [None, "audio/wav", "video/mp4"])
def test_bytes_of_another_kind_are_refused_whatever_they_are_called(
    build: Callable[..., Any], mime_type: str | None
) -> None:
    with pytest.raises(ConfigurationError, match="image/png"):
        build(PNG, mime_type=mime_type)


def test_pdf_called_an_image_is_still_a_pdf() -> None:
    with pytest.raises(ConfigurationError, match="Render its pages"):
        image_part(b"%PDF-1.7 ...", mime_type="image/png")


def test_container_of_sound_and_pictures_is_what_it_is_called() -> None:
    part = audio_part(MP4, mime_type="audio/mp4")

    assert part == {"type": "input_audio", "input_audio": {"data": encoded(MP4), "format": "mp4"}}
