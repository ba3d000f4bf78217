"""InvokeEndpointAsync: send a request now, and fetch its answer from S3 when it is there.

The order of steps is written once, as the generator `infer`. What it yields are the results of
`S3Storage` and the transport, which `run` hands back as they are and `arun` awaits first.
"""

import re
import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

from sagemaker_vllm._async_errors import (
    inference_failed,
    result_overdue,
    submission_unanswered,
)
from sagemaker_vllm._errors import AsyncInferenceError, ConfigurationError
from sagemaker_vllm._transport import RawAnswer

MAX_INLINE = 128_000
"""Bytes of a request that InvokeEndpointAsync takes without S3 (botocore's service model)."""
_GROWTH = 1.5

_S3_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")
# Patterns and lengths of botocore's service model.
_EXTENSION = re.compile(r"(?!s3:|https:)[a-zA-Z0-9!_.*'()/-]+")
_FILENAME = re.compile(r"(?!.*\..*\.)[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_MAX_URI, _MAX_EXTENSION, _MAX_FILENAME = 1024, 512, 32
_UNIQUE = len("/") + len(str(uuid.UUID(int=0)))


@dataclass(frozen=True, slots=True)
class AsyncInferenceConfig:
    """Runs plain calls through InvokeEndpointAsync and S3, for work that takes longer than 60 s.

    A request of up to 128,000 bytes is sent as it is; a larger one, or any with a botocore before
    1.43.29, is put into S3 first. Then the places that the service names for the answer and for a
    failure are read again and again, until one is there.

    Attributes:
        input_s3_uri: Prefix for uploaded requests: `s3://bucket/prefix/`.
        poll_interval: Seconds before the first look for the answer; it grows by half each time.
        max_poll_interval: Seconds that the interval grows to.
        deadline: Seconds to wait for the answer, from the submission on.
        request_ttl_seconds: Seconds the request may wait in the queue, 60 to 21,600; by default
            the service's 21,600.
        invocation_timeout_seconds: Seconds the container may take, 1 to 3,600; by default the
            service's 900.
        s3_output_path_extension: Path to add to the endpoint's output path.
        filename: Name of the output object. Each call then writes into a folder of its own under
            the output path, so that no call reads another's answer.
        delete_objects: Delete the uploaded request and the answer once it has been read. What is
            still awaited at the deadline stays.
        s3_endpoint_url: Base URL of S3, in place of AWS's.

    Raises:
        ConfigurationError: A value breaks a limit of the API.
    """

    input_s3_uri: str
    _: KW_ONLY
    poll_interval: float = 1.0
    max_poll_interval: float = 15.0
    deadline: float = 900.0
    request_ttl_seconds: int | None = None
    invocation_timeout_seconds: int | None = None
    s3_output_path_extension: str | None = None
    filename: str | None = None
    delete_objects: bool = False
    s3_endpoint_url: str | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        uri = self.input_s3_uri
        _check_text("input_s3_uri", uri, _S3_URI, _MAX_URI - _UNIQUE - len(".json"))
        object.__setattr__(self, "input_s3_uri", uri.rstrip("/") + "/")
        if self.s3_output_path_extension is not None:
            limit = _MAX_EXTENSION - (_UNIQUE if self.filename else 0)
            _check_text(
                "s3_output_path_extension", self.s3_output_path_extension, _EXTENSION, limit
            )
        if self.filename is not None:
            _check_text("filename", self.filename, _FILENAME, _MAX_FILENAME)
        _check_range("request_ttl_seconds", self.request_ttl_seconds, 60, 21_600)
        _check_range("invocation_timeout_seconds", self.invocation_timeout_seconds, 1, 3_600)
        for name in ("poll_interval", "max_poll_interval", "deadline"):
            value = getattr(self, name)
            if not value > 0:
                message = f"{name}={value!r} must be more than 0 seconds."
                raise ConfigurationError(message)

    def members(self) -> dict[str, Any]:
        """Return what every call of InvokeEndpointAsync is to hold, named as boto3 names it."""
        extension = self.s3_output_path_extension
        if self.filename:
            extension = f"{extension.strip('/')}/{uuid.uuid4()}" if extension else f"{uuid.uuid4()}"
        members = {
            "RequestTTLSeconds": self.request_ttl_seconds,
            "InvocationTimeoutSeconds": self.invocation_timeout_seconds,
            "S3OutputPathExtension": extension,
            "Filename": self.filename,
        }
        return {name: value for name, value in members.items() if value is not None}


def _check_text(name: str, value: object, pattern: re.Pattern[str], limit: int) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        message = f"{name}={value!r} must match {pattern.pattern}"
        raise ConfigurationError(message)
    if len(value) > limit:
        message = f"{name} has {len(value)} characters; SageMaker takes at most {limit} here."
        raise ConfigurationError(message)


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if value is not None and not (type(value) is int and low <= value <= high):
        message = f"{name}={value!r} must be a whole number of seconds, {low} to {high:,}."
        raise ConfigurationError(message)


class Storage(Protocol):
    """S3: each method gives a result, or an awaitable of one. It raises `AsyncInferenceError`."""

    def put(self, location: str, body: bytes) -> Any:
        """Write an object."""

    def get(self, location: str) -> Any:
        """Read an object; `None` when it is not there."""

    def delete(self, location: str) -> Any:
        """Delete an object, if that is allowed."""


Steps = Generator[Any, Any, RawAnswer]


def infer(
    config: AsyncInferenceConfig,
    call: Mapping[str, Any],
    *,
    storage: Storage,
    submit: Callable[[Mapping[str, Any]], Any],
    knows: Callable[[str], Any],
    sleep: Callable[[float], Any],
    clock: Callable[[], float],
) -> Steps:
    """Run one asynchronous inference.

    Args:
        config: How.
        call: Members of the call, with the request as `Body`.
        storage: S3.
        submit: Calls InvokeEndpointAsync.
        knows: Whether the installed botocore knows a member of that operation.
        sleep: Waits.
        clock: Seconds, counted from any time.

    Yields:
        What `storage`, `submit`, `knows` and `sleep` gave, to be sent back when it is there.

    Raises:
        AsyncInferenceError: The inference failed, or the deadline passed, or S3 refused.
    """
    call = dict(call) | config.members()
    uploaded = None
    if len(call["Body"]) > MAX_INLINE or not (yield knows("Body")):
        uploaded = f"{config.input_s3_uri}{uuid.uuid4()}.json"
        yield storage.put(uploaded, call.pop("Body"))
        call["InputLocation"] = uploaded
    try:
        answer = yield submit(call)
        places = {
            "inference_id": answer.output.get("InferenceId"),
            "output_location": answer.output.get("OutputLocation"),
            "failure_location": answer.output.get("FailureLocation"),
        }
        location, body = yield from _await_result(config, places, storage, sleep, clock)
    except (AsyncInferenceError, GeneratorExit):
        # An inference that is still awaited needs its request.
        raise
    except BaseException:
        if uploaded and config.delete_objects:
            yield storage.delete(uploaded)
        raise
    for each in (uploaded, location):
        if each and config.delete_objects:
            yield storage.delete(each)
    if location != places["output_location"]:
        raise inference_failed(body, endpoint_name=call["EndpointName"], places=places)
    return RawAnswer(answer.output, body)


def _await_result(
    config: AsyncInferenceConfig,
    places: dict[str, str | None],
    storage: Storage,
    sleep: Callable[[float], Any],
    clock: Callable[[], float],
) -> Generator[Any, Any, tuple[str, bytes]]:
    """Return the object that came, answer or failure, and what is in it."""
    if not places["output_location"]:
        raise submission_unanswered(places)
    ends_at, interval = clock() + config.deadline, config.poll_interval
    problem: AsyncInferenceError | None = None
    while True:
        yield sleep(max(0.0, min(interval, config.max_poll_interval, ends_at - clock())))
        interval = min(interval * _GROWTH, config.max_poll_interval)
        # Asked before the look, so that one look comes after the deadline.
        is_over = clock() >= ends_at
        try:
            for location in (places["output_location"], places["failure_location"]):
                if location and (found := (yield storage.get(location))) is not None:
                    return location, found
        except AsyncInferenceError as error:
            vars(error).update(places)
            if not error.is_retryable:
                raise
            problem = error
        if is_over:
            raise result_overdue(config.deadline, places) from problem


def run(steps: Steps) -> RawAnswer:
    """Take the steps of an inference whose results are there at once."""
    try:
        result = next(steps)
        while True:
            result = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the generator returns


async def arun(steps: Steps) -> RawAnswer:
    """Take the steps of an inference whose results are to be awaited."""
    try:
        step: Awaitable[Any] = next(steps)
        while True:
            try:
                result = await step
            except BaseException as error:  # noqa: BLE001  # the steps decide, cancellation too
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the generator returns
