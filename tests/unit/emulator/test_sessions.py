"""Stateful sessions, on, off and left to the container."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagemaker_vllm.emulator import Emulator, JSONReply, Reply

CHAT = json.dumps({"messages": []})


def call(runtime: Any, body: str = CHAT, operation: str = "invoke_endpoint", **members: Any) -> Any:
    return getattr(runtime, operation)(
        EndpointName="emulated", ContentType="application/json", Body=body, **members
    )


def open_session(runtime: Any) -> tuple[str, str]:
    response = call(runtime, '{"requestType": "NEW_SESSION"}')
    response["Body"].read()
    session_id, _, expires = response["NewSessionId"].partition("; Expires=")
    return session_id, expires


def test_session_is_opened_used_and_closed(connect: Callable[..., Any]) -> None:
    with Emulator(script=[Reply("one"), Reply("two")], sessions=True) as emulator:
        runtime = connect(emulator)

        session_id, expires = open_session(runtime)
        answer = call(runtime, SessionId=session_id)["Body"].read()
        streamed = call(
            runtime, operation="invoke_endpoint_with_response_stream", SessionId=session_id
        )["Body"]
        parts = b"".join(event["PayloadPart"]["Bytes"] for event in streamed)
        closed = call(runtime, '{"requestType": "CLOSE"}', SessionId=session_id)
        closed["Body"].read()

        assert expires.endswith("Z")
        assert b"one" in answer
        assert b"two" in parts
        assert closed["ClosedSessionId"] == session_id
        with pytest.raises(ClientError, match="session not found"):
            call(runtime, SessionId=session_id)


@pytest.mark.parametrize(
    ("body", "members"),
    [
        (CHAT, {"SessionId": "unknown"}),
        ('{"requestType": "CLOSE"}', {"SessionId": "unknown"}),
        ('{"requestType": "CLOSE"}', {}),
        ('{"requestType": "NEW_SESSION", "messages": []}', {}),
        ('{"requestType": "OTHER"}', {}),
    ],
)
def test_wrong_session_request_is_refused_by_the_container(
    connect: Callable[..., Any], body: str, members: dict[str, str]
) -> None:
    with Emulator(sessions=True) as emulator, pytest.raises(ClientError) as caught:
        call(connect(emulator), body, **members)

    assert caught.value.response["OriginalStatusCode"] == 400  # type: ignore[typeddict-item]


def test_session_header_of_an_ordinary_request_opens_nothing(connect: Callable[..., Any]) -> None:
    with Emulator(script=[Reply("x")], sessions=True) as emulator:
        response = call(connect(emulator), SessionId="NEW_SESSION")
        response["Body"].read()

    assert "NewSessionId" not in response


@pytest.mark.parametrize(
    ("body", "members"), [(CHAT, {"SessionId": "x"}), ('{"requestType": "NEW_SESSION"}', {})]
)
def test_sessions_that_are_off_are_refused_as_vllm_does(
    connect: Callable[..., Any], body: str, members: dict[str, str]
) -> None:
    with (
        Emulator(sessions=False) as emulator,
        pytest.raises(ClientError, match="stateful sessions not enabled"),
    ):
        call(connect(emulator), body, **members)


def test_sessions_are_the_scripts_business_by_default(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(Reply("x"))

    response = call(runtime, SessionId="mine")

    assert b"x" in response["Body"].read()
    assert emulator.requests[0].headers["X-Amzn-SageMaker-Session-Id"] == "mine"


@pytest.mark.parametrize("body", ['{"requestType"', '{"messages": [{"requestType": 1}]}'])
def test_body_that_only_mentions_sessions_goes_to_the_model(
    connect: Callable[..., Any], body: str
) -> None:
    with Emulator(script=[JSONReply(b"model")], sessions=True) as emulator:
        assert call(connect(emulator), body)["Body"].read() == b"model"
