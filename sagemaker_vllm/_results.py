"""What a call gives back: vLLM's answer and what SageMaker said about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Self

# Output members of the three operations (spec/sagemaker-runtime-api, botocore's service model).
_MEMBERS = {
    "invoked_production_variant": "InvokedProductionVariant",
    "custom_attributes": "CustomAttributes",
    "inference_id": "InferenceId",
    "output_location": "OutputLocation",
    "new_session_id": "NewSessionId",
    "closed_session_id": "ClosedSessionId",
    "content_type": "ContentType",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationMetadata:
    """What SageMaker said about one invocation.

    Attributes:
        endpoint_name: The endpoint that was called.
        request_id: AWS request id.
        invoked_production_variant: The variant that answered.
        custom_attributes: Attributes set by the container, or echoed.
        inference_id: The id given with the request, or made by an asynchronous inference.
        new_session_id: Id of the stateful session that this call created.
        session_expires: When that session ends, as the container wrote it (UTC).
        closed_session_id: Id of the stateful session that this call closed.
        content_type: The container's content type.
        output_location: Where an asynchronous inference left its answer: `s3://bucket/key`.
    """

    endpoint_name: str | None = None
    request_id: str | None = None
    invoked_production_variant: str | None = None
    custom_attributes: str | None = None
    inference_id: str | None = None
    new_session_id: str | None = None
    session_expires: str | None = None
    closed_session_id: str | None = None
    content_type: str | None = None
    output_location: str | None = None

    @classmethod
    def from_output(
        cls, output: Mapping[str, Any], *, endpoint_name: str, inference_id: str | None = None
    ) -> Self:
        """Read the members of a parsed boto3 output.

        Args:
            output: What a boto3 operation returned.
            endpoint_name: The endpoint that was called.
            inference_id: The id sent with the request; the operations do not echo it.
        """
        found = {name: output[member] for name, member in _MEMBERS.items() if output.get(member)}
        found.setdefault("inference_id", inference_id)
        session_id, _, expires = found.get("new_session_id", "").partition(";")
        if expires:
            # The container writes `id; Expires=2026-01-01T00:00:00Z` into the one header.
            found["new_session_id"] = session_id.strip()
            found["session_expires"] = expires.strip().removeprefix("Expires=")
        request_id = output.get("ResponseMetadata", {}).get("RequestId")
        return cls(endpoint_name=endpoint_name, request_id=request_id, **found)

    def as_dict(self) -> dict[str, str]:
        """Return the fields that are set."""
        found = zip(self.__slots__, _metadata_values(self), strict=True)
        return {name: value for name, value in found if value is not None}


_metadata_values = attrgetter(*InvocationMetadata.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One answer: the same shape for chat and text, plain and streamed.

    Attributes:
        response: vLLM's JSON, normalised: every server's dialect is one here. Not in the repr,
            since it holds the completion.
        metadata: What SageMaker said about the invocation.
    """

    response: dict[str, Any] = field(repr=False)
    metadata: InvocationMetadata = field(default_factory=InvocationMetadata)

    @property
    def text(self) -> str:
        """Text of the first choice."""
        choices = self.response.get("choices") or [{}]
        return choices[0].get("text") or choices[0].get("message", {}).get("content") or ""
