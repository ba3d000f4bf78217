"""Structured output: a schema of any source, and the parser of the answers.

The parser is strict at the end (a cut, empty, refused or wrong answer is a `StructuredOutputError`
with the reason and the raw message) and lenient before it, where it shows what has come so far.
"""

import dataclasses
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.runnables import Runnable, RunnableGenerator, RunnableLambda
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import is_typeddict

from langchain_sagemaker_vllm._errors import ConfigurationError, langchain_errors
from langchain_sagemaker_vllm._typed_dict import typed_dict_schema
from sagemaker_vllm import StructuredOutputError, nearest, parse_json, response_format

Method = Literal["json_schema", "function_calling", "json_mode"]
METHODS: tuple[str, ...] = get_args(Method)

# The parser's name in traces.
_STEP = "StructuredAnswer"
_BEGIN = re.compile(r"[{\[]")
# A number that may go on: shown when it is whole, so that values only grow.
_OPEN_NUMBER = re.compile(r"(?<=[:,\[])\s*[-+.\deE]*$")


def check_arguments(
    method: str,
    *,
    schema: object,
    include_raw: object,
    strict: object,
    tools: object,
    others: Mapping[str, Any],
) -> None:
    """Refuse arguments of `with_structured_output` that do not go together.

    Raises:
        ConfigurationError: It names the arguments and the cure.
    """
    if not isinstance(include_raw, bool):
        raise ConfigurationError(f"include_raw={include_raw!r} must be True or False.")
    if method not in METHODS:
        raise ConfigurationError(
            f"method={method!r} must be one of {', '.join(METHODS)}.{nearest(method, METHODS)}"
        )
    if schema is None and method != "json_mode":
        raise ConfigurationError(f"schema is missing: method={method!r} needs one.")
    if schema is not None and not isinstance(schema, type | Mapping):
        raise ConfigurationError(
            f"schema is a {type(schema).__name__}; pass a Pydantic class, a TypedDict, a dataclass "
            "or a JSON schema as a dict."
        )
    if method == "json_mode" and strict is not None:
        raise ConfigurationError(
            f"strict={strict!r} has no meaning with method='json_mode', which sends no schema; "
            "use method='json_schema'."
        )
    if tools and method != "json_schema":
        raise ConfigurationError(
            f"tools= works with method='json_schema' only, not with {method!r}, which forces the "
            "answer's own form."
        )
    taken = "tool_choice" if method == "function_calling" else "response_format"
    if taken in others:
        raise ConfigurationError(
            f"{taken} is set by with_structured_output(method={method!r}) itself; leave it out."
        )


def schema_format(schema: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """Build `response_format` from any schema that LangChain users hold.

    Raises:
        ConfigurationError: `schema` gives no JSON schema, or holds another `strict`.
    """
    with langchain_errors():
        if is_typeddict(schema) or dataclasses.is_dataclass(schema):
            schema = _schema_of_annotations(schema)
        return response_format(schema, strict=strict)


def _schema_of_annotations(schema: Any) -> dict[str, Any]:
    try:
        return (
            typed_dict_schema(schema) if is_typeddict(schema) else TypeAdapter(schema).json_schema()
        )
    except (NameError, RuntimeError, TypeError) as error:
        raise ConfigurationError(
            f"No JSON schema can be made of schema={schema.__name__} ({error}); use a Pydantic "
            "class."
        ) from error


def traced_schema(schema: Any, wire_format: Mapping[str, Any] | None) -> Any:
    """Return what LangChain's traces show: its own reading of a schema, where it can read it."""
    try:
        return convert_to_json_schema(schema)
    except (AttributeError, NameError, RuntimeError, TypeError, ValueError):
        if wire_format is None or wire_format["type"] != "json_schema":
            return {"title": "object"}
        wrapper = wire_format["json_schema"]
        return {"title": wrapper["name"], **wrapper["schema"]}


def schema_tool(wire_format: Mapping[str, Any]) -> dict[str, Any]:
    """Make the tool whose arguments are the answer."""
    wrapper = wire_format["json_schema"]
    function = {"name": wrapper["name"], "parameters": wrapper["schema"]}
    if described := wrapper.get("description") or wrapper["schema"].get("description"):
        function["description"] = described
    if "strict" in wrapper:
        function["strict"] = wrapper["strict"]
    return {"type": "function", "function": function}


class AnswerParser:
    """Reads the structured answer out of a message."""

    def __init__(self, schema: Any, *, tool_name: str | None = None) -> None:
        """Choose where the answer stands and what it becomes.

        Args:
            schema: A class to make instances of; anything else gives plain JSON values.
            tool_name: The tool whose arguments are the answer; by default it is the content.
        """
        self._tool_name = tool_name
        self._make = _maker(schema)

    def parse(self, message: BaseMessage) -> Any:
        """Read a whole answer.

        Raises:
            StructuredOutputError: The answer is cut, empty, refused or not what the schema says;
                `raw_message` holds the message.
        """
        with langchain_errors(raw_message=message):
            text = self._text(message)
            value = parse_json(
                text,
                finish_reason=message.response_metadata.get("finish_reason"),
                refusal=message.additional_kwargs.get("refusal"),
            )
            try:
                return self._make(value)
            except (ValueError, TypeError) as error:
                # The error's own text quotes the answer.
                raise _invalid(f"does not fit the schema: {_problems(error)}", text) from None

    def parse_raw(self, message: BaseMessage) -> dict[str, Any]:
        """Read an answer for `include_raw`: errors are returned, the raw message always.

        A message that calls tools instead of answering gives neither value nor error.
        """
        found: dict[str, Any] = {"raw": message, "parsed": None, "parsing_error": None}
        if self._tool_name is None and _calls_tools(message):
            return found
        try:
            found["parsed"] = self.parse(message)
        except StructuredOutputError as error:
            found["parsing_error"] = error
        return found

    def as_runnable(self, *, include_raw: bool) -> Runnable[BaseMessage, Any]:
        """Return the step that follows the model."""
        if include_raw:
            return RunnableLambda(self.parse_raw, name=_STEP)
        return RunnableGenerator(self._transform, self._atransform, name=_STEP)

    def piece(self, message: AIMessageChunk) -> str:
        """Return what a chunk adds to the answer's text; of several calls the first one counts."""
        if self._tool_name is None:
            return message.text
        chunks = message.tool_call_chunks
        return "".join(chunk["args"] or "" for chunk in chunks if not chunk["index"])

    def partial(self, text: str) -> Any:
        """Return the value that has come so far, or `None` when there is none yet."""
        begin = _BEGIN.search(text)
        if begin is None:
            return None
        try:
            begun = _OPEN_NUMBER.sub("", text[begin.start() :])
            value = from_json(begun, allow_partial="trailing-strings")
            return self._make(value) if value else None
        except (ValueError, TypeError):
            return None

    def _text(self, message: BaseMessage) -> str:
        if self._tool_name is not None:
            return _arguments(message, self._tool_name)
        if _calls_tools(message):
            raise _invalid("is missing: the model called tools; use include_raw=True", None)
        return message.text

    def _transform(self, messages: Iterator[BaseMessage]) -> Iterator[Any]:
        progress = _Progress(self)
        for message in messages:
            yield from progress.add(message)
        yield from progress.finish()

    async def _atransform(self, messages: AsyncIterator[BaseMessage]) -> AsyncIterator[Any]:
        progress = _Progress(self)
        async for message in messages:
            for value in progress.add(message):
                yield value
        for value in progress.finish():
            yield value


class _Progress:
    """One streamed answer: yields values as they grow, and the checked one at the end."""

    def __init__(self, parser: AnswerParser) -> None:
        self._parser = parser
        self._message: BaseMessage | None = None
        self._chunks: list[AIMessageChunk] = []
        self._text = ""
        self._shown: Any = None

    def add(self, message: BaseMessage) -> Iterator[Any]:
        if not isinstance(message, AIMessageChunk):
            self._message = message
            return
        self._chunks.append(message)
        if piece := self._parser.piece(message):
            self._text += piece
            value = self._parser.partial(self._text)
            if value is not None and value != self._shown:
                self._shown = value
                yield value

    def finish(self) -> Iterator[Any]:
        message = self._message
        if self._chunks:
            message = add_ai_message_chunks(*self._chunks)
        if message is None:
            return
        value = self._parser.parse(message)
        if self._shown is None or value != self._shown:
            yield value


def _maker(schema: Any) -> Callable[[Any], Any]:
    """Return what makes instances of a class from JSON values; others stay as they are."""
    if isinstance(schema, type) and not is_typeddict(schema):
        if issubclass(schema, BaseModel):
            return schema.model_validate
        if dataclasses.is_dataclass(schema):
            return TypeAdapter(schema).validate_python
        if hasattr(schema, "parse_obj"):
            parse: Callable[[Any], Any] = schema.parse_obj
            return parse
    return lambda value: value


def _arguments(message: BaseMessage, name: str) -> str:
    """Return the arguments of the first call to a tool, as text; `""` when there is none."""
    if not isinstance(message, AIMessage):
        return ""
    valid = (json.dumps(call["args"]) for call in message.tool_calls if call["name"] == name)
    invalid = (call["args"] or "" for call in message.invalid_tool_calls if call["name"] == name)
    return next(chain(valid, invalid), "")


def _calls_tools(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls) and not message.text.strip()


def _invalid(problem: str, text: str | None) -> StructuredOutputError:
    return StructuredOutputError(f"The structured answer {problem}.", reason="invalid", text=text)


def _problems(error: Exception) -> str:
    """Tell where an answer does not fit, without quoting the answer."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False, include_context=False)
    elif callable(errors := getattr(error, "errors", None)):  # Pydantic 1
        found = errors()
    else:
        return type(error).__name__
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)
