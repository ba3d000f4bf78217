"""Public reports about messages and images, as tests of the LlamaIndex LLM."""

import base64
import itertools
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from sagemaker_vllm import ConfigurationError, InvalidRequestError
from sagemaker_vllm.emulator import ContainerFault, Reply
from tests.integration.llama_index.conftest import AskerFactory
from tests.integration.llama_index.wire import DONE, SPLITS, either, event, whole

URL = "https://example.invalid/a.png"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def user(*blocks: Any) -> ChatMessage:
    return ChatMessage(blocks=[TextBlock(text=b) if isinstance(b, str) else b for b in blocks])


def test_b57_local_image_is_sent_inline(asker: AskerFactory, tmp_path: Path) -> None:
    path = tmp_path / "pic.png"
    path.write_bytes(PNG)
    ask = asker(lambda _: Reply("ok"))

    ask.chat([user(ImageBlock(path=path))])

    data_url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert ask.sent[0]["messages"][0]["content"] == [image(data_url)]
    assert str(path) not in ask.requests[0].body.decode()


def test_b57_missing_image_raises_before_any_request(asker: AskerFactory, tmp_path: Path) -> None:
    path = tmp_path / "pic.png"
    path.write_bytes(PNG)
    block = ImageBlock(path=path)
    path.unlink()
    ask = asker(lambda _: Reply("ok"))

    with pytest.raises(ConfigurationError, match="No such file"):
        ask.chat([user(block)])

    assert ask.requests == []


def test_b60_order_of_texts_and_images_is_kept(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))
    first, second = (ImageBlock(url=f"{URL}?{each}") for each in (1, 2))

    ask.chat([user("A:", first, "B:", second, "compare")])

    texts = [{"type": "text", "text": each} for each in ("A:", "B:", "compare")]
    expected = [texts[0], image(f"{URL}?1"), texts[1], image(f"{URL}?2"), texts[2]]
    assert ask.sent[0]["messages"][0]["content"] == expected


@pytest.mark.parametrize("blocks", [("look", ImageBlock(url=URL)), (ImageBlock(url=URL),)])
def test_b62_image_url_is_sent_unchanged_and_not_fetched(
    asker: AskerFactory, blocks: tuple[Any, ...]
) -> None:
    ask = asker(lambda _: Reply("ok"))

    ask.chat([user(*blocks)])

    assert ask.sent[0]["messages"][0]["content"][-1] == image(URL)
    assert len(ask.sent[0]["messages"][0]["content"]) == len(blocks)


ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."


@pytest.mark.parametrize("merge", [True, False])
def test_b63_neighbours_are_merged_when_asked(asker: AskerFactory, merge: bool) -> None:
    def answer(request: Any) -> Any:
        roles = [message["role"] for message in request.json["messages"]]
        if any(a == b for a, b in itertools.pairwise(roles)):
            return ContainerFault(400, {"error": {"message": ALTERNATE, "code": 400}})
        return Reply("ok")

    ask = asker(answer, merge_consecutive_messages=merge)
    messages = [ChatMessage(role="system", content="s"), user("a"), user("b", ImageBlock(url=URL))]

    if not merge:
        with pytest.raises(InvalidRequestError, match="roles must alternate"):
            ask.chat(messages)
        return
    ask.chat(messages)

    texts = [{"type": "text", "text": each} for each in ("a", "b")]
    assert ask.sent[0]["messages"][1:] == [{"role": "user", "content": [*texts, image(URL)]}]


def test_b65_text_in_blocks_becomes_one_string(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))
    roles = ("system", "user", "assistant")
    blocks = [TextBlock(text="a"), TextBlock(text="b")]

    ask.chat([*(ChatMessage(role=role, blocks=blocks) for role in roles), ChatMessage(blocks=[])])

    assert [message["content"] for message in ask.sent[0]["messages"]] == ["a\nb"] * 3 + [""]


def test_b66_turns_without_text_keep_their_place(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))
    calling = ChatMessage(role="assistant", content=None)
    calling.blocks.append(ToolCallBlock(tool_call_id="c", tool_name="f"))
    result = ChatMessage(role="tool", content=None, additional_kwargs={"tool_call_id": "c"})

    ask.chat([user("Go."), calling, result, ChatMessage(role="assistant", content=None)])

    messages = ask.sent[0]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in messages[1:]] == ["", "", ""]
    assert b"None" not in ask.requests[0].body


@pytest.mark.parametrize("send_names", [True, False])
def test_b67_names_are_sent_when_there_are_any(asker: AskerFactory, send_names: bool) -> None:
    ask = asker(lambda _: Reply("ok"), send_names=send_names)
    named = ChatMessage(content="hi", additional_kwargs={"name": "bob"})
    unnamed = ChatMessage(content="hi", additional_kwargs={"name": None})

    ask.chat([named, unnamed])

    names = [message.get("name", "-") for message in ask.sent[0]["messages"]]
    assert names == ["bob" if send_names else "-", "-"]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("split", SPLITS)
def test_b68_reasoning_is_a_block_and_sent_back(asker: AskerFactory, key: str, split: str) -> None:
    pieces = (event({key: "be"}), event({key: "cause"}), event({"content": "4"}, "stop"), DONE)
    ask = asker(either(whole({key: "because", "content": "4"}), *pieces, split=split))

    responses = ask.chat([user("2+2?")])
    ask.chat([user("2+2?"), responses[-1].message, user("Why?")])

    assert responses[-1].message.blocks == [ThinkingBlock(content="because"), TextBlock(text="4")]
    assert responses[-1].message.content == "4"
    thinking = [each.additional_kwargs.get("thinking_delta") for each in responses]
    assert thinking == (["be", "cause", None, None] if ask.is_streamed else [None])
    assert ask.sent[1]["messages"][1] == {
        "role": "assistant",
        "content": "4",
        "reasoning": "because",
    }
