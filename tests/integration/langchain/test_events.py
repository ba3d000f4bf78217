"""LangChain's event streams, the older and the typed one, tell the same as the plain answer."""

from typing import Any

import pytest

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import StreamInterruptedError
from sagemaker_vllm.emulator import Cut, Reply, StreamReply
from tests.integration.langchain.conftest import StartEmulator, event

LOGPROBS: list[dict[str, Any]] = [
    {"token": token, "logprob": -0.5, "bytes": [], "top_logprobs": []} for token in ("a", "b")
]
CALLS = [
    {"name": "f", "arguments": '{"x": 1}', "id": "a"},
    {"name": "g", "arguments": "468.4", "id": "b"},
    {"name": "h", "arguments": '{"y":', "id": "c"},
    {"name": "i", "arguments": "", "id": "d"},
]
REPLY = Reply(
    chunks=["a", "b"],
    reasoning="Hm",
    logprobs=LOGPROBS,
    tool_calls=CALLS,
    finish_reason="length",
)
# langchain-core says so of its typed events.
pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")


def told(message: Any) -> dict[str, Any]:
    """Return what a message says, without where and when it was made."""
    metadata = message.response_metadata
    return {
        "text": message.text,
        "calls": message.tool_calls,
        "invalid": [(call["id"], call["args"] or "") for call in message.invalid_tool_calls],
        "usage": message.usage_metadata,
        "reasoning": message.additional_kwargs["reasoning_content"],
        "finish_reason": metadata["finish_reason"],
        "model_provider": metadata["model_provider"],
        "logprobs": metadata["logprobs"]["content"],
    }


def test_typed_events_end_in_the_plain_answer(start_emulator: StartEmulator) -> None:
    start_emulator([REPLY, REPLY])
    model = ChatSageMakerVLLM(logprobs=True)

    stream: Any = model.stream_events("Hi", version="v3")

    assert told(stream.output) == told(model.invoke("Hi"))


async def test_asynchronous_typed_events_end_in_the_plain_answer(
    start_emulator: StartEmulator,
) -> None:
    start_emulator([REPLY, REPLY])
    model = ChatSageMakerVLLM(logprobs=True)

    stream: Any = await model.astream_events("Hi", version="v3")

    assert told(await stream.output) == told(await model.ainvoke("Hi"))


def test_typed_events_show_reasoning_text_and_calls_as_they_come(
    start_emulator: StartEmulator,
) -> None:
    start_emulator([REPLY])

    events: list[Any] = list(ChatSageMakerVLLM().stream_events("Hi", version="v3"))

    deltas = [each["delta"] for each in events if each["event"] == "content-block-delta"]
    assert deltas[:3] == [
        {"type": "reasoning-delta", "reasoning": "Hm"},
        {"type": "text-delta", "text": "a"},
        {"type": "text-delta", "text": "b"},
    ]
    finished = [
        each["content"]["type"] for each in events if each["event"] == "content-block-finish"
    ]
    assert finished == ["reasoning", "text", "tool_call", *["invalid_tool_call"] * 3]


def test_typed_events_raise_what_broke_the_stream(start_emulator: StartEmulator) -> None:
    start_emulator([StreamReply([event({"content": "Hi"})], end=Cut("clean"))])

    stream: Any = ChatSageMakerVLLM().stream_events("Hi", version="v3")

    with pytest.raises(StreamInterruptedError):
        _ = stream.output


async def test_older_events_show_every_token_and_the_answer(
    start_emulator: StartEmulator,
) -> None:
    start_emulator([REPLY])

    events = [each async for each in ChatSageMakerVLLM().astream_events("Hi", version="v2")]

    chunks = [each["data"]["chunk"] for each in events if each["event"] == "on_chat_model_stream"]
    assert [chunk.text for chunk in chunks if chunk.text] == ["a", "b"]
    (end,) = [each["data"]["output"] for each in events if each["event"] == "on_chat_model_end"]
    assert told(end)["invalid"] == [("b", "468.4"), ("c", '{"y":'), ("d", "")]
