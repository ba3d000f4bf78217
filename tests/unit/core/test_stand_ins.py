"""Streams that a boto3 client of the user's, or a stand-in for one, has decoded already."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import EventStreamError, ParamValidationError
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    SageMakerVLLMClient,
    SageMakerVLLMError,
    StreamInterruptedError,
    chat_request,
)

BEGUN = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
QUESTION = chat_request([{"role": "user", "content": "?"}])

Events = Callable[[], Iterator[dict[str, Any]]]


class StandIn:
    """Streams events, or raises, as a test says."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.calls = 0

    def invoke_endpoint_with_response_stream(self, **members: Any) -> dict[str, Any]:
        self.calls += 1
        return {"Body": self.events()}


def part(data: bytes) -> dict[str, Any]:
    return {"PayloadPart": {"Bytes": data}}


def raising(error: Exception) -> Events:
    def events() -> Iterator[dict[str, Any]]:
        yield part(BEGUN)
        raise error

    return events


def yielding(*events: dict[str, Any]) -> Events:
    return lambda: iter([part(BEGUN), *events])


def stream(client: Any, *, is_async: bool) -> Any:
    """Read a stream to its end."""

    async def read() -> Any:
        async with AsyncSageMakerVLLMClient(endpoint_name="e", client=client) as made:
            async with await made.stream_chat(QUESTION) as opened:
                async for _ in opened:
                    pass
            return opened.completion

    if is_async:
        return asyncio.run(read())
    opened = SageMakerVLLMClient(endpoint_name="e", client=client).stream_chat(QUESTION)
    for _ in opened:
        pass
    return opened.completion


both_clients = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@both_clients
def test_events_without_bytes_and_of_other_kinds_are_passed_over(is_async: bool) -> None:
    client = StandIn(yielding({"PayloadPart": {}}, {"Later": {}}, part(END)))

    assert stream(client, is_async=is_async).text == "Hi"


@both_clients
@pytest.mark.parametrize(
    ("events", "code"),
    [
        (
            yielding({"ModelStreamError": {"Message": "gone", "ErrorCode": "StreamBroken"}}),
            "StreamBroken",
        ),
        (yielding({"InternalStreamFailure": {"Message": "gone"}}), "InternalStreamFailure"),
        (
            raising(
                EventStreamError({"Error": {"Code": "ModelStreamError", "Message": "gone"}}, "X")
            ),
            "ModelStreamError",
        ),
        (raising(ReadTimeoutError(None, "/", "slow")), "ReadTimeoutError"),  # type: ignore[arg-type]  # no pool here
        (raising(ProtocolError("cut")), "ProtocolError"),
        (raising(ConnectionResetError()), "ConnectionResetError"),
    ],
    ids=["model", "internal", "exception", "timeout", "protocol", "reset"],
)
def test_broken_stream_is_one_family_and_never_repeated(
    is_async: bool, events: Events, code: str
) -> None:
    client = StandIn(events)

    with pytest.raises(StreamInterruptedError) as caught:
        stream(client, is_async=is_async)

    error = caught.value
    assert (error.error_code, error.endpoint_name) == (code, "e")
    assert error.partial is not None
    assert error.partial.text == "Hi"
    assert client.calls == 1


class Refusing:
    """Raises at the call."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def invoke_endpoint_with_response_stream(self, **members: Any) -> dict[str, Any]:
        raise self.error


@both_clients
def test_member_that_botocore_refuses_is_a_configuration_error(is_async: bool) -> None:
    client = Refusing(ParamValidationError(report="Invalid length for parameter InferenceId"))

    with pytest.raises(ConfigurationError, match="InferenceId"):
        stream(client, is_async=is_async)


@both_clients
def test_error_that_is_not_of_the_network_passes_through(is_async: bool) -> None:
    error = RuntimeError("a bug of the stand-in")

    with pytest.raises(RuntimeError) as caught:
        stream(Refusing(error), is_async=is_async)

    assert not isinstance(caught.value, SageMakerVLLMError)
