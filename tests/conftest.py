"""What every test stands on: a clean environment, repeatable Hypothesis runs, emulators."""

import asyncio
import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from sagemaker_vllm.emulator import Emulator

# A developer's own AWS, proxy and tracing settings would change what the tests see. `make test-live`
# needs them.
_FOREIGN = (
    "AWS_",
    "BOTO",
    "SAGEMAKER_",
    "LANGCHAIN_",
    "LANGSMITH_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
if "LIVE_ENDPOINT" not in os.environ:
    for _name in [name for name in os.environ if name.upper().startswith(_FOREIGN)]:
        del os.environ[_name]
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# Who asks for an event loop where there is none gets one that nothing closes (LlamaIndex does).
asyncio.set_event_loop(None)

# The two-core machines of CI are too uneven for deadlines; a failure must come back on every run.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", parent=settings.get_profile("ci"), max_examples=10_000, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Make reports without the garbage collector.

    They parse source. Python 3.11 fails to ("AST constructor recursion depth mismatch") when the
    collector meanwhile runs a finalizer that parses some, too, such as for a traceback.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Base URL of a local S3."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def start_emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., "Emulator"]]:
    """Start emulators for the test: `start_emulator([Reply(content="Hi")], part_size=3)`.

    Each listens on its own port and is stopped after the test. The environment variables of the
    latest are set, so a client made without arguments talks to it.
    """
    from sagemaker_vllm.emulator import Emulator

    with ExitStack() as stack:

        def start(script: object = None, **keywords: Any) -> Emulator:
            if script is not None:
                keywords["script"] = script
            emulator = stack.enter_context(Emulator(**keywords))
            for name, value in emulator.environment().items():
                monkeypatch.setenv(name, value)
            return emulator

        yield start
