"""The container behind a URL: real vLLM, or any server that speaks OpenAI's protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm.emulator._container import ContainerAnswer
from sagemaker_vllm.emulator._faults import ContainerDiedError, ServiceFaultError
from sagemaker_vllm.emulator._replies import ServiceFault
from sagemaker_vllm.emulator._requests import RecordedRequest

_NOT_FOUND = 404
# The service strips every other header of the caller.
_REQUEST_HEADERS = (
    "X-Amzn-SageMaker-Custom-Attributes",
    "X-Amzn-SageMaker-Inference-Id",
    "X-Amzn-SageMaker-Session-Id",
    "X-Amzn-SageMaker-Target-Model",
    "X-Amzn-SageMaker-Enable-Explanations",
)
_ANSWER_HEADERS = (
    "X-Amzn-SageMaker-Custom-Attributes",
    "X-Amzn-SageMaker-New-Session-Id",
    "X-Amzn-SageMaker-Closed-Session-Id",
)


class UpstreamContainer:
    """Passes bodies on and answers back as they come.

    A server with the route `/invocations` is called there, as SageMaker does. Any other one is
    called at `/v1/chat/completions` or `/v1/completions`, by the body, and with a model that it
    serves: `/invocations` ignores the body's `model`, those routes do not.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"upstream={url!r} is not a URL; give http://host:port")
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._models: list[str] | None = None

    async def start(self) -> None:
        # Time limits are the service's and the client's business.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            connector=aiohttp.TCPConnector(limit=0),
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def answer(self, request: RecordedRequest) -> AsyncIterator[ContainerAnswer]:
        try:
            path, body = await self._route(request.body)
            post = self._open_session().post
            response = await post(self._url + path, data=body, headers=_headers(request))
        except aiohttp.ClientConnectionError as error:
            text = f"The container at {self._url} is not reachable: {error}"
            raise ServiceFaultError(ServiceFault("ServiceUnavailable", 503, text)) from error
        async with response:
            yield ContainerAnswer(
                _pieces(response),
                status=response.status,
                content_type=response.headers.get("Content-Type", "application/octet-stream"),
                headers={
                    name: response.headers[name]
                    for name in _ANSWER_HEADERS
                    if name in response.headers
                },
            )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the container is not started")
        return self._session

    async def _route(self, body: bytes) -> tuple[str, bytes]:
        if self._models is None:
            self._models = await self._find_models()
        if not self._models:
            return "/invocations", body
        try:
            request = orjson.loads(body)
        except ValueError:
            request = None
        if not isinstance(request, dict):
            return "/v1/chat/completions", body
        if request.get("model") not in self._models:
            body = orjson.dumps(request | {"model": self._models[0]})
        return "/v1/chat/completions" if "messages" in request else "/v1/completions", body

    async def _find_models(self) -> list[str]:
        """List the models of a server without `/invocations`; empty when it has that route."""
        get = self._open_session().get
        async with get(self._url + "/invocations") as response:
            # A route that only takes POST answers 405 here.
            if response.status != _NOT_FOUND:
                return []
        async with get(self._url + "/v1/models") as response:
            listed = await response.json(content_type=None) if response.ok else {}
        return [model["id"] for model in listed.get("data") or []] or ["default"]


def _headers(request: RecordedRequest) -> dict[str, str]:
    headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
    # An asynchronous call names the body's type in a header of its own.
    for prefix in ("", "X-Amzn-SageMaker-"):
        for name in ("Content-Type", "Accept"):
            if prefix + name in request.headers:
                headers[name] = request.headers[prefix + name]
    return headers


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in response.content.iter_any():
            yield piece
    except aiohttp.ClientError as error:
        raise ContainerDiedError(str(error)) from error
