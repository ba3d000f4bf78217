"""Askers: one LLM, asked in each of the four ways, against a scripted endpoint."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import instrumentation
from llama_index.core.instrumentation.event_handlers import BaseEventHandler

from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm.emulator import Emulator
from tests.integration.llama_index.ways import WAYS, Asker, Way

AskerFactory = Callable[..., Asker]


class EventRecorder(BaseEventHandler):
    """Keeps all instrumentation events."""

    seen: list[Any]

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.seen.append(event)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def events() -> Iterator[list[Any]]:
    """Record instrumentation events; the list grows as they come."""
    recorder = EventRecorder(seen=[])
    # Re-exported there without an `__all__`.
    dispatcher = instrumentation.get_dispatcher()  # type: ignore[attr-defined]
    dispatcher.add_event_handler(recorder)
    yield recorder.seen
    dispatcher.event_handlers.remove(recorder)


@pytest.fixture
def asker(
    way: Way, runner: asyncio.Runner, start_emulator: Callable[..., Emulator]
) -> Iterator[AskerFactory]:
    """Make an asker: `asker([Reply("Hi")], temperature=0)`; its `emulator` has the requests."""
    made: list[SageMakerVLLM] = []

    def make(script: Any, *, part_size: Any = None, **settings: Any) -> Asker:
        emulator = start_emulator(script, part_size=part_size)
        made.append(SageMakerVLLM(**settings))
        return Asker(made[-1], way, runner, emulator)

    yield make
    for llm in made:
        llm.close()
        runner.run(llm.aclose())
