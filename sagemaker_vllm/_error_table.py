"""One table from what SageMaker, the container and the network say to our errors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from sagemaker_vllm._errors import (
    APIError,
    AuthenticationError,
    ConnectionFailedError,
    ContextOverflowError,
    EndpointNotFoundError,
    InvalidRequestError,
    ModelNotReadyError,
    PayloadTooLargeError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    StreamInterruptedError,
)

BY_CODE: dict[str, type[APIError]] = {
    "AccessDeniedException": PermissionDeniedError,
    "AccessDenied": PermissionDeniedError,
    "OptInRequired": PermissionDeniedError,
    "ExpiredToken": AuthenticationError,
    "ExpiredTokenException": AuthenticationError,
    "IncompleteSignature": AuthenticationError,
    "IncompleteSignatureException": AuthenticationError,
    "InvalidClientTokenId": AuthenticationError,
    "InvalidSignatureException": AuthenticationError,
    "MissingAuthenticationToken": AuthenticationError,
    "MissingAuthenticationTokenException": AuthenticationError,
    "SignatureDoesNotMatch": AuthenticationError,
    "UnrecognizedClientException": AuthenticationError,
    "ModelNotReadyException": ModelNotReadyError,
    "LimitExceededException": RateLimitError,
    "RequestLimitExceeded": RateLimitError,
    "SlowDown": RateLimitError,
    "Throttling": RateLimitError,
    "ThrottlingException": RateLimitError,
    "ThrottledException": RateLimitError,
    "TooManyRequestsException": RateLimitError,
}
_BY_STATUS: dict[int, type[APIError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: EndpointNotFoundError,
    408: RequestTimeoutError,
    413: PayloadTooLargeError,
    429: RateLimitError,
}
# Sentences that tell more than their status (wire facts A4.3, B1.4, B2).
_BY_SENTENCE: list[tuple[str, type[APIError]]] = [
    (r"maximum context length|longer than the maximum model length", ContextOverflowError),
    (r"has no capacity|no instances? available|not ready for inference", ModelNotReadyError),
    (r"^(endpoint|inference component|variant)\b.*\bnot found", EndpointNotFoundError),
    (
        r"oversize body|content length exceeded|request (entity|body) too large",
        PayloadTooLargeError,
    ),
    (r"timed out while waiting for a response from container", RequestTimeoutError),
]
_SERVER_STATUS = 500
RETRYABLE_STATUS = frozenset({500, 502, 503, 504})
# A container's own 500 is a fault that repeating does not mend; a busy container is not.
_RETRYABLE_CONTAINER_STATUS = frozenset({429, 502, 503, 504})

CURES: dict[type[APIError], str] = {
    AuthenticationError: (
        "Check the AWS credentials: refresh an expired session or sign in again, or choose a "
        "profile with credentials_profile_name."
    ),
    PermissionDeniedError: (
        "The role needs sagemaker:InvokeEndpoint on this endpoint; for streams also "
        "sagemaker:InvokeEndpointWithResponseStream, for async_inference "
        "sagemaker:InvokeEndpointAsync."
    ),
    EndpointNotFoundError: "Check endpoint_name and region_name.",
    ModelNotReadyError: "Set cold_start_timeout to wait for it.",
    PayloadTooLargeError: (
        "A real-time request takes at most 6 MiB: send smaller images, image URLs, or use "
        "async_inference."
    ),
    RequestTimeoutError: (
        "A container has 60 seconds to answer: stream the answer, or use async_inference."
    ),
}

_QUOTED = re.compile(r'from \S+ with message "(?P<text>.*)"(?:\. See https?://|\.?$)', re.DOTALL)
# In JSON, in Python's notation, or as pydantic prints an object.
_CUT_MESSAGE = re.compile(
    r"""(?:["'](?:message|error|detail)["']\s*:|ErrorInfo\(message=)\s*"""
    r"""(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote)).)+)""",
    re.DOTALL,
)
_CUT_CODE = re.compile(r"""(?:["']code["']\s*:|\bcode=)\s*(?P<code>\d{3})\b""")
_STATUS = re.compile(r"Received (?:client|server) error \((?P<status>\d+)\)")
_INPUT_VALUE = re.compile(r"input_value=.*?, input_type=", re.DOTALL)
_CONSOLE_LINK = re.compile(r"\s*See https?://\S+ in account \d+ for more information\.?")
_ACCOUNT = re.compile(r"\b\d{12}\b")
# AWS quotes a signature that it refuses: the string that was signed, or the whole header.
_SIGNED = re.compile(
    r"(?P<name>The Canonical String for this request should have been|The String-to-Sign should "
    r"have been|Authorization header:|x-amz-security-token:|Credential=).*",
    re.DOTALL | re.IGNORECASE,
)
_MAX_SENTENCE = 1000


@dataclass(frozen=True, slots=True)
class ContainerFault:
    """What a container said of its own failure."""

    sentence: str
    status: int | None = None
    kind: str | None = None


def read_container_fault(text: str) -> ContainerFault:
    """Read a container's error body: flat, nested, LMI's, cut-off JSON, or plain text.

    Sources of the shapes: vLLM up to 0.10.0 flat, from 0.10.2 nested; LMI `{"code", "error"}` with
    Python's printed form of vLLM's error inside.
    """
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    fault = _read_fault_object(found) if isinstance(found, dict) else None
    if fault:
        return fault
    if match := _CUT_MESSAGE.search(text):
        code = _CUT_CODE.search(text)
        return ContainerFault(_unescape(match["text"]), int(code["code"]) if code else None)
    return ContainerFault(text.strip())


def _read_fault_object(found: Mapping[str, Any]) -> ContainerFault | None:
    inner = found.get("error", found)
    if isinstance(inner, dict):
        sentence = inner.get("message") or inner.get("error") or inner.get("detail")
        status, kind = inner.get("code", found.get("code")), inner.get("type")
    else:
        sentence, status, kind = inner, found.get("code"), found.get("type")
    if sentence in (None, "") and not (status or kind):
        return None
    if not isinstance(sentence, str):
        sentence = orjson.dumps(sentence).decode() if sentence else f"{kind or 'error'}"
    # LMI prints vLLM's error object into its own text.
    printed = sentence.lstrip().startswith(("{", "Error", "error="))
    if printed and (match := _CUT_MESSAGE.search(sentence)):
        code = _CUT_CODE.search(sentence)
        sentence, status = _unescape(match["text"]), int(code["code"]) if code else status
    return ContainerFault(sentence, as_status(status), kind if isinstance(kind, str) else None)


def failed_choice(reason: str | None, *, endpoint_name: str, body: bytes) -> APIError | None:
    """Make the error for a choice that failed: LMI's rolling batch says so in the finish reason."""
    if reason != "error":
        return None
    fault = ContainerFault("the generation failed (finish reason 'error')")
    return container_error(fault, endpoint_name=endpoint_name, body=body)


def as_status(value: object) -> int | None:
    """Return an HTTP status given as a number or as digits, else `None`."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and 100 <= value <= 599 else None


def _unescape(text: str) -> str:
    try:
        return str(orjson.loads(f'"{text}"'))
    except orjson.JSONDecodeError:
        return text


def redact(sentence: str) -> str:
    """Take out what a message must not show: console links, account ids, quoted input, length."""
    sentence = _CONSOLE_LINK.sub("", sentence)
    sentence = _INPUT_VALUE.sub("input_value=..., input_type=", sentence)
    sentence = _ACCOUNT.sub("<account>", sentence).strip()
    return sentence if len(sentence) <= _MAX_SENTENCE else sentence[:_MAX_SENTENCE] + "..."


def _choose(sentence: str, status: int | None, code: str | None = None) -> type[APIError]:
    """Sentence before code before status, for the sentence knows most."""
    for pattern, kind in _BY_SENTENCE:
        if re.search(pattern, sentence, re.IGNORECASE | re.DOTALL):
            return kind
    if code in BY_CODE:
        return BY_CODE[code]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ServerError if status is None or status >= _SERVER_STATUS else InvalidRequestError


def container_error(
    fault: ContainerFault, *, endpoint_name: str, body: str | bytes, request_id: str | None = None
) -> APIError:
    """Make the error for a failure that the container itself reports."""
    kind = _choose(fault.sentence, fault.status)
    retryable = kind is ModelNotReadyError or fault.status in _RETRYABLE_CONTAINER_STATUS
    status = f" with status {fault.status}" if fault.status else ""
    cure = f" {CURES[kind]}" if kind in CURES else ""
    message = (
        f"The container behind endpoint {endpoint_name!r} answered{status}: "
        f"{redact(fault.sentence) or 'no message'}{cure}"
    )
    return kind(
        message,
        status_code=fault.status,
        error_code=fault.kind or "ModelError",
        body=body,
        request_id=request_id,
        endpoint_name=endpoint_name,
        is_retryable=retryable,
    )


def service_error(
    parsed: Mapping[str, Any], *, endpoint_name: str, region_name: str | None = None
) -> APIError:
    """Make the error for a response that botocore parsed as an error.

    Args:
        parsed: botocore's form, as in `ClientError.response`: `Error`, `ResponseMetadata` and the
            members of the modelled error.
        endpoint_name: The endpoint that was called.
        region_name: The region that was called.
    """
    error = parsed.get("Error", {})
    code = str(error.get("Code") or "Unknown")
    message = _SIGNED.sub(r"\g<name> ...", str(error.get("Message") or ""))
    metadata = parsed.get("ResponseMetadata", {})
    request_id = metadata.get("RequestId")
    if code == "ModelError":
        fault = _container_fault(parsed, message)
        return container_error(
            fault, endpoint_name=endpoint_name, body=_raw(parsed, message), request_id=request_id
        )
    # An answer without an error type has its HTTP status as the code.
    status = as_status(metadata.get("HTTPStatusCode")) or as_status(code)
    kind = _choose(message, status, code)
    where = f" in region {region_name!r}" if region_name else ""
    cure = f" {CURES[kind]}" if kind in CURES else ""
    return kind(
        f"SageMaker refused the call of endpoint {endpoint_name!r}{where} with {code}: "
        f"{redact(message) or 'no message'}{cure}",
        status_code=status,
        error_code=code,
        body=_raw(parsed, message),
        request_id=request_id,
        endpoint_name=endpoint_name,
        is_retryable=kind.is_retryable and (kind is not ServerError or status in RETRYABLE_STATUS),
    )


def _container_fault(parsed: Mapping[str, Any], message: str) -> ContainerFault:
    """Read `OriginalMessage` and `OriginalStatusCode`, else the quotation in `Message`."""
    text = str(parsed.get("OriginalMessage") or "")
    if not text:
        quoted = _QUOTED.search(message)
        text = quoted["text"] if quoted else message
    fault = read_container_fault(text)
    status = as_status(parsed.get("OriginalStatusCode"))
    if status is None and (match := _STATUS.search(message)):
        status = as_status(match["status"])
    # LMI answers a client's mistake with 424 or 500 and puts the real one into the body.
    inner = fault.status if fault.status and status in (None, 424, 500) else None
    return ContainerFault(fault.sentence or redact(message), inner or status, fault.kind)


def _raw(parsed: Mapping[str, Any], message: str) -> str:
    original = parsed.get("OriginalMessage")
    return f"{message}\n{original}" if original and original not in message else message


def stream_event_error(
    event: Mapping[str, Any], *, endpoint_name: str, body: bytes
) -> APIError | None:
    """Make the error for a chunk that says the container failed; `None` for an ordinary chunk.

    vLLM sends `{"error": {...}}` inside a 200 stream, older ones and LMI flat forms.
    """
    is_error = (
        bool(event.get("error"))
        or event.get("object") == "error"
        or ("choices" not in event and "code" in event and bool(event.get("message")))
    )
    if not is_error:
        return None
    fault = _read_fault_object(event) or ContainerFault("unknown error")
    return container_error(fault, endpoint_name=endpoint_name, body=body)


def stream_fault(
    code: str, message: str, *, error_code: str | None = None, endpoint_name: str | None = None
) -> StreamInterruptedError:
    """Make the error for an exception event or error event of the AWS event stream.

    Args:
        code: `ModelStreamError`, `InternalStreamFailure`, or the code of an `error` message.
        message: AWS's sentence.
        error_code: ModelStreamError's own `ErrorCode`: `ModelInvocationTimeExceeded` or
            `StreamBroken`.
        endpoint_name: The endpoint that was called.
    """
    detail = f" ({error_code})" if error_code else ""
    return StreamInterruptedError(
        f"The stream was broken off by {code}{detail}: {redact(message) or 'no message'}",
        error_code=error_code or code,
        body=message,
        endpoint_name=endpoint_name,
        is_retryable=error_code != "ModelInvocationTimeExceeded",
    )


def connection_failed(cause: BaseException, *, endpoint_name: str) -> ConnectionFailedError:
    """Make the error for a connection that could not be made, or broke before the answer."""
    return ConnectionFailedError(
        f"Could not reach endpoint {endpoint_name!r} ({type(cause).__name__}). Check region_name, "
        "endpoint_url, DNS, proxies, certificates and the VPC's endpoints.",
        error_code=type(cause).__name__,
        body=str(cause),
        endpoint_name=endpoint_name,
    )


def answer_broken(cause: BaseException, *, endpoint_name: str) -> ConnectionFailedError:
    """Make the error for a plain answer that broke off: it was made, and billed, already."""
    return ConnectionFailedError(
        f"The connection to endpoint {endpoint_name!r} broke while its answer came "
        f"({type(cause).__name__}). The answer was made and is lost; the request is not repeated "
        "by itself.",
        error_code=type(cause).__name__,
        body=str(cause),
        endpoint_name=endpoint_name,
        is_retryable=False,
    )


def timed_out(cause: BaseException, *, endpoint_name: str, seconds: float) -> RequestTimeoutError:
    """Make the error for an answer that did not come in time."""
    return RequestTimeoutError(
        f"Endpoint {endpoint_name!r} sent nothing for timeout={seconds:g} seconds. Raise timeout, "
        "stream the answer, or use async_inference; containers have 60 seconds for an answer.",
        error_code=type(cause).__name__,
        endpoint_name=endpoint_name,
    )


def stream_broken(cause: BaseException, *, endpoint_name: str) -> StreamInterruptedError:
    """Make the error for a stream whose connection broke or fell silent."""
    silent = "Timeout" in type(cause).__name__
    what = "fell silent for longer than timeout allows" if silent else "lost its connection"
    return StreamInterruptedError(
        f"The stream from endpoint {endpoint_name!r} {what} ({type(cause).__name__}).",
        error_code=type(cause).__name__,
        endpoint_name=endpoint_name,
    )
