"""SageMaker Runtime itself: takes HTTP requests, asks the container, writes the answers."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import orjson
from aiohttp import web

from sagemaker_vllm.emulator._async_inference import AsyncInference
from sagemaker_vllm.emulator._container import Container, ContainerAnswer
from sagemaker_vllm.emulator._event_stream import hang_up, write_event_stream
from sagemaker_vllm.emulator._faults import (
    ContainerDiedError,
    Origin,
    ServiceFaultError,
    validation_error,
)
from sagemaker_vllm.emulator._operations import check_request, match_path, signing_region
from sagemaker_vllm.emulator._parts import Splitter
from sagemaker_vllm.emulator._replies import Cut, ServiceFault
from sagemaker_vllm.emulator._requests import RecordedRequest

_ERROR_STATUS = 400


class Service:
    """One endpoint of SageMaker Runtime.

    Args:
        container: What answers.
        endpoint_name: The only endpoint there is.
        splitter: Cuts streams into parts where an answer does not say how.
        invocation_timeout: Seconds a container has to answer a direct invocation.
        async_output: Where asynchronous answers go in S3; `None` takes none.
        s3_endpoint_url: An S3 other than AWS's.
    """

    def __init__(
        self,
        container: Container,
        *,
        endpoint_name: str,
        splitter: Splitter | None,
        invocation_timeout: float,
        async_output: str | None,
        s3_endpoint_url: str | None,
        requests: list[RecordedRequest],
    ) -> None:
        self.open_streams = 0
        self._container = container
        self._endpoint_name = endpoint_name
        self._splitter = splitter
        self._invocation_timeout = invocation_timeout
        self._requests = requests
        self._handlers: set[asyncio.Task[object]] = set()
        self._async_inference = async_output and AsyncInference(
            async_output,
            s3_endpoint_url=s3_endpoint_url,
            invoke=self._invoke_later,
        )

    async def start(self) -> None:
        """Get container and S3 ready."""
        await self._container.start()
        if self._async_inference:
            await self._async_inference.start()

    async def stop(self) -> None:
        """End what is being answered."""
        handlers = list(self._handlers)
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        if self._async_inference:
            await self._async_inference.stop()
        await self._container.stop()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        # A handler always runs in a task of its own.
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._handlers.add(task)
        try:
            return await self._dispatch(request)
        except ServiceFaultError as error:
            return _respond(error.body(), error.headers(), status=error.fault.status)
        finally:
            self._handlers.discard(task)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        matched = match_path(request.rel_url.raw_path)
        if matched is None or request.method != "POST":
            raise ServiceFaultError(ServiceFault("UnknownOperationException", 404))
        endpoint_name, operation = matched
        body = await request.content.read()
        record = RecordedRequest(operation, endpoint_name, request.headers, body)
        self._requests.append(record)
        origin = Origin(endpoint_name, region=signing_region(request.headers))
        check_request(record, self._endpoint_name)
        match operation:
            case "InvokeEndpoint":
                return await self._invoke(request, record, origin)
            case "InvokeEndpointWithResponseStream":
                return await self._invoke_with_stream(request, record, origin)
            case "InvokeEndpointAsync":
                return self._submit(record, origin)

    async def _invoke(
        self,
        request: web.BaseRequest,
        record: RecordedRequest,
        origin: Origin,
    ) -> web.StreamResponse:
        answer, body = await self._whole_answer(record, origin, self._invocation_timeout)
        headers = _answer_headers(record, answer) | {"Content-Type": answer.content_type}
        match answer.end:
            case None | Cut("clean"):
                return _respond(body, headers)
            case Cut():
                return await _respond_cut(request, body, headers)
            case end:
                raise ServiceFaultError(ServiceFault("InternalFailure", 500, str(end)))

    async def _invoke_later(self, record: RecordedRequest, origin: Origin, seconds: float) -> bytes:
        _, body = await self._whole_answer(record, origin, seconds)
        return body

    async def _whole_answer(
        self,
        record: RecordedRequest,
        origin: Origin,
        seconds: float,
    ) -> tuple[ContainerAnswer, bytes]:
        async with _in_time(origin, seconds), self._container.answer(record) as answer:
            body = await _read(answer)
            if answer.status >= _ERROR_STATUS:
                raise origin.model_error(answer.status, body)
            return answer, body

    def _submit(self, record: RecordedRequest, origin: Origin) -> web.Response:
        if not self._async_inference:
            raise validation_error(
                f"Endpoint {record.endpoint_name} has no asynchronous inference: give the "
                "emulator an `async_output`.",
            )
        submission = self._async_inference.submit(record, origin)
        body = orjson.dumps({"InferenceId": submission.inference_id})
        headers = submission.headers() | {"Content-Type": "application/json"}
        return _respond(body, headers, status=202)

    async def _invoke_with_stream(
        self,
        request: web.BaseRequest,
        record: RecordedRequest,
        origin: Origin,
    ) -> web.StreamResponse:
        async with AsyncExitStack() as stack:
            async with _in_time(origin, self._invocation_timeout):
                answer = await stack.enter_async_context(self._container.answer(record))
                if answer.status >= _ERROR_STATUS:
                    raise origin.model_error(answer.status, await _read(answer))
            self.open_streams += 1
            stack.callback(self._close_stream)
            headers = _with_request_id(_answer_headers(record, answer))
            return await write_event_stream(request, answer, headers, self._splitter)

    def _close_stream(self) -> None:
        self.open_streams -= 1


@asynccontextmanager
async def _in_time(origin: Origin, seconds: float) -> AsyncIterator[None]:
    """Turn a container that is too slow, or goes away, into the service's error."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise origin.timeout_error() from None
    except ContainerDiedError:
        text = b"An error occurred while handling request as the model process exited."
        raise origin.model_error(0, text) from None


async def _read(answer: ContainerAnswer) -> bytes:
    return b"".join([b"".join(parts) async for parts in answer.paced_parts()])


def _answer_headers(record: RecordedRequest, answer: ContainerAnswer) -> dict[str, str]:
    variant = record.headers.get("X-Amzn-SageMaker-Target-Variant", "AllTraffic")
    attributes = record.headers.get("X-Amzn-SageMaker-Custom-Attributes")
    echoed = {"X-Amzn-SageMaker-Custom-Attributes": attributes} if attributes else {}
    return {"x-Amzn-Invoked-Production-Variant": variant, **echoed, **answer.headers}


def _respond(body: bytes, headers: Mapping[str, str], *, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, headers=_with_request_id(headers))


def _with_request_id(headers: Mapping[str, str]) -> dict[str, str]:
    return {"x-amzn-RequestId": str(uuid.uuid4()), **headers}


async def _respond_cut(
    request: web.BaseRequest,
    body: bytes,
    headers: Mapping[str, str],
) -> web.StreamResponse:
    """Promise more than is sent, then hang up."""
    length = {"Content-Length": str(len(body) + 1)}
    response = web.StreamResponse(headers=_with_request_id({**headers, **length}))
    await response.prepare(request)
    await response.write(body)
    hang_up(request)
    return response


@asynccontextmanager
async def listening(service: Service, host: str, port: int) -> AsyncIterator[int]:
    """Serve over HTTP; gives the port that was taken."""
    server = web.Server(service.handle, handler_cancellation=True, access_log=None)
    # What is under way ends with the service.
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
    try:
        await service.start()
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await service.stop()
        await runner.cleanup()
