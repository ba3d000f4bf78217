"""Streams of a container: accumulated as the plain answer, and whole or not."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sagemaker_vllm import (
    Completion,
    InvocationMetadata,
    ServerError,
    StreamDecodeError,
    StreamInterruptedError,
)
from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._plain import read_response
from sagemaker_vllm._stream import ChatStream

DONE = b"data: [DONE]\n\n"


def event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def choice(index: int = 0, finish_reason: str | None = None, **found: Any) -> dict[str, Any]:
    return {"index": index, "finish_reason": finish_reason, "logprobs": None, **found}


def chat(delta: dict[str, Any], finish_reason: str | None = None, **extra: Any) -> bytes:
    top = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return event(top | {"choices": [choice(finish_reason=finish_reason, delta=delta, **extra)]})


def answer(kind: RequestKind = "chat", expected: int = 1) -> AnswerDecoder:
    metadata = InvocationMetadata(endpoint_name="e", request_id="r")
    return AnswerDecoder(kind, expected_choices=expected, metadata=metadata)


def read(*parts: bytes, kind: RequestKind = "chat", expected: int = 1) -> Completion:
    decoder = answer(kind, expected)
    for part in parts:
        list(decoder.feed(part))
    list(decoder.finish())
    return decoder.completion


def test_stream_is_accumulated_to_the_plain_answer() -> None:
    stream = read(
        chat({"role": "assistant", "content": ""}),
        chat({"reasoning": "2 "}),
        chat({"reasoning": "+ 2"}),
        chat({"content": "It is "}),
        chat({"content": "4"}),
        chat(
            {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f"}}]}
        ),
        chat({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        chat({}, "tool_calls", stop_reason=7, token_ids=None),
        event({"choices": [], "usage": {"total_tokens": 3}, "system_fingerprint": "v"}),
        DONE,
    )
    message = {
        "role": "assistant",
        "content": "It is 4",
        "reasoning": "2 + 2",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    }
    plain = {
        "id": "r1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "system_fingerprint": "v",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "tool_calls",
                "stop_reason": 7,
            }
        ],
        "usage": {"total_tokens": 3},
    }

    assert stream.response == plain
    assert stream.response == read_response(
        json.dumps(plain).encode(), kind="chat", endpoint_name="e"
    )


def test_choices_of_many_prompts_interleave() -> None:
    found = read(
        event({"choices": [choice(1, text="b")]}),
        event({"choices": [choice(0, text="a"), choice(1, text="B")]}),
        event({"choices": [choice(0, "stop", text="A"), choice(1, "length", text="")]}),
        kind="text",
        expected=2,
    )

    assert [(each["text"], each["finish_reason"]) for each in found.response["choices"]] == [
        ("aA", "stop"),
        ("bB", "length"),
    ]
    assert found.text == "aA"


def test_logprobs_of_a_chat_are_joined() -> None:
    tokens = [{"token": "a", "logprob": -1.0}, {"token": "b", "logprob": -2.0}]
    found = read(
        chat({"content": "a"}, logprobs={"content": tokens[:1]}),
        chat({"content": "b"}, "stop", logprobs={"content": tokens[1:], "refusal": None}),
    )

    assert found.response["choices"][0]["logprobs"] == {"content": tokens}


def test_logprobs_of_a_completion_are_joined() -> None:
    first = {"tokens": ["a"], "token_logprobs": [None], "text_offset": [0], "top_logprobs": None}
    second = {"tokens": ["b"], "token_logprobs": [-1], "text_offset": [1], "top_logprobs": [{}]}
    found = read(
        event({"choices": [choice(text="a", logprobs=first)]}),
        event({"choices": [choice(0, "stop", text="b", logprobs=second)]}),
        kind="text",
    )

    assert found.response["choices"][0]["logprobs"] == {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -1],
        "text_offset": [0, 1],
        "top_logprobs": [{}],
    }


def test_fields_that_only_some_requests_bring_are_kept() -> None:
    found = read(
        chat({"content": "a"}, token_ids=[1, 2]),
        chat({"content": "b", "annotations": ["x"], "refusal": "I "}, token_ids=[3]),
        chat({"refusal": "will not"}, "stop", weight_versions="7", token_ids=None),
    ).response["choices"][0]

    assert found["token_ids"] == [1, 2, 3]
    assert found["weight_versions"] == "7"
    assert found["message"]["annotations"] == ["x"]
    assert found["message"]["refusal"] == "I will not"


@pytest.mark.parametrize(
    ("parts", "finish_reason"),
    [
        ([chat({"content": "x"}, "stop"), DONE], "stop"),
        ([chat({"content": "x"}), DONE], None),
        ([chat({"content": "x"}, "stop")], "stop"),
        ([chat({"content": "x"}, "stop"), DONE[:-2]], "stop"),
        ([chat({"content": "x"}, "stop"), DONE, b"data: garbage\n"], "stop"),
    ],
    ids=["finished and done", "done only", "finished only", "no last newline", "after done"],
)
def test_answer_is_whole_with_done_or_a_finish_reason(
    parts: list[bytes], finish_reason: str | None
) -> None:
    found = read(*parts)

    assert found.text == "x"
    assert found.response["choices"][0]["finish_reason"] == finish_reason


@pytest.mark.parametrize(
    ("parts", "expected", "why"),
    [
        ([chat({"content": "x"})], 1, "0 of 1 answers"),
        ([chat({"content": "x"}, "stop")], 2, "1 of 2 answers"),
        ([], 1, "without any answer"),
        ([DONE], 1, "without any answer"),
        ([event({"choices": [], "usage": {"total_tokens": 1}}), DONE], 1, "without any answer"),
    ],
)
def test_answer_that_is_not_whole_is_an_error(parts: list[bytes], expected: int, why: str) -> None:
    with pytest.raises(StreamInterruptedError, match=why):
        read(*parts, expected=expected)


def test_event_with_a_field_that_cannot_be_folded_is_refused() -> None:
    with pytest.raises(StreamDecodeError, match="unexpected type"):
        read(chat({"content": "x", "refusal": 5}))


@pytest.mark.parametrize("odd", [5, True, [1], {"content": False}])
def test_odd_logprobs_do_not_cost_the_answer(odd: Any) -> None:
    good = [{"token": "a", "logprob": -1.0}]

    found = read(
        chat({"content": "a"}, logprobs={"content": good}),
        chat({"content": "b"}, "stop", logprobs=odd),
    )

    choice = {"finish_reason": "stop", "message": {"content": "ab"}, "logprobs": odd}
    plain = json.dumps({"choices": [choice]}).encode()
    assert found.text == "ab"
    assert found.response["choices"][0]["logprobs"] == {"content": good}
    answer = read_response(plain, kind="chat", endpoint_name="e")
    assert not answer["choices"][0]["logprobs"]


def test_an_unknown_field_of_any_type_is_kept() -> None:
    found = read(chat({"content": "a"}, own=1), chat({}, own=[1]), chat({}, "stop", own=[2]))

    assert found.response["choices"][0]["own"] == [1, 2]


class Connection:
    """Counts how often it is closed."""

    def __init__(self, parts: list[bytes | Exception]) -> None:
        self.parts = parts
        self.closed = 0

    def read(self) -> Iterator[bytes]:
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part

    def close(self) -> None:
        self.closed += 1

    def stream(self) -> ChatStream:
        return ChatStream(self.read(), answer(), close=self.close)


def test_error_carries_what_came() -> None:
    failure = event({"error": {"message": "engine died", "code": 500}})
    connection = Connection([chat({"content": "Hi"}), failure])
    stream = connection.stream()

    with pytest.raises(ServerError, match="engine died") as caught:
        list(stream)

    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"
    assert caught.value.request_id == "r"
    assert connection.closed


def test_broken_connection_carries_what_came() -> None:
    broken = StreamInterruptedError("cut")
    stream = Connection([chat({"content": "Hi"}), broken]).stream()

    with pytest.raises(StreamInterruptedError, match="cut") as caught:
        list(stream)

    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"
    assert caught.value.endpoint_name == "e"


def test_connection_that_breaks_after_the_whole_answer_takes_nothing_away() -> None:
    parts: list[bytes | Exception] = [
        chat({"content": "Hi"}, "stop"),
        DONE,
        StreamInterruptedError("cut"),
    ]
    stream = Connection(parts).stream()

    assert len(list(stream)) == 1
    assert stream.is_whole
    assert stream.completion.text == "Hi"


@pytest.mark.parametrize("leave", ["break", "close", "with"])
def test_leaving_early_closes_the_connection(leave: str) -> None:
    connection = Connection([chat({"content": "a"}), chat({"content": "b"}, "stop")])
    stream = connection.stream()
    first = next(stream)

    if leave == "close":
        stream.close()
    elif leave == "with":
        with stream:
            pass
    else:
        for _ in stream:
            break
        del stream

    assert first["choices"][0]["delta"] == {"content": "a"}
    assert connection.closed
