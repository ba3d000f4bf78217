"""Starting and stopping: what is freed, and what is said when it does not work."""

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import Emulator, Hang, Reply, StreamReply


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def invoke(runtime: Any, operation: str = "invoke_endpoint") -> Any:
    return getattr(runtime, operation)(
        EndpointName="emulated", ContentType="application/json", Body=b'{"messages": []}'
    )


@pytest.mark.skipif(sys.platform != "linux", reason="lists the files of a Linux process")
def test_stop_leaves_no_thread_socket_or_file(connect: Callable[..., Any]) -> None:
    with Emulator() as warmed_up:
        warmed_up.enqueue(Reply("x"))
        invoke(connect(warmed_up))["Body"].read()
    gc.collect()
    before = open_files(), threading.active_count()

    for _ in range(3):
        with Emulator(script=[Reply("x")]) as emulator:
            runtime = connect(emulator)
            invoke(runtime)["Body"].read()
            runtime.close()
    gc.collect()

    assert (open_files(), threading.active_count()) == before


def test_stop_cuts_streams_and_frees_what_waits(connect: Callable[..., Any]) -> None:
    ended = threading.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    emulator = Emulator(script=[StreamReply(endless())]).start()
    stream = invoke(connect(emulator), "invoke_endpoint_with_response_stream")["Body"]
    with closing(stream):
        next(iter(stream))
        emulator.stop()

    assert ended.is_set()
    assert emulator.open_streams == 0


def test_stop_does_not_wait_for_a_container_that_hangs(connect: Callable[..., Any]) -> None:
    emulator = Emulator(script=[Hang(3600)]).start()
    failed = threading.Event()

    def wait_for_answer() -> None:
        try:
            invoke(connect(emulator, read_timeout=30))
        except Exception:  # noqa: BLE001 - any failure will do: the connection is gone
            failed.set()

    waiting = threading.Thread(target=wait_for_answer)
    waiting.start()
    while not emulator.requests:
        pass
    emulator.stop()
    waiting.join()

    assert failed.is_set()


def test_busy_port_is_an_error_in_the_thread_that_starts() -> None:
    before = threading.active_count()

    with Emulator() as emulator:
        port = int(emulator.url.rpartition(":")[2])
        with pytest.raises(OSError, match="address already in use"):
            Emulator(port=port).start()

    assert threading.active_count() == before


def test_emulator_can_be_started_again(connect: Callable[..., Any]) -> None:
    emulator = Emulator(script=[Reply("one"), Reply("two")])

    with emulator:
        first = invoke(connect(emulator))["Body"].read()
    with emulator:
        second = invoke(connect(emulator))["Body"].read()

    assert b"one" in first
    assert b"two" in second


def test_started_emulator_cannot_be_started(emulator: Emulator) -> None:
    with pytest.raises(ConfigurationError, match="already started"):
        emulator.start()


def test_stop_may_be_called_again() -> None:
    emulator = Emulator().start()

    emulator.stop()
    emulator.stop()

    assert emulator.open_streams == 0


def test_port_may_be_chosen() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with Emulator(port=port) as emulator:
        assert emulator.url == f"http://127.0.0.1:{port}"


def test_environment_leads_any_client_there(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    emulator.enqueue(Reply("x"))
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)

    with closing(boto3.Session().client("sagemaker-runtime")) as runtime:
        body = invoke(runtime)["Body"].read()

    assert b'"content":"x"' in body
    assert os.environ["SAGEMAKER_ENDPOINT_NAME"] == emulator.endpoint_name


@pytest.mark.parametrize(
    "backends",
    [
        {"script": [], "upstream": "http://127.0.0.1:1"},
        {"upstream": "http://127.0.0.1:1", "gguf": "model.gguf"},
    ],
)
def test_several_backends_are_refused(backends: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="one of script, upstream and gguf"):
        Emulator(**backends)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"upstream": "127.0.0.1:8000"}, "upstream='127.0.0.1:8000' is not a URL"),
        ({"gguf": "/no/such/model.gguf"}, "gguf='/no/such/model.gguf' is not a file"),
        ({"gguf": __file__}, "llama.cpp cannot load"),
        ({"async_output": "bucket/prefix"}, "async_output='bucket/prefix'"),
    ],
)
def test_bad_setting_stops_the_start_and_leaves_no_thread(
    settings: dict[str, Any], words: str
) -> None:
    before = threading.active_count()

    with pytest.raises(ConfigurationError, match=words):
        Emulator(**settings).start()

    assert threading.active_count() == before


def test_emulator_is_imported_without_server_client_and_frameworks() -> None:
    code = (
        "import sys, sagemaker_vllm.emulator\n"
        "heavy = {'aiohttp', 'boto3', 'botocore', 'xllamacpp', 'pydantic', 'pytest'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )

    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )

    assert run.stdout.strip() == ""


def test_interpreter_ends_quietly_with_an_emulator_left_running() -> None:
    code = "from sagemaker_vllm.emulator import Emulator; print(Emulator().start().url)"

    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )

    assert run.stdout.startswith("http://127.0.0.1:")
    assert "Traceback" not in run.stderr
