"""Translates vLLM's requests into llama.cpp's: one prompt and one choice each (pure)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]

# What llama.cpp must not see: answered here, or understood differently there.
_OWN = frozenset(
    {"model", "n", "stream_options", "structured_outputs", "repetition_penalty", "echo", "prompt"},
)
_TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
_DEFAULT_TEXT_TOKENS = 16


class RefusedRequestError(Exception):
    """vLLM would answer this request with an error, or llama.cpp cannot do it."""


@dataclass(frozen=True, slots=True)
class SubRequest:
    """One generation.

    Attributes:
        index: Choice of the answer it fills.
        path: Route of llama.cpp's server.
        body: Its body.
        tool: The tool whose arguments are generated; `None` for an ordinary answer.
        prefix: Text before the generated one, with `echo`.
    """

    index: int
    path: str
    body: JSON
    tool: str | None = None
    prefix: str = ""


def sub_requests(body: Mapping[str, Any], tool: str | None) -> list[SubRequest]:
    """Split a request into generations; `tool` is the name of a forced one."""
    count = _positive(body, "n")
    if "messages" in body:
        chat = _chat_body(body, tool)
        return [
            SubRequest(index, "/v1/chat/completions", _with_seed(chat, index), tool)
            for index in range(count)
        ]
    prompts = _prompts(body)
    text = _common_body(body)
    text["max_tokens"] = body.get("max_tokens") or _DEFAULT_TEXT_TOKENS
    return [
        SubRequest(
            position * count + sample,
            "/v1/completions",
            _with_seed(text | {"prompt": prompt}, sample),
            prefix=prompt if body.get("echo") and isinstance(prompt, str) else "",
        )
        for position, prompt in enumerate(prompts)
        for sample in range(count)
    ]


def _positive(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if value is None:
        return 1
    if not isinstance(value, int) or value < 1:
        raise RefusedRequestError(f"{name} must be at least 1, got {value!r}.")
    return value


def _prompts(body: Mapping[str, Any]) -> list[Any]:
    prompt = body.get("prompt")
    if not prompt or not isinstance(prompt, str | list):
        raise RefusedRequestError(
            "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
        )
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return [prompt]
    return prompt


def forced_tools(body: Mapping[str, Any]) -> list[str]:
    """Name the tools one of which must be called; none when the model is free to answer."""
    choice = body.get("tool_choice")
    try:
        names = [tool["function"]["name"] for tool in body.get("tools") or []]
    except (KeyError, TypeError):
        raise RefusedRequestError("a tool has no function name (parameter=tools)") from None
    if isinstance(choice, Mapping):
        name = str((choice.get("function") or {}).get("name"))
        if name not in names:
            raise RefusedRequestError(
                "The tool specified in `tool_choice` does not match any of the specified `tools` "
                "(parameter=tool_choice)",
            )
        return [name]
    return names if choice == "required" else []


def choice_request(body: Mapping[str, Any], names: list[str]) -> JSON:
    """Ask the model which of several tools it wants."""
    chat = _told_of_tools(_common_body(body), body, "Name the function to call.")
    chat |= {"grammar": _literals(names), "stream": False, "max_tokens": 64}
    return {name: value for name, value in chat.items() if name not in _TOOLS}


def _chat_body(body: Mapping[str, Any], tool: str | None) -> JSON:
    chat = _common_body(body)
    if "max_completion_tokens" in chat:
        chat["max_tokens"] = chat.pop("max_completion_tokens")
    if tool is None:
        if body.get("tool_choice") == "none":
            chat.pop("tools", None)
        return chat
    chat = {name: value for name, value in chat.items() if name not in _TOOLS}
    function = next(t["function"] for t in body["tools"] if t["function"]["name"] == tool)
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    instruction = f"Answer with the arguments of {tool} as a JSON object."
    return _told_of_tools(chat, body, instruction) | {
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
    }


def _told_of_tools(chat: JSON, body: Mapping[str, Any], instruction: str) -> JSON:
    tools = "\n".join(json.dumps(tool["function"]) for tool in body["tools"])
    told = {"role": "system", "content": f"You can call these functions:\n{tools}\n{instruction}"}
    return chat | {"messages": [told, *body["messages"]]}


def _common_body(body: Mapping[str, Any]) -> JSON:
    common = {name: value for name, value in body.items() if name not in _OWN and value is not None}
    if body.get("repetition_penalty") is not None:
        common["repeat_penalty"] = body["repetition_penalty"]
    if body.get("stream"):
        common["stream_options"] = {"include_usage": True}
    return common | dict(_constraint(body.get("structured_outputs") or {}))


def _constraint(structured: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind, value in structured.items():
        match kind, value:
            case _, None:
                pass
            case "json", str() | dict():
                schema = json.loads(value) if isinstance(value, str) else value
                form = {"type": "json_schema", "json_schema": {"schema": schema}}
                yield "response_format", form
            case "json_object", True:
                yield "response_format", {"type": "json_object"}
            case "choice", list():
                yield "grammar", _literals(value)
            case "grammar", str():
                yield "grammar", value
            case _:
                raise RefusedRequestError(
                    f"structured_outputs with {kind!r} is not supported by llama.cpp. Use json, "
                    "json_object, choice or grammar, or a real vLLM.",
                )


def _literals(texts: list[str]) -> str:
    return "root ::= " + " | ".join(json.dumps(text) for text in texts)


def _with_seed(body: JSON, sample: int) -> JSON:
    """Give the samples of one request different seeds, so that they are not all the same."""
    return body | {"seed": body["seed"] + sample} if sample and "seed" in body else body
