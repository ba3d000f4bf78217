"""The rules of the three operations: paths, options and their limits, sizes, signatures."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from sagemaker_vllm.emulator._faults import ACCOUNT, ServiceFaultError, validation_error
from sagemaker_vllm.emulator._replies import ServiceFault
from sagemaker_vllm.emulator._requests import Operation, RecordedRequest

MAX_BODY: Final = 6 * 1024 * 1024
MAX_ASYNC_BODY: Final = 128_000

_PATH: Final = re.compile(
    r"/endpoints/([^/]+)/(invocations|invocations-response-stream|async-invocations)",
)
_OPERATIONS: Final[dict[str, Operation]] = {
    "invocations": "InvokeEndpoint",
    "invocations-response-stream": "InvokeEndpointWithResponseStream",
    "async-invocations": "InvokeEndpointAsync",
}
_PREFIX: Final = "x-amzn-sagemaker-"
_CREDENTIAL: Final = re.compile(
    r"Credential=[^/,\s]+/\d{8}/(?P<region>[^/]+)/sagemaker/aws4_request",
)
_SIGNATURE_FIELDS: Final = ("Credential", "SignedHeaders", "Signature")

_PLAIN: Final[frozenset[Operation]] = frozenset({"InvokeEndpoint"})
_STREAM: Final[frozenset[Operation]] = frozenset({"InvokeEndpointWithResponseStream"})
_ASYNC: Final[frozenset[Operation]] = frozenset({"InvokeEndpointAsync"})
_DIRECT: Final = _PLAIN | _STREAM
_ALL: Final = _DIRECT | _ASYNC

# Header after the prefix: member, largest length, operations that take it.
_OPTIONS: Final[dict[str, tuple[str, int, frozenset[Operation]]]] = {
    "custom-attributes": ("customAttributes", 1024, _ALL),
    "inference-id": ("inferenceId", 64, _ALL),
    "target-variant": ("targetVariant", 63, _DIRECT),
    "target-container-hostname": ("targetContainerHostname", 63, _DIRECT),
    "inference-component": ("inferenceComponentName", 63, _DIRECT),
    "session-id": ("sessionId", 256, _DIRECT),
    "prefix-aware-id": ("prefixAwareId", 64, _DIRECT),
    "target-model": ("targetModel", 1024, _PLAIN),
    "enable-explanations": ("enableExplanations", 64, _PLAIN),
    "accept": ("accept", 1024, _STREAM | _ASYNC),
    "content-type": ("contentType", 1024, _ASYNC),
    "inputlocation": ("inputLocation", 1024, _ASYNC),
    "s3outputpathextension": ("s3OutputPathExtension", 512, _ASYNC),
    "filename": ("filename", 32, _ASYNC),
    "requestttlseconds": ("requestTTLSeconds", 5, _ASYNC),
    "invocationtimeoutseconds": ("invocationTimeoutSeconds", 4, _ASYNC),
}


def match_path(path: str) -> tuple[str, Operation] | None:
    """Find endpoint and operation of a path; `None` when the service has no such path."""
    match = _PATH.fullmatch(path)
    return match and (unquote(match[1]), _OPERATIONS[match[2]])


def signing_region(headers: Mapping[str, str]) -> str:
    """Read the region of a SigV4 `Authorization` header.

    The signature itself is not recomputed: the emulator knows no secret.
    """
    authorization = headers.get("Authorization")
    if not authorization:
        raise _refusal("MissingAuthenticationTokenException", "Missing Authentication Token")
    missing = [
        f"Authorization header requires '{name}' parameter."
        for name in _SIGNATURE_FIELDS
        if f"{name}=" not in authorization
    ]
    if "X-Amz-Date" not in headers:
        missing.append("Authorization header requires existence of an 'X-Amz-Date' header.")
    credential = _CREDENTIAL.search(authorization)
    if missing or credential is None or not authorization.startswith("AWS4-HMAC-SHA256 "):
        why = " ".join(missing) or "Credential must be scoped to service 'sagemaker' with SigV4."
        raise _refusal("IncompleteSignatureException", why)
    return credential["region"]


def _refusal(code: str, message: str) -> ServiceFaultError:
    return ServiceFaultError(ServiceFault(code, 403, message))


def check_request(request: RecordedRequest, endpoint_name: str) -> None:
    """Hold a request to its operation's rules."""
    if request.endpoint_name != endpoint_name:
        raise validation_error(
            f"Endpoint {request.endpoint_name} of account {ACCOUNT} not found.",
        )
    for name, value in request.headers.items():
        if name.lower().startswith(_PREFIX):
            _check_option(request.operation, name.lower().removeprefix(_PREFIX), value)
    _check_session(request)
    if request.operation == "InvokeEndpointAsync":
        _check_async(request)
    elif len(request.body) > MAX_BODY:
        # The service sends no error type with this one.
        text = f"HTTP content length exceeded {MAX_BODY} bytes."
        raise ServiceFaultError(ServiceFault("", 413, text))


def _check_option(operation: Operation, name: str, value: str) -> None:
    member, limit, operations = _OPTIONS.get(name, (name, 0, frozenset()))
    if operation not in operations:
        raise validation_error(f"{operation} does not take the header {_PREFIX}{name}.")
    if not 1 <= len(value) <= limit:
        raise validation_error(
            f"1 validation error detected: Value at '{member}' failed to satisfy constraint: "
            f"Member must have length between 1 and {limit}",
        )


def _check_session(request: RecordedRequest) -> None:
    is_new = request.headers.get("X-Amzn-SageMaker-Session-Id") == "NEW_SESSION"
    if is_new and request.operation == "InvokeEndpointWithResponseStream":
        raise validation_error(
            "InvokeEndpointWithResponseStream cannot create a session: give the SessionId of an "
            "existing one.",
        )


def _check_async(request: RecordedRequest) -> None:
    if len(request.body) > MAX_ASYNC_BODY:
        raise validation_error(
            "1 validation error detected: Value at 'body' failed to satisfy constraint: "
            f"Member must have length less than or equal to {MAX_ASYNC_BODY}",
        )
    if bool(request.body) == ("X-Amzn-SageMaker-InputLocation" in request.headers):
        raise validation_error("Exactly one of Body and InputLocation must be given.")
    for name, low, high in (
        ("RequestTTLSeconds", 60, 21_600),
        ("InvocationTimeoutSeconds", 1, 3_600),
    ):
        value = request.headers.get(f"X-Amzn-SageMaker-{name}")
        if value is not None and not (value.isdigit() and low <= int(value) <= high):
            raise validation_error(f"{name}={value} is not between {low} and {high}.")
