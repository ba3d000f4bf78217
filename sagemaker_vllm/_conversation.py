"""Wire messages as the adapters make them → as vLLM and its chat templates take them (pure)."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from sagemaker_vllm._errors import ConfigurationError

Part = dict[str, Any]
WireMessage = dict[str, Any]

_MEDIA_FOLLOW = "The result is in the next message."


def join_text(parts: Sequence[Part]) -> str | list[Part]:
    """Return parts that are all text as one string, since many chat templates know strings only.

    They are joined by a newline, as vLLM itself joins them for such templates. With an image or
    another part among them they stay a list, in order.
    """
    if any(part["type"] != "text" for part in parts):
        return list(parts)
    return "\n".join(part["text"] for part in parts if part["text"])


def settle_messages(
    messages: Sequence[Mapping[str, Any]],
    *,
    merge_consecutive: bool = False,
    send_names: bool = True,
) -> list[WireMessage]:
    """Settle what only the whole conversation shows.

    - A tool message may hold text only (vLLM refuses more): its images, audio and video follow in
      one user message behind the last tool message of the turn.
    - A tool call without an id gets one made of its position, so that equal conversations give
      equal bodies; the tool message without an id that answers it gets the same.

    Args:
        messages: Messages as wire JSON, with content as text or as a list of parts; never changed.
        merge_consecutive: Join neighbours of one role, for chat templates that demand strict
            alternation: texts by a blank line, parts in a row; tool messages never.
        send_names: Send a message's `name`, where it has one. Mistral's tokenizer mode refuses it.

    Returns:
        New messages.

    Raises:
        ConfigurationError: A tool message without an id answers no call.
    """
    settled: list[WireMessage] = []
    media: list[Part] = []
    unanswered: deque[str] = deque()
    for position, given in enumerate(messages):
        message = dict(given)
        if not send_names:
            message.pop("name", None)
        if message["role"] == "tool":
            media += _take_media(message)
            _answer(message, unanswered)
        elif media:
            settled.append({"role": "user", "content": media})
            media = []
        if message.get("tool_calls"):
            message["tool_calls"] = _numbered(message["tool_calls"], position)
            unanswered = deque(call["id"] for call in message["tool_calls"])
        settled.append(message)
    if media:
        settled.append({"role": "user", "content": media})
    return _merged(settled) if merge_consecutive else settled


def _take_media(message: WireMessage) -> list[Part]:
    """Leave only the text in a tool message, and return the rest."""
    parts = message["content"]
    if not isinstance(parts, list):
        return []
    message["content"] = join_text([part for part in parts if part["type"] == "text"])
    media = [part for part in parts if part["type"] != "text"]
    if media and not message["content"]:
        message["content"] = _MEDIA_FOLLOW
    return media


def _numbered(calls: Sequence[Mapping[str, Any]], position: int) -> list[dict[str, Any]]:
    # Nine letters and digits: the strictest templates (Mistral's) take nothing else.
    return [
        {**call, "id": call.get("id") or f"call{position % 1000:03d}{at % 100:02d}"}
        for at, call in enumerate(calls)
    ]


def _answer(message: WireMessage, unanswered: deque[str]) -> None:
    call_id: str = message.get("tool_call_id") or ""
    if call_id in unanswered:
        unanswered.remove(call_id)
    elif not call_id and not unanswered:
        raise ConfigurationError(
            "A tool message without tool_call_id answers no call: set the id, or put the message "
            "behind the assistant message that called."
        )
    message["tool_call_id"] = call_id or unanswered.popleft()


def _merged(messages: Sequence[WireMessage]) -> list[WireMessage]:
    merged: list[WireMessage] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"] != "tool":
            merged[-1] = _joined(merged[-1], message)
        else:
            merged.append(message)
    return merged


def _joined(first: WireMessage, second: WireMessage) -> WireMessage:
    joined = {**first, "content": _joined_content(first["content"], second["content"])}
    if "reasoning" in second:
        thoughts = (first.get("reasoning"), second["reasoning"])
        joined["reasoning"] = "\n\n".join(filter(None, thoughts))
    if "tool_calls" in second:
        joined["tool_calls"] = [*first.get("tool_calls", []), *second["tool_calls"]]
    if first.get("name") != second.get("name"):
        joined.pop("name", None)
    return joined


def _joined_content(
    first: str | list[Part] | None, second: str | list[Part] | None
) -> str | list[Part] | None:
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: str | list[Part]) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
