"""The endpoint that the tests ask: a real vLLM behind the emulator, or one on AWS.

`make test-vllm` installs vLLM, starts it here and puts the emulator in front, so that real boto3
and real aiohttp talk to a real vLLM over a real AWS event stream. `make test-live` sets
`LIVE_ENDPOINT` (and `LIVE_REGION`), and the same tests ask that endpoint instead; `LIVE_WITHOUT`
names what it cannot do, such as `images,reasoning`.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from sagemaker_vllm.emulator import Emulator, random_parts
from tests.faces import FACES, Answer, Face
from tests.real_vllm.install import InstallError, install
from tests.real_vllm.material import user
from tests.real_vllm.server import ServerError, VLLMServer

LIVE_ENDPOINT = os.environ.get("LIVE_ENDPOINT")
LIVE_WITHOUT = set(filter(None, os.environ.get("LIVE_WITHOUT", "").split(",")))
ENVIRONMENT = {
    "endpoint_name": "SAGEMAKER_ENDPOINT_NAME",
    "endpoint_url": "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME",
    "region_name": "AWS_DEFAULT_REGION",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
}
ABILITIES = ("images", "reasoning", "tools")


Ask = Callable[..., Answer]


@dataclass(frozen=True, eq=False)
class Endpoint:
    """How to reach an endpoint: keywords of every model and client."""

    settings: dict[str, Any]
    server: VLLMServer | None = field(default=None, repr=False)

    def environment(self) -> dict[str, str]:
        """The environment variables that mean the same."""
        return {
            variable: self.settings[name]
            for name, variable in ENVIRONMENT.items()
            if self.settings.get(name)
        }


def pytest_configure(config: pytest.Config) -> None:
    for ability in ABILITIES:
        config.addinivalue_line("markers", f"{ability}: the endpoint's model must be able to")
    config.addinivalue_line("markers", "here: needs the server and the model that are made here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if LIVE_ENDPOINT is None:
        return
    for item in items:
        if item.get_closest_marker("here"):
            item.add_marker(pytest.mark.skip(reason="asks for this suite's own server or model"))
        for ability in LIVE_WITHOUT:
            if item.get_closest_marker(ability):
                item.add_marker(pytest.mark.skip(reason=f"LIVE_WITHOUT says no {ability}"))


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, VLLMServer]]:
    """Start both servers at once; each is waited for by the first test that asks it."""
    try:
        install()
    except InstallError as error:
        pytest.exit(f"real vLLM: {error}", returncode=1)
    with ExitStack() as stack:
        yield {name: stack.enter_context(VLLMServer(name)) for name in ("all", "text")}


@pytest.fixture(scope="session")
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """The endpoint whose model can do everything."""
    if LIVE_ENDPOINT is not None:
        region = os.environ.get("LIVE_REGION") or None
        yield Endpoint({"endpoint_name": LIVE_ENDPOINT, "region_name": region})
        return
    yield from in_front_of(request.getfixturevalue("servers")["all"])


@pytest.fixture(scope="session")
def text_endpoint(servers: dict[str, VLLMServer]) -> Iterator[Endpoint]:
    """An endpoint without eyes, tools and reasoning."""
    yield from in_front_of(servers["text"])


def in_front_of(server: VLLMServer) -> Iterator[Endpoint]:
    """Yield an endpoint of an emulator that hands requests to the server."""
    try:
        server.wait()
    except ServerError as error:
        pytest.exit(str(error), returncode=1)
    with Emulator(upstream=server.url, part_size=random_parts(seed=7)) as emulator:
        settings = {
            "endpoint_name": emulator.endpoint_name,
            "endpoint_url": emulator.url,
            "region_name": "us-east-1",
            "aws_access_key_id": "emulated",
            "aws_secret_access_key": "emulated",
        }
        yield Endpoint(settings, server)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Show what the server said during a test that fails."""
    endpoints = [
        each for each in getattr(item, "funcargs", {}).values() if isinstance(each, Endpoint)
    ]
    logs = [(each.server, each.server.log.stat().st_size) for each in endpoints if each.server]
    try:
        return (yield)
    except BaseException:
        for server, start in logs:
            item.add_report_section("call", "vLLM", server.tail(start))
        raise


# The core alone is asked where only it can; beneath the frameworks it is asked by every test.
FRAMEWORK_FACES = [face for face in FACES if face.framework != "core"]


@pytest.fixture(params=FRAMEWORK_FACES, ids=str)
def face(request: pytest.FixtureRequest) -> Face:
    """Each way to ask that the frameworks offer."""
    found: Face = request.param
    return found


@pytest.fixture(scope="session")
def models() -> Callable[..., Any]:
    """Make each model once: a connection is dear, a question is cheap."""

    @cache
    def model(face: Face, kind: str, endpoint: Endpoint) -> Any:
        make = face.chat_model if kind == "chat" else face.text_model
        return make(**endpoint.settings)

    return model


@pytest.fixture
def ask(face: Face, endpoint: Endpoint, models: Callable[..., Any]) -> Ask:
    """Ask the chat model, at temperature 0 unless told otherwise."""

    def chat(question: str | list[dict[str, Any]], **keywords: Any) -> Answer:
        messages = [user(question)] if isinstance(question, str) else question
        model = models(face, "chat", endpoint)
        return face.chat(model, messages, **{"temperature": 0, **keywords})

    return chat


@pytest.fixture
def complete(face: Face, endpoint: Endpoint, models: Callable[..., Any]) -> Ask:
    """Ask the text model, at temperature 0 unless told otherwise."""

    def text(prompt: str, **keywords: Any) -> Answer:
        model = models(face, "text", endpoint)
        return face.complete(model, prompt, **{"temperature": 0, **keywords})

    return text
