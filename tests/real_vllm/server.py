"""One `vllm serve` process on this machine."""

import contextlib
import ctypes
import http.client
import os
import shlex
import signal
import socket
import subprocess
import time
from types import TracebackType
from typing import Literal, Self

from tests.real_vllm.install import CACHE, MODELS, VENV

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    # Tests keep the second core busy; two spinning threads would then starve each other.
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # The worker lives in the engine's process: one import of torch less.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
COMMAND = shlex.split("""
    --served-model-name /opt/ml/model --host 127.0.0.1
    --dtype bfloat16 --max-model-len 2048 --max-num-seqs 16 --enforce-eager
""")
# What the server of the model with eyes can do besides; the text server is there to refuse.
ALL = shlex.split("""
    --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser deepseek_v3
    --reasoning-config '{"reasoning_start_str": "<think>", "reasoning_end_str": "</think>"}'
""")
LONGEST_START = 300.0
LONGEST_STOP = 30.0
SHOWN = 40
PR_SET_PDEATHSIG = 1
# Found now: between fork and exec a lock that another thread held would never be free again.
_prctl = ctypes.CDLL(None).prctl


class ServerError(Exception):
    """The server did not start; the message holds the end of its log."""


class VLLMServer:
    """A vLLM server, started at once and waited for when it is needed.

    Attributes:
        url: Base URL.
        log: Path of its output.
    """

    def __init__(self, model: Literal["all", "text"], *, name: str | None = None) -> None:
        """Choose the model: `all` has eyes, tools and reasoning, `text` refuses all three.

        `name` is the log's, where a model has several servers.
        """
        self.log = CACHE / f"server-{name or model}.log"
        self._port = _free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        flags = [*COMMAND, "--port", str(self._port), *(ALL if model == "all" else [])]
        self._command = [str(VENV / "bin" / "vllm"), "serve", str(MODELS / model), *flags]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start; the server takes requests after `wait`."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**_inherited(), **ENVIRONMENT},
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509  # it takes no lock
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop, and see that no child stays."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(LONGEST_STOP)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def pid(self) -> int:
        """Id of the process that answers requests."""
        assert self._process is not None
        return self._process.pid

    def wait(self) -> None:
        """Return when the server takes requests.

        Raises:
            ServerError: It ended, or did not become ready.
        """
        assert self._process is not None
        deadline = time.monotonic() + LONGEST_START
        while not self._answers():
            if self._process.poll() is not None:
                raise ServerError(f"vLLM ended with {self._process.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerError(f"vLLM was not ready in {LONGEST_START} s\n{self.tail()}")
            time.sleep(0.2)

    def tail(self, start: int = 0) -> str:
        """Return the last lines of the log that were written after byte `start`."""
        with self.log.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join([f"{self.log}:", *lines[-SHOWN:]])

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/ping")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()


def _inherited() -> dict[str, str]:
    # Foreign settings of vLLM or Python would make another server than the one that is tested.
    foreign = ("VLLM_", "PYTHON", "AWS_", "SAGEMAKER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def _end_with_parent() -> None:
    """Have Linux end this process when a killed test session could not."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
