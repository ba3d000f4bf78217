"""Scripts: queues and functions."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import ContainerFault, Emulator, JSONReply, RecordedRequest, Reply


def ask(runtime: Any, prompt: str = "x") -> bytes:
    response = runtime.invoke_endpoint(
        EndpointName="emulated",
        ContentType="application/json",
        Body=json.dumps({"prompt": prompt}),
    )
    body: bytes = response["Body"].read()
    return body


def test_queue_answers_in_order_and_then_says_that_it_is_empty(
    emulator: Emulator, runtime: Any
) -> None:
    emulator.enqueue(JSONReply(b"one"), JSONReply("two"))

    assert [ask(runtime), ask(runtime)] == [b"one", b"two"]
    with pytest.raises(ClientError, match="script is empty"):
        ask(runtime)


def test_json_reply_keeps_status_and_content_type(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(JSONReply({"a": 1}, content_type="application/jsonlines"))

    response = runtime.invoke_endpoint(EndpointName="emulated", Body=b"")

    assert response["ContentType"] == "application/jsonlines"
    assert json.loads(response["Body"].read()) == {"a": 1}


def test_function_answers_from_the_request(connect: Callable[..., Any]) -> None:
    def echo(request: RecordedRequest) -> Reply:
        return Reply(request.json["prompt"].upper())

    with Emulator(script=echo) as emulator:
        assert b'"text":"HELLO"' in ask(connect(emulator), "hello")


def test_function_may_be_async(connect: Callable[..., Any]) -> None:
    async def echo(request: RecordedRequest) -> Reply:
        return Reply(request.json["prompt"].upper())

    with Emulator(script=echo) as emulator:
        assert b'"text":"HELLO"' in ask(connect(emulator), "hello")


def test_function_that_raises_is_a_container_that_fails(connect: Callable[..., Any]) -> None:
    def broken(request: RecordedRequest) -> Reply:
        raise KeyError("tools")

    with Emulator(script=broken) as emulator, pytest.raises(ClientError) as caught:
        ask(connect(emulator))

    assert caught.value.response["OriginalStatusCode"] == 500  # type: ignore[typeddict-item]
    assert "KeyError('tools')" in str(caught.value)


def test_function_that_gives_no_reply_is_a_container_that_fails(
    connect: Callable[..., Any],
) -> None:
    script: Any = lambda _: "hello"  # noqa: E731

    with (
        Emulator(script=script) as emulator,
        pytest.raises(ClientError, match="the script answered 'hello'"),
    ):
        ask(connect(emulator))


def test_what_is_no_reply_is_refused_at_once(emulator: Emulator) -> None:
    wrong: Any = "hello"

    with pytest.raises(ConfigurationError, match="script item 'hello'"):
        emulator.enqueue(wrong)
    with pytest.raises(ConfigurationError, match="script item 'hello'"):
        Emulator(script=[wrong])


def test_function_has_no_queue() -> None:
    emulator = Emulator(script=lambda _: ContainerFault(500))

    with pytest.raises(ConfigurationError, match="has no queue"):
        emulator.enqueue(Reply("x"))


def test_model_has_no_queue() -> None:
    with pytest.raises(ConfigurationError, match="no scripted replies"):
        Emulator(gguf="model.gguf").enqueue(Reply("x"))
