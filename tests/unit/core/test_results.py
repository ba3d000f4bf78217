"""What SageMaker says about a call."""

from typing import Any

import pytest

from sagemaker_vllm import Completion, InvocationMetadata

OUTPUT = {
    "InvokedProductionVariant": "AllTraffic",
    "CustomAttributes": "a=b",
    "ContentType": "application/json",
    "ResponseMetadata": {"RequestId": "r"},
}


def test_metadata_holds_every_output_member() -> None:
    metadata = InvocationMetadata.from_output(
        OUTPUT
        | {"NewSessionId": "id; Expires=2026-01-01T00:00:00Z", "ClosedSessionId": "c"}
        | {"InferenceId": "i", "OutputLocation": "s3://b/k"},
        endpoint_name="e",
    )

    assert metadata.as_dict() == {
        "endpoint_name": "e",
        "request_id": "r",
        "invoked_production_variant": "AllTraffic",
        "custom_attributes": "a=b",
        "content_type": "application/json",
        "new_session_id": "id",
        "session_expires": "2026-01-01T00:00:00Z",
        "closed_session_id": "c",
        "inference_id": "i",
        "output_location": "s3://b/k",
    }


def test_metadata_keeps_the_id_that_was_sent() -> None:
    metadata = InvocationMetadata.from_output({}, endpoint_name="e", inference_id="mine")

    assert metadata.as_dict() == {"endpoint_name": "e", "inference_id": "mine"}


def test_session_without_expiry_keeps_its_id() -> None:
    metadata = InvocationMetadata.from_output({"NewSessionId": "id"}, endpoint_name="e")

    assert (metadata.new_session_id, metadata.session_expires) == ("id", None)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"choices": [{"message": {"content": "chat"}}]}, "chat"),
        ({"choices": [{"text": "text"}]}, "text"),
        ({"choices": [{"message": {"content": None}}]}, ""),
        ({"choices": []}, ""),
        ({}, ""),
    ],
)
def test_text_is_that_of_the_first_choice(response: dict[str, Any], text: str) -> None:
    assert Completion(response=response).text == text


def test_completion_is_not_in_its_repr() -> None:
    completion = Completion(response={"choices": [{"text": "the answer"}]})

    assert "the answer" not in repr(completion)
