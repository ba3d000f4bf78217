"""LlamaIndex's messages → vLLM's wire messages."""

import json
from collections import deque
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, ThinkingBlock, ToolCallBlock

from llama_index_sagemaker_vllm._blocks import Part, text_part, to_wire_parts
from llama_index_sagemaker_vllm._tools import calls_in, wire_name
from sagemaker_vllm import ConfigurationError

WireMessage = dict[str, Any]

_ROLES = {
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.FUNCTION: "tool",
}


def to_wire_messages(messages: Sequence[ChatMessage]) -> list[WireMessage]:
    """Convert a conversation; the messages are left as they are.

    - Text blocks alone become one string, joined by line breaks as `ChatMessage.content` does;
      with media among them they stay a list of parts, in order.
    - A tool message may hold text only (vLLM refuses more): its images, audio and video follow in
      a user message behind the last tool message of the turn.
    - A tool call without an id gets one made of its position, and the tool message without an id
      that answers it gets the same.
    - `additional_kwargs["name"]` is sent as the message's name when it is there; nothing else of
      `additional_kwargs` is sent, but older forms of tool calls and their ids.

    Raises:
        ConfigurationError: A message holds what vLLM cannot take; the error says what to do.
    """
    wire: list[WireMessage] = []
    unanswered: deque[str] = deque()
    media: list[Part] = []
    for message in messages:
        role = _ROLES.get(message.role, message.role.value)
        if role != "tool" and media:
            wire.append({"role": "user", "content": media})
            media = []
        converted = _to_wire_message(message, role)
        if role == "assistant":
            unanswered = deque(_number_calls(converted, len(wire)))
        elif role == "tool":
            media += _take_media(converted)
            _answer_call(converted, message, unanswered)
        wire.append(converted)
    return [*wire, {"role": "user", "content": media}] if media else wire


def _to_wire_message(message: ChatMessage, role: str) -> WireMessage:
    parts = [part for block in message.blocks for part in to_wire_parts(block)]
    converted: WireMessage = {"role": role, "content": _content(parts)}
    thinking = [b.content for b in message.blocks if isinstance(b, ThinkingBlock) and b.content]
    calls = [_to_wire_call(call) for call in calls_in(message)]
    if role != "assistant" and (thinking or calls):
        raise ConfigurationError(
            f"A {message.role.value} message holds {'thinking' if thinking else 'tool calls'}, "
            "which only an assistant message may: set its role, or remove the block."
        )
    if thinking:
        converted["reasoning"] = "\n".join(thinking)
    if calls:
        converted["tool_calls"] = calls
    if name := message.additional_kwargs.get("name"):
        converted["name"] = name
    return converted


def _content(parts: list[Part]) -> str | list[Part]:
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _to_wire_call(call: ToolCallBlock) -> dict[str, Any]:
    function = {
        "name": wire_name(call.tool_name),
        "arguments": _arguments(call.tool_name, call.tool_kwargs),
    }
    return {"id": call.tool_call_id or None, "type": "function", "function": function}


def _arguments(name: str, arguments: dict[str, Any] | str) -> str:
    """Write arguments as vLLM wants them: a JSON string, and never one encoded twice."""
    if isinstance(arguments, str):
        return arguments if arguments.strip() else "{}"
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"The arguments of the call to tool {name!r} cannot be written as JSON: {error}."
        ) from error


def _number_calls(message: WireMessage, position: int) -> list[str]:
    """Give the calls without an id one, and return all ids. Positions make equal bodies equal."""
    calls = message.get("tool_calls", [])
    for at, call in enumerate(calls):
        # Nine letters and digits: the strictest templates (Mistral's) take nothing else.
        call["id"] = call["id"] or f"call{position % 1000:03d}{at % 100:02d}"
    return [call["id"] for call in calls]


def _take_media(message: WireMessage) -> list[Part]:
    content = message["content"]
    if isinstance(content, str):
        return []
    message["content"] = _content([part for part in content if part["type"] == "text"])
    media = [part for part in content if part["type"] != "text"]
    return [text_part("What the tool returned:"), *media]


def _answer_call(message: WireMessage, source: ChatMessage, unanswered: deque[str]) -> None:
    call_id: str | None = source.additional_kwargs.get("tool_call_id")
    if call_id and call_id in unanswered:
        unanswered.remove(call_id)
    elif not call_id and not unanswered:
        raise ConfigurationError(
            "A tool message answers no tool call: put it behind the assistant message that called, "
            "or set additional_kwargs={'tool_call_id': ...}."
        )
    message["tool_call_id"] = call_id or unanswered.popleft()
