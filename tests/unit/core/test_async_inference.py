import asyncio
import pickle
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from sagemaker_vllm import AsyncInferenceConfig, AsyncInferenceError, ConfigurationError
from sagemaker_vllm._async_errors import inference_failed, result_overdue, storage_error
from sagemaker_vllm._async_inference import MAX_INLINE, Storage, arun, infer, run
from sagemaker_vllm._errors import (
    AuthenticationError,
    ConnectionFailedError,
    ContextOverflowError,
    PermissionDeniedError,
    RequestTimeoutError,
)
from sagemaker_vllm._transport import RawAnswer

URI = "s3://bucket/prefix/"
PLACES: dict[str, str | None] = {
    "inference_id": "id",
    "output_location": "s3://out/answer",
    "failure_location": "s3://out/failure",
}
OUTPUT = {
    "InferenceId": "id",
    "OutputLocation": "s3://out/answer",
    "FailureLocation": "s3://out/failure",
}


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"input_s3_uri": "https://bucket/x"}, "input_s3_uri"),
        ({"input_s3_uri": "s3://B/x"}, "input_s3_uri"),
        ({"input_s3_uri": ""}, "input_s3_uri"),
        ({"input_s3_uri": None}, "input_s3_uri"),
        ({"input_s3_uri": "s3://bucket/" + "x" * 1000}, "input_s3_uri"),
        ({"poll_interval": 0}, "poll_interval"),
        ({"max_poll_interval": -1}, "max_poll_interval"),
        ({"deadline": float("nan")}, "deadline"),
        ({"request_ttl_seconds": 59}, "request_ttl_seconds"),
        ({"request_ttl_seconds": 21_601}, "request_ttl_seconds"),
        ({"request_ttl_seconds": 60.0}, "request_ttl_seconds"),
        ({"invocation_timeout_seconds": 0}, "invocation_timeout_seconds"),
        ({"invocation_timeout_seconds": 3_601}, "invocation_timeout_seconds"),
        ({"invocation_timeout_seconds": True}, "invocation_timeout_seconds"),
        ({"s3_output_path_extension": "s3://elsewhere"}, "s3_output_path_extension"),
        ({"s3_output_path_extension": "x" * 513}, "s3_output_path_extension"),
        ({"s3_output_path_extension": "x" * 500, "filename": "a"}, "s3_output_path_extension"),
        ({"filename": "a.b.c"}, "filename"),
        ({"filename": "x" * 33}, "filename"),
        ({"filename": ""}, "filename"),
    ],
)
def test_config_refuses_what_the_service_would(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(ConfigurationError, match=argument):
        AsyncInferenceConfig(**({"input_s3_uri": URI} | settings))


@pytest.mark.parametrize("uri", ["s3://bucket", "s3://bucket/", "s3://my.bucket-1/a/b"])
def test_config_takes_any_prefix(uri: str) -> None:
    assert AsyncInferenceConfig(uri).input_s3_uri == uri.rstrip("/") + "/"


def test_config_sends_only_what_is_set() -> None:
    assert AsyncInferenceConfig(URI).members() == {}
    assert AsyncInferenceConfig(
        URI,
        request_ttl_seconds=60,
        invocation_timeout_seconds=3600,
        s3_output_path_extension="jobs",
    ).members() == {
        "RequestTTLSeconds": 60,
        "InvocationTimeoutSeconds": 3600,
        "S3OutputPathExtension": "jobs",
    }


@pytest.mark.parametrize("extension", [None, "jobs", "jobs/"])
def test_each_call_with_a_filename_has_a_folder_of_its_own(extension: str | None) -> None:
    config = AsyncInferenceConfig(URI, filename="answer.json", s3_output_path_extension=extension)

    folders = {config.members()["S3OutputPathExtension"] for _ in range(3)}

    assert len(folders) == 3
    assert all("//" not in folder and not folder.startswith("/") for folder in folders)
    assert all(folder.startswith("jobs/") for folder in folders) or extension is None


class Bucket(Storage):
    """Objects in memory: what S3 looks like to the steps of an inference."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.problem: AsyncInferenceError | None = None

    def put(self, location: str, body: bytes) -> None:
        self.objects[location] = body

    def get(self, location: str) -> bytes | None:
        if self.problem:
            raise self.problem
        return self.objects.get(location)

    def delete(self, location: str) -> None:
        self.objects.pop(location, None)


class World:
    """A clock, a service and a bucket in which a result may appear after so many seconds."""

    def __init__(self, *, knows_body: bool = True, output: dict[str, Any] | None = None) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.calls: list[dict[str, Any]] = []
        self.bucket = Bucket()
        self.events: list[tuple[float, Callable[[], object]]] = []
        self.knows_body = knows_body
        self.output = OUTPUT if output is None else output
        self.refusal: Exception | None = None

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()

    def submit(self, call: Any) -> RawAnswer:
        self.calls.append(dict(call))
        if self.refusal:
            raise self.refusal
        return RawAnswer(self.output, b"")

    def infer(self, body: bytes = b"{}", **settings: Any) -> RawAnswer:
        config = AsyncInferenceConfig(URI, **settings)
        steps = infer(
            config,
            {"EndpointName": "e", "Body": body},
            storage=self.bucket,
            submit=self.submit,
            knows=lambda member: self.knows_body,
            sleep=self.sleep,
            clock=lambda: self.now,
        )
        return run(steps)

    def appears(self, at: float, location: str | None, body: bytes) -> None:
        self.events.append((at, lambda: self.bucket.put(str(location), body)))


def test_answer_is_what_the_output_location_holds() -> None:
    world = World()
    world.appears(2.0, "s3://out/answer", b"answer")

    answer = world.infer(poll_interval=1.0)

    assert answer == RawAnswer(OUTPUT, b"answer")


def test_waits_grow_to_the_longest_and_end_at_the_deadline() -> None:
    world = World()

    with pytest.raises(AsyncInferenceError):
        world.infer(poll_interval=1.0, max_poll_interval=4.0, deadline=20.0)

    assert world.waits[:4] == [1.0, 1.5, 2.25, 3.375]
    assert all(first <= second for first, second in pairwise(world.waits[:-1]))
    assert max(world.waits) == 4.0
    assert sum(world.waits) == 20.0


def test_answer_at_the_deadline_is_not_lost() -> None:
    world = World()
    world.appears(10.0, "s3://out/answer", b"late")

    assert world.infer(poll_interval=7.0, deadline=10.0).body == b"late"


def test_interval_is_never_longer_than_the_longest() -> None:
    world = World()
    world.appears(1.0, "s3://out/answer", b"x")

    world.infer(poll_interval=30.0, max_poll_interval=2.0)

    assert world.waits == [2.0]


def test_deadline_is_a_time_out_that_says_where_the_answer_will_be() -> None:
    with pytest.raises(AsyncInferenceError) as caught:
        World().infer(deadline=3.0)

    error = caught.value
    assert isinstance(error, RequestTimeoutError)
    assert (error.inference_id, error.output_location) == ("id", "s3://out/answer")
    assert error.error_code == "DeadlineExceeded"
    assert "deadline=3 seconds" in error.message
    assert "S3FailurePath" not in error.message


def test_endpoint_without_failure_path_is_named_in_the_time_out() -> None:
    world = World(output={"InferenceId": "id", "OutputLocation": "s3://out/answer"})

    with pytest.raises(AsyncInferenceError, match="S3FailurePath"):
        world.infer(deadline=3.0)


def test_s3_that_is_away_for_a_while_is_asked_again() -> None:
    world = World()
    away = storage_error("get", "s3://out/answer", "SlowDown", 503)
    world.events = [
        (1.0, lambda: setattr(world.bucket, "problem", away)),
        (4.0, lambda: setattr(world.bucket, "problem", None)),
        (4.0, lambda: world.bucket.put("s3://out/answer", b"x")),
    ]

    assert world.infer().body == b"x"


def test_s3_that_stays_away_is_the_cause_of_the_time_out() -> None:
    world = World()
    world.bucket.problem = storage_error("get", "s3://out/answer", "ReadTimeoutError", None)

    with pytest.raises(AsyncInferenceError) as caught:
        world.infer(deadline=3.0)

    assert isinstance(caught.value, RequestTimeoutError)
    assert caught.value.__cause__ is world.bucket.problem


def test_s3_that_refuses_ends_the_wait_at_once() -> None:
    world = World()
    world.bucket.problem = storage_error("get", "s3://out/answer", "AccessDenied", 403)

    with pytest.raises(AsyncInferenceError) as caught:
        world.infer()

    assert caught.value is world.bucket.problem
    assert caught.value.output_location == "s3://out/answer"
    assert len(world.waits) == 1


@pytest.mark.parametrize("size", [MAX_INLINE, MAX_INLINE + 1])
@pytest.mark.parametrize("knows_body", [True, False])
def test_request_goes_inline_when_it_fits_and_botocore_knows_how(
    size: int, knows_body: bool
) -> None:
    world = World(knows_body=knows_body)
    world.appears(1.0, "s3://out/answer", b"x")
    body = b"x" * size

    world.infer(body)

    [call] = world.calls
    if size <= MAX_INLINE and knows_body:
        assert call == {"EndpointName": "e", "Body": body}
        assert world.bucket.objects.keys() == {"s3://out/answer"}
    else:
        assert "Body" not in call
        assert call["InputLocation"].startswith(URI)
        assert world.bucket.objects[call["InputLocation"]] == body


@pytest.mark.parametrize("delete_objects", [True, False])
@pytest.mark.parametrize("location", ["s3://out/answer", "s3://out/failure"])
def test_objects_are_deleted_when_asked(delete_objects: bool, location: str) -> None:
    world = World(knows_body=False)
    world.appears(1.0, location, b"x")

    with suppress(AsyncInferenceError):
        world.infer(delete_objects=delete_objects)

    assert len(world.bucket.objects) == (0 if delete_objects else 2)


def test_request_that_is_still_awaited_is_never_deleted() -> None:
    world = World(knows_body=False)

    with pytest.raises(AsyncInferenceError):
        world.infer(delete_objects=True, deadline=3.0)

    assert len(world.bucket.objects) == 1


@pytest.mark.parametrize("delete_objects", [True, False])
def test_refused_request_is_deleted_when_asked(delete_objects: bool) -> None:
    world = World(knows_body=False)
    world.refusal = PermissionDeniedError("no")

    with pytest.raises(PermissionDeniedError):
        world.infer(delete_objects=delete_objects)

    assert len(world.bucket.objects) == (0 if delete_objects else 1)


def test_steps_that_are_dropped_end_quietly() -> None:
    steps = infer(
        AsyncInferenceConfig(URI, delete_objects=True),
        {"EndpointName": "e", "Body": b""},
        storage=Bucket(),
        submit=lambda call: None,
        knows=lambda member: False,
        sleep=lambda seconds: None,
        clock=lambda: 0.0,
    )
    for _ in range(3):
        next(steps)

    steps.close()


async def test_cancelled_inference_deletes_its_request_when_asked() -> None:
    world = World(knows_body=False)
    started = asyncio.Event()

    class AsyncBucket(Storage):
        async def put(self, location: str, body: bytes) -> None:
            world.bucket.put(location, body)

        async def get(self, location: str) -> bytes | None:
            return world.bucket.get(location)

        async def delete(self, location: str) -> None:
            world.bucket.delete(location)

    async def submit(call: Any) -> RawAnswer:
        return world.submit(call)

    async def knows(member: str) -> bool:
        return False

    async def sleep(seconds: float) -> None:
        started.set()
        await asyncio.Event().wait()

    steps = infer(
        AsyncInferenceConfig(URI, delete_objects=True),
        {"EndpointName": "e", "Body": b"{}"},
        storage=AsyncBucket(),
        submit=submit,
        knows=knows,
        sleep=sleep,
        clock=lambda: 0.0,
    )
    task = asyncio.create_task(arun(steps))
    await started.wait()
    assert len(world.bucket.objects) == 1

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert world.bucket.objects == {}


QUOTED = (
    'Received client error (400) from primary with message "{"error":{"message":"This model\'s '
    'maximum context length is 10 tokens","code":400}}". See https://console.example/ in account '
    "123456789012 for more information."
)


@pytest.mark.parametrize(
    "failure",
    [
        QUOTED,
        '{"error":{"message":"This model\'s maximum context length is 10 tokens","code":400}}',
        '{"object":"error","message":"maximum context length is 10","code":400}',
    ],
)
def test_containers_failure_keeps_its_class_and_status(failure: str) -> None:
    error = inference_failed(failure.encode(), endpoint_name="e", places=PLACES)

    assert isinstance(error, ContextOverflowError)
    assert isinstance(error, AsyncInferenceError)
    assert error.status_code == 400
    assert "maximum context length is 10" in error.message
    assert "123456789012" not in error.message
    assert error.body == failure
    assert error.failure_location == "s3://out/failure"


@pytest.mark.parametrize(
    "error",
    [
        inference_failed(QUOTED.encode(), endpoint_name="e", places=PLACES),
        result_overdue(3.0, PLACES),
        storage_error("get", "s3://b/k", "AccessDenied", 403),
        storage_error("get", "s3://b/k", "NoSuchBucket", 404),
    ],
)
def test_errors_pickle(error: AsyncInferenceError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # made here

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("code", "status", "kind", "is_retryable", "cure"),
    [
        ("AccessDenied", 403, PermissionDeniedError, False, "s3:ListBucket"),
        ("NoSuchBucket", 404, AsyncInferenceError, False, "no such bucket"),
        ("ExpiredToken", 400, AuthenticationError, False, "credentials"),
        ("InternalError", 500, AsyncInferenceError, True, ""),
        ("SlowDown", 503, AsyncInferenceError, True, ""),
        ("ConnectTimeoutError", None, ConnectionFailedError, True, "s3_endpoint_url"),
    ],
)
def test_errors_of_s3_say_what_to_do(
    code: str, status: int | None, kind: type[Exception], is_retryable: bool, cure: str
) -> None:
    error = storage_error("get", "s3://sagemaker-us-east-1-123456789012/k", code, status)

    assert isinstance(error, kind)
    assert isinstance(error, AsyncInferenceError)
    assert error.is_retryable is is_retryable
    assert (error.error_code, error.status_code) == (code, status)
    assert cure in error.message
    assert "123456789012" not in error.message


def test_service_that_names_no_place_is_an_error_at_once() -> None:
    world = World(output={})

    with pytest.raises(AsyncInferenceError, match="no output location"):
        world.infer()

    assert world.waits == []
