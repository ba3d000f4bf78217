"""Public reports about streams, as tests of the LlamaIndex LLM."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage

from sagemaker_vllm import APIError, StreamDecodeError, StreamInterruptedError
from sagemaker_vllm.emulator import JSONReply, StreamReply
from tests.integration.llama_index.conftest import AskerFactory
from tests.integration.llama_index.ways import Way
from tests.integration.llama_index.wire import (
    DONE,
    SPLITS,
    call,
    chunk,
    either,
    event,
    in_turn,
    stream,
    usage,
    whole,
    whole_call,
)

ASK = [ChatMessage(content="Hello?")]
STREAMED = ("stream", "async stream")
ONLY_STREAMED = pytest.mark.parametrize("way", STREAMED, indirect=True)


def texts(responses: list[Any]) -> list[str]:
    return [response.delta for response in responses if response.delta]


@ONLY_STREAMED
def test_b01_several_events_in_a_part(asker: AskerFactory) -> None:
    last = event({"content": "!"}, "stop")
    first = event({"content": "He"}) + event({"content": "llo"})
    ask = asker([StreamReply([first + last[:25], last[25:] + DONE])])

    responses = ask.chat(ASK)

    assert texts(responses) == ["He", "llo", "!"]
    assert responses[-1].message.content == "Hello!"
    assert responses[-1].additional_kwargs["finish_reason"] == "stop"


@ONLY_STREAMED
def test_b02_json_cut_between_parts(asker: AskerFactory) -> None:
    data = event({"content": "alpha"}) + event({"content": "beta"}, "stop") + DONE
    cuts = [StreamReply([data[:at], data[at:]]) for at in range(1, len(data), 7)]
    ask = asker([*cuts, StreamReply(data, parts=1)])

    answers = [ask.chat(ASK)[-1] for _ in range(len(cuts) + 1)]

    assert {answer.message.content for answer in answers} == {"alphabeta"}


@ONLY_STREAMED
def test_b03_characters_cut_between_parts(asker: AskerFactory) -> None:
    text = "ж你🙂"
    data = event({"content": text}, "stop") + DONE
    at = data.index(text.encode())
    cuts = [at + 1, at + 3, at + 4, at + 6, at + 7, at + 8]
    ask = asker([StreamReply([data[:cut], data[cut:]]) for cut in cuts])

    answers = [ask.chat(ASK)[-1].message.content for _ in cuts]

    assert answers == [text] * len(cuts)


@ONLY_STREAMED
@pytest.mark.parametrize("end", [b"", DONE.rstrip()], ids=["no-done", "done"])
def test_b04_no_newline_at_the_end(asker: AskerFactory, end: bytes) -> None:
    only = event({"content": "ok"}, "stop")
    ask = asker([StreamReply(only + end if end else only.rstrip())])

    assert ask.chat(ASK)[-1].message.content == "ok"


@ONLY_STREAMED
def test_b05_no_space_after_the_colon(asker: AskerFactory) -> None:
    data = event({"content": "ok"}, "stop") + DONE
    ask = asker([StreamReply(data.replace(b"data: ", b"data:"))])

    assert ask.chat(ASK)[-1].message.content == "ok"


@ONLY_STREAMED
def test_b05_another_servers_shape_is_refused(asker: AskerFactory) -> None:
    ask = asker([StreamReply(b'data:{"token":{"text":" hi"},"generated_text":null}\n\n')])

    with pytest.raises(StreamDecodeError, match="not a chat or text completion chunk"):
        ask.chat(ASK)


@ONLY_STREAMED
def test_b06_lines_that_are_no_data(asker: AskerFactory) -> None:
    noise = b": keep-alive\n\nevent: message\nid: 7\nretry: 1000\n\n\n\n"
    ask = asker([StreamReply(noise + event({"content": "data: a data at"}, "stop") + DONE)])

    assert ask.chat(ASK)[-1].message.content == "data: a data at"


@ONLY_STREAMED
@pytest.mark.parametrize(
    "error",
    [
        b'{"error":{"message":"engine queue full","type":"ServiceUnavailable","code":503}}',
        b'{"object":"error","message":"engine queue full","code":503}',
        b'{"error":"engine queue full"}',
        b'{"error":{"message":"engine queue full","code":null}}',
    ],
    ids=["nested", "flat", "text", "no-code"],
)
@pytest.mark.parametrize("first", [b"", event({"content": "Hi"})], ids=["at-once", "later"])
def test_b09_error_inside_a_stream(asker: AskerFactory, error: bytes, first: bytes) -> None:
    ask = asker([StreamReply(first + b"data: " + error + b"\n\n" + DONE)])

    with pytest.raises(APIError, match="engine queue full") as caught:
        ask.chat(ASK)

    assert caught.value.status_code in (503, None, 500)
    assert caught.value.partial is not None
    assert caught.value.partial.text == ("Hi" if first else "")


@pytest.mark.parametrize("split", SPLITS)
def test_b10_usage_comes_in_a_chunk_without_choices(asker: AskerFactory, split: str) -> None:
    ask = asker(
        either(
            {
                **whole("Hi"),
                "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
            },
            chunk([]),
            chunk(None, usage={}),
            event({"content": "Hi"}, "stop"),
            usage(3, 1),
            DONE,
            split=split,
        )
    )

    response = ask.chat(ASK)[-1]

    assert response.message.content == "Hi"
    assert (
        (response.raw or {})["usage"]["total_tokens"]
        == response.additional_kwargs["total_tokens"]
        == 4
    )


@ONLY_STREAMED
def test_b14_finish_reason_is_never_made_up(asker: AskerFactory) -> None:
    ask = asker([stream(event({"content": "x"}), DONE)])

    response = ask.chat(ASK)[-1]

    assert response.message.content == "x"
    assert response.additional_kwargs["finish_reason"] is None


@ONLY_STREAMED
def test_b14_stream_that_just_ends_is_an_error_with_what_came(asker: AskerFactory) -> None:
    ask = asker([stream(event({"content": "x"}))])

    with pytest.raises(StreamInterruptedError) as caught:
        ask.chat(ASK)

    assert caught.value.partial is not None
    assert caught.value.partial.text == "x"


def roll() -> int:
    """Roll a die."""
    return 4


@pytest.mark.parametrize("way", ["async plain", "async stream"], indirect=True)
@pytest.mark.parametrize("split", SPLITS)
def test_b15_empty_text_before_a_call(asker: AskerFactory, way: Way, split: str) -> None:
    calling = either(
        whole({"content": "", "tool_calls": [whole_call("c1", "roll", "{}")]}, "tool_calls"),
        event({"role": "assistant", "content": ""}),
        event({"content": None}),
        call(0, "c1", "roll", "{}"),
        event({}, "tool_calls"),
        DONE,
        split=split,
    )
    answering = either(whole("Four."), event({"content": "Four."}, "stop"), DONE)
    ask = asker(in_turn(calling, answering))

    async def run() -> Any:
        return await FunctionAgent(tools=[roll], llm=ask.llm, streaming=ask.is_streamed).run(
            "Roll."
        )

    output = ask.run(run())

    assert str(output) == "Four."
    assert [message["role"] for message in ask.sent[1]["messages"]] == ["user", "assistant", "tool"]
    assert ask.sent[1]["messages"][1]["content"] == ""
    assert ask.sent[1]["messages"][2] == {"role": "tool", "content": "4", "tool_call_id": "c1"}


@pytest.mark.parametrize("split", SPLITS)
def test_b91_repeated_usage_is_not_added_up(asker: AskerFactory, split: str) -> None:
    running = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    total = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    head = {"index": 0, "finish_reason": None}
    ask = asker(
        either(
            {**whole("ab"), "usage": total},
            chunk([{**head, "delta": {"content": "a"}}], usage=running),
            chunk([{**head, "delta": {"content": "b"}, "finish_reason": "stop"}], usage=total),
            usage(5, 2),
            DONE,
            split=split,
        )
    )

    response = ask.chat(ASK)[-1]

    assert (response.raw or {})["usage"] == total
    assert {name: response.additional_kwargs[name] for name in total} == total


def test_b92_streams_ask_for_usage(asker: AskerFactory) -> None:
    ask = asker(either(whole("Hi"), event({"content": "Hi"}, "stop"), usage(1, 1), DONE))

    ask.chat(ASK)

    expected = {"include_usage": True} if ask.is_streamed else None
    assert ask.sent[0].get("stream_options") == expected


def test_b93_finish_reason_and_model_are_the_same_in_every_way(asker: AskerFactory) -> None:
    ask = asker(
        either(whole("Hi", "length"), event({"content": "Hi"}, "length"), usage(3, 2), DONE)
    )

    response = ask.chat(ASK)[-1]

    assert response.additional_kwargs["finish_reason"] == "length"
    assert response.additional_kwargs["model_name"] == "m"


@pytest.mark.parametrize("split", SPLITS)
def test_b95_logprobs_are_the_same_in_every_way(asker: AskerFactory, split: str) -> None:
    tokens = [
        {"token": each, "logprob": -0.5, "bytes": [ord(each)], "top_logprobs": []} for each in "abc"
    ]
    pieces = [
        event(
            {"content": each["token"]},
            "stop" if each is tokens[-1] else None,
            logprobs={"content": [each]},
        )
        for each in tokens
    ]
    body = whole("abc", "stop", logprobs={"content": tokens})
    ask = asker(either(body, *pieces, DONE, split=split), logprobs=True)

    response = ask.chat(ASK)[-1]

    assert [[each.token for each in row] for row in response.logprobs or []] == [
        ["a"],
        ["b"],
        ["c"],
    ]
    assert (response.logprobs or [])[0][0].logprob == -0.5
    assert response.additional_kwargs["finish_reason"] == "stop"
    assert ask.sent[0]["logprobs"] is True


def test_b95_logprobs_of_text_completions(asker: AskerFactory) -> None:
    logprobs = {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -0.5],
        "top_logprobs": [None, {"b": -0.5, "c": -1.5}],
        "text_offset": [0, 1],
    }
    choice = {"index": 0, "text": "ab", "logprobs": logprobs, "finish_reason": "stop"}
    body = {"id": "r", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}
    ask = asker(
        lambda request: (
            JSONReply(body) if not request.json.get("stream") else stream(chunk([choice]), DONE)
        ),
        is_chat_model=False,
        logprobs=True,
        top_logprobs=2,
    )

    response = ask.complete("x")[-1]

    assert [[each.token for each in row] for row in response.logprobs or []] == [[], ["b", "c"]]
    assert ask.sent[0]["logprobs"] == 2
