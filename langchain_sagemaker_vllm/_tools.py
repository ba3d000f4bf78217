"""Tools and tool choices of every spelling → wire JSON (pure)."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import is_typeddict

from langchain_sagemaker_vllm._errors import ConfigurationError
from langchain_sagemaker_vllm._typed_dict import typed_dict_schema
from sagemaker_vllm import nearest

ToolLike = dict[str, Any] | type | Callable[..., Any] | BaseTool
"""What LangChain users pass as a tool."""
WireTool = dict[str, Any]
"""One element of a chat request's `tools`."""

_WORDS = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def wire_tool(tool: ToolLike, *, strict: bool | None = None) -> WireTool:
    """Convert one tool; its schema stays as it is, whatever `strict` says.

    vLLM needs none of the rewriting that OpenAI's strict mode does (which empties open maps).

    Raises:
        ConfigurationError: It is no tool, one that only a provider runs, or holds another
            `strict`.
    """
    try:
        made = _function_of_typed_dict(tool) or convert_to_openai_tool(tool)
    except (NameError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"tools holds something that is no tool: {error}") from error
    function = made.get("function")
    if not isinstance(function, dict) or "name" not in function:
        raise ConfigurationError(
            f"tools holds a tool of type {made.get('type')!r} without a function and its name; "
            "vLLM takes functions only, and runs none itself."
        )
    if strict is None:
        return made
    if function.get("strict") not in (None, strict):
        raise ConfigurationError(
            f"strict={strict} conflicts with 'strict': {function['strict']} of tool "
            f"{function['name']!r}; leave one of them out."
        )
    return {**made, "function": {**function, "strict": strict}}


def _function_of_typed_dict(tool: Any) -> WireTool | None:
    if not is_typeddict(tool):
        return None
    schema = typed_dict_schema(tool)
    function = {"name": schema.pop("title"), "description": schema.pop("description", "")}
    return {"type": "function", "function": {**function, "parameters": schema}}


def wire_tool_choice(choice: Any, tools: Sequence[WireTool]) -> str | dict[str, Any] | None:
    """Convert a tool choice.

    Args:
        choice: `auto`, `none`, `any`, `required` or `True` (at least one call), a tool's name, or
            the wire form; `None` and `False` leave it to the server.
        tools: The tools of the call.

    Returns:
        vLLM's form, or `None` to send nothing.

    Raises:
        ConfigurationError: No such tool, or no tools at all.
    """
    if choice is None or choice is False:
        return None
    names = [tool["function"]["name"] for tool in tools]
    if choice is True:
        choice = "any"
    if isinstance(choice, dict):
        kind = choice.get("type")
        function = choice.get("function")
        named = function.get("name") if isinstance(function, dict) else choice.get("name")
        choice = named or kind
    if not isinstance(choice, str):
        raise ConfigurationError(
            f"tool_choice={choice!r} must be 'auto', 'none', 'any', True, a tool's name, or "
            '{"type": "function", "function": {"name": ...}}.'
        )
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    if choice not in _WORDS:
        raise ConfigurationError(
            f"tool_choice={choice!r} is none of the tools ({', '.join(names) or 'there are none'})."
            f"{nearest(choice, [*names, *_WORDS])}"
        )
    if not names and choice != "none":
        raise ConfigurationError(f"tool_choice={choice!r} needs tools: pass at least one tool.")
    return _WORDS[choice] if names else None
