"""SageMaker Runtime's error forms, as HTTP responses and as exceptions on the way there."""

import json
from dataclasses import dataclass
from typing import Any

from sagemaker_vllm.emulator._replies import ServiceFault

ACCOUNT = "000000000000"
_MESSAGE_LIMIT = 2048


class ServiceFaultError(Exception):
    """Carries a service fault from where it is found to where the response is written."""

    def __init__(self, fault: ServiceFault, **members: Any) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.members = members

    def body(self) -> bytes:
        return json.dumps({"Message": self.fault.message, **self.members}).encode()

    def headers(self) -> dict[str, str]:
        code = {"x-amzn-ErrorType": self.fault.code} if self.fault.code else {}
        return {"Content-Type": "application/json", **code, **self.fault.headers}


class ContainerDiedError(Exception):
    """The container went away while it was answering."""


def validation_error(message: str) -> ServiceFaultError:
    return ServiceFaultError(ServiceFault("ValidationError", 400, message))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an endpoint runs, as far as error texts tell."""

    endpoint_name: str
    region: str

    def model_error(self, status: int, body: bytes) -> ServiceFaultError:
        """Wrap a container's error; SageMaker quotes the body and keeps 2,048 characters of it.

        Status 0 stands for a container that did not answer in time.
        """
        original = body.decode(errors="replace")[:_MESSAGE_LIMIT]
        side, code = (
            ("client", "CLIENT_ERROR_FROM_MODEL")
            if 400 <= status < 500
            else ("server", "SERVER_ERROR_FROM_MODEL")
        )
        group = f"/aws/sagemaker/Endpoints/{self.endpoint_name}"
        console = (
            f"https://{self.region}.console.aws.amazon.com/cloudwatch/home?region={self.region}"
            f"#logEventViewer:group={group}"
        )
        message = (
            f'Received {side} error ({status}) from primary with message "{original}". '
            f"See {console} in account {ACCOUNT} for more information."
        )
        return ServiceFaultError(
            ServiceFault("ModelError", 424, message),
            ErrorCode=code,
            LogStreamArn=f"arn:aws:logs:{self.region}:{ACCOUNT}:log-group:{group}",
            OriginalMessage=original,
            OriginalStatusCode=status,
        )

    def timeout_error(self) -> ServiceFaultError:
        """Report a container that was too slow."""
        text = "Your invocation timed out while waiting for a response from container primary."
        return self.model_error(0, f"{text} Please review the latency metrics.".encode())
