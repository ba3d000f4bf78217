"""LlamaIndex's content blocks → vLLM's content parts, in order."""

from collections.abc import Callable
from io import IOBase
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    CachePoint,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)

from sagemaker_vllm import ConfigurationError, audio_part, image_part, video_part

Part = dict[str, Any]

# What `DocumentBlock` calls a document that was given no title.
_NO_TITLE = "input_document"
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml")


def to_wire_parts(block: object) -> list[Part]:
    """Return the content parts of one block; none for a block that is no content of the message.

    A document is sent as its text when it is plain text. A citable block is sent as its title and
    source, then its content; a citation as the cited content. A cache point is dropped: vLLM
    caches prefixes by itself. Thinking and tool calls are fields of the message, not content.

    Raises:
        ConfigurationError: vLLM cannot take the block, or its media cannot be read.
    """
    match block:
        case TextBlock():
            return [text_part(block.text)]
        case ImageBlock():
            source = _source(block.resolve_image, block.image, block.path, block.url)
            return [image_part(source, mime_type=block.image_mimetype, detail=block.detail)]
        case AudioBlock():
            source = _source(block.resolve_audio, block.audio, block.path, block.url)
            mime_type = f"audio/{block.format}" if block.format else None
            return [audio_part(source, mime_type=mime_type)]
        case VideoBlock():
            source = _source(block.resolve_video, block.video, block.path, block.url)
            return [video_part(source, mime_type=block.video_mimetype)]
        case DocumentBlock():
            return [text_part(_document_text(block))]
        case CitableBlock():
            heading = text_part(f"{block.title} ({block.source}):")
            return [heading, *(part for each in block.content for part in to_wire_parts(each))]
        case CitationBlock():
            return to_wire_parts(block.cited_content)
        case CachePoint() | ThinkingBlock() | ToolCallBlock():
            return []
        case _:
            raise ConfigurationError(
                f"vLLM cannot take a {type(block).__name__}: use a text, image, audio, video, "
                "document, citable, citation, thinking, tool call or cache point block."
            )


def text_part(text: str) -> Part:
    """Return a text part."""
    return {"type": "text", "text": text}


def _source(
    resolve: Callable[[], IOBase], content: bytes | IOBase | None, path: Path | None, url: object
) -> Any:
    """Return what a media block holds: bytes, else a path, else a URL, which is not fetched."""
    if content is not None:
        return _read(resolve, content)
    if path is not None:
        return path
    if url is None:
        raise ConfigurationError("A media block is empty: give it bytes, a path or a URL.")
    address = str(url)
    # A URL in a message may come from a stranger; it must not name files of this machine.
    if not address[:8].lower().startswith(("http://", "https://", "data:")):
        raise ConfigurationError(
            f"The URL {address[:64]!r} is neither http(s) nor a data URL. Give a file by its path, "
            "and what lies elsewhere by a presigned https URL or its bytes."
        )
    return address


def _read(resolve: Callable[[], IOBase], content: object) -> bytes:
    """Read a block's own bytes; its class keeps them as base64, and decodes them again."""
    try:
        found: bytes = resolve().read()
    except ValueError as error:
        raise ConfigurationError(f"A content block cannot be read: {error}.") from error
    if isinstance(content, IOBase) and content.seekable():
        content.seek(0)  # the caller's own file: the next turn sends it again
    return found


def _document_text(block: DocumentBlock) -> str:
    content = _document_bytes(block)
    kind = block.document_mimetype
    if kind and not kind.startswith(_TEXT_TYPES):
        raise _no_text(block, f"it is {kind!r}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _no_text(block, "it is not UTF-8 text") from error
    if "\0" in text:
        raise _no_text(block, "it is binary")
    titled = block.title and block.title != _NO_TITLE
    return f"{block.title}:\n{text}" if titled else text


def _document_bytes(block: DocumentBlock) -> bytes:
    if block.url and not block.data and not block.path and not block.url.startswith("data:"):
        raise ConfigurationError(
            f"The document {block.url!r} would have to be fetched; download it, and give its bytes "
            "or its path."
        )
    if not (block.data or block.path or block.url):
        raise ConfigurationError("The DocumentBlock is empty: give it bytes or a path.")
    try:
        return _read(block.resolve_document, block.data)
    except OSError as error:
        raise ConfigurationError(f"The document {block.path!r} cannot be read: {error}.") from error


def _no_text(block: DocumentBlock, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"vLLM reads no documents, and {block.title!r} cannot be sent as text: {why}. Extract its "
        "text, or render its pages to images (one ImageBlock a page)."
    )
