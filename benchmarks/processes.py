"""The other processes of a benchmark: the endpoint, many streams at once, and imports."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Run, Sample

ROOT = Path(__file__).parents[1]
_SERVER = Path(__file__).with_name("server.py")


@contextmanager
def endpoint() -> Iterator[str]:
    """Start the scripted endpoint and point AWS clients at it."""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        assert server.stdin
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        os.environ.update(
            AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME=url,
            AWS_REGION="us-east-1",
            AWS_DEFAULT_REGION="us-east-1",
            AWS_ACCESS_KEY_ID="AKIDEXAMPLE",
            AWS_SECRET_ACCESS_KEY="made-up",  # noqa: S106
            AWS_EC2_METADATA_DISABLED="true",
            # It would try to download a table of prices.
            LITELLM_LOCAL_MODEL_COST_MAP="True",
        )
        yield url
        server.stdin.close()


def ceiling(url: str, script: str, operation: str, seconds: float) -> float:
    """Return the requests per second that a reader of raw bytes gets over two connections."""
    body = b'{"messages":[]}'
    request = b"POST /endpoints/%b/%b HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (
        script.encode(),
        operation.encode(),
        len(body),
        body,
    )
    port = int(url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port)) as first,
        socket.create_connection(("127.0.0.1", port)) as second,
    ):
        size = _answer_size(first, request)
        connections = (first, second)
        count, began = 0, time.perf_counter()
        for connection in connections:
            connection.sendall(request)
        while time.perf_counter() - began < seconds:
            for connection in connections:
                left = size
                while left:
                    left -= len(connection.recv(min(left, 2**20)))
                connection.sendall(request)
                count += 1
        elapsed = time.perf_counter() - began
    return count / elapsed


def _answer_size(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request)
    received = b""
    while True:
        received += connection.recv(2**20)
        head, found, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        if received.endswith(b"0\r\n\r\n") or (found and length and len(body) == int(length[1])):
            return len(received)


class ManyStreams:
    """Many concurrent streams in a fresh process: their rate, memory and loop lag.

    Attributes:
        memory: Peak growth in MB of every round, by subject and number of streams.
        lag: Longest stall of the event loop in milliseconds, likewise.
    """

    def __init__(self, waves: int) -> None:
        self._waves = waves
        self.memory: dict[str, list[float]] = {}
        self.lag: dict[str, list[float]] = {}

    def run(self, subject: str, streams: int) -> Run:
        name = f"{subject} {streams}"

        def run() -> Sample:
            total = max(1, self._waves * 1000 // streams)
            found = _child("benchmarks.many_streams", subject, str(streams), str(total))
            self.memory.setdefault(name, []).append(found["memory"])
            self.lag.setdefault(name, []).append(found["lag"])
            return Sample(found["wall"], found["cpu"])

        return run


def import_time(module: str) -> Run:
    """Return how many milliseconds a fresh process takes to import a module."""
    code = (
        "import time; wall, cpu = time.perf_counter(), time.process_time(); "
        f"import {module}; import json; "
        "print(json.dumps({'wall': time.perf_counter() - wall, 'cpu': time.process_time() - cpu}))"
    )

    def run() -> Sample:
        found = json.loads(_output(["-c", code]))
        return Sample(found["wall"] * 1000, found["cpu"] * 1000)

    run()
    return run


def _child(module: str, *arguments: str) -> dict[str, float]:
    found: dict[str, float] = json.loads(_output(["-m", module, *arguments]))
    return found


def _output(arguments: list[str]) -> str:
    done = subprocess.run(  # noqa: S603
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
