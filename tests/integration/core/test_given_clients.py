"""Any object with boto3's methods serves as `client`: stand-ins of users' tests too."""

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from llama_index_sagemaker_vllm import SageMakerVLLM

MESSAGE = {"role": "assistant", "content": "Hello"}
PLAIN = {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]}
DELTA = {"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}
STREAM = b"data: " + json.dumps(DELTA).encode() + b"\n\ndata: [DONE]\n\n"


class StandIn:
    """Has the two methods and nothing else."""

    def invoke_endpoint(self, **members: Any) -> dict[str, Any]:
        return {"Body": io.BytesIO(json.dumps(PLAIN).encode())}

    def invoke_endpoint_with_response_stream(self, **members: Any) -> dict[str, Any]:
        return {"Body": iter([{"PayloadPart": {"Bytes": STREAM}}])}


def mock() -> MagicMock:
    """Answer to every attribute, as mocks do."""
    client, stand_in = MagicMock(), StandIn()
    client.invoke_endpoint.side_effect = stand_in.invoke_endpoint
    client.invoke_endpoint_with_response_stream.side_effect = (
        stand_in.invoke_endpoint_with_response_stream
    )
    return client


@pytest.mark.parametrize("make", [StandIn, mock])
def test_langchain_answers_through_a_stand_in(make: Callable[[], Any]) -> None:
    model = ChatSageMakerVLLM(endpoint_name="e", client=make())

    async def ask() -> list[str]:
        streamed = "".join([chunk.text async for chunk in model.astream("Hi")])
        return [(await model.ainvoke("Hi")).text, streamed]

    found = [model.invoke("Hi").text, "".join(chunk.text for chunk in model.stream("Hi"))]

    assert found + asyncio.run(ask()) == ["Hello"] * 4


@pytest.mark.parametrize("make", [StandIn, mock])
def test_llama_index_answers_through_a_stand_in(make: Callable[[], Any]) -> None:
    model = SageMakerVLLM(endpoint_name="e", client=make())

    async def ask() -> list[str]:
        *_, last = [each async for each in await model.astream_complete("Hi")]
        return [(await model.acomplete("Hi")).text, last.text]

    *_, last = list(model.stream_complete("Hi"))
    found = [model.complete("Hi").text, last.text]

    assert found + asyncio.run(ask()) == ["Hello"] * 4
