"""Public bug reports about usage, callbacks and sampling options, held against this package."""

from collections.abc import Callable
from typing import Any

import pytest

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from sagemaker_vllm.emulator import AnyReply, Reply
from tests.integration.langchain.conftest import (
    DONE,
    StartEmulator,
    Way,
    data,
    event,
    usage_event,
)

Cut = Callable[..., AnyReply]


def counted(content: str, completion: int, finish_reason: str | None = None) -> bytes:
    """Return an event with text and running token counts."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": completion,
        "total_tokens": 5 + completion,
    }
    return data({"id": "r1", "model": "m", "choices": [choice], "usage": usage})


@pytest.mark.parametrize(
    "events",
    [
        [counted("a", 1), counted("b", 2, "stop"), usage_event(5, 2), DONE],
        [event({"content": "a"}), counted("b", 2, "stop"), usage_event(5, 2), DONE],
    ],
)
async def test_b91_repeated_usage(
    streamed: Way, start_emulator: StartEmulator, cut: Cut, events: list[bytes]
) -> None:
    start_emulator([cut(*events), cut(*events)])

    for message in (
        await streamed.ask(ChatSageMakerVLLM()),
        ChatSageMakerVLLM(streaming=True).invoke("Hi"),
    ):
        assert message.usage_metadata == {
            "input_tokens": 5,
            "output_tokens": 2,
            "total_tokens": 7,
        }


async def test_b92_usage_is_asked_for_in_streams_only(
    way: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply("ok"), Reply("ok")])

    await way.ask(ChatSageMakerVLLM())
    await way.ask(ChatSageMakerVLLM(stream_usage=False))

    wanted = {"include_usage": True} if way.is_stream else None
    assert emulator.requests[0].json.get("stream_options") == wanted
    assert "stream_options" not in emulator.requests[1].json


async def test_b93_finish_reason_and_model_name(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([Reply("ok", finish_reason="length", model="served")])

    metadata = (await way.ask(ChatSageMakerVLLM())).response_metadata

    assert (metadata["finish_reason"], metadata["model_name"]) == ("length", "served")


LOGPROBS = [
    {"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": []}
    for token in ("a", "b", "c")
]


async def test_b95_logprobs_of_a_chat(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply(chunks=["a", "b", "c"], logprobs=LOGPROBS)])

    metadata = (await way.ask(ChatSageMakerVLLM(logprobs=True))).response_metadata

    assert metadata["logprobs"]["content"] == LOGPROBS
    assert metadata["finish_reason"] == "stop"
    assert emulator.requests[0].json["logprobs"] is True


async def test_b95_logprobs_come_with_their_token(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([Reply(chunks=["a", "b", "c"], logprobs=LOGPROBS)])

    chunks = await streamed.items(ChatSageMakerVLLM(logprobs=True))

    assert [
        chunk.response_metadata["logprobs"]["content"] for chunk in chunks if chunk.content
    ] == [[each] for each in LOGPROBS]


TEXT_LOGPROBS = {
    "tokens": ["a", "b", "c"],
    "token_logprobs": [-0.5, -0.25, -1.0],
    "top_logprobs": [{"a": -0.5}, {"b": -0.25}, {"c": -1.0}],
    "text_offset": [0, 1, 2],
}


@pytest.mark.parametrize("is_stream", [True, False])
def test_b95_logprobs_of_a_text(start_emulator: StartEmulator, is_stream: bool) -> None:
    start_emulator([Reply(chunks=["a", "b", "c"], logprobs=TEXT_LOGPROBS)])
    model = SageMakerVLLM(logprobs=1, streaming=is_stream)

    info: Any = model.generate(["Hi"]).generations[0][0].generation_info

    assert info["logprobs"] == TEXT_LOGPROBS
    assert info["finish_reason"] == "stop"


ABSENT = object()
STOPS = [
    ({}, ["X"]),
    ({"stop": ["Y"]}, ["Y"]),
    ({"stop": None}, ["X"]),
    ({"stop": "Z"}, ["Z"]),
    ({"stop": []}, ABSENT),
]


@pytest.mark.parametrize(("keywords", "sent"), STOPS)
async def test_b97_stop_of_a_chat(
    way: Way, start_emulator: StartEmulator, keywords: dict[str, Any], sent: Any
) -> None:
    emulator = start_emulator([Reply("ok"), Reply("ok")])
    model = ChatSageMakerVLLM(stop=["X"])

    await way.ask(model, **keywords)
    await way.ask(model.bind(**keywords))

    assert [request.json.get("stop", ABSENT) for request in emulator.requests] == [sent, sent]


@pytest.mark.parametrize(("keywords", "sent"), STOPS)
async def test_b97_stop_of_a_text(
    way: Way, start_emulator: StartEmulator, keywords: dict[str, Any], sent: Any
) -> None:
    emulator = start_emulator([Reply("ok"), Reply("ok")])
    model = SageMakerVLLM(stop=["X"])

    await way.items(model, **keywords)
    await way.items(model.bind(**keywords))

    assert [request.json.get("stop", ABSENT) for request in emulator.requests] == [sent, sent]


@pytest.mark.parametrize(
    ("settings", "keywords", "sent"),
    [
        ({"max_tokens": 50}, {}, {"max_tokens": 50}),
        ({"max_tokens": 50}, {"max_tokens": 20}, {"max_tokens": 20}),
        ({"max_tokens": 50}, {"max_completion_tokens": 20}, {"max_completion_tokens": 20}),
        (
            {"max_tokens": 50, "model_kwargs": {"max_completion_tokens": 9}},
            {},
            {"max_completion_tokens": 9},
        ),
        ({"model_kwargs": {"max_completion_tokens": 9}}, {"max_tokens": 20}, {"max_tokens": 20}),
        ({"max_tokens": 50}, {"max_tokens": None}, {"max_tokens": 50}),
        ({"max_tokens": 50}, {"max_tokens": 0}, {}),
        ({}, {"max_tokens": 0}, {}),
    ],
)
async def test_b98_one_limit(
    way: Way,
    start_emulator: StartEmulator,
    settings: dict[str, Any],
    keywords: dict[str, Any],
    sent: dict[str, int],
) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.ask(ChatSageMakerVLLM(**settings).bind(**keywords))

    body = emulator.requests[0].json
    limits = {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body}
    assert limits == sent
