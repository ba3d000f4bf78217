"""Public bug reports about tool calling, held against this package."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import AnyReply, JSONReply, Reply, StreamReply
from tests.integration.langchain.conftest import DONE, StartEmulator, Way, call_event, event

Cut = Callable[..., AnyReply]
END = (event({}, "tool_calls"), DONE)
PNG = "iVBORw0KGgo="


def f(x: int = 0) -> int:
    """Take a number."""
    return x


def g(y: int = 0) -> int:
    """Take another number."""
    return y


def called(message: AIMessage) -> list[tuple[str, dict[str, Any], str | None]]:
    """Return name, arguments and id of every call; there may be no invalid one."""
    assert message.invalid_tool_calls == []
    return [(call["name"], call["args"], call["id"]) for call in message.tool_calls]


def plain_answer(*calls: dict[str, Any]) -> JSONReply:
    """Return a plain answer with calls as raw JSON."""
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return JSONReply({"id": "r1", "model": "m", "choices": [choice]})


async def test_b17_every_call_at_index_0(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    start_emulator(
        [
            cut(
                call_event(0, id="a1", name="f", arguments=""),
                call_event(0, id="", arguments='{"x":1}'),
                call_event(0, id="b2", name="g", arguments=""),
                call_event(0, id="", arguments='{"y":2}'),
                *END,
            )
        ]
    )

    assert called(await streamed.ask(ChatSageMakerVLLM())) == [
        ("f", {"x": 1}, "a1"),
        ("g", {"y": 2}, "b2"),
    ]


async def test_b18_pieces_of_two_calls_interleave(
    streamed: Way, start_emulator: StartEmulator, cut: Cut
) -> None:
    start_emulator(
        [
            cut(
                call_event(0, id="a", name="f", arguments=""),
                call_event(1, id="b", name="g", arguments=""),
                call_event(0, arguments='{"x":'),
                call_event(1, arguments='{"y":'),
                call_event(0, arguments="1}"),
                call_event(1, arguments="2}"),
                *END,
            )
        ]
    )

    assert called(await streamed.ask(ChatSageMakerVLLM())) == [
        ("f", {"x": 1}, "a"),
        ("g", {"y": 2}, "b"),
    ]


async def test_b19_nulls_in_pieces(streamed: Way, start_emulator: StartEmulator, cut: Cut) -> None:
    nothing = event({"tool_calls": [{"index": 0, "id": None, "function": None}]})
    start_emulator(
        [
            cut(
                call_event(0, id="c", name="find", arguments=None),
                call_event(0, id=None, name=None, arguments='{"q":'),
                nothing,
                call_event(0, id=None, name=None, arguments='"z"}'),
                *END,
            )
        ]
    )

    assert called(await streamed.ask(ChatSageMakerVLLM())) == [("find", {"q": "z"}, "c")]


NO_ARGUMENTS = [{"arguments": ""}, {"arguments": " "}, {"arguments": None}, {}]


@pytest.mark.parametrize("arguments", NO_ARGUMENTS)
async def test_b20_calls_without_arguments(
    way: Way, start_emulator: StartEmulator, arguments: dict[str, Any]
) -> None:
    answer = (
        cut_one(call_event(0, id="c", name="now", **arguments), *END)
        if way.is_stream
        else plain_answer({"id": "c", "function": {"name": "now", **arguments}})
    )
    emulator = start_emulator([answer, Reply("noon")])
    model = ChatSageMakerVLLM()

    message = await way.ask(model)
    await way.ask(model, [HumanMessage("?"), message, ToolMessage("12:00", tool_call_id="c")])

    assert called(message) == [("now", {}, "c")]
    sent = emulator.requests[1].json["messages"][1]["tool_calls"][0]["function"]
    assert sent == {"name": "now", "arguments": "{}"}


def cut_one(*events: bytes) -> AnyReply:
    """Return a stream in one part."""
    return StreamReply(b"".join(events))


async def test_b21_past_arguments_are_text(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])
    arguments = {"p": "é", "n": None}
    past = AIMessage("", tool_calls=[{"name": "read", "args": arguments, "id": "c1"}])

    await way.ask(
        ChatSageMakerVLLM(), [HumanMessage("?"), past, ToolMessage("x", tool_call_id="c1")]
    )

    sent = emulator.requests[0].json["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(sent, str)
    assert json.loads(sent) == arguments


async def test_b23_images_of_tools(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])
    calls = [
        {"name": name, "args": {}, "id": call_id} for name, call_id in (("f", "c1"), ("g", "c2"))
    ]
    shot: list[Any] = [
        {"type": "text", "text": "shot"},
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
    ]

    await way.ask(
        ChatSageMakerVLLM(),
        [
            HumanMessage("?"),
            AIMessage("", tool_calls=calls),
            ToolMessage(shot, tool_call_id="c1"),
            ToolMessage("ok", tool_call_id="c2"),
        ],
    )

    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert emulator.requests[0].json["messages"][2:] == [
        {"role": "tool", "content": "shot", "tool_call_id": "c1"},
        {"role": "tool", "content": "ok", "tool_call_id": "c2"},
        {"role": "user", "content": [image]},
    ]


ABSENT = object()


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ("auto", "auto"),
        ("none", "none"),
        (False, ABSENT),
        (None, ABSENT),
        ("f", {"type": "function", "function": {"name": "f"}}),
        (
            {"type": "function", "function": {"name": "g"}},
            {"type": "function", "function": {"name": "g"}},
        ),
    ],
)
async def test_b24_every_tool_choice(
    way: Way, start_emulator: StartEmulator, choice: Any, sent: Any
) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.ask(ChatSageMakerVLLM().bind_tools([f, g], tool_choice=choice))

    assert emulator.requests[0].json.get("tool_choice", ABSENT) == sent


def test_b24_an_unknown_tool_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="tool_choice='nope' is none of the tools"):
        ChatSageMakerVLLM(endpoint_name="e").bind_tools([f, g], tool_choice="nope")


async def test_b26_ids_of_the_server_are_echoed(way: Way, start_emulator: StartEmulator) -> None:
    call_id = "chatcmpl-tool-0123456789abcdef"
    call = {"name": "f", "arguments": "{}", "id": call_id}
    emulator = start_emulator([Reply(tool_calls=[call]), Reply("ok")])
    model = ChatSageMakerVLLM()

    message = await way.ask(model)
    result = ToolMessage("1", tool_call_id=message.tool_calls[0]["id"])
    await way.ask(model, [HumanMessage("?"), message, result])

    sent = emulator.requests[1].json["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == call_id


@pytest.mark.parametrize("given", [{"id": None}, {"id": ""}, {}])
async def test_b26_missing_ids_are_made(
    way: Way, start_emulator: StartEmulator, given: dict[str, Any]
) -> None:
    answer = (
        cut_one(
            call_event(0, name="f", arguments="{}", **given),
            call_event(1, name="g", arguments="{}", **given),
            *END,
        )
        if way.is_stream
        else plain_answer(
            {**given, "function": {"name": "f", "arguments": "{}"}},
            {**given, "function": {"name": "g", "arguments": "{}"}},
        )
    )
    emulator = start_emulator([answer, Reply("ok")])
    model = ChatSageMakerVLLM()

    message = await way.ask(model)
    results = [ToolMessage("1", tool_call_id=call["id"]) for call in message.tool_calls]
    await way.ask(model, [HumanMessage("?"), message, *results])

    sent = emulator.requests[1].json["messages"]
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(each.isalnum() for each in ids)
    assert [each["tool_call_id"] for each in sent[2:]] == ids


async def test_b26_equal_ids_stay_two_calls(way: Way, start_emulator: StartEmulator) -> None:
    calls = [{"name": name, "arguments": "{}", "id": "x"} for name in ("f", "g")]
    start_emulator([Reply(tool_calls=calls)])

    assert called(await way.ask(ChatSageMakerVLLM())) == [("f", {}, "x"), ("g", {}, "x")]


async def test_b29_text_before_a_call(start_emulator: StartEmulator, cut: Cut) -> None:
    start_emulator(
        [
            cut(
                event({"content": "Let me check."}),
                call_event(0, id="c", name="f", arguments="{}"),
                *END,
            ),
            Reply("done"),
        ]
    )
    agent: Any = create_agent(ChatSageMakerVLLM(streaming=True), tools=[f])

    messages = (await agent.ainvoke({"messages": [("user", "?")]}))["messages"]

    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[1].text == "Let me check."


@pytest.mark.parametrize("indices", [(None, None), ("0", 0)])
async def test_b32_pieces_without_an_index_or_with_text(
    streamed: Way, start_emulator: StartEmulator, cut: Cut, indices: tuple[Any, Any]
) -> None:
    start_emulator(
        [
            cut(
                call_event(indices[0], id="a", name="f", arguments=""),
                call_event(indices[1], arguments='{"x":1}'),
                *END,
            )
        ]
    )

    assert called(await streamed.ask(ChatSageMakerVLLM())) == [("f", {"x": 1}, "a")]
