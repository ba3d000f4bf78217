"""InvokeEndpointAsync through a real S3 client and the emulator's queue."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sagemaker_vllm import (
    AsyncInferenceConfig,
    AsyncInferenceError,
    AsyncSageMakerVLLMClient,
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    ContextOverflowError,
    EndpointNotFoundError,
    InvalidRequestError,
    InvocationOptions,
    PermissionDeniedError,
    RequestTimeoutError,
    ServerError,
    chat_request,
)
from sagemaker_vllm.emulator import ContainerFault, Emulator, Hang, JSONReply, Reply
from tests.callers import CALLERS, PLAIN, QUESTION, STREAMED, Caller, Mode, run, until

LARGE = chat_request([{"role": "user", "content": "x" * 130_000}])

every_caller = pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
both_clients = pytest.mark.parametrize("caller", CALLERS[:2], ids=lambda caller: caller.name)


@pytest.fixture(scope="module")
def shared_emulator(s3_url: str) -> Iterator[tuple[Emulator, list[Any]]]:
    """An emulator for the whole module: each builds an S3 client, which takes its time."""
    replies: list[Any] = []
    with Emulator(
        script=lambda _: replies.pop(0), async_output="s3://bucket/out", s3_endpoint_url=s3_url
    ) as emulator:
        yield emulator, replies


@pytest.fixture
def start(
    shared_emulator: tuple[Emulator, list[Any]], s3: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Emulator]:
    """Take the emulator that writes into the bucket, with nothing but these replies."""
    emulator, script = shared_emulator

    def start(*replies: Any) -> Emulator:
        emulator.requests.clear()
        script[:] = replies
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        return emulator

    return start


@pytest.fixture
def config(s3_url: str) -> Callable[..., AsyncInferenceConfig]:
    """Make a config that looks often."""

    def config(uri: str = "s3://bucket/in/", **settings: Any) -> AsyncInferenceConfig:
        often: dict[str, Any] = {"poll_interval": 0.01, "s3_endpoint_url": s3_url}
        return AsyncInferenceConfig(uri, **(often | settings))

    return config


def keys(s3: Any, bucket: str = "bucket") -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


@every_caller
@pytest.mark.parametrize("mode", PLAIN)
def test_answer_is_that_of_a_plain_call(
    caller: Caller,
    mode: Mode,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
) -> None:
    emulator = start(Reply("Because."))

    completion = caller.call(mode, async_inference=config())

    [request] = emulator.requests
    assert completion.text == "Because."
    assert request.operation == "InvokeEndpointAsync"
    assert request.json["model"] == "/opt/ml/model"
    assert request.headers["X-Amzn-SageMaker-Content-Type"] == "application/json"
    assert "X-Amzn-SageMaker-InputLocation" not in request.headers
    metadata = completion.metadata
    assert metadata.request_id
    assert metadata.inference_id
    assert metadata.output_location
    assert keys(s3) == [metadata.output_location.removeprefix("s3://bucket/")]


@every_caller
def test_large_request_goes_through_s3_and_is_cleaned_up_when_asked(
    caller: Caller,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
) -> None:
    emulator = start(Reply("kept"), Reply("cleaned"))

    kept = caller.call("chat", request=LARGE, async_inference=config())
    left = keys(s3)
    cleaned = caller.call("chat", request=LARGE, async_inference=config(delete_objects=True))

    location = emulator.requests[0].headers["X-Amzn-SageMaker-InputLocation"]
    assert (kept.text, cleaned.text) == ("kept", "cleaned")
    assert emulator.requests[0].body == b""
    assert location.startswith("s3://bucket/in/")
    assert len(left) == 2
    uploaded = s3.get_object(Bucket="bucket", Key=location.removeprefix("s3://bucket/"))
    assert json.loads(uploaded["Body"].read()) == {"model": "/opt/ml/model", **LARGE}
    assert keys(s3) == left


@every_caller
def test_options_of_the_operation_are_sent(
    caller: Caller,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
) -> None:
    emulator = start(Reply("x"))

    completion = caller.call(
        "chat",
        options=InvocationOptions(
            inference_id="mine", custom_attributes="a=b", accept="application/json"
        ),
        async_inference=config(
            request_ttl_seconds=60,
            invocation_timeout_seconds=3600,
            s3_output_path_extension="jobs",
            filename="answer.json",
        ),
    )

    headers = emulator.requests[0].headers
    assert completion.metadata.inference_id == "mine"
    assert headers["X-Amzn-SageMaker-Inference-Id"] == "mine"
    assert headers["X-Amzn-SageMaker-Custom-Attributes"] == "a=b"
    assert headers["X-Amzn-SageMaker-Accept"] == "application/json"
    assert headers["X-Amzn-SageMaker-RequestTTLSeconds"] == "60"
    assert headers["X-Amzn-SageMaker-InvocationTimeoutSeconds"] == "3600"
    assert headers["X-Amzn-SageMaker-Filename"] == "answer.json"
    [key] = keys(s3)
    assert key.startswith("out/jobs/")
    assert key.endswith("/answer.json")


@every_caller
@pytest.mark.parametrize(
    "option", ["session_id", "target_variant", "inference_component_name", "prefix_aware_id"]
)
def test_option_that_the_operation_does_not_take_is_refused(
    caller: Caller,
    option: str,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
) -> None:
    emulator = start()

    with pytest.raises(ConfigurationError, match=f"{option}=.*InvokeEndpointAsync"):
        caller.call("chat", options=InvocationOptions(**{option: "x"}), async_inference=config())

    assert emulator.requests == []


@both_clients
@pytest.mark.parametrize("mode", STREAMED)
def test_stream_is_refused(
    caller: Caller,
    mode: Mode,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
) -> None:
    emulator = start()

    with pytest.raises(ConfigurationError, match="async_inference"):
        caller.call(mode, async_inference=config())

    assert emulator.requests == []


@both_clients
def test_anything_but_a_config_is_refused(caller: Caller) -> None:
    with pytest.raises(ConfigurationError, match="AsyncInferenceConfig"):
        caller.call("chat", endpoint_name="e", async_inference=True)


@both_clients
@pytest.mark.parametrize(
    ("reply", "kind", "status"),
    [
        (
            ContainerFault(400, {"error": {"message": "maximum context length is 8", "code": 400}}),
            ContextOverflowError,
            400,
        ),
        (ContainerFault(400, {"error": {"message": "bad", "code": 400}}), InvalidRequestError, 400),
        (ContainerFault(500, "boom"), ServerError, 500),
        (Hang(0.01), RequestTimeoutError, None),
    ],
    ids=["context", "invalid", "server", "timeout"],
)
def test_failure_file_is_an_error_of_both_kinds(
    caller: Caller,
    reply: Any,
    kind: type[Exception],
    status: int | None,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
) -> None:
    start(reply)

    with pytest.raises(AsyncInferenceError) as caught:
        caller.call("chat", async_inference=config(delete_objects=True))

    error = caught.value
    assert isinstance(error, kind)
    assert error.status_code == status
    assert error.inference_id
    assert error.output_location
    assert error.failure_location
    assert error.inference_id in error.message
    assert "000000000000" not in error.message
    assert keys(s3) == []


@both_clients
def test_answer_that_is_no_completion_keeps_its_class(
    caller: Caller, start: Callable[..., Emulator], config: Callable[..., AsyncInferenceConfig]
) -> None:
    start(JSONReply(b"<html>"))

    with pytest.raises(ServerError) as caught:
        caller.call("chat", async_inference=config())

    assert caught.value.body == b"<html>"


@both_clients
def test_deadline_ends_the_wait_and_says_where_the_answer_will_be(
    caller: Caller, start: Callable[..., Emulator], config: Callable[..., AsyncInferenceConfig]
) -> None:
    start(Hang(60))

    with pytest.raises(AsyncInferenceError, match=r"deadline=0\.05") as caught:
        caller.call("chat", async_inference=config(deadline=0.05))

    assert isinstance(caught.value, RequestTimeoutError)
    assert str(caught.value.output_location).startswith("s3://bucket/out/")


@both_clients
def test_upload_to_a_missing_bucket_names_the_bucket(
    caller: Caller, start: Callable[..., Emulator], config: Callable[..., AsyncInferenceConfig]
) -> None:
    emulator = start()

    with pytest.raises(AsyncInferenceError, match=r"s3://nowhere/in/.*no such bucket") as caught:
        caller.call("chat", request=LARGE, async_inference=config("s3://nowhere/in/"))

    assert caught.value.error_code == "NoSuchBucket"
    assert emulator.requests == []


@both_clients
def test_missing_output_bucket_ends_the_wait(
    caller: Caller,
    start_emulator: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3_url: str,
) -> None:
    start_emulator([Reply("lost")], async_output="s3://nowhere/out", s3_endpoint_url=s3_url)

    with pytest.raises(AsyncInferenceError, match=r"s3://nowhere/out/.*no such bucket") as caught:
        caller.call("chat", async_inference=config())

    assert caught.value.inference_id
    assert caught.value.output_location


def deny(s3: Any, action: str) -> None:
    rule = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": ["arn:aws:s3:::bucket/*"],
    }
    policy = {"Version": "2012-10-17", "Statement": [rule]}
    s3.put_bucket_policy(Bucket="bucket", Policy=json.dumps(policy))


@both_clients
@pytest.mark.parametrize(
    ("action", "request_body", "location"),
    [("s3:PutObject", LARGE, "bucket/in/"), ("s3:GetObject", QUESTION, "bucket/out/")],
    ids=["put", "get"],
)
def test_denied_access_names_the_missing_right(
    caller: Caller,
    action: str,
    request_body: dict[str, Any],
    location: str,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
) -> None:
    start(Reply("secret"))
    deny(s3, action)

    with pytest.raises(AsyncInferenceError, match=f"{location}.*{action}") as caught:
        caller.call("chat", request=request_body, async_inference=config())

    assert isinstance(caught.value, PermissionDeniedError)
    assert caught.value.status_code == 403


@both_clients
def test_answer_outlives_a_denied_deletion(
    caller: Caller,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start(Reply("here"))
    deny(s3, "s3:DeleteObject")

    with caplog.at_level(logging.WARNING, logger="sagemaker_vllm"):
        completion = caller.call("chat", async_inference=config(delete_objects=True))

    assert completion.text == "here"
    assert "s3:DeleteObject" in caplog.text


@both_clients
def test_unreachable_s3_says_so(caller: Caller, start: Callable[..., Emulator]) -> None:
    start()
    config = AsyncInferenceConfig("s3://bucket/in", s3_endpoint_url="http://127.0.0.1:9")

    with pytest.raises(AsyncInferenceError, match="s3_endpoint_url") as caught:
        caller.call("chat", request=LARGE, async_inference=config, max_retries=0)

    assert isinstance(caught.value, ConnectionFailedError)


@pytest.mark.parametrize("caller", CALLERS[2:], ids=lambda caller: caller.name)
def test_missing_credentials_for_s3_are_an_authentication_error(
    caller: Caller,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start()
    with_keys = caller._with_boto3({"async_inference": config()})
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(AsyncInferenceError) as caught:
        Caller(caller.is_async).call("chat", request=LARGE, **with_keys)

    with_keys["client"].close()
    assert isinstance(caught.value, AuthenticationError)


@both_clients
def test_refused_submission_is_an_ordinary_error(
    caller: Caller,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulator = start()
    monkeypatch.setenv("SAGEMAKER_ENDPOINT_NAME", "elsewhere")

    with pytest.raises(EndpointNotFoundError) as caught:
        caller.call("chat", request=LARGE, async_inference=config(delete_objects=True))

    assert not isinstance(caught.value, AsyncInferenceError)
    assert len(emulator.requests) == 1
    assert keys(s3) == []


@pytest.mark.parametrize("caller", [CALLERS[1], CALLERS[3]], ids=lambda caller: caller.name)
def test_cancelled_call_stops_waiting_and_deletes_its_request(
    caller: Caller,
    start: Callable[..., Emulator],
    config: Callable[..., AsyncInferenceConfig],
    s3: Any,
) -> None:
    emulator = start(Hang(60))

    async def cancel(client: AsyncSageMakerVLLMClient) -> None:
        task = asyncio.create_task(client.chat(LARGE))
        await until(lambda: emulator.requests)
        assert len(keys(s3)) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(caller, lambda _: None, cancel, async_inference=config(delete_objects=True))

    # What the service makes of a request that is gone is its own matter.
    assert [key for key in keys(s3) if key.startswith("in/")] == []


async def test_loop_is_free_while_answers_are_awaited(
    start: Callable[..., Emulator], config: Callable[..., AsyncInferenceConfig]
) -> None:
    start(*(Reply(str(number)) for number in range(20)))

    async with AsyncSageMakerVLLMClient(async_inference=config(), max_concurrency=4) as client:
        answers = await asyncio.gather(*(client.chat(QUESTION) for _ in range(20)))

    assert sorted(int(each.text) for each in answers) == list(range(20))
