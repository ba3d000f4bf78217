"""SageMaker Runtime itself: takes HTTP requests, asks the container, writes the answers."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

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


@dataclass(slots=True)
class Service:
    """One endpoint of SageMaker Runtime."""

    container: Container
    endpoint_name: str
    splitter: Splitter | None
    invocation_timeout: float
    requests: list[RecordedRequest]
    open_streams: int = 0
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        task = asyncio.current_task()
        self._handlers.add(task)
        try:
            return await self._dispatch(request)
        except ServiceFaultError as error:
            return _respond(error.body(), error.headers(), status=error.fault.status)
        finally:
            self._handlers.discard(task)

    async def stop(self) -> None:
        """End what is being answered."""
        handlers = list(self._handlers)
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        matched = match_path(request.rel_url.raw_path)
        if matched is None or request.method != "POST":
            raise ServiceFaultError(ServiceFault("UnknownOperationException", 404))
        endpoint_name, operation = matched
        body = await request.content.read()
        record = RecordedRequest(operation, endpoint_name, request.headers, body)
        self.requests.append(record)
        origin = Origin(endpoint_name, region=signing_region(request.headers))
        check_request(record, self.endpoint_name)
        match operation:
            case "InvokeEndpoint":
                return await self._invoke(request, record, origin)
            case "InvokeEndpointWithResponseStream":
                return await self._invoke_with_stream(request, record, origin)
            case "InvokeEndpointAsync":
                raise validation_error(
                    f"Endpoint {endpoint_name} has no asynchronous inference: give the emulator "
                    "an `async_output`.",
                )

    async def _invoke(
        self,
        request: web.BaseRequest,
        record: RecordedRequest,
        origin: Origin,
    ) -> web.StreamResponse:
        async with AsyncExitStack() as stack:
            answer = await self._ask(record, origin, stack)
            body = await self._whole_body(answer, origin)
        headers = _answer_headers(record, answer) | {"Content-Type": answer.content_type}
        match answer.end:
            case None | Cut("clean"):
                return _respond(body, headers)
            case Cut():
                return await _respond_cut(request, body, headers)
            case end:
                raise ServiceFaultError(ServiceFault("InternalFailure", 500, str(end)))

    async def _invoke_with_stream(
        self,
        request: web.BaseRequest,
        record: RecordedRequest,
        origin: Origin,
    ) -> web.StreamResponse:
        async with AsyncExitStack() as stack:
            answer = await self._ask(record, origin, stack)
            self.open_streams += 1
            stack.callback(self._close_stream)
            headers = _answer_headers(record, answer)
            return await write_event_stream(request, answer, headers, self.splitter)

    def _close_stream(self) -> None:
        self.open_streams -= 1

    async def _ask(
        self,
        record: RecordedRequest,
        origin: Origin,
        stack: AsyncExitStack,
    ) -> ContainerAnswer:
        try:
            async with asyncio.timeout(self.invocation_timeout):
                answer = await stack.enter_async_context(self.container.answer(record))
        except TimeoutError:
            raise origin.timeout_error() from None
        if answer.status >= _ERROR_STATUS:
            raise origin.model_error(answer.status, await self._whole_body(answer, origin))
        return answer

    async def _whole_body(self, answer: ContainerAnswer, origin: Origin) -> bytes:
        try:
            async with asyncio.timeout(self.invocation_timeout):
                return b"".join([piece async for piece in answer.paced_pieces()])
        except TimeoutError:
            raise origin.timeout_error() from None
        except ContainerDiedError:
            text = b"An error occurred while handling request as the model process exited."
            raise origin.model_error(0, text) from None


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
    await service.container.start()
    server = web.Server(service.handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
    try:
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await service.stop()
        await runner.cleanup()
        await service.container.stop()
