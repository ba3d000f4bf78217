"""A tiny OpenAI-style HTTP server with the emulator's scripts behind it, without SageMaker."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from aiohttp import web

from sagemaker_vllm.emulator._requests import RecordedRequest
from sagemaker_vllm.emulator._script import ScriptedContainer


@contextmanager
def openai_server(script: Any) -> Iterator[str]:
    """Serve `script` at `/v1/chat/completions` and `/v1/completions`; yield the server's URL."""
    container = ScriptedContainer(script)
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(_application(container))
    thread = threading.Thread(target=loop.run_forever, name="openai-server", daemon=True)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(_listen(runner), loop).result(timeout=10)
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _application(container: ScriptedContainer) -> web.Application:
    async def answer(request: web.Request) -> web.StreamResponse:
        asked = RecordedRequest("InvokeEndpoint", "none", request.headers, await request.read())
        async with container.answer(asked) as found:
            response = web.StreamResponse(
                status=found.status, headers={"Content-Type": found.content_type}
            )
            await response.prepare(request)
            # A script's answer is there at once.
            for piece in cast("Sequence[bytes]", found.pieces):
                await response.write(piece)
        return response

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "/opt/ml/model"}]})

    application = web.Application(client_max_size=2**24)
    application.router.add_post("/v1/chat/completions", answer)
    application.router.add_post("/v1/completions", answer)
    application.router.add_get("/v1/models", models)
    return application


async def _listen(runner: web.AppRunner) -> int:
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port: int = runner.addresses[0][1]
    return port
