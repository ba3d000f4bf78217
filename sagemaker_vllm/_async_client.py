"""The asynchronous client, over aiohttp."""

import random
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar

from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._async_inference import AsyncInferenceConfig, arun, infer
from sagemaker_vllm._config import EndpointConfig, InvocationOptions
from sagemaker_vllm._errors import APIError, InvalidRequestError, SageMakerVLLMError
from sagemaker_vllm._http_transport import HTTPTransport
from sagemaker_vllm._operations import Operation
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._plain import read_response
from sagemaker_vllm._request import ChatRequest, TextRequest, expected_choices
from sagemaker_vllm._results import Completion
from sagemaker_vllm._s3 import ThreadStorage
from sagemaker_vllm._sessions import (
    CLOSING,
    OPENING,
    StatefulSession,
    explain,
    opened,
    opening_options,
)
from sagemaker_vllm._settings import Configured
from sagemaker_vllm._stream import AsyncChatStream, AsyncStream, AsyncTextStream
from sagemaker_vllm._thread_transport import ThreadTransport
from sagemaker_vllm._transport import RawAnswer

_T = TypeVar("_T")
_S = TypeVar("_S", bound=AsyncStream)


class AsyncSageMakerVLLMClient(Configured):
    """The asynchronous twin of `SageMakerVLLMClient`; arguments, answers and errors are the same.

    Native: no thread per call, one connection pool for each event loop. With a boto3 `client` of
    the caller's own, calls run in at most `max_concurrency` threads.

    Examples:
        ```python
        from sagemaker_vllm import AsyncSageMakerVLLMClient, chat_request

        async def main() -> None:
            async with AsyncSageMakerVLLMClient(endpoint_name="my-endpoint") as client:
                request = chat_request([{"role": "user", "content": "Hello"}])
                async with await client.stream_chat(request) as stream:
                    async for chunk in stream:
                        print(chunk)
        ```
    """

    def __init__(
        self,
        config: EndpointConfig | None = None,
        *,
        client: Any = None,
        async_inference: AsyncInferenceConfig | None = None,
        **settings: Any,
    ) -> None:
        """See `Configured`."""
        super().__init__(config, client=client, async_inference=async_inference, **settings)
        self._storage = ThreadStorage(self._s3, self.config.max_concurrency)
        self._transport = (
            HTTPTransport(self.config) if client is None else ThreadTransport(self.config, client)
        )

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def chat(
        self, request: ChatRequest, *, options: InvocationOptions | None = None
    ) -> Completion:
        """Answer a chat; see `SageMakerVLLMClient.chat`."""
        return await self._invoke("chat", request, options)

    async def complete(
        self, request: TextRequest, *, options: InvocationOptions | None = None
    ) -> Completion:
        """Complete one or many prompts; see `SageMakerVLLMClient.complete`."""
        return await self._invoke("text", request, options)

    async def stream_chat(
        self,
        request: ChatRequest,
        *,
        options: InvocationOptions | None = None,
        include_usage: bool = True,
    ) -> AsyncChatStream:
        """Open a streamed chat; see `SageMakerVLLMClient.stream_chat`."""
        return await self._open(
            AsyncChatStream, "chat", request, options, include_usage=include_usage
        )

    async def stream_complete(
        self,
        request: TextRequest,
        *,
        options: InvocationOptions | None = None,
        include_usage: bool = True,
    ) -> AsyncTextStream:
        """Open a streamed completion; see `SageMakerVLLMClient.stream_complete`."""
        return await self._open(
            AsyncTextStream, "text", request, options, include_usage=include_usage
        )

    @asynccontextmanager
    async def session(
        self, *, options: InvocationOptions | None = None
    ) -> AsyncIterator[StatefulSession]:
        """Open a stateful session; see `SageMakerVLLMClient.session`."""
        options = opening_options(options)
        call = self._session_arguments(options, OPENING)
        try:
            answer = await self._send("InvokeEndpoint", call)
        except InvalidRequestError as error:
            explain(error)
            raise
        session = opened(options, self._metadata(answer.output, call))
        try:
            yield session
        except BaseException:
            # The container forgets it by itself; what went wrong matters more.
            with suppress(SageMakerVLLMError):
                await self._close_session(session)
            raise
        await self._close_session(session)

    async def aclose(self) -> None:
        """Close the running event loop's connections; a later call opens new ones."""
        await self._transport.aclose()
        self._storage.close()

    async def _invoke(
        self, kind: RequestKind, request: dict[str, Any], options: InvocationOptions | None
    ) -> Completion:
        call = self._arguments(self._plain_operation, kind, request, options)
        answer = await self._send(self._plain_operation, call)
        return Completion(
            response=read_response(
                answer.body,
                kind=kind,
                endpoint_name=self.config.endpoint_name,
                expected_choices=expected_choices(request),
            ),
            metadata=self._metadata(answer.output, call),
        )

    async def _close_session(self, session: StatefulSession) -> None:
        # A session that has expired is closed already.
        with suppress(InvalidRequestError):
            await self._send("InvokeEndpoint", self._session_arguments(session.options, CLOSING))

    async def _send(self, operation: Operation, call: Mapping[str, Any]) -> RawAnswer:
        async def submit(call: Mapping[str, Any]) -> RawAnswer:
            return await self._retrying(lambda: self._transport.invoke(operation, call))

        if operation != "InvokeEndpointAsync" or self._async_inference is None:
            return await submit(call)
        steps = infer(
            self._async_inference,
            call,
            storage=self._storage,
            submit=submit,
            knows=lambda member: self._transport.knows(operation, member),
            sleep=sleep,
            clock=monotonic,
        )
        return await arun(steps)

    async def _open(
        self,
        stream: type[_S],
        kind: RequestKind,
        request: dict[str, Any],
        options: InvocationOptions | None,
        *,
        include_usage: bool,
    ) -> _S:
        operation: Operation = "InvokeEndpointWithResponseStream"
        call = self._arguments(operation, kind, request, options, include_usage=include_usage)
        opened = await self._retrying(lambda: self._transport.open(operation, call))
        answer = AnswerDecoder(
            kind,
            expected_choices=expected_choices(request),
            metadata=self._metadata(opened.output, call),
        )
        return stream(opened.parts, answer, close=opened.close)

    async def _retrying(self, call: Callable[[], Awaitable[_T]]) -> _T:
        policy, began, retries = self._policy(), monotonic(), 0
        while True:
            try:
                return await call()
            except APIError as error:
                delay = policy.delay(
                    error,
                    retries=retries,
                    elapsed=monotonic() - began,
                    jitter=random.random(),  # spreads callers, keeps no secret
                )
                if delay is None:
                    raise
            retries += 1
            await sleep(delay)
