"""Public bug reports about images and messages, held against this package."""

import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import InvalidRequestError
from sagemaker_vllm.emulator import ContainerFault, JSONReply, Reply, StreamReply
from tests.integration.langchain.conftest import DONE, StartEmulator, Way, event

PNG = "iVBORw0KGgo="
DATA_URL = f"data:image/png;base64,{PNG}"
URL = "https://example.invalid/cat.png"


def image(url: str = DATA_URL) -> dict[str, Any]:
    """Return an image as vLLM takes it."""
    return {"type": "image_url", "image_url": {"url": url}}


async def sent(
    way: Way, start_emulator: StartEmulator, *messages: BaseMessage, **settings: Any
) -> list[Any]:
    """Return the messages that reach the endpoint."""
    emulator = start_emulator([Reply("ok")])
    await way.ask(ChatSageMakerVLLM(**settings), list(messages))
    made: list[Any] = emulator.requests[0].json["messages"]
    return made


@pytest.mark.parametrize(
    ("block", "url"),
    [
        ({"type": "image", "base64": PNG, "mime_type": "image/png"}, DATA_URL),
        ({"type": "image", "url": URL}, URL),
        (
            {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
            DATA_URL,
        ),
        ({"type": "image", "source_type": "url", "url": URL}, URL),
    ],
)
@pytest.mark.parametrize("keyword", ["content", "content_blocks"])
async def test_b54_image_blocks_old_and_new(
    way: Way, start_emulator: StartEmulator, block: Any, url: str, keyword: str
) -> None:
    message = HumanMessage(**{keyword: [block]})

    assert await sent(way, start_emulator, message) == [{"role": "user", "content": [image(url)]}]


JPEG = "/9j/4AAQSkZJRg=="


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (
            {"type": "base64", "media_type": "image/jpeg", "data": JPEG},
            f"data:image/jpeg;base64,{JPEG}",
        ),
        ({"type": "url", "url": URL}, URL),
    ],
)
async def test_b55_anthropic_images(
    way: Way, start_emulator: StartEmulator, source: dict[str, Any], url: str
) -> None:
    block: list[Any] = [{"type": "image", "source": source}]
    call = {"name": "f", "args": {"x": 1}, "id": "c1"}
    used: list[Any] = ["Hm.", {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]

    made = await sent(
        way,
        start_emulator,
        HumanMessage(block),
        AIMessage(used, tool_calls=[call]),
        ToolMessage(block, tool_call_id="c1"),
    )

    assert made[0]["content"] == made[3]["content"] == [image(url)]
    assert made[1]["content"] == "Hm."
    assert len(made[1]["tool_calls"]) == 1
    assert "source" not in json.dumps(made)


async def test_b60_the_order_of_parts(way: Way, start_emulator: StartEmulator) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "A:"},
        image(),
        {"type": "text", "text": "B:"},
        image(URL),
        {"type": "text", "text": "compare"},
    ]

    assert await sent(way, start_emulator, HumanMessage(parts)) == [
        {"role": "user", "content": parts}
    ]


COMPLAINT = "Conversation roles must alternate user/assistant"


async def test_b63_neighbours_of_one_role_are_merged_when_asked(
    way: Way, start_emulator: StartEmulator
) -> None:
    picture: list[Any] = [{"type": "text", "text": "b"}, image()]

    made = await sent(
        way,
        start_emulator,
        SystemMessage("s"),
        HumanMessage("a"),
        HumanMessage(picture),
        AIMessage("c"),
        AIMessage("d"),
        HumanMessage("e"),
        merge_consecutive_messages=True,
    )

    assert [message["role"] for message in made] == ["system", "user", "assistant", "user"]
    assert made[1]["content"] == [{"type": "text", "text": "a"}, *picture]
    assert made[2]["content"] == "c\n\nd"


async def test_b63_else_the_servers_sentence_is_shown(
    way: Way, start_emulator: StartEmulator
) -> None:
    start_emulator([ContainerFault(400, {"error": {"message": COMPLAINT, "code": 400}})])

    with pytest.raises(InvalidRequestError, match=COMPLAINT):
        await way.ask(ChatSageMakerVLLM(), [HumanMessage("a"), HumanMessage("b")])


async def test_b65_text_as_a_list(way: Way, start_emulator: StartEmulator) -> None:
    texts: list[Any] = [{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}]

    made = await sent(
        way,
        start_emulator,
        SystemMessage(texts),
        HumanMessage(texts),
        AIMessage(texts),
        HumanMessage([]),
        HumanMessage([*texts, image()]),
    )

    assert [message["content"] for message in made[:4]] == ["a\nb\nc"] * 3 + [""]
    assert [part["type"] for part in made[4]["content"]] == ["text"] * 3 + ["image_url"]


async def test_b66_empty_turns_keep_their_place(way: Way, start_emulator: StartEmulator) -> None:
    call = {"name": "f", "args": {}, "id": "c1"}

    made = await sent(
        way,
        start_emulator,
        HumanMessage(""),
        AIMessage("", tool_calls=[call]),
        ToolMessage("x", tool_call_id="c1"),
        AIMessage(""),
        HumanMessage("?"),
    )

    assert [message["content"] for message in made] == ["", None, "x", "", "?"]


async def test_b67_names(way: Way, start_emulator: StartEmulator) -> None:
    call = {"name": "f", "args": {}, "id": "c1"}
    messages = (
        HumanMessage("hi", name="bob"),
        AIMessage("", name="agent", tool_calls=[call]),
        ToolMessage("x", name="f", tool_call_id="c1"),
        HumanMessage("hi", name=None),
        HumanMessage("hi", name="a b!"),
    )

    made = await sent(way, start_emulator, *messages)
    without = await sent(way, start_emulator, *messages, send_names=False)

    assert [message.get("name", "-") for message in made] == ["bob", "agent", "f", "-", "a b!"]
    assert all("name" not in message for message in without)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
async def test_b68_reasoning_is_read(way: Way, start_emulator: StartEmulator, key: str) -> None:
    choice = {"index": 0, "finish_reason": "stop"}
    plain = JSONReply({"choices": [{**choice, "message": {key: "because", "content": "4"}}]})
    streamed = [event({key: "be"}), event({key: "cause"}), event({"content": "4"}, "stop"), DONE]
    start_emulator([StreamReply(streamed) if way.is_stream else plain])

    items = await way.items(ChatSageMakerVLLM())

    assert [item.content for item in items if item.content] == ["4"]
    kept = [item.additional_kwargs.get("reasoning_content", "") for item in items]
    assert "".join(kept) == "because"
