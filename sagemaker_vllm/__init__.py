"""vLLM behind Amazon SageMaker endpoints: clients, streams, schemas, media and errors.

The framework-neutral core of `langchain_sagemaker_vllm` and `llama_index_sagemaker_vllm`. Names are
loaded at their first use, so that importing the package loads neither boto3 nor aiohttp.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sagemaker_vllm._async_client import AsyncSageMakerVLLMClient
    from sagemaker_vllm._async_inference import AsyncInferenceConfig
    from sagemaker_vllm._client import SageMakerVLLMClient
    from sagemaker_vllm._config import (
        OPTION_NAMES,
        EndpointConfig,
        InvocationOptions,
        nearest,
    )
    from sagemaker_vllm._conversation import join_text, settle_messages
    from sagemaker_vllm._errors import (
        APIError,
        AsyncInferenceError,
        AuthenticationError,
        ConfigurationError,
        ConnectionFailedError,
        ContextOverflowError,
        EndpointNotFoundError,
        InvalidRequestError,
        ModelNotReadyError,
        PayloadTooLargeError,
        PermissionDeniedError,
        RateLimitError,
        RequestTimeoutError,
        SageMakerVLLMError,
        ServerError,
        StreamDecodeError,
        StreamError,
        StreamInterruptedError,
        StructuredOutputError,
    )
    from sagemaker_vllm._json_schema import parse_json, response_format, schema_name
    from sagemaker_vllm._media import audio_part, image_part, video_part
    from sagemaker_vllm._parameters import (
        CHAT_PARAMETERS,
        TEXT_PARAMETERS,
        CallKeywords,
        merge_parameters,
        split_keywords,
    )
    from sagemaker_vllm._request import ChatRequest, TextRequest, chat_request, text_request
    from sagemaker_vllm._results import Completion, InvocationMetadata
    from sagemaker_vllm._sessions import StatefulSession
    from sagemaker_vllm._stream import AsyncChatStream, AsyncTextStream, ChatStream, TextStream
    from sagemaker_vllm._tool_calls import new_call_id, parse_arguments
    from sagemaker_vllm._version import __version__

_HOMES = {
    "_async_client": ("AsyncSageMakerVLLMClient",),
    "_async_inference": ("AsyncInferenceConfig",),
    "_client": ("SageMakerVLLMClient",),
    "_config": ("EndpointConfig", "InvocationOptions", "OPTION_NAMES", "nearest"),
    "_conversation": ("join_text", "settle_messages"),
    "_errors": (
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
    ),
    "_json_schema": ("parse_json", "response_format", "schema_name"),
    "_media": ("audio_part", "image_part", "video_part"),
    "_parameters": (
        "CHAT_PARAMETERS",
        "CallKeywords",
        "TEXT_PARAMETERS",
        "merge_parameters",
        "split_keywords",
    ),
    "_request": ("ChatRequest", "TextRequest", "chat_request", "text_request"),
    "_results": ("Completion", "InvocationMetadata"),
    "_sessions": ("StatefulSession",),
    "_stream": ("AsyncChatStream", "AsyncTextStream", "ChatStream", "TextStream"),
    "_tool_calls": ("new_call_id", "parse_arguments"),
    "_version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CHAT_PARAMETERS",
    "OPTION_NAMES",
    "TEXT_PARAMETERS",
    "APIError",
    "AsyncChatStream",
    "AsyncInferenceConfig",
    "AsyncInferenceError",
    "AsyncSageMakerVLLMClient",
    "AsyncTextStream",
    "AuthenticationError",
    "CallKeywords",
    "ChatRequest",
    "ChatStream",
    "Completion",
    "ConfigurationError",
    "ConnectionFailedError",
    "ContextOverflowError",
    "EndpointConfig",
    "EndpointNotFoundError",
    "InvalidRequestError",
    "InvocationMetadata",
    "InvocationOptions",
    "ModelNotReadyError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "RateLimitError",
    "RequestTimeoutError",
    "SageMakerVLLMClient",
    "SageMakerVLLMError",
    "ServerError",
    "StatefulSession",
    "StreamDecodeError",
    "StreamError",
    "StreamInterruptedError",
    "StructuredOutputError",
    "TextRequest",
    "TextStream",
    "__version__",
    "audio_part",
    "chat_request",
    "image_part",
    "join_text",
    "merge_parameters",
    "nearest",
    "new_call_id",
    "parse_arguments",
    "parse_json",
    "response_format",
    "schema_name",
    "settle_messages",
    "split_keywords",
    "text_request",
    "video_part",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
