"""LangChain messages → wire messages (pure)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_sagemaker_vllm._content import Content, Part, read_content, wire_content
from langchain_sagemaker_vllm._errors import ConfigurationError

WireMessage = dict[str, Any]
"""One element of a chat request's `messages`."""

_IMAGE_FOLLOWS = "The result is in the next message."


def to_wire_messages(
    messages: Sequence[BaseMessage],
    *,
    merge_consecutive: bool = False,
    send_names: bool = True,
) -> list[WireMessage]:
    """Convert a conversation.

    Tool messages may carry only text, so images (and audio and video) of tool results follow in
    one user message after all tool messages of that turn.

    Args:
        messages: The conversation; never changed.
        merge_consecutive: Join neighbours of one role, for chat templates that demand strict
            alternation. Texts are joined by a blank line; tool messages are never joined.
        send_names: Send a message's `name`, where it has one. Mistral's tokenizer mode refuses
            names.

    Raises:
        ConfigurationError: A message or a block cannot be sent to vLLM.
    """
    wire: list[WireMessage] = []
    shown: list[Part] = []
    for position, message in enumerate(messages):
        for made in _to_wire_message(message, position):
            if made["role"] != "tool" and shown:
                wire.append({"role": "user", "content": shown})
                shown = []
            if not send_names:
                made.pop("name", None)
            if made["role"] == "tool":
                shown = [*shown, *_take_media(made)]
            wire.append(made)
    if shown:
        wire.append({"role": "user", "content": shown})
    return _merged(wire) if merge_consecutive else wire


def _to_wire_message(message: BaseMessage, position: int) -> list[WireMessage]:
    where = f"messages[{position}] ({message.type})"
    content = read_content(message.content, where=where)
    made: WireMessage = {"role": _role(message, where), "content": wire_content(content.parts)}
    if isinstance(message, AIMessage):
        _add_assistant(made, message, content, position)
    elif content.reasoning or content.calls:
        raise ConfigurationError(
            f"{where} holds reasoning or tool calls, which belong into an AIMessage."
        )
    if isinstance(message, ToolMessage):
        made["tool_call_id"] = message.tool_call_id
        made["content"] = content.parts if not content.is_text else made["content"]
    if message.name:
        made["name"] = message.name
    results = [_tool_result(block, where) for block in content.results]
    return [*results, made] if content.parts or not results else results


def _role(message: BaseMessage, where: str) -> str:
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, SystemMessage):
        # langchain-core keeps OpenAI's developer role in this place.
        return str(message.additional_kwargs.get("__openai_role__", "system"))
    if isinstance(message, ToolMessage):
        return "tool"
    if isinstance(message, ChatMessage):
        return message.role
    if isinstance(message, FunctionMessage):
        return "function"
    raise ConfigurationError(f"{where} is a {type(message).__name__}, which cannot be sent.")


def _add_assistant(made: WireMessage, message: AIMessage, content: Content, position: int) -> None:
    reasoning = "\n\n".join(filter(None, content.reasoning)) or _kept_reasoning(message)
    if reasoning:
        made["reasoning"] = reasoning
    calls = [
        *((call["id"], call["name"], json.dumps(call["args"])) for call in message.tool_calls),
        *(
            (call["id"], call["name"], _replayed(call["args"]))
            for call in message.invalid_tool_calls
        ),
    ]
    if not calls:
        calls = [
            (block.get("id"), block.get("name"), json.dumps(_arguments(block)))
            for block in content.calls
        ]
    if calls:
        made["content"] = made["content"] or None
        made["tool_calls"] = [
            {
                # Nine letters and digits, as the strictest templates want; the same on every turn.
                "id": call_id or f"call{position:03d}{at:02d}",
                "type": "function",
                "function": {"name": name or "", "arguments": arguments},
            }
            for at, (call_id, name, arguments) in enumerate(calls)
        ]


def _kept_reasoning(message: AIMessage) -> str:
    kept = message.additional_kwargs
    reasoning = kept.get("reasoning_content") or kept.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def _arguments(block: Mapping[str, Any]) -> Any:
    return block.get("args") or block.get("input") or {}


def _replayed(arguments: str | None) -> str:
    """Give arguments that are no JSON object a form that the server can read again.

    vLLM decodes the arguments of past calls, and refuses the request when they are not an object.
    """
    try:
        if isinstance(json.loads(arguments or ""), dict):
            return arguments or ""
    except ValueError:
        pass
    return json.dumps({"INVALID_JSON": arguments or ""})


def _tool_result(block: Mapping[str, Any], where: str) -> WireMessage:
    """Make a tool message of Anthropic's `tool_result` block."""
    content = read_content(block.get("content"), where=where)
    return {
        "role": "tool",
        "content": wire_content(content.parts),
        "tool_call_id": block.get("tool_use_id"),
    }


def _take_media(made: WireMessage) -> list[Part]:
    """Leave only the text in a tool message, and return the rest."""
    parts = made["content"]
    if isinstance(parts, str):
        return []
    texts = [part for part in parts if part["type"] == "text"]
    made["content"] = wire_content(texts) or _IMAGE_FOLLOWS
    return [part for part in parts if part["type"] != "text"]


def _merged(messages: list[WireMessage]) -> list[WireMessage]:
    merged: list[WireMessage] = []
    for message in messages:
        before = merged[-1] if merged else None
        if before and before["role"] == message["role"] != "tool":
            merged[-1] = _joined(before, message)
        else:
            merged.append(message)
    return merged


def _joined(first: WireMessage, second: WireMessage) -> WireMessage:
    joined = {**first, "content": _joined_content(first["content"], second["content"])}
    if "reasoning" in second:
        joined["reasoning"] = "\n\n".join(
            filter(None, (first.get("reasoning"), second["reasoning"]))
        )
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
