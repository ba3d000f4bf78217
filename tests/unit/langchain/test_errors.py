"""Every error belongs to this package's tree and to langchain-core's family, with all its facts."""

import copy
import inspect
import pickle
from typing import Any

import langchain_core.exceptions as langchain
import pytest
from langchain.agents.middleware._retry import default_retry_on
from langchain_core.messages import AIMessage

import sagemaker_vllm as core
from langchain_sagemaker_vllm import _errors
from sagemaker_vllm._async_errors import asynchronous

CORE = [
    value
    for name in core.__all__
    if inspect.isclass(value := getattr(core, name)) and issubclass(value, core.SageMakerVLLMError)
]
FAMILY = {
    core.ConfigurationError: langchain.ModelInvalidRequestError,
    core.AuthenticationError: langchain.ModelAuthenticationError,
    core.PermissionDeniedError: langchain.ModelPermissionDeniedError,
    core.EndpointNotFoundError: langchain.ModelNotFoundError,
    core.InvalidRequestError: langchain.ModelInvalidRequestError,
    core.PayloadTooLargeError: langchain.ModelInvalidRequestError,
    core.ContextOverflowError: langchain.ContextOverflowError,
    core.RateLimitError: langchain.ModelRateLimitError,
    core.ModelNotReadyError: langchain.ModelAPIError,
    core.ServerError: langchain.ModelAPIError,
    core.ConnectionFailedError: langchain.ModelConnectionError,
    core.RequestTimeoutError: langchain.ModelTimeoutError,
    core.StreamInterruptedError: langchain.ModelConnectionError,
    core.StreamDecodeError: langchain.ModelAPIError,
    core.AsyncInferenceError: langchain.ModelAPIError,
    core.StructuredOutputError: langchain.OutputParserException,
}


def twin(cls: type[core.SageMakerVLLMError], **facts: Any) -> Any:
    """Raise an error of the core, and return what LangChain's users catch."""
    try:
        with _errors.langchain_errors():
            raise cls("It broke.", **facts)
    except core.SageMakerVLLMError as error:
        return error


@pytest.mark.parametrize("cls", CORE)
def test_every_class_of_the_core_has_a_twin(cls: type[core.SageMakerVLLMError]) -> None:
    error = twin(cls)

    assert isinstance(error, cls)
    assert isinstance(error, langchain.LangChainException)
    assert error.__class__.__module__ == "langchain_sagemaker_vllm._errors"
    assert isinstance(error, FAMILY.get(cls, langchain.ModelError))


@pytest.mark.parametrize("cls", CORE)
def test_a_twin_keeps_message_and_facts(cls: type[core.SageMakerVLLMError]) -> None:
    facts: dict[str, Any] = {
        "status_code": 429,
        "error_code": "ThrottlingException",
        "body": "{}",
        "request_id": "r",
        "endpoint_name": "e",
        "partial": core.Completion(response={}),
    }

    error = twin(cls, **facts)

    assert str(error) == error.message == "It broke."
    assert {name: getattr(error, name) for name in facts} == facts


@pytest.mark.parametrize("retryable", [True, False, None])
@pytest.mark.parametrize("cls", CORE)
def test_retries_ask_the_same_as_the_core(
    cls: type[core.SageMakerVLLMError], retryable: bool | None
) -> None:
    error = twin(cls, is_retryable=retryable)

    assert error.is_retryable is cls("It broke.", is_retryable=retryable).is_retryable


@pytest.mark.parametrize(
    ("cls", "again"),
    [
        (core.RateLimitError, True),
        (core.ModelNotReadyError, True),
        (core.ServerError, True),
        (core.ConnectionFailedError, True),
        (core.RequestTimeoutError, False),
        (core.AuthenticationError, False),
        (core.ConfigurationError, False),
        (core.ContextOverflowError, False),
    ],
)
def test_langchains_retry_middleware_retries_what_may_succeed(
    cls: type[core.SageMakerVLLMError], again: bool
) -> None:
    assert default_retry_on(twin(cls)) is again


def pickled(value: Any) -> Any:
    """Return a copy through pickle."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("cls", CORE)
def test_twins_survive_copies_and_pickles(cls: type[core.SageMakerVLLMError], copied: Any) -> None:
    error = twin(cls, status_code=500, request_id="r")

    again = copied(error)

    assert type(again) is type(error)
    assert str(again) == "It broke."
    assert (again.status_code, again.request_id) == (500, "r")


def test_a_twin_has_one_traceback_and_the_original_cause() -> None:
    cause = KeyError("choices")

    def fail() -> None:
        with _errors.langchain_errors():
            raise core.ServerError("It broke.") from cause

    with pytest.raises(_errors.ServerError) as caught:
        fail()

    assert caught.value.__cause__ is cause


def test_a_twin_passes_through_unchanged() -> None:
    made = _errors.RateLimitError("It broke.")

    with pytest.raises(_errors.RateLimitError) as caught, _errors.langchain_errors():
        raise made

    assert caught.value is made


def test_other_errors_pass_through() -> None:
    with pytest.raises(KeyError), _errors.langchain_errors():
        raise KeyError


def test_a_class_that_a_user_derives_keeps_its_nearest_twin() -> None:
    class Throttled(core.RateLimitError):
        """A narrower class."""

    assert type(twin(Throttled)) is _errors.RateLimitError


def test_a_refusal_is_langchains_refusal() -> None:
    error: Any = twin(core.StructuredOutputError, reason="refused", text="No.")

    assert issubclass(type(error), langchain.ModelRefusalError)
    assert (error.reason, error.text, error.raw_message) == ("refused", "No.", None)


@pytest.mark.parametrize("reason", ["cut", "empty", "invalid"])
def test_a_bad_structured_answer_is_langchains_parser_error(reason: str) -> None:
    error: Any = twin(core.StructuredOutputError, reason=reason, text="{")

    assert issubclass(type(error), langchain.OutputParserException)
    assert (error.reason, error.text, error.llm_output) == (reason, "{", "{")
    assert error.send_to_llm is False


def test_facts_can_be_added_on_the_way() -> None:
    message = AIMessage("No.")

    with (
        pytest.raises(_errors.RefusalError) as caught,
        _errors.langchain_errors(raw_message=message),
    ):
        raise core.StructuredOutputError("It broke.", reason="refused")

    assert caught.value.raw_message is message


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled, lambda error: error])
def test_a_failed_asynchronous_inference_keeps_both_classes(copied: Any) -> None:
    original = asynchronous(core.ContextOverflowError("It broke.", status_code=400))

    with pytest.raises(core.AsyncInferenceError) as caught, _errors.langchain_errors():
        raise original

    error = copied(caught.value)
    assert isinstance(error, core.ContextOverflowError)
    assert isinstance(error, core.AsyncInferenceError)
    assert isinstance(error, langchain.ContextOverflowError)
    assert (str(error), error.status_code) == ("It broke.", 400)


def test_configuration_errors_are_value_errors() -> None:
    assert isinstance(twin(core.ConfigurationError), ValueError)
