"""The public names: whoever adds or drops one says so here."""

from importlib import import_module

import pytest

PUBLIC = {
    "sagemaker_vllm": {
        "APIError",
        "AsyncChatStream",
        "AsyncInferenceConfig",
        "AsyncInferenceError",
        "AsyncSageMakerVLLMClient",
        "AsyncTextStream",
        "AuthenticationError",
        "CHAT_PARAMETERS",
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
        "OPTION_NAMES",
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
        "TEXT_PARAMETERS",
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
    },
    "sagemaker_vllm.emulator": {
        "AnyReply",
        "ContainerFault",
        "Cut",
        "Emulator",
        "ErrorMessageFault",
        "Hang",
        "InternalStreamFault",
        "JSONReply",
        "ModelStreamFault",
        "RecordedRequest",
        "Reply",
        "ServiceFault",
        "Splitter",
        "StreamReply",
        "SyntheticModel",
        "demo_model",
        "random_parts",
        "sse",
    },
    "langchain_sagemaker_vllm": {"ChatSageMakerVLLM", "SageMakerVLLM", "__version__"},
    "llama_index_sagemaker_vllm": {"SageMakerVLLM", "__version__"},
}


@pytest.mark.parametrize("package", PUBLIC)
def test_package_exports_exactly_these_names(package: str) -> None:
    assert set(import_module(package).__all__) == PUBLIC[package]


@pytest.mark.parametrize("package", PUBLIC)
def test_every_exported_name_is_there(package: str) -> None:
    module = import_module(package)

    assert all(hasattr(module, name) for name in PUBLIC[package])
    assert PUBLIC[package] <= set(dir(module))


@pytest.mark.parametrize("package", PUBLIC)
def test_unknown_names_are_attribute_errors(package: str) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'"):
        _ = import_module(package).nonsense
