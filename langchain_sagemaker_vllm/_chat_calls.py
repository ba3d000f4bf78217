"""The calls of the chat model: one payload for all, four ways to send it."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, ClassVar, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from langchain_sagemaker_vllm._endpoint import EndpointModel, with_signature
from langchain_sagemaker_vllm._errors import ConfigurationError, langchain_errors
from langchain_sagemaker_vllm._messages import to_wire_messages
from langchain_sagemaker_vllm._replies import (
    combined_output,
    from_wire_chunk,
    last_chunk,
    to_chat_result,
)
from langchain_sagemaker_vllm._structured_output import schema_format
from langchain_sagemaker_vllm._tools import wire_tool, wire_tool_choice
from sagemaker_vllm import ChatRequest, InvocationOptions, chat_request


class ChatCalls(EndpointModel, BaseChatModel):
    """A chat model that can be called."""

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
            return body, self._options().merged(call.options)

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

    @with_signature
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

    @with_signature
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
        # Not sorted: an answer follows the order of a schema's properties.
        return json.dumps(key, default=str)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self._ls_params("chat", stop, kwargs)
