"""Errors of asynchronous inferences: of the container by a file in S3, of S3, of time."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from sagemaker_vllm._error_table import (
    BY_CODE,
    CURES,
    RETRYABLE_STATUS,
    redact,
    service_error,
)
from sagemaker_vllm._errors import (
    APIError,
    AsyncInferenceError,
    ConnectionFailedError,
    PermissionDeniedError,
    RequestTimeoutError,
    SageMakerVLLMError,
    rebuild,
)

_NEEDED_RIGHTS = {
    "get": (
        "The caller needs s3:GetObject on the endpoint's output and failure paths, and "
        "s3:ListBucket on their bucket: without it S3 refuses to say that an object is not there "
        "yet."
    ),
    "put": "The caller needs s3:PutObject below input_s3_uri.",
    "delete": "The caller needs s3:DeleteObject for delete_objects.",
}


def inference_failed(
    failure: bytes, *, endpoint_name: str, places: Mapping[str, str | None]
) -> AsyncInferenceError:
    """Make the error for what the service wrote to the failure location."""
    said = {"Code": "ModelError", "Message": failure.decode(errors="replace")}
    found = service_error({"Error": said}, endpoint_name=endpoint_name)
    message = f"The asynchronous inference {places['inference_id']} failed. {found.message}"
    return _make(type(found), message, {**vars(found), **places, "message": message})


def submission_unanswered(places: Mapping[str, str | None]) -> AsyncInferenceError:
    """Make the error for an answer to the submission that names no place for the result."""
    message = (
        "The service took the asynchronous inference but named no output location. Is it an "
        "asynchronous endpoint (AsyncInferenceConfig with S3OutputPath)?"
    )
    return _make(AsyncInferenceError, message, places)


def result_overdue(deadline: float, places: Mapping[str, str | None]) -> AsyncInferenceError:
    """Make the error for an answer that did not appear in time."""
    blind = (
        ""
        if places["failure_location"]
        else " The endpoint names no failure location (S3FailurePath), so a failure cannot be seen."
    )
    message = (
        f"Asynchronous inference {places['inference_id']}: no answer after deadline={deadline:g} "
        "seconds. It may still come, to the error's output_location; raise deadline to wait "
        f"longer.{blind}"
    )
    return _make(RequestTimeoutError, message, {"error_code": "DeadlineExceeded", **places})


def storage_error(action: str, location: str, code: str, status: int | None) -> AsyncInferenceError:
    """Make the error for an answer of S3.

    Args:
        action: `get`, `put` or `delete`.
        location: URI of the object.
        code: S3's error code, or the class of what kept it from answering.
        status: HTTP status; `None` when S3 did not answer.
    """
    otherwise = PermissionDeniedError if status == 403 else AsyncInferenceError
    kind: type[SageMakerVLLMError] = BY_CODE.get(code, otherwise)
    if status is None:
        kind, cure = ConnectionFailedError, "Check s3_endpoint_url, DNS, proxies and the network."
    elif kind is PermissionDeniedError:
        cure = _NEEDED_RIGHTS[action]
    elif code == "NoSuchBucket":
        cure = "There is no such bucket: check its name, and the account."
    else:
        cure = CURES.get(kind, "") if issubclass(kind, APIError) else ""
    message = f"S3 did not {action} {redact(location)} ({code}). {cure}".rstrip()
    is_retryable = status is None or status in RETRYABLE_STATUS or kind.is_retryable
    facts = {"status_code": status, "error_code": code, "is_retryable": is_retryable}
    return _make(kind, message, facts)


def asynchronous(error: APIError) -> AsyncInferenceError:
    """Return an error of the table as one of an asynchronous inference too."""
    return _make(type(error), error.message, vars(error))


def _make(
    kind: type[SageMakerVLLMError], message: str, facts: Mapping[str, Any]
) -> AsyncInferenceError:
    error = _both(kind)(message)
    vars(error).update(facts)
    return error


_CLASSES: dict[type[SageMakerVLLMError], type[AsyncInferenceError]] = {}


def _both(kind: type[SageMakerVLLMError]) -> type[AsyncInferenceError]:
    """Return the class of errors that are of `kind` and an `AsyncInferenceError`."""
    if not issubclass(kind, APIError):
        return AsyncInferenceError
    if kind in _CLASSES:
        return _CLASSES[kind]

    def reduce(error: SageMakerVLLMError) -> tuple[Callable[..., Any], tuple[Any, ...], Any]:
        return _rebuild, (kind, error.message), vars(error)

    name = f"AsyncInference{kind.__name__}"
    members = {"__reduce__": reduce, "__module__": __name__, "__doc__": kind.__doc__}
    both = cast("type[AsyncInferenceError]", type(name, (kind, AsyncInferenceError), members))
    return _CLASSES.setdefault(kind, both)


def _rebuild(kind: type[SageMakerVLLMError], message: str) -> AsyncInferenceError:
    return rebuild(_both(kind), message)
