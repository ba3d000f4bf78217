"""Calls through aiohttp: the asynchronous shell.

botocore supplies what is AWS's: credentials and their refresh, the endpoint's rules, the signature,
proxies, certificates and the parsing of errors. aiohttp only moves bytes.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import finalize

from sagemaker_vllm._aws_protocol import AWSProtocol, Route
from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._error_table import (
    answer_broken,
    connection_failed,
    stream_broken,
    timed_out,
)
from sagemaker_vllm._errors import APIError
from sagemaker_vllm._frames import FrameDecoder, part_of
from sagemaker_vllm._operations import Operation
from sagemaker_vllm._transport import AsyncRawStream, RawAnswer

if TYPE_CHECKING:
    import aiohttp

_ERROR_STATUS = 300
# Events of one stream before the other tasks of the event loop get their turn: a read may hold
# hundreds, and aiohttp hands out what it has without ever waiting.
_TURN = 8
# Calls that start in one turn of the event loop: a thousand at once would hold it for half a
# second, nearly all of which is the opening of connections.
_STARTS = 32


class HTTPTransport:
    """Calls SageMaker Runtime over aiohttp, with one session for each event loop."""

    def __init__(self, config: EndpointConfig) -> None:
        """Keep the settings; nothing is loaded before the first call."""
        self._config = config
        self._protocol = AWSProtocol(config)
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}

    async def invoke(self, operation: Operation, arguments: Mapping[str, Any]) -> RawAnswer:
        """Call an operation and read its whole body."""
        await _import_aiohttp()
        with self._translated_errors():
            response, release = await self._send(operation, arguments)
        try:
            with self._translated_errors(answer_broken):
                async with response:
                    body = await response.read()
        finally:
            release()
        return RawAnswer(self._protocol.read_output(operation, response.headers, body), body)

    async def open(self, operation: Operation, arguments: Mapping[str, Any]) -> AsyncRawStream:
        """Call a streaming operation; the parts are read as they are iterated."""
        await _import_aiohttp()
        with self._translated_errors():
            response, release = await self._send(operation, arguments)
        output = self._protocol.read_output(operation, response.headers, b"")

        async def close() -> None:
            # At the end of its body the connection has gone back to the pool; else it is dropped.
            response.close()
            release()

        return AsyncRawStream(output, self._parts(response), close)

    async def knows(self, operation: Operation, member: str) -> bool:
        """Tell whether the installed botocore knows a member of an operation."""
        return await self._protocol.knows(operation, member)

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.aclose()

    async def _send(
        self, operation: Operation, arguments: Mapping[str, Any]
    ) -> "tuple[aiohttp.ClientResponse, Callable[[], object]]":
        """Return the open response, and what gives its place to the next call."""
        session = await self._session()
        # Before signing: a signature that waits for a free connection expires.
        await session.places.acquire()
        try:
            await session.start()
            request = await self._protocol.signed_request(operation, arguments)
            response = await session.client.post(
                request.url,
                data=request.body,
                headers=request.headers,
                # A signature holds for one host.
                allow_redirects=False,
                **session.route,
            )
        except BaseException:
            session.places.release()
            raise
        # A response that is dropped gives its place back, too.
        release = finalize(response, session.places.release)
        release.atexit = False
        if response.status >= _ERROR_STATUS:
            try:
                async with response:
                    body = await response.read()
            finally:
                release()
            raise self._protocol.read_error(operation, response.status, response.headers, body)
        return response, release

    async def _session(self) -> "_Session":
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            route = await self._protocol.route()
            # Another call may have been first.
            if loop not in self._sessions:
                for closed in [each for each in self._sessions if each.is_closed()]:
                    del self._sessions[closed]
                session = self._sessions[loop] = _Session(self._config, route)
                await session.open()
        return self._sessions[loop]

    async def _parts(self, response: "aiohttp.ClientResponse") -> AsyncIterator[bytes]:
        import aiohttp

        decoder = FrameDecoder()
        try:
            async for read in response.content.iter_any():
                for number, frame in enumerate(decoder.feed(read)):
                    if part := part_of(frame):
                        yield part
                    if number % _TURN == _TURN - 1:
                        await asyncio.sleep(0)
            decoder.finish()
        except (aiohttp.ClientError, OSError) as error:
            raise stream_broken(error, endpoint_name=self._config.endpoint_name) from error

    @contextmanager
    def _translated_errors(
        self, failed: Callable[..., APIError] = connection_failed
    ) -> Iterator[None]:
        import aiohttp

        name = self._config.endpoint_name
        try:
            yield
        except aiohttp.ConnectionTimeoutError as error:
            raise connection_failed(error, endpoint_name=name) from error
        except TimeoutError as error:
            raise timed_out(error, endpoint_name=name, seconds=self._config.timeout) from error
        except (aiohttp.ClientError, OSError) as error:
            raise failed(error, endpoint_name=name) from error


async def _import_aiohttp() -> None:
    """Import what takes its time to import, off the event loop."""
    if "aiohttp" not in sys.modules:
        await asyncio.to_thread(import_module, "aiohttp")


class _Session:
    """An aiohttp session that closes with its event loop.

    Scripts call `asyncio.run` again and again and never close a model. `asyncio.run` finishes the
    async generators of its loop, so one of those holds the session.
    """

    def __init__(self, config: EndpointConfig, route: Route) -> None:
        import aiohttp  # not before it is needed

        self.route: dict[str, Any] = {"ssl": route.ssl_context or True, "proxy": route.proxy}
        self.places = asyncio.Semaphore(config.max_concurrency)
        self.client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=config.max_concurrency),
            # Only silence is limited, in a plain answer and between two parts of a stream.
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=config.connect_timeout, sock_read=config.timeout
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        self._holder = _hold(self.client)
        self._starts = asyncio.Semaphore(_STARTS)

    async def open(self) -> None:
        await anext(self._holder)

    async def start(self) -> None:
        """Wait for a turn of the event loop in which another call may start."""
        await self._starts.acquire()
        asyncio.get_running_loop().call_soon(self._starts.release)

    async def aclose(self) -> None:
        await self._holder.aclose()


async def _hold(client: "aiohttp.ClientSession") -> AsyncGenerator[None, None]:
    """Close a session at the end; it refers to nothing else, so a dropped client is closed too."""
    try:
        yield
    finally:
        await client.close()
