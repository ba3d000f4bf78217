"""One question asked in LangChain's four ways, and what langchain-tests asks for."""

import json
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeAlias

import pytest
from langchain_core.messages import AIMessage, message_chunk_to_message

from sagemaker_vllm.emulator import AnyReply, Emulator, StreamReply

StartEmulator: TypeAlias = Callable[..., Emulator]


class Way(NamedTuple):
    """A way to call a runnable: sync or async, plain or streamed."""

    name: str
    is_async: bool
    is_stream: bool

    async def items(self, runnable: Any, question: Any = "Hi", /, **keywords: Any) -> list[Any]:
        """Return all that the runnable gives; a plain call gives one item."""
        if self.is_stream and self.is_async:
            return [item async for item in runnable.astream(question, **keywords)]
        if self.is_stream:
            return list(runnable.stream(question, **keywords))
        if self.is_async:
            return [await runnable.ainvoke(question, **keywords)]
        return [runnable.invoke(question, **keywords)]

    async def ask(self, model: Any, question: Any = "Hi", /, **keywords: Any) -> AIMessage:
        """Return the answer of a chat model as one plain message."""
        message = message_chunk_to_message(
            reduce(add, await self.items(model, question, **keywords))
        )
        assert type(message) is AIMessage
        return message

    async def last(self, runnable: Any, question: Any = "Hi", /, **keywords: Any) -> Any:
        """Return the last thing that the runnable gives."""
        return (await self.items(runnable, question, **keywords))[-1]


WAYS = [
    Way("invoke", is_async=False, is_stream=False),
    Way("stream", is_async=False, is_stream=True),
    Way("ainvoke", is_async=True, is_stream=False),
    Way("astream", is_async=True, is_stream=True),
]


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    """Run the test in each of the four ways."""
    found: Way = request.param
    return found


@pytest.fixture(params=[way for way in WAYS if way.is_stream], ids=lambda way: way.name)
def streamed(request: pytest.FixtureRequest) -> Way:
    """Run the test in both streamed ways."""
    found: Way = request.param
    return found


@pytest.fixture(params=[way for way in WAYS if not way.is_stream], ids=lambda way: way.name)
def plain(request: pytest.FixtureRequest) -> Way:
    """Run the test in both plain ways."""
    found: Way = request.param
    return found


@pytest.fixture
def benchmark() -> Callable[[Callable[[], None]], None]:
    """Run what pytest-benchmark would time: the suites must not depend on the clock."""
    return lambda function: function()


def event(delta: Any = None, finish_reason: str | None = None, **choice: Any) -> bytes:
    """Return an event of a streamed chat."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason, **choice}]
    return data({**_CHUNK, "choices": choices})


def call_event(index: Any, **call: Any) -> bytes:
    """Return an event with a piece of a call: `id`, `name` and `arguments` where given."""
    function = {name: call.pop(name) for name in ("name", "arguments") if name in call}
    made = {"function": function, **call}
    return event({"tool_calls": [made if index is None else {"index": index, **made}]})


def usage_event(prompt: int, completion: int) -> bytes:
    """Return the event that ends a stream with its token counts."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return data({**_CHUNK, "choices": [], "usage": {**counts, "total_tokens": prompt + completion}})


def data(value: Any) -> bytes:
    """Return an event of any JSON."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
_CHUNK = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def stream(*events: bytes, **fields: Any) -> AnyReply:
    """Return a stream of events, one in each part unless told otherwise."""
    return StreamReply(list(events), **fields)


CUTS = ["one part", "one event a part", "one byte a part"]


@pytest.fixture(params=CUTS)
def cut(request: pytest.FixtureRequest) -> Callable[..., AnyReply]:
    """Make a stream of events, cut into parts in one of three ways."""

    def make(*events: bytes, **fields: Any) -> AnyReply:
        if request.param == CUTS[1]:
            return StreamReply(list(events), **fields)
        size = 1 if request.param == CUTS[2] else None
        return StreamReply(b"".join(events), parts=size, **fields)

    return make
