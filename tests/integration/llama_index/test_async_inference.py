"""LlamaIndex's calls through InvokeEndpointAsync and S3."""

import asyncio
from collections.abc import Callable
from typing import Any

import boto3.session
import pytest
from llama_index.core.llms import ChatMessage

from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import (
    AsyncInferenceConfig,
    AsyncInferenceError,
    ConfigurationError,
    ContextOverflowError,
)
from sagemaker_vllm.emulator import ContainerFault, Emulator, Reply
from tests.callers import KEYS

CALLS = {
    "chat": lambda llm: llm.chat([ChatMessage("Why?")]).message.content,
    "complete": lambda llm: llm.complete("Why?").text,
    "achat": lambda llm: asyncio.run(llm.achat([ChatMessage("Why?")])).message.content,
    "acomplete": lambda llm: asyncio.run(llm.acomplete("Why?")).text,
}
STREAMS = {
    "stream_chat": lambda llm: list(llm.stream_chat([ChatMessage("Why?")])),
    "stream_complete": lambda llm: list(llm.stream_complete("Why?")),
    "astream_chat": lambda llm: asyncio.run(first(llm.astream_chat([ChatMessage("Why?")]))),
    "astream_complete": lambda llm: asyncio.run(first(llm.astream_complete("Why?"))),
}


async def first(stream: Any) -> Any:
    return await anext(await stream)


@pytest.fixture
def start(start_emulator: Callable[..., Emulator], s3_url: str) -> Callable[..., SageMakerVLLM]:
    """Make a model whose answers go through a bucket."""
    s3 = boto3.session.Session().client("s3", endpoint_url=s3_url, region_name="us-east-1", **KEYS)
    s3.create_bucket(Bucket="llama-index")
    s3.close()

    def start(*replies: Any, **settings: Any) -> SageMakerVLLM:
        start_emulator(list(replies), async_output="s3://llama-index/out", s3_endpoint_url=s3_url)
        config = AsyncInferenceConfig(
            "s3://llama-index/in/", poll_interval=0.01, s3_endpoint_url=s3_url
        )
        return SageMakerVLLM(async_inference=config, **settings)

    return start


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("is_chat_model", [True, False], ids=["chat-model", "text-model"])
def test_call_is_answered_through_the_bucket(
    call: Callable[[Any], str], is_chat_model: bool, start: Callable[..., SageMakerVLLM]
) -> None:
    assert call(start(Reply("Because."), is_chat_model=is_chat_model)) == "Because."


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_failure_is_of_both_kinds(
    call: Callable[[Any], str], start: Callable[..., SageMakerVLLM]
) -> None:
    too_long = {"error": {"message": "maximum context length is 8 tokens", "code": 400}}

    with pytest.raises(AsyncInferenceError) as caught:
        call(start(ContainerFault(400, too_long)))

    assert isinstance(caught.value, ContextOverflowError)


@pytest.mark.parametrize("call", STREAMS.values(), ids=STREAMS)
def test_stream_is_refused(call: Callable[[Any], Any], start: Callable[..., SageMakerVLLM]) -> None:
    with pytest.raises(ConfigurationError, match="async_inference"):
        call(start())
