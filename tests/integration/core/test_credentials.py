"""Credentials that change, expire or are missing, from a real source: a profile's own process."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    AuthenticationError,
    Completion,
    SageMakerVLLMClient,
)
from sagemaker_vllm.emulator import Emulator, Reply, ServiceFault
from tests.callers import CALLERS, QUESTION, Caller, Mode, run

both_clients = pytest.mark.parametrize("caller", CALLERS[:2], ids=lambda caller: caller.name)

# Prints the next of some answers; waits for a file first, when there is one to wait for.
SOURCE = """
import json, os, sys, time
folder = sys.argv[1]
for _ in range(2000):
    if not os.path.exists(folder + "/wait") or os.path.exists(folder + "/go"):
        break
    time.sleep(0.005)
else:
    sys.exit("nobody let me go")
answers = json.load(open(folder + "/answers.json"))
print(json.dumps(answers.pop(0)))
json.dump(answers, open(folder + "/answers.json", "w"))
"""


def keys(number: int, *, minutes: float) -> dict[str, Any]:
    """Make temporary credentials that expire in so many minutes."""
    expiry = datetime.now(UTC) + timedelta(minutes=minutes)
    return {
        "Version": 1,
        "AccessKeyId": f"KEY{number}",
        "SecretAccessKey": "made-up",
        "SessionToken": f"token-{number}",
        "Expiration": expiry.isoformat(),
    }


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make a process the only source of credentials, with these answers."""

    def give(*answers: Any) -> Path:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        (tmp_path / "source.py").write_text(SOURCE)
        command = f"{sys.executable} -S {tmp_path}/source.py {tmp_path}"
        (tmp_path / "config").write_text(f"[default]\ncredential_process = {command}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        return tmp_path

    return give


def twice(caller: Caller) -> None:
    """Make two calls with one client."""

    def sync(client: SageMakerVLLMClient) -> None:
        for _ in range(2):
            client.chat(QUESTION)

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        for _ in range(2):
            await client.chat(QUESTION)

    run(caller, sync, asynchronous, max_retries=0)


def used(emulator: Emulator) -> list[tuple[str, str | None]]:
    return [
        (
            each.headers["Authorization"].partition("Credential=")[2].partition("/")[0],
            each.headers.get("X-Amz-Security-Token"),
        )
        for each in emulator.requests
    ]


@both_clients
def test_expiring_credentials_are_refreshed_between_calls(
    caller: Caller, start_emulator: Callable[..., Emulator], give: Callable[..., Path]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")])
    # botocore refreshes what has less than ten minutes left.
    give(keys(1, minutes=60), keys(2, minutes=60))

    def expire(credentials: Any) -> None:
        credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=1)

    def sync(client: SageMakerVLLMClient) -> None:
        client.chat(QUESTION)
        expire(client._transport.client._get_credentials())
        client.chat(QUESTION)

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        await client.chat(QUESTION)
        expire(client._transport._protocol._loaded.get().credentials)  # type: ignore[union-attr]
        await client.chat(QUESTION)

    run(caller, sync, asynchronous)

    assert used(emulator) == [("KEY1", "token-1"), ("KEY2", "token-2")]


@both_clients
def test_credentials_that_last_are_asked_for_once(
    caller: Caller, start_emulator: Callable[..., Emulator], give: Callable[..., Path]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")])
    folder = give(keys(1, minutes=60))

    twice(caller)

    assert used(emulator) == [("KEY1", "token-1")] * 2
    assert json.loads((folder / "answers.json").read_text()) == []


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "refresh"])
def test_event_loop_is_free_while_credentials_are_fetched(
    is_first: bool, start_emulator: Callable[..., Emulator], give: Callable[..., Path]
) -> None:
    """The source waits for something that only a free loop does."""
    start_emulator([Reply("a"), Reply("b")])
    folder = give(keys(1, minutes=60), keys(2, minutes=60))

    async def main() -> Completion:
        async with AsyncSageMakerVLLMClient() as client:
            if not is_first:
                await client.chat(QUESTION)
                credentials: Any = client._transport._protocol._loaded.get().credentials  # type: ignore[union-attr]
                credentials._expiry_time = datetime.now(UTC) + timedelta(minutes=1)
            (folder / "wait").touch()
            call = asyncio.create_task(client.chat(QUESTION))
            await asyncio.sleep(0.01)
            (folder / "go").touch()
            return await call

    assert asyncio.run(main()).text == ("a" if is_first else "b")


@both_clients
@pytest.mark.parametrize("mode", ["chat", "stream_chat"])
@pytest.mark.parametrize(
    "answers",
    [[], [{"Version": 1}], [keys(1, minutes=-1), keys(1, minutes=-1)]],
    ids=["fails", "incomplete", "stale"],
)
def test_source_that_gives_nothing_usable_is_an_authentication_error(
    caller: Caller,
    mode: Mode,
    answers: list[Any],
    start_emulator: Callable[..., Emulator],
    give: Callable[..., Path],
) -> None:
    emulator = start_emulator([])
    give(*answers)

    with pytest.raises(AuthenticationError, match="No usable AWS credentials") as caught:
        caller.call(mode)

    assert caught.value.endpoint_name == "emulated"
    assert not caught.value.is_retryable
    assert emulator.requests == []


@both_clients
@pytest.mark.parametrize("mode", ["chat", "stream_chat"])
def test_missing_credentials_say_so_and_are_looked_for_again(
    caller: Caller,
    mode: Mode,
    start_emulator: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulator = start_emulator([Reply("x")])
    keep = {name: emulator.environment()[name] for name in emulator.environment() if "KEY" in name}
    for name in keep:
        monkeypatch.delenv(name)

    def found() -> None:
        for name, value in keep.items():
            monkeypatch.setenv(name, value)

    def sync(client: SageMakerVLLMClient) -> str:
        with pytest.raises(AuthenticationError) as caught:
            getattr(client, mode)(QUESTION)
        assert caught.value.error_code == "NoCredentialsError"
        found()
        return client.chat(QUESTION).text

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> str:
        with pytest.raises(AuthenticationError) as caught:
            await getattr(client, mode)(QUESTION)
        assert caught.value.error_code == "NoCredentialsError"
        found()
        return (await client.chat(QUESTION)).text

    assert run(caller, sync, asynchronous) == "x"
    assert len(emulator.requests) == 1


@both_clients
@pytest.mark.parametrize("mode", ["chat", "stream_chat"])
@pytest.mark.parametrize(
    "code", ["ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException"]
)
def test_refused_credentials_are_an_authentication_error_and_not_repeated(
    caller: Caller, mode: Mode, code: str, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([ServiceFault(code, 403, "The security token is expired")])

    with pytest.raises(AuthenticationError, match="refresh an expired session") as caught:
        caller.call(mode)

    assert (caught.value.error_code, caught.value.status_code) == (code, 403)
    assert len(emulator.requests) == 1


async def test_many_calls_at_a_refresh_share_it(
    start_emulator: Callable[..., Emulator], give: Callable[..., Path]
) -> None:
    emulator = start_emulator([Reply(str(number)) for number in range(20)])
    folder = give(keys(1, minutes=60))
    (folder / "wait").touch()

    async with AsyncSageMakerVLLMClient() as client:
        calls = [asyncio.create_task(client.chat(QUESTION)) for _ in range(20)]
        await asyncio.sleep(0.01)
        (folder / "go").touch()
        await asyncio.gather(*calls)

    assert used(emulator) == [("KEY1", "token-1")] * 20
