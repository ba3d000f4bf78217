"""Turn any schema source into vLLM's `response_format`, and read the JSON of an answer (pure)."""

import copy
import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal, NoReturn

from sagemaker_vllm._errors import ConfigurationError, StructuredOutputError

_DEFAULT_NAME = "response"
_MAX_NAME_LENGTH = 64
_READY_TYPES = ("text", "json_object", "structural_tag")
# The keys under which wrappers keep the schema: our own and OpenAI's `json_schema`, an OpenAI
# function, an Anthropic tool.
_WRAPPER_KEYS = ("schema", "parameters", "input_schema")
_SCHEMA_KEYWORDS = frozenset(
    {"type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs"}
)
# A fence's opening line; what follows it must be JSON, which is found by decoding it, so that
# backticks inside of a JSON string cannot end the block.
_FENCE = re.compile(r"```[\w+-]*\s*")
# An answer that repeats itself without end must not be tried at every place.
_MOST_FENCES = 64
_CUT_REASONS = frozenset({"length", "abort", "repetition"})


def response_format(
    schema: Mapping[str, Any] | type,
    *,
    name: str | None = None,
    strict: bool | None = None,
) -> dict[str, Any]:
    """Build the `response_format` member of a chat request from any schema source.

    vLLM always enforces the schema; `name`, `strict` and `description` change nothing there.
    They are sent all the same, for servers that read them. The schema itself is never rewritten:
    open maps, defaults and optional fields stay as they are, whatever `strict` says.

    Args:
        schema: A JSON schema (a title is not needed), an OpenAI function or tool, a
            `{"name", "schema", "strict"}` wrapper, a ready `response_format`, or a class with
            `model_json_schema()` (Pydantic 2) or `schema()` (Pydantic 1). Never changed.
        name: The schema's name; by default the wrapper's name or the schema's title, cleaned.
        strict: The `strict` flag to send. By default the wrapper's, else none.

    Returns:
        A new `{"type": "json_schema", "json_schema": {"name", "schema", ...}}`, or a copy of a
        ready `response_format` of another type.

    Raises:
        ConfigurationError: If `schema` is none of these, or holds another `strict` than given.
    """
    if isinstance(schema, type):
        return _wrapped(_schema_of_class(schema), {}, name=name, strict=strict)
    if not isinstance(schema, Mapping):
        raise ConfigurationError(_unsupported(schema))
    if schema.get("type") in _READY_TYPES and not schema.keys() & {"properties", "$defs"}:
        return _copied(schema)
    wrapper = _wrapper_of(schema)
    body = _body_of(wrapper)
    if body is not None:
        return _wrapped(body, wrapper, name=name, strict=strict)
    if not schema.keys() & _SCHEMA_KEYWORDS:
        raise ConfigurationError(_unsupported(schema))
    return _wrapped(schema, {}, name=name, strict=strict)


def schema_name(title: str | None) -> str:
    """Make a legal schema or tool name of a title.

    Args:
        title: Any text, such as `Box[int]`.

    Returns:
        A name that matches `[A-Za-z0-9_-]{1,64}`; `response` when nothing legal is left.
    """
    cleaned = re.sub(r"[^A-Za-z0-9_-]+", "_", title or "")
    if cleaned != title:
        cleaned = cleaned.strip("_")
    return cleaned[:_MAX_NAME_LENGTH] or _DEFAULT_NAME


def parse_json(
    text: str | None,
    *,
    finish_reason: str | None = None,
    refusal: str | None = None,
) -> Any:
    """Read the JSON value that an answer's text holds; never repair it.

    A Markdown fence around the JSON is taken off, with any sentences before and after it.
    A whole object or array counts as whole even when the server then stopped for length.

    Args:
        text: The answer's text.
        finish_reason: The answer's finish reason, which tells a cut answer from a wrong one.
        refusal: The answer's refusal, when there is one.

    Returns:
        The decoded value.

    Raises:
        StructuredOutputError: With `reason` `"refused"`, `"cut"`, `"empty"` or `"invalid"`, and
            the raw text in `text`.
    """
    raw = text or ""
    if refusal or finish_reason == "content_filter":
        _fail("refused", refusal or raw, "The model refused to give the structured answer.")
    try:
        value = _decode(raw.strip())
    except (ValueError, RecursionError) as error:
        _explain(raw, finish_reason, error)
    # A number may go on, an object cannot.
    if finish_reason in _CUT_REASONS and not isinstance(value, dict | list):
        _explain(raw, finish_reason, None)
    return value


def _schema_of_class(schema: type) -> Mapping[str, Any]:
    build = getattr(schema, "model_json_schema", None) or getattr(schema, "schema", None)
    if not callable(build):
        raise ConfigurationError(_unsupported(schema))
    try:
        built = build()
    except (RuntimeError, TypeError, ValueError) as error:
        message = f"No JSON schema can be made of schema={schema.__name__}: {error}"
        raise ConfigurationError(message) from error
    if not isinstance(built, Mapping):
        raise ConfigurationError(_unsupported(schema))
    return built


def _wrapper_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for kind in ("json_schema", "function"):
        inner = schema.get(kind)
        if schema.get("type") == kind or (kind in schema and "type" not in schema):
            if not isinstance(inner, Mapping):
                message = (
                    f"schema has no {kind!r} mapping inside; expected "
                    f'{{"type": {kind!r}, {kind!r}: {{"name": ..., "{_key_in(kind)}": ...}}}}.'
                )
                raise ConfigurationError(message)
            if _body_of(inner) is None:
                message = f"schema[{kind!r}] has no JSON schema under {_key_in(kind)!r}."
                raise ConfigurationError(message)
            return inner
    return schema


def _key_in(kind: str) -> str:
    return "schema" if kind == "json_schema" else "parameters"


def _body_of(wrapper: Mapping[str, Any]) -> Mapping[str, Any] | None:
    bodies = (wrapper.get(key) for key in _WRAPPER_KEYS)
    return next((body for body in bodies if isinstance(body, Mapping)), None)


def _wrapped(
    body: Mapping[str, Any], wrapper: Mapping[str, Any], *, name: str | None, strict: bool | None
) -> dict[str, Any]:
    own = wrapper.get("strict")
    if own is not None and strict is not None and own != strict:
        message = (
            f"strict={strict} conflicts with 'strict': {own} inside of schema; "
            "leave one of them out."
        )
        raise ConfigurationError(message)
    flag = own if strict is None else strict
    title = name or wrapper.get("name") or body.get("title")
    named: dict[str, Any] = {
        "name": schema_name(title if isinstance(title, str) else None),
        "schema": _copied(body),
    }
    if wrapper.get("description"):
        named["description"] = wrapper["description"]
    if flag is not None:
        named["strict"] = flag
    return {"type": "json_schema", "json_schema": named}


def _copied(schema: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return copy.deepcopy(dict(schema))
    except RecursionError as error:
        message = "schema is nested too deeply; vLLM takes at most 64 levels."
        raise ConfigurationError(message) from error


def _unsupported(schema: object) -> str:
    what = schema.__name__ if isinstance(schema, type) else f"a {type(schema).__name__}"
    if isinstance(schema, Mapping):
        what = f"a mapping with the keys {sorted(map(str, schema))}"
    return (
        f"schema={what} gives no JSON schema. Give a JSON schema, an OpenAI function, "
        '{"name": ..., "schema": ...}, a ready response_format, or a Pydantic class.'
    )


def _refuse_constant(constant: str) -> NoReturn:
    message = f"{constant} is not JSON"
    raise ValueError(message)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode(text: str) -> Any:
    if not text or text[0] in '{["':
        return _DECODER.decode(text)
    for fence in islice(_FENCE.finditer(text), _MOST_FENCES):
        try:
            value, end = _DECODER.raw_decode(text, fence.end())
        except ValueError:
            continue
        if text[end:].lstrip().startswith("```"):
            return value
    return _DECODER.decode(text)


def _explain(raw: str, finish_reason: str | None, cause: BaseException | None) -> NoReturn:
    if finish_reason == "length":
        message = "The structured answer was cut by the token limit; raise max_tokens."
        _fail("cut", raw, message, cause)
    if finish_reason in _CUT_REASONS:
        message = f"The structured answer was cut: generation ended with {finish_reason!r}."
        _fail("cut", raw, message, cause)
    if not raw.strip():
        _fail("empty", raw, "The structured answer is empty.", cause)
    message = (
        f"The structured answer is not valid JSON ({type(cause).__name__}); "
        "its text is in the error's text attribute."
    )
    _fail("invalid", raw, message, cause)


def _fail(
    reason: Literal["cut", "empty", "refused", "invalid"],
    text: str,
    message: str,
    cause: BaseException | None = None,
) -> NoReturn:
    raise StructuredOutputError(message, reason=reason, text=text) from cause
