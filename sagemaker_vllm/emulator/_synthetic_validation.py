"""Refuses what vLLM 0.32 refuses, in its words, misleading ones included.

`/invocations` tries the chat request first. vLLM's own checks of it speak for themselves; a field
of a wrong type makes the body no chat request, and then the checks of a text completion answer.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from sagemaker_vllm.emulator._synthetic_grammar import check_constraint
from sagemaker_vllm.emulator._synthetic_refusal import RefusedError

JSON = dict[str, Any]

_MAX_STOPS, _MAX_SAMPLES, _MAX_PROMPTS, _MAX_LOGPROBS = 4, 16384, 1024, 20
_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_FIELDS: Mapping[str, str] = {
    "number": "temperature top_p min_p repetition_penalty presence_penalty frequency_penalty",
    "integer": "max_tokens max_completion_tokens n top_k min_tokens seed thinking_token_budget "
    "prompt_logprobs top_logprobs",
    "boolean": "stream ignore_eos include_stop_str_in_output echo parallel_tool_calls "
    "include_reasoning",
    "mapping": "stream_options structured_outputs chat_template_kwargs response_format logit_bias",
    "stops": "stop",
}
_BOOLEANS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


class _MismatchError(Exception):
    """A field has a type that the request model does not take."""


def _require(is_right: object) -> None:
    if not is_right:
        raise _MismatchError


def read_request(body: Any) -> JSON:
    """Check a body as vLLM's request models do.

    Returns:
        A copy without nulls, numbers in text converted; a chat request if it has `messages`, else a
        text completion.

    Raises:
        RefusedError: vLLM would not take it.
    """
    if not isinstance(body, dict):
        is_list = isinstance(body, list)
        problem = "list indices must be integers or slices, not str"
        assigned = f"'{type(body).__name__}' object does not support item assignment"
        raise RefusedError(problem if is_list else assigned)
    _check_constraints(body)
    _check_logprobs(body)
    _check_tools(body)
    try:
        request = _read_fields(body, {"logprobs": "boolean"})
        _require(isinstance(request.get("messages"), list))
        for message in request["messages"]:
            _check_message(message)
        for tool in request.get("tools", ()):
            _require(isinstance(tool, dict) and isinstance(tool.get("function"), dict))
            _require(isinstance(tool["function"].get("name"), str))
    except _MismatchError:
        return _read_text_request(body)
    return request


def _read_text_request(body: JSON) -> JSON:
    prompt = body.get("prompt")
    if prompt is None or prompt == "":
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise RefusedError(message, "prompt")
    is_many = isinstance(prompt, list) and not isinstance(next(iter(prompt), 0), int)
    if is_many and len(prompt) > _MAX_PROMPTS:
        raise RefusedError(
            f"prompt list length {len(prompt)} exceeds the maximum allowed count of "
            f"{_MAX_PROMPTS}. To increase this limit, set the VLLM_MAX_COMPLETION_PROMPTS "
            "environment variable.",
            "prompt",
        )
    try:
        request = _read_fields(body, {"logprobs": "integer"})
        _require(body.get("n", 1) is not None and isinstance(prompt, str | list))
    except _MismatchError:
        raise RefusedError(
            "Cannot find suitable handler for request. "
            "Expected one of: ['ChatCompletionRequest', 'CompletionRequest']"
        ) from None
    return {"max_tokens": 16, **request, "messages": None}


def _read_fields(body: JSON, own: Mapping[str, str]) -> JSON:
    kinds = {name: kind for kind, names in _FIELDS.items() for name in names.split()}
    request = {key: value for key, value in body.items() if value is not None}
    for name, kind in {**kinds, **own}.items():
        if name in request:
            request[name] = _read_value(kind, request[name])
    _require(-(2**63) <= request.get("seed", 0) < 2**63)
    _require(isinstance(request.get("structured_outputs", {}).get("json"), str | dict | None))
    wanted = request.get("response_format", {"type": "text"})
    _require(wanted.get("type") in ("text", "json_object", "json_schema", "structural_tag"))
    if wanted["type"] == "json_schema":
        schema = wanted["json_schema"].get("schema")
        _require(isinstance(wanted["json_schema"].get("name"), str))
        _require(schema is None or isinstance(schema, dict))
    return request


def _read_value(kind: str, value: Any) -> Any:
    match kind:
        case "boolean":
            _require(str(value).lower() in _BOOLEANS)
            return _BOOLEANS[str(value).lower()]
        case "mapping":
            _require(isinstance(value, dict))
            return value
        case "stops":
            stops = [value] if isinstance(value, str) else value
            _require(isinstance(stops, list) and len(stops) <= _MAX_STOPS)
            _require(all(isinstance(stop, str) for stop in stops))
            return stops
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise _MismatchError from None
    _require(kind == "number" or number.is_integer())
    return number if kind == "number" else int(value)


def _check_message(message: Any) -> None:
    _require(isinstance(message, dict) and isinstance(message.get("role"), str))
    content = message.get("content", "")
    _require(
        isinstance(content, str | list) or (content is None and message["role"] == "assistant")
    )
    for call in message.get("tool_calls") or ():
        _require(isinstance(call, dict) and isinstance(call.get("function"), dict))
        texts = call.get("id"), call["function"].get("name"), call["function"].get("arguments")
        _require(all(isinstance(text, str) for text in texts))


def _check_constraints(body: JSON) -> None:
    wanted, given = body.get("response_format"), body.get("structured_outputs")
    is_schema = isinstance(wanted, Mapping) and wanted.get("type") == "json_schema"
    if isinstance(wanted, Mapping) and is_schema and wanted.get("json_schema") is None:
        message = "When response_format type is 'json_schema', the 'json_schema' field must be "
        raise RefusedError(message + "provided.", "response_format")
    if body.get("stream_options") and not body.get("stream"):
        message = "Stream options can only be defined when `stream=True`."
        raise RefusedError(message, "stream_options")
    if body.get("continue_final_message") and body.get("add_generation_prompt"):
        names = "`continue_final_message` and `add_generation_prompt`"
        raise RefusedError(f"Cannot set both {names} to True.")
    count = (
        sum(given.get(kind) is not None for kind in _KINDS[:3]) if isinstance(given, dict) else 0
    )
    if count > 1:
        message = (
            "You can only use one kind of constraints for structured outputs ('json', 'regex' "
        )
        raise RefusedError(message + "or 'choice').")
    if count and isinstance(body.get("tool_choice"), dict):
        message = "You can only either use constraints for structured outputs or tools, not both."
        raise RefusedError(message)


def _check_logprobs(body: JSON) -> None:
    for name in ("prompt_logprobs", "top_logprobs"):
        value = body.get(name, 0) or 0
        if not isinstance(value, int | float):
            raise RefusedError(f"`{name}` must be an integer.", name, value)
        if value < 0 and value != -1:
            raise RefusedError(f"`{name}` must be a positive value or -1.", name, value)
    if body.get("stream") and body.get("prompt_logprobs"):
        message = "`prompt_logprobs` are not available when `stream=True`."
        raise RefusedError(message, "prompt_logprobs")
    if body.get("top_logprobs") and not body.get("logprobs"):
        message = "when using `top_logprobs`, `logprobs` must be set to true."
        raise RefusedError(message, "top_logprobs")


def _check_tools(body: JSON) -> None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools == []:
        message = (
            "`tools` must not be an empty array. Either provide at least one tool or omit the "
        )
        raise RefusedError(message + "field entirely.", "tools")
    if choice is None or choice == "none":
        return
    if tools is None:
        raise RefusedError("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if choice in ("auto", "required"):
        return
    if not isinstance(choice, dict):
        message = f"Invalid value for `tool_choice`: {choice}! Only named tools, "
        message += '"none", "auto" or "required" are supported.'
        raise RefusedError(message, "tool_choice")
    function = choice.get("function")
    usage = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'
    if not isinstance(function, dict):
        message = f"Invalid value for `function`: `{function}` in `tool_choice`! {usage}"
        raise RefusedError(message, "tool_choice.function")
    if "name" not in function:
        message = f"Expected field `name` in `function` in `tool_choice`! {usage}"
        raise RefusedError(message, "tool_choice.function.name")
    if function["name"] not in [tool.get("function", {}).get("name") for tool in tools]:
        message = "The tool specified in `tool_choice` does not match any of the specified `tools`"
        raise RefusedError(message, "tool_choice")


_TOO_MANY_SAMPLES = (
    f"n must be at most {_MAX_SAMPLES}, got {{}}. To increase this limit, set the "
    "VLLM_MAX_N_SEQUENCES environment variable."
)
_RANGES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("n", lambda x: x >= 1, "n must be at least 1, got {}."),
    ("n", lambda x: x <= _MAX_SAMPLES, _TOO_MANY_SAMPLES),
    ("presence_penalty", lambda x: abs(x) <= 2, "presence_penalty must be in [-2, 2], got {}."),
    ("frequency_penalty", lambda x: abs(x) <= 2, "frequency_penalty must be in [-2, 2], got {}."),
    (
        "repetition_penalty",
        lambda x: x > 0,
        "repetition_penalty must be greater than zero, got {}.",
    ),
    ("temperature", lambda x: x >= 0, "temperature must be non-negative, got {}."),
    ("temperature", lambda x: x <= 2, "temperature must be in [0, 2], got {}."),
    ("top_p", lambda x: 0 < x <= 1, "top_p must be in (0, 1], got {}."),
    ("top_k", lambda x: x >= -1, "top_k must be 0 (disable), or at least 1, got {}."),
    ("min_p", lambda x: 0 <= x <= 1, "min_p must be in [0, 1], got {}."),
    ("max_tokens", lambda x: x >= 1, "max_tokens must be at least 1, got {}."),
    ("min_tokens", lambda x: x >= 0, "min_tokens must be greater than or equal to 0, got {}."),
    ("stop", all, "stop cannot contain an empty string."),
)
_BLAMED = {"temperature", "top_p", "max_tokens"}


def check_sampling(request: JSON) -> None:
    """Check the ranges of a request's parameters.

    Raises:
        RefusedError: One is out of range.
    """
    limit = max_tokens(request)
    values = (
        request if limit is None else {**request, "max_tokens": limit or request.get("echo", 0)}
    )
    for name, is_right, message in _RANGES:
        if name in values and not is_right(values[name]):
            blame = (name, values[name]) if name in _BLAMED else ()
            raise RefusedError(message.format(values[name]), *blame)
    if limit is not None and (least := request.get("min_tokens", 0)) > limit:
        message = f"min_tokens must be less than or equal to max_tokens={limit}, got {least}."
        raise RefusedError(message)
    if request.get("n", 1) > 1 and request.get("temperature") == 0:
        raise RefusedError(f"n must be 1 when using greedy sampling, got {request['n']}.")
    count = request.get("logprobs" if request["messages"] is None else "top_logprobs", 0)
    if count > _MAX_LOGPROBS:
        message = f"Requested sample logprobs of {count}, which is greater than max allowed: "
        raise RefusedError(f"{message}{_MAX_LOGPROBS}", "logprobs", count, is_late=True)


def max_tokens(request: Mapping[str, Any]) -> int | None:
    """Return how many tokens a request allows."""
    limit: int | None = request.get("max_completion_tokens", request.get("max_tokens"))
    return limit


def read_constraint(request: JSON) -> tuple[str, Any]:
    """Return what the answer must be: a kind of `structured_outputs` or `text`, and its value.

    Raises:
        RefusedError: No kind or several are given, or the grammar engine does not take it.
    """
    given, wanted = request.get("structured_outputs"), request.get("response_format", {})
    found = {kind: given[kind] for kind in _KINDS if given.get(kind) is not None} if given else {}
    if wanted.get("type") == "json_object":
        found["json_object"] = True
    if wanted.get("type") == "json_schema" and wanted["json_schema"].get("schema") is not None:
        found["json"] = wanted["json_schema"]["schema"]
    if given is None and wanted.get("type", "text") == "text":
        return "text", None
    if len(found) != 1:
        shown = {**dict.fromkeys(_KINDS[:5]), "disable_any_whitespace": False}
        shown |= {"disable_additional_properties": False, "whitespace_pattern": None}
        shown |= {"structural_tag": None, "_backend": None, "_backend_was_auto": False, **found}
        how, many = ("can only", "multiple are") if found else ("must", "none are")
        kind = "kind of structured outputs constraint"
        raise RefusedError(f"You {how} use one {kind} but {many} specified: {shown}")
    ((kind, value),) = found.items()
    if kind == "json" and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise RefusedError("Invalid JSON grammar specification.", is_late=True) from None
    check_constraint(kind, value)
    return kind, value
