"""Structured prediction: by `response_format`, by a tool call, or by asking for JSON.

One plan and one reading for the four ways to call it. How a class is asked for:

1. `PydanticProgramMode.DEFAULT` with `should_use_structured_outputs`: `response_format`, which
   vLLM enforces. Else by a tool call where the model has them, else by text.
2. `FUNCTION`: by a tool call. `LLM`: the schema is in the prompt, JSON is read from the text.
3. `llm_kwargs` that are about tools (`tool_choice` but `none`, `tool_required`,
   `allow_parallel_tool_calls`) ask for the tool call in mode `DEFAULT` too.

However it was asked for, an answer with tool calls is read from them, else from its text.
"""

import json
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any, Literal, cast

from llama_index.core import instrumentation
from llama_index.core.base.llms.generic_utils import (
    astream_chat_to_completion_decorator,
    stream_chat_to_completion_decorator,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    TextBlock,
)
from llama_index.core.bridge.pydantic import BaseModel, ValidationError
from llama_index.core.instrumentation.events.llm import (
    LLMStructuredPredictEndEvent,
    LLMStructuredPredictStartEvent,
)
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.output_parsers.pydantic import PydanticOutputParser
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.program.utils import create_flexible_model
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.types import Model, PydanticProgramMode

from llama_index_sagemaker_vllm._partial_json import read_partial_object
from llama_index_sagemaker_vllm._settings import SageMakerVLLMSettings
from llama_index_sagemaker_vllm._tools import arguments_of, calls_in
from sagemaker_vllm import (
    ConfigurationError,
    StructuredOutputError,
    parse_json,
    response_format,
)

# Re-exported there without an `__all__`.
_dispatcher = instrumentation.get_dispatcher(__name__)  # type: ignore[attr-defined]
_Way = Literal["schema", "tool", "text"]
_TOOL_WORDS = ("tool_choice", "tool_required", "allow_parallel_tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How one object is asked for."""

    keywords: dict[str, Any]
    many: bool


class StructuredPrediction(SageMakerVLLMSettings):
    """The structured half of `SageMakerVLLM`. Use that class."""

    def structured_predict(
        self,
        output_cls: type[Model],
        prompt: BasePromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """Predict an object.

        Args:
            output_cls: Pydantic class of the object.
            prompt: Prompt template.
            llm_kwargs: Keywords of `chat`, and `tool_choice`, `tool_required`,
                `allow_parallel_tool_calls` (the result is then a list); never changed.
            prompt_args: Values for the template.

        Returns:
            The object. Of several tool calls the first, unless several were asked for.

        Raises:
            ConfigurationError: `output_cls` is no Pydantic class, or a keyword is wrong.
            StructuredOutputError: The answer was cut, empty, refused, or does not fit; its text is
                in `text`.
        """
        plan = self._plan(output_cls, prompt, llm_kwargs, prompt_args)
        _announce(output_cls, prompt, prompt_args)
        return _announced(_read(self.chat(**plan.keywords), output_cls, plan))

    async def astructured_predict(
        self,
        output_cls: type[Model],
        prompt: BasePromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """Predict an object; arguments and errors as for `structured_predict`."""
        plan = self._plan(output_cls, prompt, llm_kwargs, prompt_args)
        _announce(output_cls, prompt, prompt_args)
        return _announced(_read(await self.achat(**plan.keywords), output_cls, plan))

    def as_structured_llm(self, output_cls: type[BaseModel], **kwargs: Any) -> StructuredLLM:
        """Return an LLM whose every answer is an `output_cls`.

        Raises:
            ConfigurationError: `output_cls` is no Pydantic class.
        """
        _check_class(output_cls)
        return _StructuredLLM(llm=self, output_cls=output_cls, **kwargs)

    def _structured_stream_call(
        self,
        output_cls: type[Model],
        prompt: BasePromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Generator[Any]:
        """Yield the object as it grows, and at last the whole one (or its error)."""
        plan = self._plan(output_cls, prompt, llm_kwargs, prompt_args, stream=True)
        return self._grow(output_cls, plan)

    async def _structured_astream_call(
        self,
        output_cls: type[Model],
        prompt: BasePromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> AsyncGenerator[Any]:
        """Yield the object as it grows, and at last the whole one (or its error)."""
        plan = self._plan(output_cls, prompt, llm_kwargs, prompt_args, stream=True)
        return self._agrow(output_cls, plan)

    def _grow(self, output_cls: type[BaseModel], plan: _Plan) -> Generator[BaseModel]:
        growing = _GrowingObject(output_cls)
        response: ChatResponse | None = None
        with closing(self.stream_chat(**plan.keywords)) as stream:
            for response in stream:
                if (found := growing.read(response)) is not None:
                    yield found
        yield _read(cast("ChatResponse", response), output_cls, plan)

    async def _agrow(self, output_cls: type[BaseModel], plan: _Plan) -> AsyncGenerator[BaseModel]:
        growing = _GrowingObject(output_cls)
        response: ChatResponse | None = None
        async with aclosing(await self.astream_chat(**plan.keywords)) as stream:
            async for response in stream:
                if (found := growing.read(response)) is not None:
                    yield found
        yield _read(cast("ChatResponse", response), output_cls, plan)

    def _should_use_structure_outputs(self) -> bool:
        """Whether objects are asked for by `response_format`."""
        by_default = self.pydantic_program_mode == PydanticProgramMode.DEFAULT
        return by_default and self.should_use_structured_outputs

    def _plan(
        self,
        output_cls: type[Model],
        prompt: BasePromptTemplate,
        llm_kwargs: Mapping[str, Any] | None,
        prompt_args: Mapping[str, Any],
        *,
        stream: bool = False,
    ) -> _Plan:
        _check(output_cls, prompt)
        keywords = dict(llm_kwargs or {})
        tool_words = {name: keywords.pop(name, None) for name in _TOOL_WORDS}
        many = bool(tool_words["allow_parallel_tool_calls"])
        if many and stream:
            raise ConfigurationError(
                "allow_parallel_tool_calls=True asks for a list of objects, which cannot be "
                "streamed: call structured_predict, or predict one class that holds a list."
            )
        messages = self._extend_messages(prompt.format_messages(llm=self, **prompt_args))
        match self._way(tool_words):
            case "tool":
                keywords = self._prepare_chat_with_tools(
                    [get_function_tool(output_cls)],
                    chat_history=messages,
                    allow_parallel_tool_calls=many,
                    tool_required=tool_words["tool_choice"] is None,
                    tool_choice=tool_words["tool_choice"],
                    **keywords,
                )
            case "schema":
                keywords |= {"messages": messages, "response_format": response_format(output_cls)}
                if tool_words["tool_choice"]:  # "none": calls are forbidden, as the caller says
                    keywords["tool_choice"] = tool_words["tool_choice"]
            case "text":
                keywords["messages"] = _asking_for_json(messages, output_cls)
        return _Plan(keywords=keywords, many=many)

    def _way(self, tool_words: Mapping[str, Any]) -> _Way:
        asks_for_tool = tool_words["tool_choice"] not in (None, "none") or any(
            tool_words[name] for name in ("tool_required", "allow_parallel_tool_calls")
        )
        match self.pydantic_program_mode:
            case PydanticProgramMode.LLM:
                return "text"
            case PydanticProgramMode.FUNCTION:
                return "tool"
            case PydanticProgramMode.DEFAULT:
                if self._should_use_structure_outputs() and not asks_for_tool:
                    return "schema"
                has_tools = self.metadata.is_function_calling_model
                return "tool" if asks_for_tool or has_tools else "text"
            case other:
                raise ConfigurationError(
                    f"pydantic_program_mode={other.value!r} is made for another LLM class. Use "
                    "'default' (vLLM enforces the schema), 'function' or 'llm'."
                )


class _StructuredLLM(StructuredLLM):
    """LlamaIndex's wrapper, with the two calls that it leaves unimplemented."""

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Stream the object as it grows; `raw` is the object, `text` its JSON."""
        return stream_chat_to_completion_decorator(self.stream_chat)(prompt, **kwargs)

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """Stream the object as it grows; `raw` is the object, `text` its JSON."""
        return await astream_chat_to_completion_decorator(self.astream_chat)(prompt, **kwargs)


class _GrowingObject:
    """Reads what can be read of an object while its JSON grows."""

    def __init__(self, output_cls: type[BaseModel]) -> None:
        self._output_cls = output_cls
        self._flexible = create_flexible_model(output_cls)
        self._value: dict[str, Any] = {}

    def read(self, response: ChatResponse) -> BaseModel | None:
        """Return the object so far; `None` when it has not grown.

        It is an `output_cls` once it is valid and every field has come, so that a default is never
        shown which the next piece replaces. Before that it is a `FlexibleModel`.
        """
        value = self._value_of(response)
        if value is None or value == self._value:
            return None
        self._value = value
        try:
            found = self._output_cls.model_validate(value)
        except ValidationError:
            found = None
        if found is not None and found.model_fields_set >= self._output_cls.model_fields.keys():
            return found
        return self._flexible.model_validate(value)

    def _value_of(self, response: ChatResponse) -> dict[str, Any] | None:
        calls = calls_in(response.message)
        text = calls[0].tool_kwargs if calls else response.message.content or ""
        if isinstance(text, dict):
            return text
        return read_partial_object(text)


def _check(output_cls: object, prompt: object) -> None:
    _check_class(output_cls)
    if not isinstance(prompt, BasePromptTemplate):
        raise ConfigurationError(
            f"prompt is a {type(prompt).__name__}: wrap the text, prompt=PromptTemplate(...)."
        )


def _check_class(output_cls: object) -> None:
    if not (isinstance(output_cls, type) and issubclass(output_cls, BaseModel)):
        raise ConfigurationError(
            f"output_cls={output_cls!r} is no Pydantic class; LlamaIndex predicts those only."
        )


def _announce(
    output_cls: type[BaseModel], prompt: BasePromptTemplate, prompt_args: dict[str, Any]
) -> None:
    _dispatcher.event(
        LLMStructuredPredictStartEvent(
            output_cls=output_cls, template=prompt, template_args=prompt_args
        )
    )


def _announced(result: Model) -> Model:
    _dispatcher.event(LLMStructuredPredictEndEvent(output=result))
    return result


def _asking_for_json(messages: list[ChatMessage], output_cls: type[BaseModel]) -> list[ChatMessage]:
    """Add the schema to the last message, in LlamaIndex's own words."""
    schema = PydanticOutputParser(output_cls=output_cls).get_format_string(escape_json=False)
    *before, last = messages
    return [*before, last.model_copy(update={"blocks": [*last.blocks, TextBlock(text=schema)]})]


def _read(response: ChatResponse, output_cls: type[Model], plan: _Plan) -> Model:
    """Read the object of a whole answer: of its tool calls, else of its text."""
    finish_reason = response.additional_kwargs.get("finish_reason")
    calls = calls_in(response.message)
    if calls:
        values = [arguments_of(call, finish_reason) for call in calls]
    else:
        values = [_read_text(response, finish_reason)]
    objects = [_validated(value, output_cls, response) for value in values]
    # The base class's signature knows no list, its own program returns one all the same.
    return cast("Model", objects) if plan.many else objects[0]


def _read_text(response: ChatResponse, finish_reason: str | None) -> Any:
    text = response.message.content or ""
    try:
        return parse_json(
            text, finish_reason=finish_reason, refusal=response.additional_kwargs.get("refusal")
        )
    except StructuredOutputError as error:
        # Models that are only asked for JSON write a sentence before it.
        found = re.search(r"\{.*\}", text, re.DOTALL)
        if found is None or error.reason != "invalid":
            raise
        try:
            return parse_json(found[0])
        except StructuredOutputError:
            raise error from None


def _validated(value: object, output_cls: type[Model], response: ChatResponse) -> Model:
    try:
        # As JSON, so that strict fields take what JSON can write (a date, a tuple).
        return output_cls.model_validate_json(json.dumps(value))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_input=False, include_url=False)
        )
        raise StructuredOutputError(
            f"The answer does not fit {output_cls.__name__}. {wrong}",
            reason="invalid",
            text=response.message.content or json.dumps(value),
        ) from error
