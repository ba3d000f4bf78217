"""Every error keeps its facts through pickles and copies."""

import copy
import pickle
from typing import Any

import pytest

import sagemaker_vllm
from sagemaker_vllm import (
    Completion,
    ConfigurationError,
    InvocationMetadata,
    SageMakerVLLMError,
    StructuredOutputError,
)

KINDS = [
    value
    for value in (getattr(sagemaker_vllm, name) for name in sagemaker_vllm.__all__)
    if isinstance(value, type) and issubclass(value, SageMakerVLLMError)
]
FACTS: dict[str, Any] = {
    "status_code": 400,
    "error_code": "Code",
    "body": b"raw",
    "request_id": "r",
    "endpoint_name": "e",
    "partial": Completion(response={"a": 1}, metadata=InvocationMetadata(endpoint_name="e")),
    "is_retryable": True,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],  # noqa: S301
    ids=["copy", "deepcopy", "pickle"],
)
def test_facts_survive(kind: type[SageMakerVLLMError], duplicate: Any) -> None:
    error = kind("what happened", **FACTS)

    same = duplicate(error)

    assert type(same) is kind
    assert same.args == ("what happened",)
    assert vars(same) == vars(error)
    assert {name: getattr(same, name) for name in FACTS} == FACTS


@pytest.mark.parametrize("kind", KINDS)
def test_error_says_whether_a_retry_can_help(kind: type[SageMakerVLLMError]) -> None:
    assert kind("x").is_retryable is kind.is_retryable
    assert kind("x", is_retryable=not kind.is_retryable).is_retryable is not kind.is_retryable


def test_configuration_error_is_a_value_error() -> None:
    assert issubclass(ConfigurationError, ValueError)


def test_structured_output_error_keeps_reason_and_text() -> None:
    error = StructuredOutputError("cut", reason="cut", text="{", request_id="r")

    same = pickle.loads(pickle.dumps(error))  # noqa: S301  # made here

    assert (same.reason, same.text, same.request_id) == ("cut", "{", "r")
