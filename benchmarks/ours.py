"""Calls through this package: each factory returns a call that gives the number of items it got."""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from langchain_sagemaker_vllm import SageMakerVLLM as TextSageMakerVLLM
from llama_index_sagemaker_vllm import SageMakerVLLM as LlamaSageMakerVLLM
from sagemaker_vllm import AsyncSageMakerVLLMClient, SageMakerVLLMClient, chat_request

Call = Callable[[], int]
AsyncCall = Callable[[], Awaitable[int]]

QUESTION = "Why is the sky blue?"
_WIRE = [{"role": "user", "content": QUESTION}]
_SETTINGS: dict[str, Any] = {"max_concurrency": 1024}


def core_plain(script: str) -> Call:
    client = SageMakerVLLMClient(endpoint_name=script, **_SETTINGS)

    def call() -> int:
        assert client.chat(chat_request(_WIRE)).text
        return 1

    return call


def core_stream(script: str) -> Call:
    client = SageMakerVLLMClient(endpoint_name=script, **_SETTINGS)

    def call() -> int:
        with client.stream_chat(chat_request(_WIRE)) as stream:
            return sum(bool(chunk["choices"]) for chunk in stream)

    return call


def core_aplain(script: str) -> AsyncCall:
    client = AsyncSageMakerVLLMClient(endpoint_name=script, **_SETTINGS)

    async def call() -> int:
        assert (await client.chat(chat_request(_WIRE))).text
        return 1

    return call


def core_astream(script: str) -> AsyncCall:
    client = AsyncSageMakerVLLMClient(endpoint_name=script, **_SETTINGS)

    async def call() -> int:
        count = 0
        async with await client.stream_chat(chat_request(_WIRE)) as stream:
            async for chunk in stream:
                count += bool(chunk["choices"])
        return count

    return call


def core_image(url: str) -> Callable[[str], Call]:
    content = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": url}},
    ]

    def factory(script: str) -> Call:
        client = SageMakerVLLMClient(endpoint_name=script)

        def call() -> int:
            assert client.chat(chat_request([{"role": "user", "content": content}])).text
            return 1

        return call

    return factory


def langchain_image(url: str) -> Callable[[str], Call]:
    content: list[Any] = [
        {"type": "text", "text": QUESTION},
        {"type": "image_url", "image_url": {"url": url}},
    ]

    def factory(script: str) -> Call:
        chat = ChatSageMakerVLLM(endpoint_name=script)

        def call() -> int:
            assert chat.invoke([HumanMessage(content)]).text
            return 1

        return call

    return factory


def langchain_invoke(script: str) -> Call:
    chat = ChatSageMakerVLLM(endpoint_name=script, **_SETTINGS)

    def call() -> int:
        assert chat.invoke(QUESTION).text
        return 1

    return call


def langchain_ainvoke(script: str) -> AsyncCall:
    chat = ChatSageMakerVLLM(endpoint_name=script, **_SETTINGS)

    async def call() -> int:
        assert (await chat.ainvoke(QUESTION)).text
        return 1

    return call


def langchain_stream(script: str) -> Call:
    chat = ChatSageMakerVLLM(endpoint_name=script, **_SETTINGS)
    return lambda: sum(1 for _ in chat.stream(QUESTION))


def langchain_astream(script: str) -> AsyncCall:
    chat = ChatSageMakerVLLM(endpoint_name=script, **_SETTINGS)

    async def call() -> int:
        return sum([1 async for _ in chat.astream(QUESTION)])

    return call


def llama_chat(script: str) -> Call:
    llm = LlamaSageMakerVLLM(endpoint_name=script, **_SETTINGS)

    def call() -> int:
        assert llm.chat([ChatMessage(QUESTION)]).message.content
        return 1

    return call


def llama_achat(script: str) -> AsyncCall:
    llm = LlamaSageMakerVLLM(endpoint_name=script, **_SETTINGS)

    async def call() -> int:
        assert (await llm.achat([ChatMessage(QUESTION)])).message.content
        return 1

    return call


def llama_stream(script: str) -> Call:
    llm = LlamaSageMakerVLLM(endpoint_name=script, **_SETTINGS)
    return lambda: sum(1 for _ in llm.stream_chat([ChatMessage(QUESTION)]))


def llama_astream(script: str) -> AsyncCall:
    llm = LlamaSageMakerVLLM(endpoint_name=script, **_SETTINGS)

    async def call() -> int:
        return sum([1 async for _ in await llm.astream_chat([ChatMessage(QUESTION)])])

    return call


def prompts_in_one_request(script: str) -> Call:
    llm = TextSageMakerVLLM(endpoint_name=script)
    return lambda: len(llm.batch([QUESTION] * 128))


def prompts_in_a_request_each(script: str) -> Call:
    llm = TextSageMakerVLLM(endpoint_name=script, max_prompts_per_request=1)
    return lambda: len(llm.batch([QUESTION] * 128))


def core_first(script: str) -> Callable[[], float]:
    """Return a call that gives the seconds to the first chunk, and reads the rest."""
    client = SageMakerVLLMClient(endpoint_name=script, **_SETTINGS)
    return lambda: _first(lambda: client.stream_chat(chat_request(_WIRE)))


def langchain_first(script: str) -> Callable[[], float]:
    chat = ChatSageMakerVLLM(endpoint_name=script, **_SETTINGS)
    return lambda: _first(lambda: chat.stream(QUESTION))


def llama_first(script: str) -> Callable[[], float]:
    llm = LlamaSageMakerVLLM(endpoint_name=script, **_SETTINGS)
    return lambda: _first(lambda: llm.stream_chat([ChatMessage(QUESTION)]))


def _first(open_stream: Callable[[], Iterable[object]]) -> float:
    began = time.perf_counter()
    chunks = iter(open_stream())
    next(chunks)
    elapsed = time.perf_counter() - began
    for _ in chunks:
        pass
    return elapsed
