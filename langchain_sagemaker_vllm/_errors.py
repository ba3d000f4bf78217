"""Errors that belong to both trees: this package's and langchain-core's `ModelError` family.

Code that catches `sagemaker_vllm.RateLimitError` works, and so does LangChain's own that catches
`ModelRateLimitError` or asks `is_retryable`. The core's errors become these at one place,
`langchain_errors`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import langchain_core.exceptions as langchain
from langchain_core.messages import AIMessage

import sagemaker_vllm as core


class ModelCallError(core.SageMakerVLLMError, langchain.ModelError):
    """Any failure that has no narrower class."""


class ConfigurationError(core.ConfigurationError, langchain.ModelInvalidRequestError):
    """An argument or setting is wrong; nothing has been sent. Also a `ValueError`."""


class APIError(core.APIError, langchain.ModelError):
    """The request was refused or failed."""


class AuthenticationError(core.AuthenticationError, langchain.ModelAuthenticationError):
    """Credentials are missing, wrong or expired."""


class PermissionDeniedError(core.PermissionDeniedError, langchain.ModelPermissionDeniedError):
    """The credentials do not allow this operation on this endpoint."""


class EndpointNotFoundError(core.EndpointNotFoundError, langchain.ModelNotFoundError):
    """No such endpoint, inference component, variant or model."""


class InvalidRequestError(core.InvalidRequestError, langchain.ModelInvalidRequestError):
    """SageMaker or the container refused the request as invalid."""


class ContextOverflowError(core.ContextOverflowError, langchain.ContextOverflowError):
    """The prompt, or prompt and answer together, exceed the model's context."""


class PayloadTooLargeError(core.PayloadTooLargeError, langchain.ModelInvalidRequestError):
    """The request exceeds the service's size limit."""


class RateLimitError(core.RateLimitError, langchain.ModelRateLimitError):
    """The service or the container is throttling."""


class ModelNotReadyError(core.ModelNotReadyError, langchain.ModelAPIError):
    """The model is still loading, or the endpoint has scaled to zero."""


class ServerError(core.ServerError, langchain.ModelAPIError):
    """SageMaker or the container failed."""


class ConnectionFailedError(core.ConnectionFailedError, langchain.ModelConnectionError):
    """The endpoint could not be reached, or the connection broke before an answer."""


class RequestTimeoutError(core.RequestTimeoutError, langchain.ModelTimeoutError):
    """No answer came within `timeout` seconds."""


class StreamError(core.StreamError, langchain.ModelAPIError):
    """A stream broke after it had begun; `partial` holds what came."""


class StreamInterruptedError(core.StreamInterruptedError, langchain.ModelConnectionError):
    """The stream ended before the answer was whole; `partial` holds what came."""


class StreamDecodeError(core.StreamDecodeError, langchain.ModelAPIError):
    """The stream holds something that is not an answer of vLLM."""


class AsyncInferenceError(core.AsyncInferenceError, langchain.ModelAPIError):
    """An asynchronous inference failed, or its result did not appear in time."""


class StructuredOutputError(core.StructuredOutputError, langchain.OutputParserException):
    """The answer does not hold what the schema asks for.

    Attributes:
        reason: `cut` (by `max_tokens`), `empty` or `invalid`.
        text: The answer as the model gave it; also LangChain's `llm_output`.
        raw_message: The whole message.
    """

    observation: str | None = None
    llm_output: str | None = None
    send_to_llm: bool = False
    raw_message: AIMessage | None = None


class RefusalError(core.StructuredOutputError, langchain.ModelRefusalError):
    """The model refused to give the structured answer; the message is in `raw_message`."""

    raw_message: AIMessage | None = None


_TWINS: dict[type[core.SageMakerVLLMError], type[core.SageMakerVLLMError]] = {
    core.SageMakerVLLMError: ModelCallError,
    core.ConfigurationError: ConfigurationError,
    core.APIError: APIError,
    core.AuthenticationError: AuthenticationError,
    core.PermissionDeniedError: PermissionDeniedError,
    core.EndpointNotFoundError: EndpointNotFoundError,
    core.InvalidRequestError: InvalidRequestError,
    core.ContextOverflowError: ContextOverflowError,
    core.PayloadTooLargeError: PayloadTooLargeError,
    core.RateLimitError: RateLimitError,
    core.ModelNotReadyError: ModelNotReadyError,
    core.ServerError: ServerError,
    core.ConnectionFailedError: ConnectionFailedError,
    core.RequestTimeoutError: RequestTimeoutError,
    core.StreamError: StreamError,
    core.StreamInterruptedError: StreamInterruptedError,
    core.StreamDecodeError: StreamDecodeError,
    core.StructuredOutputError: StructuredOutputError,
    core.AsyncInferenceError: AsyncInferenceError,
}


def twin_of(error: core.SageMakerVLLMError, **facts: Any) -> core.SageMakerVLLMError:
    """Return the error as one of this module's classes, with every fact kept."""
    if isinstance(error, langchain.LangChainException):
        return error
    twin = next(_TWINS[cls] for cls in type(error).__mro__ if cls in _TWINS)
    if isinstance(error, core.AsyncInferenceError):
        twin = _asynchronous(twin)
    if isinstance(error, core.StructuredOutputError):
        facts["llm_output"] = error.text
        if error.reason == "refused":
            twin = RefusalError
    made = twin.__new__(twin, error.message)
    made.args = error.args
    made.__dict__.update(error.__dict__ | facts)
    made.__cause__ = error.__cause__
    return made


_ASYNCHRONOUS: dict[type[core.SageMakerVLLMError], type[core.SageMakerVLLMError]] = {}


def _asynchronous(twin: type[core.SageMakerVLLMError]) -> type[core.SageMakerVLLMError]:
    """Return the class of errors that are of class `twin` and an `AsyncInferenceError`."""
    if issubclass(twin, AsyncInferenceError):
        return AsyncInferenceError
    if twin in _ASYNCHRONOUS:
        return _ASYNCHRONOUS[twin]

    def reduce(error: core.SageMakerVLLMError) -> tuple[Any, ...]:
        return _rebuild, (twin, error.message), vars(error)

    members = {"__reduce__": reduce, "__module__": __name__, "__doc__": twin.__doc__}
    both = type(f"AsyncInference{twin.__name__}", (twin, AsyncInferenceError), members)
    return _ASYNCHRONOUS.setdefault(twin, both)


def _rebuild(twin: type[core.SageMakerVLLMError], message: str) -> core.SageMakerVLLMError:
    cls = _asynchronous(twin)
    made = cls.__new__(cls, message)
    made.args = (message,)
    return made


@contextmanager
def langchain_errors(**facts: Any) -> Iterator[None]:
    """Turn the core's errors that pass through into their LangChain twins.

    Args:
        facts: Attributes to set on the error, such as `raw_message`.
    """
    try:
        yield
    except core.SageMakerVLLMError as error:
        made = twin_of(error, **facts)
        if made is error:
            raise
        raise made.with_traceback(error.__traceback__) from error.__cause__
