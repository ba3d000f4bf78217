"""Every error this package raises.

```text
SageMakerVLLMError
├── ConfigurationError            wrong argument or setting, found before any request (a ValueError)
├── APIError                      the request was refused or failed
│   ├── AuthenticationError       credentials are missing, wrong or expired
│   ├── PermissionDeniedError     the credentials may not do this
│   ├── EndpointNotFoundError     no such endpoint, inference component or model
│   ├── InvalidRequestError       SageMaker or the container refused the request
│   │   ├── ContextOverflowError  prompt (and answer) exceed the model's context
│   │   └── PayloadTooLargeError  the request exceeds the service's size limit
│   ├── RateLimitError            throttled
│   ├── ModelNotReadyError        the model is loading, or scaled to zero
│   ├── ServerError               SageMaker or the container failed
│   ├── ConnectionFailedError     the endpoint could not be reached
│   └── RequestTimeoutError       no answer within `timeout` seconds
├── StreamError
│   ├── StreamInterruptedError    the stream ended before the answer was whole
│   └── StreamDecodeError         the stream holds something that is not an answer of vLLM
├── StructuredOutputError         the answer is not what the schema asks for
└── AsyncInferenceError           an asynchronous inference failed or did not end in time
```
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

if TYPE_CHECKING:
    from sagemaker_vllm._results import Completion

__all__ = [
    "APIError",
    "AsyncInferenceError",
    "AuthenticationError",
    "ConfigurationError",
    "ConnectionFailedError",
    "ContextOverflowError",
    "EndpointNotFoundError",
    "InvalidRequestError",
    "ModelNotReadyError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "RateLimitError",
    "RequestTimeoutError",
    "SageMakerVLLMError",
    "ServerError",
    "StreamDecodeError",
    "StreamError",
    "StreamInterruptedError",
    "StructuredOutputError",
]


class SageMakerVLLMError(Exception):
    """Base of every error of this package.

    Attributes:
        message: What happened and what to do, without credentials, prompt or account ids.
        status_code: HTTP status; the container's own one where the container answered.
        error_code: AWS error code such as `ThrottlingException`, or vLLM's error type.
        body: The raw answer behind the error. May hold account ids and console links, and
            whatever the container quotes of the request; so it is not part of the message.
        request_id: AWS request id, to be given to AWS support.
        endpoint_name: The endpoint that was called.
        partial: What had come of the answer before it broke.
        is_retryable: Whether the same request may succeed when sent again.
    """

    is_retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        error_code: str | None = None,
        body: str | bytes | None = None,
        request_id: str | None = None,
        endpoint_name: str | None = None,
        partial: "Completion | None" = None,
        is_retryable: bool | None = None,
    ) -> None:
        """Keep the facts beside the message."""
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.error_code = error_code
        self.body = body
        self.request_id = request_id
        self.endpoint_name = endpoint_name
        self.partial = partial
        if is_retryable is not None:
            self.is_retryable = is_retryable

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[type[Self], str], dict[str, Any]]:
        """Pickle by state, since exceptions are otherwise rebuilt from positional arguments."""
        return rebuild, (type(self), self.message), self.__dict__


_E = TypeVar("_E", bound=SageMakerVLLMError)


def rebuild(cls: type[_E], message: str) -> _E:
    error = cls.__new__(cls, message)
    error.args = (message,)
    return error


class ConfigurationError(SageMakerVLLMError, ValueError):
    """An argument or setting is wrong; nothing has been sent."""


class APIError(SageMakerVLLMError):
    """The request was refused or failed."""


class AuthenticationError(APIError):
    """Credentials are missing, wrong or expired."""


class PermissionDeniedError(APIError):
    """The credentials do not allow this operation on this endpoint."""


class EndpointNotFoundError(APIError):
    """No such endpoint, inference component, variant or model."""


class InvalidRequestError(APIError):
    """SageMaker or the container refused the request as invalid."""


class ContextOverflowError(InvalidRequestError):
    """The prompt, or prompt and answer together, exceed the model's context."""


class PayloadTooLargeError(InvalidRequestError):
    """The request exceeds the service's size limit (6 MiB for real-time endpoints)."""


class RateLimitError(APIError):
    """The service or the container is throttling."""

    is_retryable = True


class ModelNotReadyError(APIError):
    """The model is still loading, or the endpoint has scaled to zero."""

    is_retryable = True


class ServerError(APIError):
    """SageMaker or the container failed."""

    is_retryable = True


class ConnectionFailedError(APIError):
    """The endpoint could not be reached, or the connection broke before an answer."""

    is_retryable = True


class RequestTimeoutError(APIError):
    """No answer came within `timeout` seconds.

    Not retryable unless `retry_on_timeout` is set: the endpoint may have made, and billed, an
    answer that nobody read.
    """


class StreamError(SageMakerVLLMError):
    """A stream broke after it had begun; `partial` holds what came."""


class StreamInterruptedError(StreamError):
    """The stream ended before the answer was whole."""

    is_retryable = True


class StreamDecodeError(StreamError):
    """The stream holds something that is not an answer of vLLM."""


class StructuredOutputError(SageMakerVLLMError):
    """The answer does not hold what the schema asks for.

    Attributes:
        reason: `cut` (by `max_tokens`), `empty`, `refused`, or `invalid`.
        text: The answer as the model gave it.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: Literal["cut", "empty", "refused", "invalid"] = "invalid",
        text: str | None = None,
        **facts: Any,
    ) -> None:
        """Keep the reason and the raw text beside the message."""
        super().__init__(message, **facts)
        self.reason = reason
        self.text = text


class AsyncInferenceError(SageMakerVLLMError):
    """An asynchronous inference failed, or its result did not appear in time.

    What the container or S3 reports keeps its class beside this one: a prompt that is too long is
    a `ContextOverflowError` too.

    Attributes:
        inference_id: The id of the inference.
        output_location: Where the answer is, or will be: `s3://bucket/key`.
        failure_location: Where the container's failure is, or would be.
    """

    inference_id: str | None = None
    output_location: str | None = None
    failure_location: str | None = None
