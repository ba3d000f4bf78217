"""`SageMakerVLLM`: LangChain's text-completion model for vLLM behind a SageMaker endpoint."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
    Callbacks,
)
from langchain_core.language_models import BaseLLM, LangSmithParams, LanguageModelInput
from langchain_core.outputs import GenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_config_list
from pydantic import Field

from langchain_sagemaker_vllm._completions import (
    Outcome,
    from_wire_text_chunk,
    last_text_chunk,
    to_llm_result,
)
from langchain_sagemaker_vllm._endpoint import EndpointModel, with_signature
from langchain_sagemaker_vllm._errors import ConfigurationError, langchain_errors
from sagemaker_vllm import InvocationOptions, SageMakerVLLMError, TextRequest, text_request

_RUN_KEYWORDS = frozenset({"tags", "metadata", "run_name", "run_id"})


class SageMakerVLLM(EndpointModel, BaseLLM):
    """LangChain LLM for text completions of vLLM behind a SageMaker endpoint.

    ???+ info "Setup"

        As for `ChatSageMakerVLLM`.

    ??? info "Key init args — completion params"

        Those of `ChatSageMakerVLLM` but for the ones of chats; `logprobs` is a number here. Others
        of vLLM, such as `echo` and `suffix`, are keywords too, here and of each call. Mind that
        vLLM's default for `max_tokens` is 16.

    ??? info "Key init args — client params"

        | Param | Type | Description |
        | --- | --- | --- |
        | `max_prompts_per_request` | `int` | Prompts to send in one request: 128. |

        All others as for `ChatSageMakerVLLM`.

    ??? info "Instantiate"

        ```python
        from langchain_sagemaker_vllm import SageMakerVLLM

        llm = SageMakerVLLM(endpoint_name="my-endpoint", max_tokens=32)
        ```

    ??? info "Invoke"

        ```python
        print(llm.invoke("The capital of France is"))
        ```

    ??? info "Many prompts"

        They go in as few requests as possible, which vLLM works on at once:

        ```python
        result = llm.generate(["The capital of France is", "The opposite of hot is"], n=2)
        for generations in result.generations:
            print([generation.text for generation in generations])
        print(result.llm_output)
        ```

        When one request of several fails, its error's `partial` holds the answers to the others;
        `batch(..., return_exceptions=True)` gives them in their places.

    ??? info "Stream"

        ```python
        for text in llm.stream("Once upon a time"):
            print(text, end="", flush=True)
        ```

    ??? info "Async"

        ```python
        import asyncio

        print(asyncio.run(llm.abatch(["One", "Two"])))
        ```

    ??? info "Token usage and response metadata"

        ```python
        generation = llm.generate(["Hello"]).generations[0][0]
        print(generation.generation_info["finish_reason"])
        ```
    """

    kind: ClassVar[Literal["chat", "text"]] = "text"

    logprobs: int | None = None
    """Likeliest tokens to return at every position, with their log probabilities."""
    max_prompts_per_request: int = Field(default=128, ge=1, le=1024)
    """Prompts to send in one request; more are split over several, which run at once."""

    @property
    def _llm_type(self) -> str:
        return "sagemaker-vllm"

    def _get_request_payload(
        self,
        prompts: str | Sequence[str],
        *,
        stop: list[str] | str | None = None,
        **keywords: Any,
    ) -> tuple[TextRequest, InvocationOptions]:
        """Build the body and the SageMaker options of a call; every call passes here.

        Raises:
            ConfigurationError: A keyword, parameter or prompt is wrong; nothing was sent.
        """
        with langchain_errors():
            call = self._call(keywords)
            body = text_request(
                prompts,
                parameters=self._parameters(stop, call.parameters),
                model=call.model or self.model,
            )
            return body, self._options().merged(call.options)

    def _payloads(
        self, prompts: Sequence[str], stop: list[str] | None, keywords: Mapping[str, Any]
    ) -> list[tuple[TextRequest, InvocationOptions]]:
        """Build every request of many prompts, so that a wrong one is known before the first."""
        size = self.max_prompts_per_request
        pieces = [prompts[at : at + size] for at in range(0, len(prompts), size)]
        # A single prompt goes as a string, which every server takes.
        return [
            self._get_request_payload(piece[0] if len(piece) == 1 else piece, stop=stop, **keywords)
            for piece in pieces
        ]

    def _stream_payload(
        self, prompt: str, stop: list[str] | None, keywords: dict[str, Any]
    ) -> tuple[TextRequest, InvocationOptions, bool]:
        include_usage = keywords.pop("stream_usage", None)
        body, options = self._get_request_payload(prompt, stop=stop, **keywords)
        if body.get("n", 1) > 1:
            raise ConfigurationError(
                f"n={body['n']} cannot be streamed: LangChain's chunks are of one answer. Call "
                "generate(), or stream with n=1."
            )
        return body, options, self.stream_usage if include_usage is None else include_usage

    @with_signature
    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        payloads = self._payloads(prompts, stop, kwargs)
        if len(payloads) == 1:
            outcomes = [self._outcome(payloads[0], run_manager)]
        else:
            with ThreadPoolExecutor(min(len(payloads), self.max_concurrency)) as threads:
                outcomes = list(threads.map(self._outcome, payloads))
        return to_llm_result(outcomes, [body for body, _ in payloads])

    @with_signature
    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        payloads = self._payloads(prompts, stop, kwargs)
        manager = run_manager if len(payloads) == 1 else None
        outcomes = await asyncio.gather(*(self._aoutcome(each, manager) for each in payloads))
        return to_llm_result(outcomes, [body for body, _ in payloads])

    def _outcome(
        self,
        payload: tuple[TextRequest, InvocationOptions],
        run_manager: CallbackManagerForLLMRun | None = None,
    ) -> Outcome:
        """Send one request; its failure must not take the answers to the others away."""
        body, options = payload
        client = self._sync_client()
        try:
            if not self.streaming:
                return client.complete(body, options=options)
            with client.stream_complete(body, options=options) as stream:
                for wire in stream:
                    chunk = from_wire_text_chunk(wire)
                    if chunk and run_manager and _is_single(body):
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                return stream.completion
        except SageMakerVLLMError as error:
            return error

    async def _aoutcome(
        self,
        payload: tuple[TextRequest, InvocationOptions],
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
    ) -> Outcome:
        body, options = payload
        client = self._async_client()
        try:
            if not self.streaming:
                return await client.complete(body, options=options)
            async with await client.stream_complete(body, options=options) as stream:
                async for wire in stream:
                    chunk = from_wire_text_chunk(wire)
                    if chunk and run_manager and _is_single(body):
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                return stream.completion
        except SageMakerVLLMError as error:
            return error

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        body, options, include_usage = self._stream_payload(prompt, stop, kwargs)
        with (
            langchain_errors(),
            self._sync_client().stream_complete(
                body, options=options, include_usage=include_usage
            ) as stream,
        ):
            for wire in stream:
                if chunk := from_wire_text_chunk(wire):
                    if run_manager:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
            yield last_text_chunk(stream.completion)

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        body, options, include_usage = self._stream_payload(prompt, stop, kwargs)
        with langchain_errors():
            async with await self._async_client().stream_complete(
                body, options=options, include_usage=include_usage
            ) as stream:
                async for wire in stream:
                    if chunk := from_wire_text_chunk(wire):
                        if run_manager:
                            await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                        yield chunk
                yield last_text_chunk(stream.completion)

    def generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        callbacks: Callbacks | list[Callbacks] | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Complete many prompts; see `BaseLLM.generate`.

        langchain-core builds the cache key of the model alone, so keywords of the call are put
        into a copy of the model first.
        """
        bound, stop, run_keywords = self._bound(stop, kwargs)
        return super(SageMakerVLLM, bound).generate(prompts, stop, callbacks, **run_keywords)

    async def agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        callbacks: Callbacks | list[Callbacks] | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        """Complete many prompts; see `generate`."""
        bound, stop, run_keywords = self._bound(stop, kwargs)
        return await super(SageMakerVLLM, bound).agenerate(prompts, stop, callbacks, **run_keywords)

    def batch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[str]:
        """Complete many inputs in as few requests as possible.

        With `return_exceptions` each request counts by itself: only the inputs of the one that
        failed give its exception.
        """
        if return_exceptions and len(inputs) > self.max_prompts_per_request:
            config = self._one_request_each(config, len(inputs))
        return super().batch(inputs, config, return_exceptions=return_exceptions, **kwargs)

    async def abatch(
        self,
        inputs: list[LanguageModelInput],
        config: RunnableConfig | list[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[str]:
        """Complete many inputs; see `batch`."""
        if return_exceptions and len(inputs) > self.max_prompts_per_request:
            config = self._one_request_each(config, len(inputs))
        return await super().abatch(inputs, config, return_exceptions=return_exceptions, **kwargs)

    def _one_request_each(
        self, config: RunnableConfig | list[RunnableConfig] | None, length: int
    ) -> list[RunnableConfig]:
        """Let langchain-core call the model once for every request's worth of prompts."""
        most = self.max_prompts_per_request
        return [
            {**each, "max_concurrency": min(each.get("max_concurrency") or most, most)}
            for each in get_config_list(config, length)
        ]

    def _bound(
        self, stop: list[str] | None, keywords: Mapping[str, Any]
    ) -> tuple[Self, list[str] | None, dict[str, Any]]:
        """Return the model with a call's keywords as its own, its stops, and the run's keywords.

        The stops are given in full, since langchain-core puts those of the call in the place of
        the model's in the cache key.
        """
        rest = {name: value for name, value in keywords.items() if name in _RUN_KEYWORDS}
        given = {name: value for name, value in keywords.items() if name not in rest}
        with langchain_errors():
            call = self._call(given)
        parameters = self._parameters(stop, call.parameters)
        stops = parameters.pop("stop", None if stop is None else [])
        if not given:
            return self, stops, rest
        own = {name: parameters.pop(name, None) for name in self.parameter_fields}
        changed = {**own, **call.options.as_dict(), "model_kwargs": parameters, "extra_body": None}
        changed["model"] = call.model or self.model
        return self.model_copy(update=changed), stops, rest

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self._ls_params("llm", stop, kwargs)


def _is_single(body: TextRequest) -> bool:
    return isinstance(body["prompt"], str) and body.get("n", 1) == 1
