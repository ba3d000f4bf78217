"""InvokeEndpointAsync, with moto's S3 over real HTTP."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from sagemaker_vllm.emulator import (
    ContainerFault,
    Emulator,
    Hang,
    RecordedRequest,
    Reply,
    ServiceFault,
)

CHAT = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def s3(s3_url: str, session: boto3.Session) -> Iterator[Any]:
    with closing(session.client("s3", region_name="us-east-1", endpoint_url=s3_url)) as client:
        client.create_bucket(Bucket="bucket")
        yield client


@pytest.fixture
def emulator(s3: Any, s3_url: str) -> Iterator[Emulator]:
    with Emulator(async_output="s3://bucket/out/", s3_endpoint_url=s3_url) as emulator:
        yield emulator


def submit(runtime: Any, **members: Any) -> Any:
    return runtime.invoke_endpoint_async(
        EndpointName="emulated", ContentType="application/json", **members
    )


def key(location: str) -> str:
    assert location.startswith("s3://bucket/")
    return location.removeprefix("s3://bucket/")


def fetch(s3: Any, location: str) -> bytes:
    """Wait for an object."""
    deadline = time.monotonic() + 20
    while True:
        try:
            body: bytes = s3.get_object(Bucket="bucket", Key=key(location))["Body"].read()
        except s3.exceptions.NoSuchKey:
            assert time.monotonic() < deadline, f"{location} never came"
            time.sleep(0.01)
        else:
            return body


def test_answer_to_an_inline_body_is_written_to_the_output_location(
    emulator: Emulator, runtime: Any, s3: Any
) -> None:
    emulator.enqueue(Reply("Hello"))

    response = submit(runtime, Body=CHAT, InferenceId="mine")

    assert response["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert response["InferenceId"] == "mine"
    assert key(response["OutputLocation"]).startswith("out/")
    assert b"Hello" in fetch(s3, response["OutputLocation"])


def test_input_is_read_from_its_location(emulator: Emulator, runtime: Any, s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="in/1.json", Body=json.dumps({"prompt": ["a", "b"]}))
    emulator.enqueue(Reply("x"))

    response = submit(runtime, InputLocation="s3://bucket/in/1.json")

    assert len(json.loads(fetch(s3, response["OutputLocation"]))["choices"]) == 2
    assert len(response["InferenceId"]) == 36


def test_path_and_name_of_the_output_may_be_chosen(
    emulator: Emulator, runtime: Any, s3: Any
) -> None:
    emulator.enqueue(Reply("x"))

    response = submit(runtime, Body=CHAT, S3OutputPathExtension="a/b", Filename="answer.json")

    assert response["OutputLocation"] == "s3://bucket/out/a/b/answer.json"
    assert fetch(s3, response["OutputLocation"])


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            ContainerFault(400, "bad"),
            b'Received client error (400) from primary with message "bad"',
        ),
        (ServiceFault("InternalFailure", 500, "ouch"), b"ouch"),
    ],
)
def test_failure_is_written_to_the_failure_location(
    emulator: Emulator, runtime: Any, s3: Any, reply: Any, words: bytes
) -> None:
    emulator.enqueue(reply)

    response = submit(runtime, Body=CHAT)

    assert words in fetch(s3, response["FailureLocation"])
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket="bucket", Key=key(response["OutputLocation"]))


def test_invocation_that_takes_too_long_fails(emulator: Emulator, runtime: Any, s3: Any) -> None:
    emulator.enqueue(Hang(60))

    response = submit(runtime, Body=CHAT, InvocationTimeoutSeconds=1)

    assert b"timed out" in fetch(s3, response["FailureLocation"])


def test_input_that_is_not_there_fails(emulator: Emulator, runtime: Any, s3: Any) -> None:
    response = submit(runtime, InputLocation="s3://bucket/in/none.json")

    assert b"s3://bucket/in/none.json" in fetch(s3, response["FailureLocation"])


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "Exactly one of Body and InputLocation"),
        ({"Body": CHAT, "InputLocation": "s3://b/k"}, "Exactly one of Body and InputLocation"),
        ({"Body": b"x" * 128_001}, "less than or equal to 128000"),
        ({"Body": CHAT, "RequestTTLSeconds": 21_601}, "RequestTTLSeconds=21601"),
        ({"Body": CHAT, "InvocationTimeoutSeconds": 3601}, "InvocationTimeoutSeconds=3601"),
        ({"Body": CHAT, "Filename": "x" * 33}, "'filename'"),
    ],
)
def test_wrong_request_is_a_validation_error(
    emulator: Emulator, runtime: Any, members: dict[str, Any], words: str
) -> None:
    with pytest.raises(ClientError, match=words) as caught:
        submit(runtime, **members)

    assert caught.value.response["Error"]["Code"] == "ValidationError"


def test_body_of_128000_bytes_is_taken(emulator: Emulator, runtime: Any, s3: Any) -> None:
    emulator.enqueue(Reply("x"))

    response = submit(runtime, Body=CHAT.ljust(128_000))

    assert fetch(s3, response["OutputLocation"])


def test_endpoint_without_an_output_takes_no_asynchronous_request(
    connect: Callable[..., Any],
) -> None:
    with Emulator() as emulator, pytest.raises(ClientError, match="no asynchronous inference"):
        submit(connect(emulator), Body=CHAT)


def test_answer_that_cannot_be_written_is_told_in_the_log(
    s3_url: str, connect: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with Emulator(
        script=[Reply("x")], async_output="s3://no-such-bucket/out", s3_endpoint_url=s3_url
    ) as emulator:
        location = submit(connect(emulator), Body=CHAT)["OutputLocation"]
        deadline = time.monotonic() + 20
        while location not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    assert "NoSuchBucket" in caplog.text


def test_stop_ends_what_is_under_way(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(Hang(3600))
    submit(runtime, Body=CHAT)

    emulator.stop()

    assert len(emulator.requests) == 1


def test_container_gets_the_content_type_under_its_usual_name(
    s3: Any, s3_url: str, session: boto3.Session
) -> None:
    seen = []

    def answer(request: RecordedRequest) -> Reply:
        seen.append((request.headers["Content-Type"], request.headers["Accept"]))
        return Reply("Hello")

    with (
        Emulator(
            script=answer, async_output="s3://bucket/out/", s3_endpoint_url=s3_url
        ) as emulator,
        closing(session.client("sagemaker-runtime", endpoint_url=emulator.url)) as runtime,
    ):
        answered = submit(runtime, Body=CHAT, Accept="a/b")
        fetch(s3, answered["OutputLocation"])

    assert seen == [("application/json", "a/b")]
