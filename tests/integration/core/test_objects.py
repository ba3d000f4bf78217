"""Clients are objects to hold: shared, copied, pickled, forked, left open, dropped."""

import asyncio
import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import boto3.session
import pytest

from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    SageMakerVLLMClient,
    chat_request,
)
from sagemaker_vllm.emulator import Emulator, RecordedRequest, Reply
from tests.callers import CALLERS, QUESTION, Caller, boto3_client, run, until

THREE = [CALLERS[0], CALLERS[1], CALLERS[3]]
every_caller = pytest.mark.parametrize("caller", THREE, ids=lambda caller: caller.name)
both_clients = pytest.mark.parametrize("caller", CALLERS[:2], ids=lambda caller: caller.name)


def echo(request: RecordedRequest) -> Reply:
    """Answer with the question, in a hundred slow pieces when streamed."""
    question = request.json["messages"][0]["content"]
    if question == "slow":
        return Reply(chunks=[" word"] * 1000, delay=0.01)
    return Reply(question)


def make(caller: Caller) -> Any:
    """Make one of the two clients."""
    return AsyncSageMakerVLLMClient() if caller.is_async else SageMakerVLLMClient()


def ask(client: Any, question: str) -> str:
    """Ask with either client."""
    answer = client.chat(chat_request([{"role": "user", "content": question}]))
    completion = asyncio.run(answer) if asyncio.iscoroutine(answer) else answer
    text: str = completion.text
    return text


# Copies


@both_clients
@pytest.mark.parametrize("is_used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],  # noqa: S301
    ids=["copy", "deepcopy", "pickle"],
)
def test_copy_calls_by_itself(
    caller: Caller, is_used: bool, duplicate: Any, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator(echo)
    client = make(caller)
    if is_used:
        ask(client, "first")

    copied = duplicate(client)

    assert ask(copied, "mine") == "mine"
    assert ask(client, "yours") == "yours"
    assert copied._transport is not client._transport
    for each in (client, copied):
        if not caller.is_async:
            each.close()


def test_given_client_is_shared_by_a_deep_copy(start_emulator: Callable[..., Emulator]) -> None:
    start_emulator(echo)
    given = boto3_client()
    client = SageMakerVLLMClient(client=given)

    assert ask(copy.deepcopy(client), "mine") == "mine"
    with pytest.raises(ConfigurationError, match="let every process build its own"):
        pickle.dumps(client)
    given.close()


@both_clients
def test_client_goes_to_other_processes(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator(echo)
    client = make(caller)
    ask(client, "first")
    context = multiprocessing.get_context("spawn")

    with ProcessPoolExecutor(2, context) as pool:
        answers = list(pool.map(ask, [client, client], ["one", "two"]))

    assert answers == ["one", "two"]
    if not caller.is_async:
        client.close()


# Threads and loops


def test_threads_build_one_boto3_client_and_fill_its_pool(
    start_emulator: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start_emulator(echo)
    built: list[object] = []
    real = boto3.session.Session.client

    def count(*arguments: Any, **keywords: Any) -> Any:
        built.append(arguments)
        return real(*arguments, **keywords)

    monkeypatch.setattr(boto3.session.Session, "client", count)
    barrier = threading.Barrier(50)

    def call(number: int) -> str:
        barrier.wait()
        return ask(client, str(number))

    with SageMakerVLLMClient() as client, ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(call, range(50)))

    assert answers == [str(number) for number in range(50)]
    assert len(built) == 1
    assert "pool is full" not in caplog.text


@pytest.mark.parametrize("caller", [CALLERS[1], CALLERS[3]], ids=lambda caller: caller.name)
def test_loops_of_many_threads_share_one_client(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator(echo)
    given = None if caller.owns_boto3 else boto3_client()
    client = AsyncSageMakerVLLMClient(client=given)
    barrier = threading.Barrier(8)

    def call(number: int) -> list[str]:
        async def many() -> list[str]:
            requests = [
                chat_request([{"role": "user", "content": f"{number}-{each}"}]) for each in range(5)
            ]
            return [each.text for each in await asyncio.gather(*map(client.chat, requests))]

        barrier.wait()
        return asyncio.run(many())

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(call, range(8)))

    assert answers == [[f"{number}-{each}" for each in range(5)] for number in range(8)]
    asyncio.run(client.aclose())
    if given is not None:
        given.close()


def test_sessions_of_closed_loops_are_forgotten(start_emulator: Callable[..., Emulator]) -> None:
    start_emulator(echo)
    client = AsyncSageMakerVLLMClient()

    for number in range(5):
        assert ask(client, str(number)) == str(number)

    transport: Any = client._transport
    assert len(transport._sessions) == 1


# Leaving early


SLOW = chat_request([{"role": "user", "content": "slow"}])


def leave(client: SageMakerVLLMClient, way: str) -> None:
    """Read one chunk of a long answer, then leave it."""
    stream = client.stream_chat(SLOW)
    if way == "drop":
        next(stream)
    elif way == "close":
        next(stream)
        stream.close()
    else:
        with suppress(ZeroDivisionError), stream:
            for _ in stream:
                if way == "error":
                    raise ZeroDivisionError
                break


async def leave_async(client: AsyncSageMakerVLLMClient, way: str) -> None:
    """Do the same."""
    stream = await client.stream_chat(SLOW)
    if way == "drop":
        await anext(stream)
    elif way == "close":
        await anext(stream)
        await stream.aclose()
    else:
        with suppress(ZeroDivisionError):
            async with stream:
                async for _ in stream:
                    if way == "error":
                        raise ZeroDivisionError
                    break


@every_caller
@pytest.mark.parametrize("way", ["break", "close", "error", "drop"])
def test_stream_that_is_left_early_frees_its_connection(
    caller: Caller, way: str, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator(echo)

    def sync(client: SageMakerVLLMClient) -> None:
        leave(client, way)
        gc.collect()
        asyncio.run(until(lambda: emulator.open_streams == 0))

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        await leave_async(client, way)
        gc.collect()
        await until(lambda: emulator.open_streams == 0)

    run(caller, sync, asynchronous)


@pytest.mark.parametrize("caller", [CALLERS[1], CALLERS[3]], ids=lambda caller: caller.name)
@pytest.mark.parametrize("moment", ["opening", "reading"])
def test_cancelled_task_frees_its_connection(
    caller: Caller, moment: str, start_emulator: Callable[..., Emulator]
) -> None:
    release = threading.Event()

    async def script(request: RecordedRequest) -> Reply:
        await until(lambda: moment == "reading" or release.is_set())
        return Reply(chunks=[" word"] * 1000, delay=0.01)

    emulator = start_emulator(script)

    async def asynchronous(client: AsyncSageMakerVLLMClient) -> None:
        async def read() -> None:
            async with await client.stream_chat(QUESTION) as stream:
                async for _ in stream:
                    started.set()

        started = asyncio.Event()
        task = asyncio.create_task(read())
        if moment == "reading":
            await started.wait()
        else:
            await until(lambda: emulator.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        await until(lambda: emulator.open_streams == 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(caller, lambda _: None, asynchronous)


# Processes that end, fork or never close


def run_script(code: str) -> str:
    """Run a script with every warning an error; it must be silent but for what it prints."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", PREAMBLE + code]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


PREAMBLE = """
import asyncio, logging, os, sys
# A slow machine makes slow steps of the loop.
logging.getLogger("asyncio").setLevel(logging.ERROR)
from sagemaker_vllm import AsyncSageMakerVLLMClient, SageMakerVLLMClient, chat_request
def question(text):
    return chat_request([{"role": "user", "content": text}])
async def first_chunk(client):
    async for chunk in await client.stream_chat(question("slow")):
        return chunk
"""


SCRIPTS = {
    "sync": """
client = SageMakerVLLMClient()
print(client.chat(question("hi")).text)
""",
    "sync-dropped": """
print(SageMakerVLLMClient().chat(question("hi")).text)
""",
    "sync-stream-open": """
client = SageMakerVLLMClient()
stream = client.stream_chat(question("slow"))
next(stream)
print("hi")
""",
    "async-twice": """
client = AsyncSageMakerVLLMClient()
for _ in range(2):
    answer = asyncio.run(client.chat(question("hi")))
print(answer.text)
""",
    "async-dropped": """
print(asyncio.run(AsyncSageMakerVLLMClient().chat(question("hi"))).text)
""",
    "async-stream-open-twice": """
client = AsyncSageMakerVLLMClient()
for _ in range(2):
    asyncio.run(first_chunk(client))
print("hi")
""",
    "async-stream-dropped": """
asyncio.run(first_chunk(AsyncSageMakerVLLMClient()))
print("hi")
""",
    "async-given-boto3": """
import boto3
client = AsyncSageMakerVLLMClient(client=boto3.client("sagemaker-runtime"))
asyncio.run(first_chunk(client))
print(asyncio.run(client.chat(question("hi"))).text)
""",
    "async-inference": """
from sagemaker_vllm import AsyncInferenceConfig, AsyncInferenceError
config = AsyncInferenceConfig("s3://bucket/in", s3_endpoint_url="http://127.0.0.1:9")
client = AsyncSageMakerVLLMClient(async_inference=config, max_retries=0)
try:
    asyncio.run(client.chat(question("x" * 200_000)))
except AsyncInferenceError:
    print("hi")
""",
}


@pytest.mark.parametrize("code", SCRIPTS.values(), ids=SCRIPTS)
def test_process_ends_in_silence_whatever_was_left_open(
    code: str, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator(echo)

    assert run_script(code) == "hi\n"

    asyncio.run(until(lambda: emulator.open_streams == 0))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_forked_process_connects_by_itself(
    is_async: bool, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator(echo)
    made = "AsyncSageMakerVLLMClient()" if is_async else "SageMakerVLLMClient()"
    call = "asyncio.run(client.chat(question(text)))" if is_async else "client.chat(question(text))"

    printed = run_script(f"""
client = {made}
def ask(text):
    print({call}.text, flush=True)
ask("before")
child = os.fork()
if child == 0:
    ask("child")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
ask("after")
""")

    assert printed == "before\nchild\nafter\n"


def test_lock_held_by_another_thread_at_a_fork_does_not_block_the_child(
    start_emulator: Callable[..., Emulator],
) -> None:
    start_emulator(echo)

    printed = run_script("""
import threading
client = SageMakerVLLMClient()
own = client._transport._own
building, forked = threading.Event(), threading.Event()
make = own._make
def slow():
    building.set()
    forked.wait()
    return make()
own._make = slow
thread = threading.Thread(target=lambda: client.chat(question("parent")))
thread.start()
building.wait()
child = os.fork()
if child == 0:
    own._make = make
    print(client.chat(question("child")).text, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
forked.set()
thread.join()
""")

    assert printed == "child\n"
