"""`ChatSageMakerVLLM`: LangChain's chat model for vLLM behind a SageMaker endpoint."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, ClassVar, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

from langchain_sagemaker_vllm._endpoint import EndpointModel
from langchain_sagemaker_vllm._errors import ConfigurationError, langchain_errors
from langchain_sagemaker_vllm._messages import to_wire_messages
from langchain_sagemaker_vllm._profile import default_profile
from langchain_sagemaker_vllm._replies import (
    combined_output,
    from_wire_chunk,
    last_chunk,
    to_chat_result,
)
from langchain_sagemaker_vllm._structured_output import (
    AnswerParser,
    Method,
    check_arguments,
    schema_format,
    schema_tool,
    traced_schema,
)
from langchain_sagemaker_vllm._tools import ToolLike, wire_tool, wire_tool_choice
from sagemaker_vllm import ChatRequest, InvocationOptions, chat_request


class ChatSageMakerVLLM(EndpointModel, BaseChatModel):
    """Chat model."""

    kind: ClassVar[Literal["chat", "text"]] = "chat"
    parameter_fields: ClassVar[tuple[str, ...]] = (
        *EndpointModel.parameter_fields,
        "top_logprobs",
        "chat_template_kwargs",
    )

    logprobs: bool | None = None
    """Return the log probability of every token."""
    top_logprobs: int | None = None
    """Likeliest tokens to return at every position; needs `logprobs`."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments of the chat template, such as `{"enable_thinking": True}`. vLLM's own."""
    merge_consecutive_messages: bool = False
    """Join neighbouring messages of one role, for templates that demand strict alternation."""
    send_names: bool = True
    """Send the `name` of messages that have one. Mistral's tokenizer mode refuses names."""

    def __init__(self, **settings: Any) -> None:
        """Check every setting; nothing is connected before the first call.

        Raises:
            ConfigurationError: A keyword is unknown, a value is wrong, or two settings conflict.
        """
        if settings.get("async_inference") is not None:
            # An asynchronous inference cannot stream: `stream` gives the whole answer at once.
            settings.setdefault("disable_streaming", True)
        super().__init__(**settings)

    @property
    def _llm_type(self) -> str:
        return "sagemaker-vllm-chat"

    def _resolve_model_profile(self) -> ModelProfile:
        return default_profile()

    def _get_request_payload(
        self,
        messages: Sequence[BaseMessage],
        *,
        stop: list[str] | str | None = None,
        **keywords: Any,
    ) -> tuple[ChatRequest, InvocationOptions]:
        """Build the body and the SageMaker options of a call; every call passes here.

        Raises:
            ConfigurationError: A keyword, parameter, tool or message is wrong; nothing was sent.
        """
        with langchain_errors():
            tools = [wire_tool(tool) for tool in keywords.get("tools") or ()]
            if keywords.get("tool_choice") is not None:
                keywords["tool_choice"] = wire_tool_choice(keywords["tool_choice"], tools)
            if keywords.get("response_format") is not None:
                keywords["response_format"] = schema_format(keywords["response_format"])
            call = self._call(keywords)
            body = chat_request(
                to_wire_messages(
                    messages,
                    merge_consecutive=self.merge_consecutive_messages,
                    send_names=self.send_names,
                ),
                tools=tools,
                parameters=self._parameters(stop, call.parameters),
                model=call.model or self.model,
            )
            return body, call.options

    def _get_stream_payload(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, keywords: dict[str, Any]
    ) -> tuple[ChatRequest, InvocationOptions, bool]:
        """Build a streamed call, and say whether to ask for token counts."""
        include_usage = keywords.pop("stream_usage", None)
        body, options = self._get_request_payload(messages, stop=stop, **keywords)
        if body.get("n", 1) > 1:
            raise ConfigurationError(
                f"n={body['n']} cannot be streamed: LangChain's chunks are of one answer. Call "
                "generate() with streaming=False, or stream with n=1."
            )
        return body, options, self.stream_usage if include_usage is None else include_usage

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002  # its signature
        **kwargs: Any,
    ) -> ChatResult:
        body, options = self._get_request_payload(messages, stop=stop, **kwargs)
        with langchain_errors():
            return to_chat_result(self._sync_client().chat(body, options=options))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002  # its signature
        **kwargs: Any,
    ) -> ChatResult:
        body, options = self._get_request_payload(messages, stop=stop, **kwargs)
        with langchain_errors():
            return to_chat_result(await self._async_client().chat(body, options=options))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        body, options, include_usage = self._get_stream_payload(messages, stop, kwargs)
        with (
            langchain_errors(),
            self._sync_client().stream_chat(
                body, options=options, include_usage=include_usage
            ) as stream,
        ):
            # Only langchain-core's typed events pass the manager, and they keep the metadata of
            # the last chunk alone: the logprobs of all tokens must be there.
            at_end = run_manager is not None
            for wire in stream:
                if chunk := from_wire_chunk(wire, with_logprobs=not at_end):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            chunk = last_chunk(stream.completion, with_logprobs=at_end)
            if run_manager:
                run_manager.on_llm_new_token("", chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        body, options, include_usage = self._get_stream_payload(messages, stop, kwargs)
        with langchain_errors():
            async with await self._async_client().stream_chat(
                body, options=options, include_usage=include_usage
            ) as stream:
                at_end = run_manager is not None
                async for wire in stream:
                    if chunk := from_wire_chunk(wire, with_logprobs=not at_end):
                        if run_manager:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
                chunk = last_chunk(stream.completion, with_logprobs=at_end)
                if run_manager:
                    await run_manager.on_llm_new_token("", chunk=chunk)
                yield chunk

    def bind_tools(
        self,
        tools: Sequence[ToolLike],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        response_format: dict[str, Any] | type | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools to the model.

        Args:
            tools: Functions, Pydantic classes, TypedDicts, `BaseTool`s, or dicts.
            tool_choice: `auto`, `none`, `any`, `required` or `True` (at least one call), a tool's
                name, or the wire form. `None` and `False` leave it to the server.
            strict: Ask the server to hold the arguments to the schema. Also for
                `response_format`.
            parallel_tool_calls: Whether one answer may call several tools.
            response_format: Schema of the answer when no tool is called.
            kwargs: Further keywords of the calls.

        Returns:
            The model with the tools.

        Raises:
            ConfigurationError: Something is no tool, the choice names none of the tools, or two
                values of `strict` conflict.
        """
        made = [wire_tool(tool, strict=strict) for tool in tools]
        if (choice := wire_tool_choice(tool_choice, made)) is not None:
            kwargs["tool_choice"] = choice
        if parallel_tool_calls is not None:
            kwargs["parallel_tool_calls"] = parallel_tool_calls
        if response_format is not None:
            kwargs["response_format"] = schema_format(response_format, strict=strict)
        return self.bind(tools=made, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type | None = None,
        *,
        method: Method = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        tools: Sequence[ToolLike] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return the model with answers that follow a schema.

        Args:
            schema: A Pydantic class (2 or 1), a dataclass, a TypedDict, a JSON schema (a title is
                not needed), an OpenAI function, or a ready `response_format`.
            method: `json_schema` (vLLM constrains the answer by `response_format`),
                `function_calling` (a forced tool call), or `json_mode` (any JSON object; say in
                the prompt which one).
            include_raw: Return `{"raw", "parsed", "parsing_error"}` and raise nothing for a bad
                answer.
            strict: The flag of that name in the request. vLLM enforces a `response_format`
                anyway, and a tool's schema only with `strict=True`.
            tools: Tools that the model may call instead of answering; use `include_raw=True` to
                get the calls. Only with `json_schema`.
            kwargs: Further keywords of the calls.

        Returns:
            A runnable that gives an instance of `schema` when it is a class, else JSON values.
            Streamed, it gives what has come so far, and the checked answer at the end.

        Raises:
            ConfigurationError: The arguments do not go together, or `schema` is none.
        """
        check_arguments(
            method,
            schema=schema,
            include_raw=include_raw,
            strict=strict,
            tools=tools,
            others=kwargs,
        )
        json_schema = None if method == "json_mode" else schema_format(schema, strict=strict)
        tool_name = None
        if method == "function_calling" and json_schema:
            tool = schema_tool(json_schema)
            tool_name = tool["function"]["name"]
            own = {
                "tools": [tool],
                "tool_choice": {"type": "function", "function": {"name": tool_name}},
            }
        else:
            own = {"response_format": json_schema or {"type": "json_object"}}
            if tools:
                own["tools"] = [wire_tool(each, strict=strict) for each in tools]
        traced = {
            "kwargs": {"method": method, "strict": strict},
            "schema": traced_schema(schema, json_schema),
        }
        llm = self.bind(**own, **kwargs, ls_structured_output_format=traced)
        return llm | AnswerParser(schema, tool_name=tool_name).as_runnable(include_raw=include_raw)

    def _combine_llm_outputs(self, llm_outputs: list[dict[str, Any] | None]) -> dict[str, Any]:
        return combined_output(llm_outputs)

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {
            **super()._identifying_params,
            "merge_consecutive_messages": self.merge_consecutive_messages,
            "send_names": self.send_names,
            "output_version": self.output_version,
        }

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        """Return the cache key: all that changes an answer besides the messages."""
        body, options = self._get_request_payload([HumanMessage("-")], stop=stop, **kwargs)
        del body["messages"]
        key = {**self._identifying_params, "options": options.as_dict(), "body": body}
        return json.dumps(key, sort_keys=True, default=str)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self._ls_params("chat", stop, kwargs)
