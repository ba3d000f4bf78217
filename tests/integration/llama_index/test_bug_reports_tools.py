"""Public reports about tool calls, as tests of the LlamaIndex LLM."""

import copy
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.tools import FunctionTool

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import Reply
from tests.integration.llama_index.conftest import AskerFactory
from tests.integration.llama_index.wire import (
    ABSENT,
    DONE,
    SPLITS,
    call,
    either,
    event,
    in_turn,
    stream,
    whole,
    whole_call,
)

ONLY_STREAMED = pytest.mark.parametrize("way", ["stream", "async stream"], indirect=True)
ONLY_ASYNC = pytest.mark.parametrize("way", ["async plain", "async stream"], indirect=True)
WITH_SPLITS = pytest.mark.parametrize("split", SPLITS)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="


def find(q: str = "") -> str:
    """Find something."""
    return f"found {q}"


def now() -> str:
    """Tell the time."""
    return "noon"


FIND, NOW = FunctionTool.from_defaults(find), FunctionTool.from_defaults(now)
END = event({}, "tool_calls") + DONE
X, Y = '{"x": 1}', '{"y": 2}'


def called(ask: Any, response: Any) -> list[tuple[str, str, dict[str, Any]]]:
    calls = ask.llm.get_tool_calls_from_response(response)
    return [(each.tool_id, each.tool_name, each.tool_kwargs) for each in calls]


def answer_to(response: Any, ask: Any) -> list[ChatMessage]:
    """Return the messages that send a response's calls back with their results."""
    calls = ask.llm.get_tool_calls_from_response(response)
    results = [
        ChatMessage(role="tool", content="done", additional_kwargs={"tool_call_id": each.tool_id})
        for each in calls
    ]
    return [ChatMessage(content="Go."), response.message, *results]


@ONLY_STREAMED
@WITH_SPLITS
def test_b17_every_call_at_index_0(asker: AskerFactory, split: str) -> None:
    pieces = (call(0, "a1", "f", ""), call(0, "", ABSENT, X), call(0, "b2", "g", ""))
    ask = asker([stream(*pieces, call(0, "", ABSENT, Y), END, split=split)])

    response = ask.chat_with_tools([FIND], user_msg="Go.", allow_parallel_tool_calls=True)[-1]

    assert called(ask, response) == [("a1", "f", {"x": 1}), ("b2", "g", {"y": 2})]


@ONLY_STREAMED
@WITH_SPLITS
def test_b18_pieces_of_two_calls_interleave(asker: AskerFactory, split: str) -> None:
    ask = asker(
        [
            stream(
                call(0, "a", "f", ""),
                call(1, "b", "g", ""),
                call(0, ABSENT, ABSENT, '{"x":'),
                call(1, ABSENT, ABSENT, '{"y":'),
                call(0, ABSENT, ABSENT, "1}"),
                call(1, ABSENT, ABSENT, "2}"),
                END,
                split=split,
            )
        ]
    )

    response = ask.chat_with_tools([FIND], user_msg="Go.", allow_parallel_tool_calls=True)[-1]

    assert called(ask, response) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


@ONLY_STREAMED
@WITH_SPLITS
def test_b19_nulls_in_pieces(asker: AskerFactory, split: str) -> None:
    ask = asker(
        [
            stream(
                call(0, "c", "find", None),
                event({"tool_calls": [{"index": 0, "function": None}]}),
                call(0, None, None, '{"q":'),
                call(0, None, None, '"z"}'),
                END,
                split=split,
            )
        ]
    )

    response = ask.chat_with_tools([FIND], user_msg="Go.")[-1]

    assert called(ask, response) == [("c", "find", {"q": "z"})]


@pytest.mark.parametrize(
    "arguments", ["", " ", None, ABSENT], ids=["empty", "blank", "null", "absent"]
)
def test_b20_call_without_arguments(asker: AskerFactory, arguments: Any) -> None:
    calling = either(
        whole({"tool_calls": [whole_call("c", "now", arguments)]}, "tool_calls"),
        call(0, "c", "now", arguments),
        END,
    )
    ask = asker(in_turn(calling, either(whole("ok"), event({"content": "ok"}, "stop"), DONE)))

    response = ask.chat_with_tools([NOW], user_msg="Go.")[-1]
    ask.chat(answer_to(response, ask))

    assert called(ask, response) == [("c", "now", {})]
    assert ask.sent[1]["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("tool_kwargs", "arguments"),
    [({"p": "é", "n": None}, '{"p": "é", "n": null}'), ('{"p": "é"}', '{"p": "é"}')],
    ids=["dict", "str"],
)
def test_b21_past_arguments_are_text(asker: AskerFactory, tool_kwargs: Any, arguments: str) -> None:
    ask = asker(lambda _: Reply("ok"))
    block = ToolCallBlock(tool_call_id="c1", tool_name="read", tool_kwargs=tool_kwargs)
    result = ChatMessage(role="tool", content="1", additional_kwargs={"tool_call_id": "c1"})

    ask.chat([ChatMessage(content="Go."), ChatMessage(role="assistant", blocks=[block]), result])

    assert ask.sent[0]["messages"][1]["tool_calls"][0]["function"]["arguments"] == arguments


def test_b23_images_of_tools_follow_as_a_user_message(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))
    blocks = [ToolCallBlock(tool_call_id=each, tool_name="f") for each in ("c1", "c2")]
    shot = [TextBlock(text="shot"), ImageBlock(image=PNG.encode())]
    results = [
        ChatMessage(role="tool", content=content, additional_kwargs={"tool_call_id": call_id})
        for call_id, content in (("c1", shot), ("c2", "ok"))
    ]

    ask.chat([ChatMessage(content="Go."), ChatMessage(role="assistant", blocks=blocks), *results])

    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert ask.sent[0]["messages"][2:] == [
        {"role": "tool", "content": "shot", "tool_call_id": "c1"},
        {"role": "tool", "content": "ok", "tool_call_id": "c2"},
        {"role": "user", "content": [image]},
    ]


@pytest.mark.parametrize(
    ("keywords", "sent"),
    [
        ({"tool_required": True}, "required"),
        ({"tool_choice": "any"}, "required"),
        ({"tool_choice": "required"}, "required"),
        ({"tool_choice": True}, "required"),
        ({"tool_choice": "auto"}, "auto"),
        ({"tool_choice": "none"}, "none"),
        ({"tool_choice": False}, None),
        ({"tool_choice": None}, None),
        ({"tool_choice": "now"}, {"type": "function", "function": {"name": "now"}}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "find"}}},
            {"type": "function", "function": {"name": "find"}},
        ),
    ],
)
def test_b24_every_tool_choice(asker: AskerFactory, keywords: dict[str, Any], sent: Any) -> None:
    ask = asker(lambda _: Reply("ok"))

    ask.chat_with_tools([FIND, NOW], user_msg="Go.", **keywords)

    assert ask.sent[0].get("tool_choice") == sent


def test_b24_unknown_tool_is_refused_before_any_request(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))

    with pytest.raises(ConfigurationError, match="'nope'"):
        ask.chat_with_tools([FIND, NOW], user_msg="Go.", tool_choice="nope")

    assert ask.requests == []


@pytest.mark.parametrize("call_id", ["chatcmpl-tool-0123456789abcdef", None, ""])
def test_b26_ids_are_echoed_and_missing_ones_made(asker: AskerFactory, call_id: Any) -> None:
    calling = either(
        whole({"tool_calls": [whole_call(call_id, "now", "{}")]}, "tool_calls"),
        call(0, call_id, "now", "{}"),
        END,
    )
    ask = asker(in_turn(calling, either(whole("ok"), event({"content": "ok"}, "stop"), DONE)))

    response = ask.chat_with_tools([NOW], user_msg="Go.")[-1]
    ask.chat(answer_to(response, ask))

    found = called(ask, response)[0][0]
    assert found == call_id or (not call_id and found.isalnum() and len(found) == 9)
    messages = ask.sent[1]["messages"]
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"] == found


def test_b26_equal_ids_stay_two_calls(asker: AskerFactory) -> None:
    calls = [whole_call("x", "find", '{"q": "a"}'), whole_call("x", "now", "{}")]
    calling = either(
        whole({"tool_calls": calls}, "tool_calls"),
        call(0, "x", "find", '{"q": "a"}'),
        call(1, "x", "now", "{}"),
        END,
    )
    ask = asker(in_turn(calling, either(whole("ok"), event({"content": "ok"}, "stop"), DONE)))

    response = ask.chat_with_tools([FIND, NOW], user_msg="Go.", allow_parallel_tool_calls=True)[-1]
    ask.chat(answer_to(response, ask))

    assert [name for _, name, _ in called(ask, response)] == ["find", "now"]
    messages = ask.sent[1]["messages"]
    assert [each["id"] for each in messages[1]["tool_calls"]] == ["x", "x"]
    assert [each["tool_call_id"] for each in messages[2:]] == ["x", "x"]


@ONLY_ASYNC
@WITH_SPLITS
def test_b29_text_before_a_call_is_kept_and_the_tool_runs(asker: AskerFactory, split: str) -> None:
    calls = [whole_call("c", "find", "{}")]
    calling = either(
        whole({"content": "Let me check.", "tool_calls": calls}, "tool_calls"),
        event({"content": "Let me check."}),
        call(0, "c", "find", "{}"),
        END,
        split=split,
    )
    ask = asker(in_turn(calling, either(whole("Done."), event({"content": "Done."}, "stop"), DONE)))

    async def run() -> Any:
        return await FunctionAgent(tools=[find], llm=ask.llm, streaming=ask.is_streamed).run("Go.")

    output = ask.run(run())

    assert str(output) == "Done."
    assert ask.sent[1]["messages"][1]["content"] == "Let me check."
    assert ask.sent[1]["messages"][2]["content"] == "found "


@ONLY_STREAMED
@WITH_SPLITS
@pytest.mark.parametrize("indexes", [(ABSENT, ABSENT), ("0", 0)], ids=["absent", "text"])
def test_b32_pieces_without_an_index_or_with_text(
    asker: AskerFactory, indexes: tuple[Any, Any], split: str
) -> None:
    first, second = indexes
    pieces = (call(first, "a", "f", ""), call(second, ABSENT, ABSENT, X))
    ask = asker([stream(*pieces, END, split=split)])

    response = ask.chat_with_tools([FIND], user_msg="Go.")[-1]

    assert called(ask, response) == [("a", "f", {"x": 1})]


def test_b112_answer_without_calls(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("Hello."))

    response = ask.chat_with_tools([FIND], user_msg="Hi.")[-1]

    assert ask.llm.get_tool_calls_from_response(response, error_on_no_tool_call=False) == []
    with pytest.raises(ValueError, match="no tool call"):
        ask.llm.get_tool_calls_from_response(response)


@ONLY_ASYNC
def test_b112_agent_returns_a_direct_answer(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("Hello."))

    async def run() -> Any:
        return await FunctionAgent(tools=[find], llm=ask.llm, streaming=ask.is_streamed).run("Hi.")

    assert str(ask.run(run())) == "Hello."


@pytest.mark.parametrize("way", ["plain", "async plain"], indirect=True)
def test_b112_predict_and_call_returns_a_direct_answer_when_allowed(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("Hello."))
    keywords = {"user_msg": "Hi.", "error_on_no_tool_call": False}

    found = (
        ask.run(ask.llm.apredict_and_call([FIND], **keywords))
        if ask.is_async
        else ask.llm.predict_and_call([FIND], **keywords)
    )

    assert found.response == "Hello."


def test_history_given_is_left_as_it_is(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))
    history = [ChatMessage(role="system", content="Be brief.")]
    before = copy.deepcopy(history)

    ask.chat_with_tools([FIND], user_msg="Hi.", chat_history=history)

    assert history == before
