"""LlamaIndex's messages → vLLM's wire messages."""

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole, ThinkingBlock, ToolCallBlock

from llama_index_sagemaker_vllm._blocks import to_wire_parts
from llama_index_sagemaker_vllm._tools import calls_in, wire_name
from sagemaker_vllm import ConfigurationError, join_text, parse_arguments, settle_messages

WireMessage = dict[str, Any]

_ROLES = {
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.FUNCTION: "tool",
}


def to_wire_messages(
    messages: Sequence[ChatMessage], *, merge_consecutive: bool = False, send_names: bool = True
) -> list[WireMessage]:
    """Convert a conversation; the messages are left as they are.

    Text blocks alone become one string; with media among them the blocks stay a list of parts, in
    order. Thinking is sent back as `reasoning`. Of `additional_kwargs` only `name`,
    `tool_call_id` and the older form of tool calls are sent. See `settle_messages` for the rest.

    Raises:
        ConfigurationError: A message holds what vLLM cannot take; the error says what to do.
    """
    return settle_messages(
        [_to_wire_message(message) for message in messages],
        merge_consecutive=merge_consecutive,
        send_names=send_names,
    )


def _to_wire_message(message: ChatMessage) -> WireMessage:
    role = _ROLES.get(message.role, message.role.value)
    parts = [part for block in message.blocks for part in to_wire_parts(block)]
    wire: WireMessage = {"role": role, "content": join_text(parts)}
    thinking = [b.content for b in message.blocks if isinstance(b, ThinkingBlock) and b.content]
    calls = [_to_wire_call(call) for call in calls_in(message)]
    if role != "assistant" and (thinking or calls):
        raise ConfigurationError(
            f"A {message.role.value} message holds {'thinking' if thinking else 'tool calls'}, "
            "which only an assistant message may: set its role, or remove the block."
        )
    if thinking:
        wire["reasoning"] = "\n\n".join(thinking)
    if calls:
        wire["tool_calls"] = calls
    if role == "tool":
        wire["tool_call_id"] = message.additional_kwargs.get("tool_call_id")
    if name := message.additional_kwargs.get("name"):
        wire["name"] = name
    return wire


def _to_wire_call(call: ToolCallBlock) -> dict[str, Any]:
    function = {"name": wire_name(call.tool_name), "arguments": _arguments(call)}
    return {"id": call.tool_call_id or None, "type": "function", "function": function}


def _arguments(call: ToolCallBlock) -> str:
    """Write arguments as vLLM wants them: a string of a JSON object, and never encoded twice."""
    if not isinstance(call.tool_kwargs, str):
        try:
            return json.dumps(call.tool_kwargs, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"The arguments of the call to {call.tool_name!r} cannot be written as JSON: "
                f"{error}."
            ) from error
    if not call.tool_kwargs.strip():
        return "{}"
    if parse_arguments(call.tool_kwargs, finish_reason=None) is None:
        # vLLM decodes the arguments of past calls, and refuses what is no object.
        return json.dumps({"INVALID_JSON": call.tool_kwargs}, ensure_ascii=False)
    return call.tool_kwargs
