"""Every content block of LlamaIndex: sent, dropped on purpose, or refused with the cure."""

import base64
import io
from pathlib import Path
from typing import Any, get_args

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    BaseContentBlock,
    CacheControl,
    CachePoint,
    CitableBlock,
    CitationBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)

from llama_index_sagemaker_vllm._blocks import to_wire_parts
from sagemaker_vllm import ConfigurationError

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(20)
MP4 = b"\0\0\0\x18ftypisom" + bytes(20)
URL = "https://example.invalid/a.png"


def data_url(raw: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(raw).decode()}"


def image(url: str, **more: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


PNG_PART = image(data_url(PNG, "image/png"))
WAV_PART = {
    "type": "input_audio",
    "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"},
}
MP4_PART = {"type": "video_url", "video_url": {"url": data_url(MP4, "video/mp4")}}
CITATION = {"source": "s", "title": "t", "additional_location_info": {}}


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (TextBlock(text="a"), [text("a")]),
        (ImageBlock(image=PNG), [PNG_PART]),
        (ImageBlock(image=base64.b64encode(PNG)), [PNG_PART]),
        (ImageBlock(image=io.BytesIO(PNG)), [PNG_PART]),
        (ImageBlock(url=URL), [image(URL)]),
        (ImageBlock(url=data_url(PNG, "image/png")), [PNG_PART]),
        (ImageBlock(url=URL, detail="low"), [image(URL, detail="low")]),
        (AudioBlock(audio=WAV), [WAV_PART]),
        (AudioBlock(audio=io.BytesIO(WAV), format="wav"), [WAV_PART]),
        (
            AudioBlock(url="https://example.invalid/a.mp3"),
            [{"type": "audio_url", "audio_url": {"url": "https://example.invalid/a.mp3"}}],
        ),
        (VideoBlock(video=MP4), [MP4_PART]),
        (VideoBlock(video=MP4, fps=2, detail="low"), [MP4_PART]),
        (DocumentBlock(data=b"plain words"), [text("plain words")]),
        (DocumentBlock(data=b"{}", document_mimetype="application/json"), [text("{}")]),
        (DocumentBlock(data=b"words", title="Notes"), [text("Notes:\nwords")]),
        (DocumentBlock(url=data_url(b"words", "text/plain")), [text("words")]),
        (CachePoint(cache_control=CacheControl(type="ephemeral")), []),
        (
            CitableBlock(title="t", source="s", content=[TextBlock(text="a"), ImageBlock(url=URL)]),
            [text("t (s):"), text("a"), image(URL)],
        ),
        (CitationBlock(cited_content=TextBlock(text="a"), **CITATION), [text("a")]),
        (ThinkingBlock(content="hm"), []),
        (ToolCallBlock(tool_name="f"), []),
    ],
)
def test_block_gives_these_parts(block: BaseContentBlock, parts: list[dict[str, Any]]) -> None:
    assert to_wire_parts(block) == parts


def test_every_block_of_the_framework_is_known() -> None:
    union, _ = get_args(ContentBlock)
    bare = {"tool_name": "f", "text": "t", "title": "t", "source": "s", "content": "c"}
    more = {"cited_content": "c", "additional_location_info": {}, "image": PNG, "audio": WAV}
    values = bare | more | {"video": MP4, "data": b"d", "cache_control": CacheControl(type="e")}
    blocks = [
        kind(**{name: values[name] for name in kind.model_fields.keys() & values.keys()})
        for kind in get_args(union)
        if kind is not ThinkingBlock
    ]

    parts = [to_wire_parts(block) for block in blocks]

    assert len(parts) == 9


@pytest.mark.parametrize("spelling", ["image", "audio", "video", "document"])
def test_file_is_sent_inline_and_never_its_path(tmp_path: Path, spelling: str) -> None:
    make, raw, expected = {
        "image": (ImageBlock, PNG, PNG_PART),
        "audio": (AudioBlock, WAV, WAV_PART),
        "video": (VideoBlock, MP4, MP4_PART),
        "document": (DocumentBlock, b"words", text("words")),
    }[spelling]
    path = tmp_path / "a.bin"
    path.write_bytes(raw)

    assert to_wire_parts(make(path=path)) == [expected]


def test_file_object_can_be_sent_again_on_the_next_turn() -> None:
    block = ImageBlock(image=io.BytesIO(PNG))

    assert to_wire_parts(block) == to_wire_parts(block) == [PNG_PART]


def test_missing_file_is_refused_before_any_request(tmp_path: Path) -> None:
    path = tmp_path / "pic.png"
    path.write_bytes(PNG)
    block = ImageBlock(path=path)
    path.unlink()

    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        to_wire_parts(block)


class StrangeBlock(BaseContentBlock):
    pass


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (ImageBlock(), "is empty"),
        (ImageBlock(image=io.BytesIO()), "zero bytes"),
        (ImageBlock(image=b"no image"), "no kind known"),
        (ImageBlock(url="file:///tmp/a.png"), "Give a file by its path"),
        (ImageBlock(url="s3://bucket/a.png"), "presigned https URL"),
        (ImageBlock(image=b"%PDF-1.7 x"), "Render its pages to images"),
        (AudioBlock(audio=PNG), "'image/png'"),
        (DocumentBlock(), "is empty"),
        (DocumentBlock(data=b"%PDF-1.7 x"), "'application/pdf'"),
        (DocumentBlock(data=b"\xff\xfe words"), "not UTF-8"),
        (DocumentBlock(data=b"a\0b"), "binary"),
        (DocumentBlock(data=b"x", document_mimetype="application/msword"), "application/msword"),
        (DocumentBlock(url="https://example.invalid/a.txt"), "download it"),
        (DocumentBlock(path="/nowhere/a.txt"), "cannot be read"),
        (StrangeBlock(), "cannot take a StrangeBlock"),
    ],
)
def test_what_vllm_cannot_take_is_refused_with_the_cure(block: BaseContentBlock, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        to_wire_parts(block)
