"""The `Emulator`: a local SageMaker Runtime in a thread of this process."""

import asyncio
import os
import random
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm.emulator._container import Container
from sagemaker_vllm.emulator._parts import Splitter, as_splitter
from sagemaker_vllm.emulator._replies import AnyReply
from sagemaker_vllm.emulator._requests import RecordedRequest
from sagemaker_vllm.emulator._script import Responder, ScriptedContainer

if TYPE_CHECKING:
    from sagemaker_vllm.emulator._service import Service

# Where this machine finds a server that listens on every address.
_REACHABLE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - no binding


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    stopped: asyncio.Event
    service: "Service"
    port: int


class Emulator:
    """A local SageMaker Runtime with one endpoint, for development and tests.

    Real HTTP on loopback, all three operations, SageMaker's headers, framing and errors; it runs
    in a thread of this process, from `start` to `stop` or as a context manager.

    Example:
        ```python
        import boto3
        from sagemaker_vllm.emulator import Emulator, Reply

        with Emulator(script=[Reply("Hello!")]) as emulator:
            runtime = boto3.client(
                "sagemaker-runtime",
                endpoint_url=emulator.url,
                region_name="us-east-1",
                aws_access_key_id="emulated",
                aws_secret_access_key="emulated",
            )
            answer = runtime.invoke_endpoint(
                EndpointName=emulator.endpoint_name,
                ContentType="application/json",
                Body=b'{"messages": [{"role": "user", "content": "Hi"}]}',
            )
            assert b"Hello!" in answer["Body"].read()
            runtime.close()
        ```

    Args:
        script: Replies, answered one after the other, or a function (`async` or not) of the
            `RecordedRequest` that gives one. It runs on the emulator's event loop, so it must not
            block. The default is an empty queue, to be filled with `enqueue`.
        upstream: URL of a vLLM or OpenAI-compatible server that answers instead.
        gguf: Path of a GGUF file that llama.cpp answers with, in this process; needs the extra
            `sagemaker-vllm[demo]`.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        endpoint_name: Name of the endpoint; every other one is not found.
        part_size: How response streams are cut into parts: bytes a part, a `random.Random`, or a
            splitter such as `random_parts(seed=1)`. Default: as the container sends.
        sessions: Whether the container keeps stateful sessions, or refuses them as vLLM does by
            default. `None` leaves session headers to the script or upstream.
        async_output: Where answers of InvokeEndpointAsync are written, `s3://bucket/prefix`.
        s3_endpoint_url: An S3 other than AWS's, reached with made-up keys.
        invocation_timeout: Seconds the container has to answer.

    Raises:
        ConfigurationError: More than one backend, or a bad value.

    Attributes:
        requests: Every request that came, refused ones included.
        endpoint_name: Name of the endpoint.
    """

    def __init__(
        self,
        *,
        script: Iterable[AnyReply] | Responder | None = None,
        upstream: str | None = None,
        gguf: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        endpoint_name: str = "emulated",
        part_size: int | random.Random | Splitter | None = None,
        sessions: bool | None = None,
        async_output: str | None = None,
        s3_endpoint_url: str | None = None,
        invocation_timeout: float = 60.0,
    ) -> None:
        if [script, upstream, gguf].count(None) < 2:
            raise ConfigurationError("give one of script, upstream and gguf, not several")
        self.requests: list[RecordedRequest] = []
        self.endpoint_name = endpoint_name
        self._host = host
        self._port = port
        self._splitter = as_splitter(part_size)
        self._sessions = sessions
        self._async_output = async_output
        self._s3_endpoint_url = s3_endpoint_url
        self._invocation_timeout = invocation_timeout
        self._upstream = upstream
        self._gguf = gguf
        self._script = ScriptedContainer(script or ())
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None

    @property
    def url(self) -> str:
        """Base URL, for `endpoint_url` and `AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME`."""
        port = self._port if self._running is None else self._running.port
        host = _REACHABLE.get(self._host, self._host)
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def open_streams(self) -> int:
        """Number of response streams that are being written now."""
        return 0 if self._running is None else self._running.service.open_streams

    def environment(self) -> dict[str, str]:
        """Give the environment variables that lead an AWS client here, with made-up keys."""
        return {
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self.url,
            "SAGEMAKER_ENDPOINT_NAME": self.endpoint_name,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "emulated",
            "AWS_SECRET_ACCESS_KEY": "emulated",
        }

    def enqueue(self, *replies: AnyReply) -> None:
        """Add replies to the end of the script's queue.

        Raises:
            ConfigurationError: The emulator does not answer from a queue, or something is no reply.
        """
        if self._upstream is not None or self._gguf is not None:
            raise ConfigurationError("an emulator with upstream or gguf takes no scripted replies")
        self._script.enqueue(*replies)

    def start(self) -> Self:
        """Start serving; returns when requests are taken.

        Raises:
            ConfigurationError: It runs already, or the extra or file of the model is missing.
            OSError: The port is taken.
        """
        if self._thread is not None:
            raise ConfigurationError("this emulator is already started; stop it first")
        ready: Future[_Running] = Future()
        thread = threading.Thread(
            target=self._run,
            args=(ready,),
            name="sagemaker-vllm-emulator",
            daemon=True,
        )
        thread.start()
        try:
            self._running = ready.result()
        except Exception:  # whatever kept the thread from serving; raised again
            thread.join()
            raise
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stop serving and free everything; open streams are cut."""
        if self._thread is None or self._running is None:
            return
        self._running.loop.call_soon_threadsafe(self._running.stopped.set)
        self._thread.join()
        self._thread = self._running = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, ready: Future[_Running]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: Future[_Running]) -> None:
        from sagemaker_vllm.emulator._service import Service, listening

        service = Service(
            self._make_container(),
            endpoint_name=self.endpoint_name,
            splitter=self._splitter,
            invocation_timeout=self._invocation_timeout,
            async_output=self._async_output,
            s3_endpoint_url=self._s3_endpoint_url,
            requests=self.requests,
        )
        stopped = asyncio.Event()
        async with listening(service, self._host, self._port) as port:
            ready.set_result(_Running(asyncio.get_running_loop(), stopped, service, port))
            await stopped.wait()

    def _make_container(self) -> Container:
        container: Container = self._script
        if self._upstream is not None:
            from sagemaker_vllm.emulator._upstream import UpstreamContainer

            container = UpstreamContainer(self._upstream)
        if self._gguf is not None:
            from sagemaker_vllm.emulator._gguf import GGUFContainer

            container = GGUFContainer(self._gguf)
        if self._sessions is not None:
            from sagemaker_vllm.emulator._sessions import SessionContainer

            container = SessionContainer(container, is_enabled=self._sessions)
        return container
