"""The synchronous client, over boto3."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self, TypeVar

from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._async_inference import AsyncInferenceConfig, infer, run
from sagemaker_vllm._boto_transport import BotoTransport
from sagemaker_vllm._config import EndpointConfig, InvocationOptions
from sagemaker_vllm._errors import APIError, InvalidRequestError, SageMakerVLLMError
from sagemaker_vllm._operations import Operation
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._plain import read_response
from sagemaker_vllm._request import ChatRequest, TextRequest, expected_choices
from sagemaker_vllm._results import Completion
from sagemaker_vllm._sessions import (
    CLOSING,
    OPENING,
    StatefulSession,
    explain,
    opened,
    opening_options,
)
from sagemaker_vllm._settings import Configured
from sagemaker_vllm._stream import ChatStream, SyncStream, TextStream
from sagemaker_vllm._transport import RawAnswer

_T = TypeVar("_T")
_S = TypeVar("_S", bound=SyncStream)


class SageMakerVLLMClient(Configured):
    """Calls vLLM behind a SageMaker endpoint.

    Thread-safe; connects at the first call; survives pickling, deep copies and `fork`.

    Examples:
        ```python
        from sagemaker_vllm import SageMakerVLLMClient, chat_request

        client = SageMakerVLLMClient(endpoint_name="my-endpoint", region_name="us-east-1")
        completion = client.chat(chat_request([{"role": "user", "content": "Hello"}]))
        print(completion.text)
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
        self._transport = BotoTransport(self.config, client)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def chat(self, request: ChatRequest, *, options: InvocationOptions | None = None) -> Completion:
        """Answer a chat.

        Args:
            request: The body, as made by `chat_request`.
            options: SageMaker's options for this call.

        Raises:
            ConfigurationError: The request or an option is wrong; nothing was sent.
            APIError: The call failed; its class says how.
        """
        return self._invoke("chat", request, options)

    def complete(
        self, request: TextRequest, *, options: InvocationOptions | None = None
    ) -> Completion:
        """Complete one or many prompts; arguments and errors as for `chat`.

        Choices come with `index = position of the prompt x n + sample`.
        """
        return self._invoke("text", request, options)

    def stream_chat(
        self,
        request: ChatRequest,
        *,
        options: InvocationOptions | None = None,
        include_usage: bool = True,
    ) -> ChatStream:
        """Open a streamed chat; arguments and errors as for `chat`.

        Args:
            request: The body, as made by `chat_request`.
            options: SageMaker's options for this call.
            include_usage: Ask for token counts at the end of the stream.
        """
        return self._open(ChatStream, "chat", request, options, include_usage=include_usage)

    def stream_complete(
        self,
        request: TextRequest,
        *,
        options: InvocationOptions | None = None,
        include_usage: bool = True,
    ) -> TextStream:
        """Open a streamed text completion; arguments and errors as for `stream_chat`."""
        return self._open(TextStream, "text", request, options, include_usage=include_usage)

    @contextmanager
    def session(self, *, options: InvocationOptions | None = None) -> Iterator[StatefulSession]:
        """Open a stateful session, and close it at the end of the `with` block.

        Args:
            options: Where it is to be opened (variant, inference component).

        Yields:
            The session: its id, its expiry, and the options for calls that belong to it.

        Raises:
            InvalidRequestError: The container keeps no sessions.
            APIError: The call failed.
        """
        options = opening_options(options)
        call = self._session_arguments(options, OPENING)
        try:
            answer = self._send("InvokeEndpoint", call)
        except InvalidRequestError as error:
            explain(error)
            raise
        session = opened(options, self._metadata(answer.output, call))
        try:
            yield session
        except BaseException:
            # The container forgets it by itself; what went wrong matters more.
            with suppress(SageMakerVLLMError):
                self._close_session(session)
            raise
        self._close_session(session)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._transport.close()
        self._s3.close()

    def _invoke(
        self, kind: RequestKind, request: dict[str, Any], options: InvocationOptions | None
    ) -> Completion:
        call = self._arguments(self._plain_operation, kind, request, options)
        answer = self._send(self._plain_operation, call)
        return Completion(
            response=read_response(
                answer.body,
                kind=kind,
                endpoint_name=self.config.endpoint_name,
                expected_choices=expected_choices(request),
            ),
            metadata=self._metadata(answer.output, call),
        )

    def _close_session(self, session: StatefulSession) -> None:
        # A session that has expired is closed already.
        with suppress(InvalidRequestError):
            self._send("InvokeEndpoint", self._session_arguments(session.options, CLOSING))

    def _send(self, operation: Operation, call: Mapping[str, Any]) -> RawAnswer:
        def submit(call: Mapping[str, Any]) -> RawAnswer:
            return self._retrying(lambda: self._transport.invoke(operation, call))

        if operation != "InvokeEndpointAsync" or self._async_inference is None:
            return submit(call)
        steps = infer(
            self._async_inference,
            call,
            storage=self._s3,
            submit=submit,
            knows=lambda member: self._transport.knows(operation, member),
            sleep=sleep,
            clock=monotonic,
        )
        return run(steps)

    def _open(
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
        opened = self._retrying(lambda: self._transport.open(operation, call))
        answer = AnswerDecoder(
            kind,
            expected_choices=expected_choices(request),
            metadata=self._metadata(opened.output, call),
        )
        return stream(opened.parts, answer, close=opened.close)

    def _retrying(self, call: Callable[[], _T]) -> _T:
        policy, began, retries = self._policy(), monotonic(), 0
        while True:
            try:
                return call()
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
            sleep(delay)
