"""LlamaIndex's tools → vLLM's tools and tool choice; tool calls → LlamaIndex's selections."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.llms.llm import ToolSelection

from llama_index_sagemaker_vllm._partial_json import read_partial_object
from sagemaker_vllm import (
    ConfigurationError,
    StructuredOutputError,
    parse_arguments,
    schema_name,
)

if TYPE_CHECKING:
    from llama_index.core.tools.types import BaseTool

ToolChoice = str | bool | Mapping[str, Any] | None


def wire_name(name: str) -> str:
    """Return the tool's name as servers take it: `Box[int]` becomes `Box_int`."""
    return schema_name(name)


def to_wire_tools(tools: Sequence["BaseTool"], *, strict: bool | None) -> list[dict[str, Any]]:
    """Convert tools, with `strict` set on each when it is not `None`.

    Raises:
        ConfigurationError: Two tools have the same name.
    """
    wire: dict[str, dict[str, Any]] = {}
    for tool in tools:
        name = tool.metadata.get_name()
        specification = tool.metadata.to_openai_tool(skip_length_check=True)
        function = {**specification["function"], "name": wire_name(name)}
        if strict is not None:
            function["strict"] = strict
        if wire.setdefault(function["name"], specification) is not specification:
            raise ConfigurationError(
                f"Two tools are called {function['name']!r}; the model could not tell them apart. "
                "Rename one."
            )
        specification["function"] = function
    return list(wire.values())


def own_names(tools: Sequence["BaseTool"]) -> dict[str, str]:
    """Return the own name of each tool that goes by another one on the wire."""
    names = (tool.metadata.get_name() for tool in tools)
    return {wire_name(name): name for name in names if wire_name(name) != name}


def to_wire_tool_choice(
    choice: ToolChoice, tools: Sequence[Mapping[str, Any]], *, required: bool
) -> str | dict[str, Any] | None:
    """Read a tool choice in any of its spellings.

    Args:
        choice: `auto`, `none`, `required` or `any` or `True`, a tool's name, OpenAI's dict;
            `None` and `False` leave the choice to `required`.
        tools: The tools as wire JSON.
        required: Whether the model must call a tool.

    Returns:
        The wire's `tool_choice`, or `None` when there is none to send.

    Raises:
        ConfigurationError: The choice names a tool that is not there, or is of no known form.
    """
    if choice is None or choice is False:
        return "required" if required else None
    if choice is True or choice in ("any", "required"):
        return "required"
    if choice in ("auto", "none"):
        return str(choice)
    name = _chosen_name(choice)
    known = [tool["function"]["name"] for tool in tools]
    if name is None or wire_name(name) not in known:
        raise ConfigurationError(
            f"tool_choice={choice!r} names no tool that is given. Use 'auto', 'none', 'required', "
            f"or one of {known}."
        )
    return {"type": "function", "function": {"name": wire_name(name)}}


def _chosen_name(choice: object) -> str | None:
    if isinstance(choice, str):
        return choice
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else None


def to_selections(response: ChatResponse) -> list[ToolSelection]:
    """Return the tool calls of a response.

    While the response is still growing, the arguments are what can be read of them so far.

    Raises:
        StructuredOutputError: A finished call's arguments are not a JSON object; the model's own
            text is in its `text`.
    """
    growing = is_growing(response)
    finish_reason = response.additional_kwargs.get("finish_reason")
    return [
        ToolSelection(
            tool_id=call.tool_call_id or "",
            tool_name=call.tool_name,
            tool_kwargs=_growing_arguments(call) if growing else arguments_of(call, finish_reason),
        )
        for call in calls_in(response.message)
    ]


def calls_in(message: ChatMessage) -> list[ToolCallBlock]:
    """Return a message's tool calls: its blocks, else the older form in `additional_kwargs`.

    Raises:
        ConfigurationError: The older form holds what is no tool call.
    """
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    older = message.additional_kwargs.get("tool_calls") or []
    if not isinstance(older, list | tuple):
        raise _no_call(older)
    return blocks or [_older_call(call) for call in older]


def _older_call(call: object) -> ToolCallBlock:
    """Read a dict, or an object of OpenAI's SDK."""
    function = _member(call, "function")
    try:
        return ToolCallBlock(
            tool_call_id=_member(call, "id"),
            tool_name=_member(function, "name"),
            tool_kwargs=_member(function, "arguments") or {},
        )
    except ValidationError:
        raise _no_call(call) from None  # it quotes the arguments


def _no_call(found: object) -> ConfigurationError:
    return ConfigurationError(
        f"additional_kwargs['tool_calls'] holds a {type(found).__name__} that is no tool call; "
        "expected [{'id': ..., 'function': {'name': ..., 'arguments': ...}}]."
    )


def _member(owner: object, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)


def is_growing(response: ChatResponse) -> bool:
    """Whether the response is one of a stream, and not its last."""
    raw = response.raw
    return isinstance(raw, Mapping) and raw.get("object") == "chat.completion.chunk"


def arguments_of(call: ToolCallBlock, finish_reason: str | None) -> dict[str, Any]:
    """Return a finished call's arguments.

    Raises:
        StructuredOutputError: They are not a JSON object.
    """
    if isinstance(call.tool_kwargs, dict):
        return call.tool_kwargs
    found = parse_arguments(call.tool_kwargs, finish_reason=finish_reason)
    if found is not None:
        return found
    reason: Literal["cut", "invalid"] = "cut" if finish_reason == "length" else "invalid"
    cures = {
        "cut": "They were cut by the token limit; raise max_tokens.",
        "invalid": "What the model wrote is in the error's text attribute.",
    }
    raise StructuredOutputError(
        f"The arguments of the call to {call.tool_name!r} are not a JSON object. {cures[reason]}",
        reason=reason,
        text=call.tool_kwargs,
    )


def _growing_arguments(call: ToolCallBlock) -> dict[str, Any]:
    if isinstance(call.tool_kwargs, dict):
        return call.tool_kwargs
    return read_partial_object(call.tool_kwargs) or {}
