"""What the emulator received, kept for assertions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Operation = Literal["InvokeEndpoint", "InvokeEndpointWithResponseStream", "InvokeEndpointAsync"]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it came over the wire, refused ones included.

    Attributes:
        operation: The SageMaker Runtime operation.
        endpoint_name: The endpoint in the URL.
        headers: HTTP headers; look them up in any case.
        body: The raw body.
    """

    operation: Operation
    endpoint_name: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: The body is not JSON.
        """
        return json.loads(self.body)

    def __repr__(self) -> str:
        """Show what was called, without prompt and signature."""
        return f"RecordedRequest({self.operation}, {self.endpoint_name}, {len(self.body)} bytes)"
