"""What only the whole conversation shows: media of tools, ids of calls, neighbours of one role."""

import copy
from typing import Any

import pytest

from sagemaker_vllm import ConfigurationError, join_text, settle_messages

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def calling(*ids: str | None, content: str = "") -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str | None, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": call_id}


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([], ""),
        ([text("a")], "a"),
        ([text("a"), text("b")], "a\nb"),
        ([text("a"), text(""), text("b")], "a\nb"),
        ([text("a"), IMAGE, text("b")], [text("a"), IMAGE, text("b")]),
    ],
    ids=["none", "one", "two", "an-empty-one", "with-an-image"],
)
def test_text_parts_alone_become_one_string(parts: list[dict[str, Any]], content: Any) -> None:
    assert join_text(parts) == content


def test_media_of_tool_results_follow_the_last_tool_message_of_the_turn() -> None:
    settled = settle_messages(
        [calling("c1", "c2"), result("c1", [text("shot"), IMAGE]), result("c2"), user("next")]
    )

    expected = [result("c1", "shot"), result("c2"), user([IMAGE]), user("next")]
    assert settled[1:] == expected


def test_media_of_the_last_message_is_sent_too() -> None:
    settled = settle_messages([calling("c1"), result("c1", [IMAGE])])

    assert settled[1:] == [result("c1", "The result is in the next message."), user([IMAGE])]


def test_ids_of_the_server_are_echoed_byte_for_byte() -> None:
    messages = [calling("chatcmpl-tool-0123456789abcdef"), result("chatcmpl-tool-0123456789abcdef")]

    assert settle_messages(messages) == messages


def test_equal_ids_of_two_calls_stay_equal() -> None:
    messages = [calling("x", "x"), result("x", "1"), result("x", "2")]

    assert settle_messages(messages) == messages


def test_missing_ids_are_made_of_the_position_and_paired_in_order() -> None:
    messages = [user("hi"), calling(None, "", "c3"), result("c3"), result(None), result("")]

    settled = settle_messages(messages)

    made = [call["id"] for call in settled[1]["tool_calls"]]
    answered = [message["tool_call_id"] for message in settled[2:]]
    assert made == ["call00100", "call00101", "c3"]
    assert answered == ["c3", "call00100", "call00101"]


def test_tool_message_without_id_and_without_call_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tool_call_id"):
        settle_messages([user("hi"), result(None)])


def test_tool_message_of_an_unseen_call_keeps_its_id() -> None:
    messages = [user("hi"), result("earlier")]

    assert settle_messages(messages) == messages


def test_names_are_sent_unless_switched_off() -> None:
    messages = [user("hi", name="bob")]

    assert settle_messages(messages) == messages
    assert settle_messages(messages, send_names=False) == [user("hi")]


@pytest.mark.parametrize(
    ("messages", "merged"),
    [
        ([user("a"), user("b")], [user("a\n\nb")]),
        ([user("a"), user([IMAGE])], [user([text("a"), IMAGE])]),
        ([user([IMAGE]), user("b")], [user([IMAGE, text("b")])]),
        ([user(""), user("b")], [user("b")]),
        ([user("a", name="x"), user("b", name="x")], [user("a\n\nb", name="x")]),
        ([user("a", name="x"), user("b")], [user("a\n\nb")]),
        ([result("c1"), result("c2")], [result("c1"), result("c2")]),
        (
            [{"role": "assistant", "content": "a", "reasoning": "r"}, calling("c1", content="b")],
            [{**calling("c1", content="a\n\nb"), "reasoning": "r"}],
        ),
        (
            [calling("c1"), {**calling("c2"), "reasoning": "r"}],
            [{**calling("c1", "c2"), "reasoning": "r"}],
        ),
    ],
    ids=[
        "texts",
        "text-then-image",
        "image-then-text",
        "empty-text",
        "one-name",
        "two-names",
        "tools-never",
        "reasoning-first",
        "calls-of-both",
    ],
)
def test_neighbours_of_one_role_are_merged_when_asked(
    messages: list[dict[str, Any]], merged: list[dict[str, Any]]
) -> None:
    assert settle_messages(messages, merge_consecutive=True) == merged


def test_neighbours_stay_apart_by_default() -> None:
    messages = [user("a"), user("b")]

    assert settle_messages(messages) == messages


def test_messages_given_are_never_changed() -> None:
    messages = [user("a", name="x"), user("b"), calling(None), result(None, [text("t"), IMAGE])]
    before = copy.deepcopy(messages)

    settle_messages(messages, merge_consecutive=True, send_names=False)

    assert messages == before
