"""Content blocks of every shape that LangChain users hold → content parts of vLLM (pure).

LangChain's v1 blocks, its older `source_type` blocks, OpenAI's and Anthropic's, and vLLM's own.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm import audio_part, image_part, video_part

Part = dict[str, Any]
"""One element of a wire message's `content` list."""

# Block type → the key of its text.
_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_REASONING = frozenset({"reasoning", "thinking", "reasoning_content", "redacted_thinking"})
_CALLS = frozenset({"tool_call", "tool_use", "function_call"})
# Pieces of calls that are on the message itself, as `tool_calls` or `invalid_tool_calls`.
_CALL_PIECES = frozenset({"tool_call_chunk", "invalid_tool_call", "input_json_delta"})
# vLLM's own parts, which no framework has a form of (wire facts A5).
_OWN = frozenset(
    {"image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "tool_reference"}
)
_MEDIA: dict[str, Callable[..., Part]] = {
    "image": image_part,
    "audio": audio_part,
    "video": video_part,
}
# OpenAI's and vLLM's media parts: the key that holds the media → its kind.
_URL_PARTS = {"image_url": "image", "audio_url": "audio", "video_url": "video"}
_FILES = frozenset({"file", "document", "text-plain"})


@dataclass(slots=True)
class Content:
    """A message's content, sorted by where it goes in a wire message."""

    parts: list[Part] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    results: list[Mapping[str, Any]] = field(default_factory=list)


def read_content(content: str | Sequence[str | Mapping[str, Any]] | None, *, where: str) -> Content:
    """Sort the blocks of a message's content.

    Args:
        content: The message's content; never changed.
        where: Which message it is, for errors.

    Raises:
        ConfigurationError: A block cannot be sent to vLLM.
    """
    found = Content()
    given = [content] if isinstance(content, str) else content or []
    if not isinstance(given, list | tuple):
        message = f"{where} holds a {type(given).__name__} as content; it must be a str or list."
        raise ConfigurationError(message)
    for block in given:
        if isinstance(block, str):
            found.parts.append({"type": "text", "text": block})
        elif isinstance(block, Mapping):
            _sort(block, found, where)
        else:
            message = f"{where} holds a {type(block).__name__}; a content block is a str or dict."
            raise ConfigurationError(message)
    return found


def _sort(block: Mapping[str, Any], found: Content, where: str) -> None:
    kind = _type_of(block)
    if kind == "non_standard" and isinstance(block.get("value"), Mapping):
        _sort(block["value"], found, where)
    elif kind in _REASONING:
        found.reasoning.append(_reasoning(block))
    elif kind in _CALLS:
        found.calls.append(block)
    elif kind == "tool_result":
        found.results.append(block)
    elif kind not in _CALL_PIECES:
        found.parts.append(_part(kind, block, where))


def _type_of(block: Mapping[str, Any]) -> str:
    """Name a block's type; OpenAI's short forms are known by their only key."""
    given = block.get("type")
    if given is None:
        given = next((name for name in ("text", *_URL_PARTS, "input_audio") if name in block), None)
    return str(given)


def _part(kind: str, block: Mapping[str, Any], where: str) -> Part:
    if kind in _TEXTS:
        return {"type": "text", "text": str(block.get(_TEXTS[kind]) or "")}
    if kind in _MEDIA:
        return _media(kind, block, where)
    if kind in _URL_PARTS:
        return _url_part(kind, block, where)
    if kind == "input_image":
        return _url_part("image_url", block, where)
    if kind == "input_audio":
        return _input_audio(block, where)
    if kind in _FILES:
        return _file(block, where)
    if kind in _OWN:
        return dict(block)
    message = (
        f"{where} holds a content block of type {kind!r}, which vLLM does not take. Send text, "
        "image, audio or video blocks; wrap vLLM's own parts as they are."
    )
    raise ConfigurationError(message)


def _media(kind: str, block: Mapping[str, Any], where: str) -> Part:
    source, mime_type = _source(block, where)
    keywords = {"mime_type": mime_type, "uuid": block.get("uuid")}
    if kind == "image":
        keywords["detail"] = block.get("detail") or _mapping(block.get("extras")).get("detail")
    return _MEDIA[kind](source, **keywords)


def _url_part(kind: str, block: Mapping[str, Any], where: str) -> Part:
    held = block.get(kind)
    fields = held if isinstance(held, Mapping) else {"url": held}
    return _media(_URL_PARTS[kind], {**block, **fields}, where)


def _input_audio(block: Mapping[str, Any], where: str) -> Part:
    held = block.get("input_audio")
    if not isinstance(held, Mapping):
        message = (
            f"{where} holds an input_audio block whose input_audio is a {type(held).__name__}; it "
            'must be {"data": "<base64>", "format": "wav"}.'
        )
        raise ConfigurationError(message)
    return {"type": "input_audio", "input_audio": dict(held)}


def _source(block: Mapping[str, Any], where: str) -> tuple[Any, str | None]:
    """Find the media of a block: a URL, or base64 as a data URL, or a Python object."""
    nested = block.get("source")
    fields = nested if isinstance(nested, Mapping) else block
    mime_type = fields.get("mime_type") or fields.get("media_type")
    if not isinstance(mime_type, str | None):
        message = f"{where} holds a block whose mime_type is a {type(mime_type).__name__}."
        raise ConfigurationError(message)
    for key in ("url", "base64", "data", "path", "source"):
        value = fields.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            return value, mime_type
        if value[:8].lower().startswith(("http://", "https://", "data:")):
            return value, mime_type
        if key in ("base64", "data"):
            return f"data:{mime_type or ''};base64,{value}", mime_type
        message = (
            f"{where} holds a block whose {key} is neither an http(s) nor a data URL. Files are "
            f'read only when asked for by Python: {{"type": ..., "{key}": pathlib.Path(...)}}.'
        )
        # A path in a message may come from a stranger; it must not name files of this machine.
        raise ConfigurationError(message)
    message = (
        f"{where} holds a block of type {_type_of(block)!r} without url, base64 or path; vLLM "
        "knows no uploaded files, so a file_id cannot be sent."
    )
    raise ConfigurationError(message)


def _file(block: Mapping[str, Any], where: str) -> Part:
    """Send a file as what it holds: text, an image, audio or a video."""
    nested = block.get("file") if isinstance(block.get("file"), Mapping) else block.get("source")
    fields = nested if isinstance(nested, Mapping) else block
    if isinstance(fields.get("text"), str):
        return {"type": "text", "text": fields["text"]}
    if fields.get("type") == "text" and isinstance(fields.get("data"), str):
        return {"type": "text", "text": fields["data"]}
    if isinstance(fields.get("file_data"), str):
        fields = {"url": fields["file_data"]}
    source, mime_type = _source(fields, where)
    if isinstance(source, str) and source.startswith("data:"):
        mime_type = source[len("data:") :].partition(";")[0] or mime_type
    kind = (mime_type or "").partition("/")[0]
    if kind in _MEDIA:
        return _MEDIA[kind](source, mime_type=mime_type)
    text = _decoded_text(source) if kind == "text" else None
    if text is None:
        message = (
            f"{where} holds a file of type {mime_type or 'unknown'!r}, which vLLM cannot read. "
            "Extract its text, or render its pages to images."
        )
        raise ConfigurationError(message)
    return {"type": "text", "text": text}


def _decoded_text(source: object) -> str | None:
    try:
        if isinstance(source, bytes):
            return source.decode()
        if isinstance(source, str) and source.startswith("data:"):
            return base64.b64decode(source.partition(",")[2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return None


def _reasoning(block: Mapping[str, Any]) -> str:
    """Read the reasoning of a block; what a provider has encrypted is left out."""
    for key in ("reasoning", "thinking", "reasoning_content", "text", "summary"):
        value = block.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return str(value.get("text") or "")
        if isinstance(value, list):
            texts = (
                each if isinstance(each, str) else _mapping(each).get("text") for each in value
            )
            return "\n\n".join(str(text or "") for text in texts)
    return ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
