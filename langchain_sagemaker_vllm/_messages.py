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

from langchain_sagemaker_vllm._content import Content, read_content
from langchain_sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm import join_text, settle_messages

WireMessage = dict[str, Any]
"""One element of a chat request's `messages`."""


def to_wire_messages(
    messages: Sequence[BaseMessage],
    *,
    merge_consecutive: bool = False,
    send_names: bool = True,
) -> list[WireMessage]:
    """Convert a conversation.

    Args:
        messages: The conversation; never changed.
        merge_consecutive: Join neighbours of one role, for chat templates that demand strict
            alternation.
        send_names: Send a message's `name`, where it has one.

    Raises:
        ConfigurationError: A message or a block cannot be sent to vLLM.
    """
    wire = [
        made
        for position, message in enumerate(messages)
        for made in _to_wire_message(message, f"messages[{position}] ({message.type})")
    ]
    return settle_messages(wire, merge_consecutive=merge_consecutive, send_names=send_names)


def _to_wire_message(message: BaseMessage, where: str) -> list[WireMessage]:
    """Convert one message; Anthropic's tool results in a user's message become their own."""
    content = read_content(message.content, where=where)
    made: WireMessage = {"role": _role(message, where), "content": join_text(content.parts)}
    if isinstance(message, AIMessage):
        _add_assistant(made, message, content)
    elif content.reasoning or content.calls:
        raise ConfigurationError(
            f"{where} holds reasoning or tool calls, which belong into an AIMessage."
        )
    if isinstance(message, ToolMessage):
        made["tool_call_id"] = message.tool_call_id
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


def _add_assistant(made: WireMessage, message: AIMessage, content: Content) -> None:
    reasoning = "\n\n".join(filter(None, content.reasoning)) or _kept_reasoning(message)
    if reasoning:
        made["reasoning"] = reasoning
    valid = [(call["id"], call["name"], _json(call["args"])) for call in message.tool_calls]
    invalid = [
        (call["id"], call["name"], _replayed(call["args"])) for call in message.invalid_tool_calls
    ]
    # Anthropic's messages repeat in their blocks what `tool_calls` holds.
    calls = [*valid, *invalid] or [
        (block.get("id"), block.get("name"), _json(block.get("args") or block.get("input") or {}))
        for block in content.calls
    ]
    if calls:
        made["content"] = made["content"] or None
        made["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name or "", "arguments": arguments},
            }
            for call_id, name, arguments in calls
        ]


def _kept_reasoning(message: AIMessage) -> str:
    kept = message.additional_kwargs
    reasoning = kept.get("reasoning_content") or kept.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def _json(arguments: Any) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The arguments of a tool call in the messages cannot be written as JSON: {error}."
        ) from error


def _replayed(arguments: str | None) -> str:
    """Give arguments that are no JSON object a form that the server can read again.

    Chat templates write past arguments as an object, so servers decode them; vLLM 0.32 takes any
    text there, others need not.
    """
    try:
        if isinstance(json.loads(arguments or ""), dict):
            return arguments or ""
    except ValueError:
        pass
    return _json({"INVALID_JSON": arguments or ""})


def _tool_result(block: Mapping[str, Any], where: str) -> WireMessage:
    content = read_content(block.get("content"), where=where)
    return {
        "role": "tool",
        "content": join_text(content.parts),
        "tool_call_id": block.get("tool_use_id"),
    }
