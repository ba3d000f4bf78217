"""Stateful sessions of the container, by both clients."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sagemaker_vllm import (
    AsyncInferenceConfig,
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    ConnectionFailedError,
    InvalidRequestError,
    InvocationMetadata,
    InvocationOptions,
    SageMakerVLLMClient,
    StatefulSession,
)
from sagemaker_vllm._sessions import opened
from sagemaker_vllm.emulator import ContainerFault, Emulator, Reply
from tests.callers import CALLERS, QUESTION, Caller, run

HEADER = "X-Amzn-SageMaker-Session-Id"

every_caller = pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)


def in_session(
    caller: Caller, *, error: Exception | None = None, options: InvocationOptions | None = None
) -> StatefulSession:
    """Open a session, ask a plain and a streamed question in it, maybe fail, and leave."""

    def sync(client: SageMakerVLLMClient) -> StatefulSession:
        with client.session(options=options) as session:
            client.chat(QUESTION, options=session.options)
            list(client.stream_chat(QUESTION, options=session.options))
            if error:
                raise error
        return session

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> StatefulSession:
        async with client.session(options=options) as session:
            await client.chat(QUESTION, options=session.options)
            async with await client.stream_chat(QUESTION, options=session.options) as stream:
                [_ async for _ in stream]
            if error:
                raise error
        return session

    session: StatefulSession = run(caller, sync, asynchronous, max_retries=0)
    return session


@every_caller
def test_session_is_opened_used_and_closed(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")], sessions=True)

    session = in_session(caller, options=InvocationOptions(target_variant="blue"))

    opening, *asking, closing = emulator.requests
    assert opening.body == b'{"requestType":"NEW_SESSION"}'
    assert opening.headers[HEADER] == "NEW_SESSION"
    assert closing.body == b'{"requestType":"CLOSE"}'
    assert [each.headers[HEADER] for each in (*asking, closing)] == [session.session_id] * 3
    assert {each.headers["X-Amzn-SageMaker-Target-Variant"] for each in emulator.requests} == {
        "blue"
    }
    assert session.expires is not None
    assert session.expires > datetime.now(UTC)


@every_caller
def test_session_is_closed_when_the_block_fails(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")], sessions=True)

    with pytest.raises(ZeroDivisionError):
        in_session(caller, error=ZeroDivisionError())

    assert emulator.requests[-1].body == b'{"requestType":"CLOSE"}'


@every_caller
def test_container_with_sessions_off_says_so(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator([], sessions=False)

    with pytest.raises(
        InvalidRequestError, match=r"not enabled.*SAGEMAKER_ENABLE_STATEFUL_SESSIONS"
    ) as caught:
        in_session(caller)

    assert caught.value.message == str(caught.value)


@every_caller
@pytest.mark.parametrize(
    "reply",
    [
        Reply("What?"),
        ContainerFault(400, {"error": {"message": "Either prompt or prompt_embeds", "code": 400}}),
    ],
    ids=["answers", "refuses"],
)
def test_container_that_knows_no_sessions_is_named(
    caller: Caller, reply: Any, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator([reply])

    with pytest.raises(InvalidRequestError, match="SAGEMAKER_ENABLE_STATEFUL_SESSIONS"):
        in_session(caller)


@every_caller
def test_session_that_has_expired_counts_as_closed(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([], sessions=True)

    def sync(client: SageMakerVLLMClient) -> None:
        with client.session() as session:
            client._close_session(session)

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        async with client.session() as session:
            await client._close_session(session)

    run(caller, sync, asynchronous)

    kinds = [each.json["requestType"] for each in emulator.requests]
    assert kinds == ["NEW_SESSION", "CLOSE", "CLOSE"]


@every_caller
@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["alone", "after-another"])
def test_failed_closing_is_told_unless_it_hides_another_error(
    caller: Caller, error: Exception | None, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([], sessions=True)

    def sync(client: SageMakerVLLMClient) -> None:
        with client.session():
            emulator.stop()
            if error:
                raise error

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        async with client.session():
            emulator.stop()
            if error:
                raise error

    with pytest.raises(type(error) if error else ConnectionFailedError):
        run(caller, sync, asynchronous, max_retries=0)


@every_caller
def test_asynchronous_inference_takes_no_session(caller: Caller) -> None:
    config = AsyncInferenceConfig("s3://bucket/in")

    def sync(client: SageMakerVLLMClient) -> None:
        with client.session():
            pass

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        async with client.session():
            pass

    with pytest.raises(ConfigurationError, match="async_inference"):
        run(caller, sync, asynchronous, endpoint_name="any", async_inference=config)


@pytest.mark.parametrize("told", [None, "soon"])
def test_expiry_that_cannot_be_read_is_unknown(told: str | None) -> None:
    metadata = InvocationMetadata(new_session_id="id", session_expires=told)

    assert opened(InvocationOptions(), metadata).expires is None
