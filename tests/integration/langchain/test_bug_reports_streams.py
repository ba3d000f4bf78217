"""Public bug reports about the parsing of streams, held against this package."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import (
    SageMakerVLLMError,
    ServerError,
    StreamDecodeError,
    StreamInterruptedError,
)
from sagemaker_vllm.emulator import AnyReply, Reply, StreamReply
from tests.integration.langchain.conftest import (
    DONE,
    StartEmulator,
    Way,
    call_event,
    data,
    event,
    usage_event,
)

Cut = Callable[..., AnyReply]


def roll() -> int:
    """Roll a die."""
    return 4


async def test_b01_several_events_in_a_part(streamed: Way, start_emulator: StartEmulator) -> None:
    last = event({"content": "!"}, "stop")
    parts = [
        event({"content": "He"}) + event({"content": "llo"}) + last[:25],
        last[25:] + DONE,
    ]
    start_emulator([StreamReply(parts)])

    chunks = await streamed.items(ChatSageMakerVLLM())

    assert [chunk.content for chunk in chunks if chunk.content] == ["He", "llo", "!"]
    assert chunks[-1].response_metadata["finish_reason"] == "stop"


async def test_b02_json_cut_between_parts(streamed: Way, start_emulator: StartEmulator) -> None:
    whole = event({"content": "alpha"}) + event({"content": "beta"}, "stop") + DONE
    cuts = [[whole[:at], whole[at:]] for at in range(1, len(whole), 7)]
    start_emulator([*map(StreamReply, cuts), StreamReply(whole, parts=1)])
    model = ChatSageMakerVLLM()

    for _ in range(len(cuts) + 1):
        message = await streamed.ask(model)
        assert message.content == "alphabeta"
        assert message.response_metadata["finish_reason"] == "stop"


async def test_b03_characters_cut_between_parts(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    whole = event({"content": "ж你🙂"}, "stop") + DONE
    begin = whole.index("ж".encode())
    cuts = [[whole[:at], whole[at:]] for at in range(begin, begin + 10)]
    start_emulator(map(StreamReply, cuts))
    model = ChatSageMakerVLLM()

    for _ in cuts:
        assert (await streamed.ask(model)).content == "ж你🙂"


@pytest.mark.parametrize("end", [b"", DONE.rstrip()])
async def test_b04_no_newline_at_the_end(
    streamed: Way, start_emulator: StartEmulator, end: bytes
) -> None:
    last = event({"content": "ok"}, "stop")
    start_emulator([StreamReply((last + end) if end else last.rstrip())])

    assert (await streamed.ask(ChatSageMakerVLLM())).content == "ok"


async def test_b05_no_space_after_the_colon(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    events = [event({"content": "ok"}, "stop"), DONE]
    start_emulator([cut(*(each.replace(b"data: ", b"data:") for each in events))])

    assert (await streamed.ask(ChatSageMakerVLLM())).content == "ok"


async def test_b05_a_text_generation_servers_shape_is_refused(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([StreamReply(data({"token": {"text": " hi"}, "generated_text": None}))])

    with pytest.raises(StreamDecodeError, match="not a chat or text completion chunk"):
        await streamed.ask(ChatSageMakerVLLM())


async def test_b06_lines_that_are_no_data(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    noise = b": keep-alive\n\nevent: message\nid: 7\nretry: 1000\n\n\n\n"
    start_emulator([cut(noise, event({"content": "data: a data at"}, "stop"), DONE)])

    assert (await streamed.ask(ChatSageMakerVLLM())).content == "data: a data at"


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        ({"error": {"message": "engine queue full", "code": 503}}, "engine queue full"),
        ({"object": "error", "message": "engine queue full", "code": 400}, "engine queue full"),
        ({"error": "text only"}, "text only"),
        ({"error": {"message": "engine queue full", "code": None}}, "engine queue full"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
async def test_b09_an_error_inside_a_stream(
    streamed: Way, start_emulator: StartEmulator, problem: Any, sentence: str, first: bool
) -> None:
    before = [] if first else [event({"content": "Hi"})]
    start_emulator([StreamReply([*before, data(problem), DONE])])

    with pytest.raises(SageMakerVLLMError, match=sentence):
        await streamed.ask(ChatSageMakerVLLM(max_retries=0))


async def test_b09_a_plain_call_that_streams_inside_raises_too(
    plain: Way, start_emulator: StartEmulator
) -> None:
    problem = {"error": {"message": "engine queue full", "code": 503}}
    start_emulator([StreamReply([event({"content": "Hi"}), data(problem), DONE])])

    with pytest.raises(ServerError, match="engine queue full"):
        await plain.ask(ChatSageMakerVLLM(streaming=True))


async def test_b10_chunks_without_choices(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    nothing: list[Any] = [[], None]
    empty = [data({"id": "r1", "choices": each, "usage": None}) for each in nothing]
    start_emulator([cut(*empty, event({"content": "Hi"}, "stop"), usage_event(3, 1), DONE)])

    message = await streamed.ask(ChatSageMakerVLLM())

    assert message.content == "Hi"
    assert message.usage_metadata == {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}


async def test_b14_no_finish_reason_but_done(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    start_emulator([cut(event({"content": "x"}), DONE)])

    message = await streamed.ask(ChatSageMakerVLLM())

    assert message.content == "x"
    assert "finish_reason" not in message.response_metadata


async def test_b14_no_finish_reason_and_no_end(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    start_emulator([cut(event({"content": "x"}))])

    with pytest.raises(StreamInterruptedError) as caught:
        await streamed.ask(ChatSageMakerVLLM())

    assert caught.value.partial is not None
    assert caught.value.partial.text == "x"


async def test_b15_an_empty_first_chunk_before_a_call(
    start_emulator: StartEmulator, cut: Cut
) -> None:
    start_emulator(
        [
            cut(
                event({"role": "assistant", "content": ""}),
                event({"content": None}),
                call_event(0, id="c1", name="roll", arguments="{}"),
                event({}, "tool_calls"),
                DONE,
            ),
            Reply("You got 4."),
        ]
    )
    agent: Any = create_agent(ChatSageMakerVLLM(streaming=True), tools=[roll])

    messages = (await agent.ainvoke({"messages": [("user", "roll")]}))["messages"]

    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[1].content == ""
    assert messages[3].content == "You got 4."
    assert type(messages[1]) is AIMessage
