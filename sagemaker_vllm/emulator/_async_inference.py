"""InvokeEndpointAsync: takes a request now, answers it later into S3."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm.emulator._faults import Origin, ServiceFaultError, validation_error
from sagemaker_vllm.emulator._requests import RecordedRequest

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

_logger = logging.getLogger(__name__)

_PREFIX = "X-Amzn-SageMaker-"
_DEFAULT_TIMEOUT = 900.0

Invoke = Callable[[RecordedRequest, Origin, float], Awaitable[bytes]]
"""Asks the container and gives the whole body, within so many seconds."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What the caller is told at once."""

    inference_id: str
    output_location: str
    failure_location: str

    def headers(self) -> dict[str, str]:
        return {
            f"{_PREFIX}OutputLocation": self.output_location,
            f"{_PREFIX}FailureLocation": self.failure_location,
        }


class AsyncInference:
    """Runs asynchronous invocations as tasks; S3 is reached from worker threads.

    Args:
        output: Where answers are written, `s3://bucket/prefix`.
        s3_endpoint_url: An S3 other than AWS's; made-up keys are used there.
        invoke: Asks the container.
    """

    def __init__(self, output: str, s3_endpoint_url: str | None, invoke: Invoke) -> None:
        if not output.startswith("s3://") or not urlsplit(output).netloc:
            raise ConfigurationError(
                f"async_output={output!r} is not a place in S3; give s3://bucket/prefix",
            )
        self._output = output.rstrip("/")
        self._s3_endpoint_url = s3_endpoint_url
        self._invoke = invoke
        self._s3: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._s3 = await asyncio.to_thread(self._make_s3)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._s3 is not None:
            self._s3.close()

    def submit(self, request: RecordedRequest, origin: Origin) -> Submission:
        """Take a request and start on it."""
        option = _options(request)
        name = str(uuid.uuid4())
        path = "/".join(filter(None, [self._output, option("S3OutputPathExtension")]))
        submission = Submission(
            inference_id=option("Inference-Id") or str(uuid.uuid4()),
            output_location=f"{path}/{option('Filename') or name + '.out'}",
            failure_location=f"{path}/{name}-error.out",
        )
        task = asyncio.create_task(self._run(request, origin, submission))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return submission

    async def _run(self, request: RecordedRequest, origin: Origin, submission: Submission) -> None:
        try:
            answer, target = await self._answer(request, origin), submission.output_location
        except ServiceFaultError as error:
            answer, target = error.fault.message.encode(), submission.failure_location
        try:
            await asyncio.to_thread(self._write, target, answer)
        except Exception as error:  # noqa: BLE001 - nobody waits here; the caller polls S3
            _logger.warning("the emulator could not write %s: %r", target, error)

    async def _answer(self, request: RecordedRequest, origin: Origin) -> bytes:
        option = _options(request)
        # What the service takes under names of its own, the container gets under the usual ones.
        headers = cast("CIMultiDictProxy[str]", request.headers).copy()
        for name in ("Content-Type", "Accept"):
            if (value := option(name)) is not None:
                headers[name] = value
        request = replace(request, headers=headers)
        location = option("InputLocation")
        if location is not None:
            try:
                request = replace(request, body=await asyncio.to_thread(self._read, location))
            except Exception as error:
                text = f"Could not read the input at {location}: {error}"
                raise validation_error(text) from error
        seconds = option("InvocationTimeoutSeconds") or _DEFAULT_TIMEOUT
        return await self._invoke(request, origin, float(seconds))

    def _make_s3(self) -> Any:
        import boto3
        from botocore.config import Config

        made_up: dict[str, Any] = {}
        if self._s3_endpoint_url is not None:
            made_up = {"aws_access_key_id": "emulated", "aws_secret_access_key": "emulated"}
        # Stopping the emulator waits for what is under way.
        config = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2})
        session = boto3.Session(region_name="us-east-1", **made_up)
        return session.client("s3", endpoint_url=self._s3_endpoint_url, config=config)

    def _read(self, location: str) -> bytes:
        body: bytes = self._s3.get_object(**_bucket_and_key(location))["Body"].read()
        return body

    def _write(self, location: str, body: bytes) -> None:
        self._s3.put_object(**_bucket_and_key(location), Body=body)


def _options(request: RecordedRequest) -> Callable[[str], str | None]:
    return lambda name: request.headers.get(_PREFIX + name)


def _bucket_and_key(location: str) -> dict[str, str]:
    parts = urlsplit(location)
    return {"Bucket": parts.netloc, "Key": parts.path.lstrip("/")}
