"""Decides which tools a conversation asks for, and with what arguments."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sagemaker_vllm.emulator._synthetic_conversation import Conversation
from sagemaker_vllm.emulator._synthetic_evidence import Evidence, split_name
from sagemaker_vllm.emulator._synthetic_schema import UnsatisfiableError, write_instance

_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_CALL_NAME = re.compile(r'<tool_call>\s*\{"name": "([^"]+)"')
_MAX_LISTED_CALLS = 8
# Words that stand in any request or tool, so they tell nothing.
_COMMON_WORDS = re.compile(
    r"(?:about|all|and|any|are|argument|call|can|compute|create|data|fetch|find|for|from|function|"
    r"get|give|given|has|have|how|input|into|list|make|name|new|one|output|please|provide|result|"
    r"return|run|set|show|string|take|tell|that|the|their|them|this|tool|use|used|using|value|"
    r"want|was|what|when|which|will|with|you|your)"
)


Call = dict[str, Any]


def wanted_calls(request: Mapping[str, Any], talk: Conversation) -> list[Call]:
    """Return the calls to make now, as `name` and `arguments`; none to answer in text."""
    tools = [tool["function"] for tool in request.get("tools") or ()]
    choice = request.get("tool_choice", "auto")
    if not tools or choice == "none":
        return []
    if isinstance(choice, Mapping):
        return [_forced_call(choice["function"]["name"], tools, talk)]
    uncalled = [tool for tool in tools if tool["name"] not in talk.called]
    evidence = Evidence(talk.texts(is_report=False))
    calls = [
        call for tool in spoken_tools(uncalled, talk.question) for call in _calls(tool, evidence)
    ]
    if choice == "required" and not calls:
        name = uncalled[0]["name"] if uncalled else talk.called[-1]
        calls = [_forced_call(name, tools, talk)]
    return calls[: 1 if request.get("parallel_tool_calls") is False else None]


def spoken_tools(tools: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """Return the tools a text speaks of, in its order.

    These are the tools that it names, or with a word of their name in it, or with two words of
    their description and parameters, or with as many number parameters as it has numbers (two at
    least). A word counts for the tool that fits best.
    """
    said, left, spoken = _words(text), list(tools), dict[int, Mapping[str, Any]]()
    while left:
        best = max(left, key=lambda tool: _fit(tool, said, text))
        left.remove(best)
        if _fit(best, said, text) < 2:
            break
        words = _words(best["name"]) | _other_words(best)
        places = [text.lower().find(word) for word in words & said]
        spoken[min(places, default=len(text) + len(spoken))] = best
        said -= words
    return [spoken[place] for place in sorted(spoken)]


def write_calls(calls: Sequence[Call]) -> str:
    """Write calls in the markup of the `hermes` tool parser."""
    return "\n".join(
        f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in calls
    )


def read_calls(text: str, *, is_stream: bool) -> tuple[str, list[Call]]:
    """Part a model's text into content and calls, as vLLM's `hermes` parser does.

    Markup that is cut off, or no JSON, stays content; a stream has given the name away by then.
    """
    content = text.partition("<tool_call>")[0]
    calls = []
    for markup in _CALL.findall(text):
        try:
            call = json.loads(markup)
            calls.append(
                {
                    "name": call["name"],
                    "arguments": json.dumps(call["arguments"], ensure_ascii=False),
                }
            )
        except (ValueError, KeyError, TypeError):
            return text, []
    if calls or "<tool_call>" not in text:
        return content, calls
    if not is_stream:
        return text, []
    return content, [{"name": name, "arguments": ""} for name in _CALL_NAME.findall(text)]


def _calls(tool: Mapping[str, Any], evidence: Evidence) -> list[Call]:
    """Make a call, and one more for each further item of a list ("in Paris and Rome")."""
    calls = [_call(tool, evidence)]
    has_one_argument = len(calls[0]["arguments"]) == 1
    while (
        has_one_argument
        and len(calls) < _MAX_LISTED_CALLS
        and (place := evidence.next_item()) is not None
    ):
        call = _call(tool, evidence)
        if not evidence.has_taken(place):
            break
        calls.append(call)
    return calls


def _forced_call(name: str, tools: Sequence[Mapping[str, Any]], talk: Conversation) -> Call:
    """Make a call of a tool that nobody spoke of, or of one that reports the results."""
    tool = next(tool for tool in tools if tool["name"] == name)
    is_spoken_of = tool in spoken_tools([tool], talk.question)
    return _call(tool, Evidence(talk.texts(is_report=not is_spoken_of)))


def _call(tool: Mapping[str, Any], evidence: Evidence) -> Call:
    try:
        arguments = write_instance(tool.get("parameters") or {}, evidence, is_full=False)
    except UnsatisfiableError:
        arguments = {}
    return {"name": tool["name"], "arguments": arguments if isinstance(arguments, dict) else {}}


def _fit(tool: Mapping[str, Any], said: set[str], text: str) -> int:
    schema = tool.get("parameters") or {}
    required = [schema.get("properties", {}).get(name, {}) for name in schema.get("required", ())]
    are_numbers = all(part.get("type") in ("integer", "number") for part in required)
    operands = len(re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text))
    fits = are_numbers and len(required) == operands > 1
    is_named = re.search(rf"(?<!\w){re.escape(tool['name'])}(?!\w)", text, re.IGNORECASE)
    by_name = len(said & _words(tool["name"])) + (10 if is_named else 0)
    return 2 * by_name + len(said & _other_words(tool)) + 2 * fits


def _other_words(tool: Mapping[str, Any]) -> set[str]:
    names = (tool.get("parameters") or {}).get("properties", {})
    return _words(" ".join((tool.get("description") or "", *names)))


def _words(text: str) -> set[str]:
    words = {word.lower().removesuffix("s") for word in split_name(text) if len(word) > 2}
    return {word for word in words if not _COMMON_WORDS.fullmatch(word)}
