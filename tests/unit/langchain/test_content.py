"""Blocks of every shape become vLLM's parts; what vLLM cannot take says what to do."""

import base64
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from langchain_sagemaker_vllm._content import read_content
from langchain_sagemaker_vllm._errors import ConfigurationError

PNG = "iVBORw0KGgo="
DATA_URL = f"data:image/png;base64,{PNG}"
URL = "https://example.invalid/cat.png"
WAV = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVEfmt ").decode()


def part(block: Any) -> dict[str, Any]:
    """Return the one part that a block becomes."""
    (made,) = read_content([block], where="messages[0] (human)").parts
    return made


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "base64": PNG},
        {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "url": DATA_URL},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "image_url", "image_url": DATA_URL},
        {"image_url": {"url": DATA_URL}},
        {"type": "input_image", "image_url": DATA_URL},
        {"type": "image", "data": base64.b64decode(PNG)},
        {"type": "file", "base64": PNG, "mime_type": "image/png"},
        {"type": "non_standard", "value": {"type": "image", "base64": PNG}},
    ],
)
def test_every_shape_of_an_image_becomes_one_data_url(block: dict[str, Any]) -> None:
    assert part(block) == {"type": "image_url", "image_url": {"url": DATA_URL}}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "url": URL},
        {"type": "image", "source_type": "url", "url": URL},
        {"type": "image", "source": {"type": "url", "url": URL}},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_image", "image_url": URL},
        {"type": "file", "url": URL, "mime_type": "image/png"},
    ],
)
def test_every_shape_of_an_image_url_keeps_the_url(block: dict[str, Any]) -> None:
    assert part(block) == {"type": "image_url", "image_url": {"url": URL}}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "url": URL, "detail": "low"},
        {"type": "image", "url": URL, "extras": {"detail": "low"}},
        {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
        {"type": "input_image", "image_url": URL, "detail": "low"},
    ],
)
def test_the_detail_of_an_image_is_kept(block: dict[str, Any]) -> None:
    assert part(block)["image_url"] == {"url": URL, "detail": "low"}


def test_the_cache_key_of_an_image_is_kept() -> None:
    assert part({"type": "image", "url": URL, "uuid": "cat-1"})["uuid"] == "cat-1"


def test_a_path_object_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cat.png"
    file.write_bytes(base64.b64decode(PNG))

    assert part({"type": "image", "path": file})["image_url"]["url"] == DATA_URL


def test_a_path_object_of_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        part({"type": "image", "path": tmp_path / "no.png"})


def test_a_pillow_image_is_sent_as_png() -> None:
    image = Image.new("RGB", (1, 1))

    assert part({"type": "image", "source": image})["image_url"]["url"].startswith(
        "data:image/png;base64,iVBOR"
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "url": "/etc/passwd"},
        {"type": "image", "path": "cat.png"},
        {"type": "image_url", "image_url": "cat.png"},
        {"type": "image", "url": "file:///etc/passwd"},
        {"type": "image", "source": "cat.png"},
    ],
)
def test_a_path_in_text_never_reads_a_file(block: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"pathlib\.Path"):
        part(block)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "base64": WAV, "mime_type": "audio/wav"},
        {"type": "audio", "source_type": "base64", "data": WAV, "mime_type": "audio/wav"},
        {"type": "file", "base64": WAV, "mime_type": "audio/wav"},
    ],
)
def test_audio_goes_inline(block: dict[str, Any]) -> None:
    assert part(block) == {
        "type": "audio_url",
        "audio_url": {"url": f"data:audio/wav;base64,{WAV}"},
    }


@pytest.mark.parametrize("kind", [{"type": "input_audio"}, {}])
def test_openais_audio_passes(kind: dict[str, str]) -> None:
    held = {"input_audio": {"data": WAV, "format": "wav"}}

    assert part({**kind, **held}) == {"type": "input_audio", **held}


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_audio_and_video_urls_are_vllms_own_parts(kind: str) -> None:
    name = f"{kind}_url"
    wanted = {"type": name, name: {"url": URL}}

    assert part({"type": kind, "url": URL}) == wanted
    assert part(wanted) == wanted


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_embeds", "image_embeds": "AAAA"},
        {"type": "prompt_embeds", "prompt_embeds": {"data": "AAAA"}},
        {"type": "tool_reference", "name": "f"},
        {"type": "non_standard", "value": {"type": "image_embeds", "image_embeds": "AAAA"}},
    ],
)
def test_vllms_own_parts_pass(block: dict[str, Any]) -> None:
    assert part(block) == block.get("value", block)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "base64": "aGk=", "mime_type": "text/plain"},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}},
        {"type": "file", "data": b"hi", "mime_type": "text/csv"},
        {"type": "text-plain", "base64": "aGk=", "mime_type": "text/plain"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
    ],
)
def test_text_files_are_sent_as_text(block: dict[str, Any]) -> None:
    assert part(block) == {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({"type": "file", "base64": "JVBERi0=", "mime_type": "application/pdf"}, "render its"),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}}, "render its"),
        ({"type": "file", "base64": "/w==", "mime_type": "text/plain"}, "vLLM cannot read"),
        ({"type": "file", "url": URL}, "type 'unknown'"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "file_id cannot be sent"),
        ({"type": "image", "file_id": "file-1"}, "file_id cannot be sent"),
        ({"type": "image"}, "without url, base64 or path"),
        ({"type": "image", "base64": PNG, "mime_type": 3}, "mime_type is a int"),
        ({"type": "input_audio"}, "input_audio is a NoneType; it must be"),
        ({"input_audio": ["x"]}, "input_audio is a list; it must be"),
        ({"type": "server_tool_result", "output": "x"}, "type 'server_tool_result'"),
        ({"type": "non_standard", "value": 3}, "type 'non_standard'"),
        ({"colour": "red"}, "type 'None'"),
        (3, "a content block is a str or dict"),
    ],
)
def test_what_vllm_cannot_take_is_refused_with_a_cure(block: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as caught:
        part(block)

    assert str(caught.value).startswith("messages[0] (human) holds")


@pytest.mark.parametrize(
    ("block", "reasoning"),
    [
        ({"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}]}, "a\n\nb"),
        ({"type": "reasoning", "summary": ["a", None, 3]}, "a\n\n\n\n"),
    ],
)
def test_reasoning_of_any_shape_is_read(block: dict[str, Any], reasoning: str) -> None:
    assert read_content([block], where="messages[0] (ai)").reasoning == [reasoning]


@pytest.mark.parametrize("content", [3, {"type": "text", "text": "a"}])
def test_content_that_is_no_list_is_refused(content: Any) -> None:
    with pytest.raises(ConfigurationError, match="as content; it must be a str or list"):
        read_content(content, where="messages[0] (tool)")


def test_broken_base64_is_refused_before_sending() -> None:
    with pytest.raises(ValueError, match="not valid base64"):
        part({"type": "image", "base64": "not base64!", "mime_type": "image/png"})
