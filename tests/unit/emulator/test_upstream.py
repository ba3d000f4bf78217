"""The upstream backend, in front of real servers on loopback."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from aiohttp import web
from botocore.exceptions import ClientError, EventStreamError

from sagemaker_vllm.emulator import Emulator, sse

CHAT = json.dumps({"model": "asked", "messages": [{"role": "user", "content": "Hi"}]})
Handler = Callable[[web.Request], Any]


@contextmanager
def serving(routes: dict[str, Handler]) -> Iterator[str]:
    """Run an HTTP server in a thread; POST routes, and GET where the path says so."""
    started, stop = threading.Event(), threading.Event()
    address: list[str] = []

    async def serve() -> None:
        application = web.Application()
        for route, handler in routes.items():
            method, path = route.split()
            application.router.add_route(method, path, handler)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        started.set()
        await asyncio.to_thread(stop.wait)
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(20)
        yield address[0]
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def behind(connect: Callable[..., Any]) -> Iterator[Callable[..., tuple[Emulator, Any]]]:
    """Put an emulator in front of routes: `emulator, runtime = behind({"POST /x": handler})`."""
    with ExitStack() as stack:

        def start(routes: dict[str, Handler]) -> tuple[Emulator, Any]:
            url = stack.enter_context(serving(routes))
            emulator = stack.enter_context(Emulator(upstream=url))
            return emulator, connect(emulator)

        yield start


def invoke(runtime: Any, body: str = CHAT, **members: Any) -> Any:
    return runtime.invoke_endpoint(
        EndpointName="emulated", ContentType="application/json", Body=body, **members
    )


def stream(runtime: Any) -> Any:
    return runtime.invoke_endpoint_with_response_stream(
        EndpointName="emulated", ContentType="application/json", Body=CHAT
    )["Body"]


async def whoami(request: web.Request) -> web.Response:
    """Tell how the server was called."""
    seen = {"path": request.path, "body": await request.json(), "headers": dict(request.headers)}
    return web.json_response(seen, headers={"X-Amzn-SageMaker-Custom-Attributes": "from=server"})


async def models(request: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": "served"}, {"id": "other"}]})


OPENAI = {
    "POST /v1/chat/completions": whoami,
    "POST /v1/completions": whoami,
    "GET /v1/models": models,
}


def test_server_with_the_route_is_called_at_invocations_with_the_body_as_it_is(
    behind: Callable[..., Any],
) -> None:
    _, runtime = behind({"POST /invocations": whoami})

    response = invoke(runtime, CustomAttributes="from=client", InferenceId="abc")

    seen = json.loads(response["Body"].read())
    assert seen["path"] == "/invocations"
    assert seen["body"] == json.loads(CHAT)
    assert seen["headers"]["Content-Type"] == "application/json"
    assert seen["headers"]["X-Amzn-SageMaker-Custom-Attributes"] == "from=client"
    assert seen["headers"]["X-Amzn-SageMaker-Inference-Id"] == "abc"
    assert "Authorization" not in seen["headers"]
    assert response["CustomAttributes"] == "from=server"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": []}, "/v1/chat/completions"),
        ({"messages": [], "prompt": "x"}, "/v1/chat/completions"),
        ({"prompt": "x"}, "/v1/completions"),
    ],
)
def test_other_server_is_called_by_the_body_with_a_model_that_it_serves(
    behind: Callable[..., Any], body: dict[str, Any], path: str
) -> None:
    _, runtime = behind(OPENAI)

    seen = json.loads(invoke(runtime, json.dumps(body))["Body"].read())
    again = json.loads(invoke(runtime, json.dumps(body | {"model": "other"}))["Body"].read())

    assert seen["path"] == path
    assert seen["body"] == body | {"model": "served"}
    assert again["body"]["model"] == "other"


@pytest.mark.parametrize("body", ["{", "[]"])
def test_server_judges_a_body_that_is_no_json_object(behind: Callable[..., Any], body: str) -> None:
    async def judge(request: web.Request) -> web.Response:
        return web.Response(status=400, text=f"bad: {await request.text()}")

    _, runtime = behind(OPENAI | {"POST /v1/chat/completions": judge})

    with pytest.raises(ClientError) as caught:
        invoke(runtime, body)

    assert caught.value.response["OriginalMessage"] == f"bad: {body}"  # type: ignore[typeddict-item]


def test_stream_passes_through_as_bytes_arrive(behind: Callable[..., Any]) -> None:
    go_on = threading.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await asyncio.to_thread(go_on.wait, 20)
        await response.write(b"data: 2\n\n")
        return response

    _, runtime = behind({"POST /invocations": slow})
    events = iter(stream(runtime))

    first = next(events)["PayloadPart"]["Bytes"]
    go_on.set()

    assert first == b"data: 1\n\n"
    assert [event["PayloadPart"]["Bytes"] for event in events] == [b"data: 2\n\n"]


def test_error_of_the_server_is_a_model_error(behind: Callable[..., Any]) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "no"}}, status=400)

    _, runtime = behind({"POST /invocations": refuse})

    for call in (invoke, stream):
        with pytest.raises(ClientError) as caught:
            call(runtime)
        assert caught.value.response["OriginalStatusCode"] == 400  # type: ignore[typeddict-item]


async def die(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse({"a": 1}, done=False)[0])
    assert request.transport is not None
    request.transport.close()
    return response


def test_server_that_dies_in_a_stream_ends_it_with_a_stream_error(
    behind: Callable[..., Any],
) -> None:
    _, runtime = behind({"POST /invocations": die})

    with closing(stream(runtime)) as body:
        events = iter(body)
        first = next(events)
        with pytest.raises(EventStreamError, match="ModelStreamError"):
            next(events)

    assert first["PayloadPart"]["Bytes"] == b'data: {"a":1}\n\n'


def test_server_that_dies_in_a_plain_answer_is_a_model_error(behind: Callable[..., Any]) -> None:
    _, runtime = behind({"POST /invocations": die})

    with pytest.raises(ClientError, match="model process exited"):
        invoke(runtime)


def test_server_that_is_not_there_is_unavailable(connect: Callable[..., Any]) -> None:
    with serving({}) as gone:
        pass

    with Emulator(upstream=gone) as emulator, pytest.raises(ClientError) as caught:
        invoke(connect(emulator))

    assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
    assert gone in caught.value.response["Error"]["Message"]


def test_server_without_any_model_is_asked_anyway(behind: Callable[..., Any]) -> None:
    _, runtime = behind({"POST /v1/completions": whoami})

    seen = json.loads(invoke(runtime, '{"prompt": "x"}')["Body"].read())

    assert seen["body"]["model"] == "default"


def test_client_that_leaves_stops_the_server(behind: Callable[..., Any]) -> None:
    stopped = threading.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"data: 1\n\n")
                await asyncio.sleep(0.005)
        finally:
            stopped.set()

    _, runtime = behind({"POST /invocations": endless})

    with closing(stream(runtime)) as body:
        next(iter(body))

    assert stopped.wait(20)
