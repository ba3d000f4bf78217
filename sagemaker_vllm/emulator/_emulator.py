"""The `Emulator`: a local SageMaker Runtime in a thread of this process."""

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm.emulator._parts import Splitter, as_splitter
from sagemaker_vllm.emulator._replies import AnyReply
from sagemaker_vllm.emulator._requests import RecordedRequest
from sagemaker_vllm.emulator._script import Responder, ScriptedContainer

if TYPE_CHECKING:
    import random

    from sagemaker_vllm.emulator._service import Service


class Emulator:
    """A local SageMaker Runtime with one endpoint, for development and tests."""

    def __init__(
        self,
        *,
        script: Iterable[AnyReply] | Responder = (),
        host: str = "127.0.0.1",
        port: int = 0,
        endpoint_name: str = "emulated",
        part_size: "int | random.Random | Splitter | None" = None,
        invocation_timeout: float = 60.0,
    ) -> None:
        self.host = host
        self.port = port
        self.endpoint_name = endpoint_name
        self.requests: list[RecordedRequest] = []
        self._splitter = as_splitter(part_size)
        self._invocation_timeout = invocation_timeout
        self._script = ScriptedContainer(script)
        self._thread: threading.Thread | None = None
        self._service: Service | None = None

    @property
    def url(self) -> str:
        """Base URL, for `endpoint_url` and `AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME`."""
        return f"http://{self.host}:{self.port}"

    @property
    def open_streams(self) -> int:
        """Number of response streams that are being written now."""
        return 0 if self._service is None else self._service.open_streams

    def environment(self) -> dict[str, str]:
        """Give the environment variables that lead any AWS client here, with made-up keys."""
        return {
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": self.url,
            "SAGEMAKER_ENDPOINT_NAME": self.endpoint_name,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "emulated",
            "AWS_SECRET_ACCESS_KEY": "emulated",
        }

    def enqueue(self, *replies: AnyReply) -> None:
        """Add replies to the end of the script's queue."""
        self._script.enqueue(*replies)

    def start(self) -> Self:
        """Start serving; returns when requests are taken."""
        if self._thread is not None:
            raise ConfigurationError("this emulator is already started")
        ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]] = Future()
        thread = threading.Thread(
            target=self._run,
            args=(ready,),
            name="sagemaker-vllm-emulator",
            daemon=True,
        )
        thread.start()
        try:
            self._loop, self._stopped, self.port = ready.result()
        except BaseException:
            thread.join()
            raise
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stop serving and free everything; open streams are cut."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self, ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]]") -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            ready.set_exception(error)

    async def _serve(
        self,
        ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, int]]",
    ) -> None:
        from sagemaker_vllm.emulator._service import Service, listening

        stopped = asyncio.Event()
        self._service = Service(
            container=self._script,
            endpoint_name=self.endpoint_name,
            splitter=self._splitter,
            invocation_timeout=self._invocation_timeout,
            requests=self.requests,
        )
        async with listening(self._service, self.host, self.port) as port:
            ready.set_result((asyncio.get_running_loop(), stopped, port))
            await stopped.wait()
