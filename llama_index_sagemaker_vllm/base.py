"""`SageMakerVLLM`, LlamaIndex's LLM for vLLM behind a SageMaker endpoint."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_index.core.base.llms.generic_utils import messages_to_prompt
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    MessageRole,
    TextBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.llm import ToolSelection

from llama_index_sagemaker_vllm._messages import to_wire_messages
from llama_index_sagemaker_vllm._responses import (
    GrowingResponse,
    Reading,
    from_wire_completion,
    to_completion_response,
)
from llama_index_sagemaker_vllm._structured_output import StructuredPrediction
from llama_index_sagemaker_vllm._tools import (
    ToolChoice,
    own_names,
    to_selections,
    to_wire_tool_choice,
    to_wire_tools,
)
from sagemaker_vllm import (
    ConfigurationError,
    InvocationOptions,
    chat_request,
    merge_parameters,
    split_keywords,
    text_request,
)

if TYPE_CHECKING:
    from llama_index.core.tools.types import BaseTool

# Handled here, and no parameters of vLLM.
_OWN_KEYWORDS = ("tools", "tool_names")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A request that is ready to be sent, and how to read its answer."""

    is_chat: bool
    request: dict[str, Any]
    options: InvocationOptions
    reading: Reading


class SageMakerVLLM(StructuredPrediction):
    """vLLM behind an Amazon SageMaker endpoint, as LlamaIndex's LLM.

    Chat, completion, images, tools, structured output and token counts; every call synchronous
    and asynchronous, plain and streamed, with the same answer.

    Args:
        endpoint_name: Name of the endpoint; by default the environment's `SAGEMAKER_ENDPOINT_NAME`.
        region_name: AWS region; like the credentials by default found as boto3 finds it.
        temperature, max_tokens, stop, top_k, ...: Sampling; sent only when set, also per call.
        target_variant, inference_component_name, session_id, ...: SageMaker's options, also per
            call.
        extra_body: Any other parameters of the request body.
        context_window: Tokens that the model takes; LlamaIndex packs prompts by it.
        is_chat_model: Call the chat API (the default), else vLLM's text completion.
        is_function_calling_model: Whether the server parses tool calls (default: yes).
        should_use_structured_outputs: Predict objects by `response_format` (default: yes).
        timeout: Seconds to wait for an answer, or between parts of a stream. Default 70, since a
            container has 60.
        max_retries: How often a failed request is sent again. Default 2.

    Raises:
        ConfigurationError: A setting or an argument is wrong; nothing was sent.
        SageMakerVLLMError: A call failed; the subclass says how.

    Examples:
        `pip install 'sagemaker-vllm[llama-index]'`

        ```python
        from llama_index_sagemaker_vllm import SageMakerVLLM

        llm = SageMakerVLLM(endpoint_name="my-endpoint", region_name="us-east-1")
        print(llm.complete("Hello").text)

        for response in llm.stream_complete("Tell me a story"):
            print(response.delta, end="", flush=True)
        ```
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the name that is written into serialised models."""
        return "SageMakerVLLM"

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation.

        Args:
            messages: The conversation.
            kwargs: Parameters of vLLM, SageMaker's options, `model`, `tools` (as wire JSON).

        Returns:
            The first answer as message; `raw` is the wire's JSON, `additional_kwargs` holds the
            token counts, the finish reason and what SageMaker said about the call.
        """
        return self._answer(self._chat_call(messages, kwargs))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Stream the answer to a conversation; arguments as for `chat`.

        Yields:
            Cumulative responses, each with the newest piece in `delta`. The last one has an empty
            `delta` and is otherwise what `chat` returns.
        """
        return self._stream(self._chat_call(messages, kwargs))

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Complete a prompt: by a chat of one user message, or by vLLM's text completion.

        Args:
            prompt: The text.
            formatted: Whether `completion_to_prompt` has been applied already.
            kwargs: As for `chat`.
        """
        return to_completion_response(self._answer(self._text_call(prompt, formatted, kwargs)))

    @llm_completion_callback()
    def stream_complete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponseGen:
        """Stream the completion of a prompt; arguments as for `complete`."""
        stream = self._stream(self._text_call(prompt, formatted, kwargs))
        return (to_completion_response(response) for response in stream)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation; arguments as for `chat`."""
        return await self._aanswer(self._chat_call(messages, kwargs))

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], **kwargs: Any
    ) -> ChatResponseAsyncGen:
        """Stream the answer to a conversation; arguments as for `chat`."""
        return self._astream(self._chat_call(messages, kwargs))

    @llm_completion_callback()
    async def acomplete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponse:
        """Complete a prompt; arguments as for `complete`."""
        call = self._text_call(prompt, formatted, kwargs)
        return to_completion_response(await self._aanswer(call))

    @llm_completion_callback()
    async def astream_complete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponseAsyncGen:
        """Stream the completion of a prompt; arguments as for `complete`."""
        stream = self._astream(self._text_call(prompt, formatted, kwargs))
        return (to_completion_response(response) async for response in stream)

    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = True,
        **kwargs: Any,
    ) -> list[ToolSelection]:
        """Return the tool calls of a response.

        Raises:
            ValueError: There is none, and `error_on_no_tool_call` is set.
            StructuredOutputError: The arguments of a call are not a JSON object.
        """
        selections = to_selections(response)
        if not selections and error_on_no_tool_call:
            raise ValueError(
                "The response holds no tool call. Pass tool_required=True to force one, or "
                "error_on_no_tool_call=False to take the answer as it is."
            )
        return selections

    def _prepare_chat_with_tools(
        self,
        tools: Sequence["BaseTool"],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: ToolChoice = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the keywords of a chat with tools; `chat_history` is left as it is."""
        if isinstance(user_msg, str):
            user_msg = ChatMessage(role=MessageRole.USER, content=user_msg)
        messages = [*(chat_history or []), *([user_msg] if user_msg else [])]
        wire_tools = to_wire_tools(tools, strict=strict)
        prepared = {
            "messages": messages,
            "tools": wire_tools or None,
            "tool_choice": to_wire_tool_choice(tool_choice, wire_tools, required=tool_required),
            # vLLM refuses `tools: []`, and what belongs to tools without any.
            "parallel_tool_calls": allow_parallel_tool_calls if wire_tools else None,
            **kwargs,
        }
        if renamed := own_names(tools):
            prepared["tool_names"] = renamed
        return prepared

    def _chat_call(self, messages: Sequence[ChatMessage], keywords: Mapping[str, Any]) -> _Call:
        if not self.is_chat_model:
            _refuse_media(messages)
            to_prompt = self.messages_to_prompt or messages_to_prompt
            return self._text_call(to_prompt(messages), True, keywords)  # noqa: FBT003
        sent = split_keywords(keywords, kind="chat", extra=_OWN_KEYWORDS)
        tools = keywords.get("tools")
        if tools and not self.is_function_calling_model:
            raise ConfigurationError(
                "is_function_calling_model=False, but tools are given. Set it to True if the "
                "server runs with --enable-auto-tool-choice and --tool-call-parser."
            )
        parameters = merge_parameters(self._parameters(), sent.parameters)
        self._check_limit(parameters)
        request = chat_request(
            to_wire_messages(
                messages,
                merge_consecutive=self.merge_consecutive_messages,
                send_names=self.send_names,
            ),
            tools=tools,
            parameters=parameters,
            model=sent.model or self.model,
        )
        reading = Reading(
            own_names=keywords.get("tool_names") or {},
            single_call=parameters.get("parallel_tool_calls") is False,
        )
        options = self._options().merged(sent.options)
        return _Call(is_chat=True, request=request, options=options, reading=reading)

    def _text_call(self, prompt: str, formatted: bool, keywords: Mapping[str, Any]) -> _Call:
        if not formatted and self.completion_to_prompt:
            prompt = self.completion_to_prompt(prompt)
        if self.is_chat_model:
            return self._chat_call([ChatMessage(role=MessageRole.USER, content=prompt)], keywords)
        sent = split_keywords(keywords, kind="text", extra=_OWN_KEYWORDS)
        if keywords.get("tools"):
            raise ConfigurationError("is_chat_model=False: vLLM's text completion takes no tools.")
        parameters = merge_parameters(self._parameters(), sent.parameters)
        self._check_limit(parameters)
        request = text_request(prompt, parameters=parameters, model=sent.model or self.model)
        options = self._options().merged(sent.options)
        return _Call(is_chat=False, request=request, options=options, reading=Reading())

    def _answer(self, call: _Call) -> ChatResponse:
        send = self._client.chat if call.is_chat else self._client.complete
        return from_wire_completion(send(call.request, options=call.options), call.reading)

    async def _aanswer(self, call: _Call) -> ChatResponse:
        send = self._async_client.chat if call.is_chat else self._async_client.complete
        return from_wire_completion(await send(call.request, options=call.options), call.reading)

    def _stream(self, call: _Call) -> Generator[ChatResponse]:
        growing = GrowingResponse(call.reading)
        send = self._client.stream_chat if call.is_chat else self._client.stream_complete
        with send(call.request, options=call.options) as stream:
            for chunk in stream:
                response = growing.from_wire_chunk(chunk)
                if response is not None:
                    yield response
            yield growing.last(stream.completion)

    async def _astream(self, call: _Call) -> AsyncGenerator[ChatResponse]:
        growing = GrowingResponse(call.reading)
        client = self._async_client
        send = client.stream_chat if call.is_chat else client.stream_complete
        async with await send(call.request, options=call.options) as stream:
            async for chunk in stream:
                response = growing.from_wire_chunk(chunk)
                if response is not None:
                    yield response
            yield growing.last(stream.completion)


def _refuse_media(messages: Sequence[ChatMessage]) -> None:
    for message in messages:
        for block in message.blocks:
            if not isinstance(block, TextBlock):
                raise ConfigurationError(
                    f"is_chat_model=False: vLLM's text completion takes text only, and a message "
                    f"holds a {type(block).__name__}. Set is_chat_model=True."
                )
