"""The four ways to ask an LLM, behind one function each."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

from sagemaker_vllm.emulator import Emulator, RecordedRequest

Way = Literal["plain", "stream", "async plain", "async stream"]
WAYS: tuple[Way, ...] = ("plain", "stream", "async plain", "async stream")


class Asker:
    """Asks one LLM in one way; every asynchronous call of a test runs on one event loop."""

    def __init__(
        self, llm: Any, way: Way, runner: asyncio.Runner, emulator: Emulator | None = None
    ) -> None:
        self.llm = llm
        self.way = way
        self._runner = runner
        self._emulator = emulator

    @property
    def emulator(self) -> Emulator:
        """The emulator behind the endpoint."""
        assert self._emulator
        return self._emulator

    @property
    def sent(self) -> list[Any]:
        """The bodies that the endpoint received."""
        return [request.json for request in self.requests]

    @property
    def requests(self) -> list[RecordedRequest]:
        """The requests that the endpoint received."""
        return self.emulator.requests

    @property
    def is_streamed(self) -> bool:
        """Whether the answers are streamed."""
        return "stream" in self.way

    @property
    def is_async(self) -> bool:
        """Whether the calls are asynchronous."""
        return "async" in self.way

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        """Wait for something on the test's event loop."""
        return self._runner.run(awaitable)

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> list[ChatResponse]:
        """Return all responses: one, or those of the stream."""
        return self._ask("chat", messages, **kwargs)

    def complete(self, prompt: str, **kwargs: Any) -> list[CompletionResponse]:
        return self._ask("complete", prompt, **kwargs)

    def chat_with_tools(self, tools: Sequence[Any], **kwargs: Any) -> list[ChatResponse]:
        return self._ask("chat_with_tools", tools, **kwargs)

    def predict(self, output_cls: type[Any], prompt: Any, /, **kwargs: Any) -> list[Any]:
        return self._ask("structured_predict", output_cls, prompt, **kwargs)

    def _ask(self, method: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        name = ("stream_" if self.is_streamed else "") + method
        if self.is_async:
            return self._runner.run(self._await("a" + name, *args, **kwargs))
        found = getattr(self.llm, name)(*args, **kwargs)
        return list(found) if self.is_streamed else [found]

    async def _await(self, name: str, /, *args: Any, **kwargs: Any) -> list[Any]:
        found = await getattr(self.llm, name)(*args, **kwargs)
        return [each async for each in found] if self.is_streamed else [found]
