"""Streams and answers made to hurt: every one ends, and holds no more than is stated here."""

import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from langchain_sagemaker_vllm import _replies
from llama_index_sagemaker_vllm._responses import GrowingResponse, Reading
from sagemaker_vllm import SageMakerVLLMError, StreamDecodeError
from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._plain import read_response
from sagemaker_vllm._results import InvocationMetadata
from sagemaker_vllm._sse import MAX_LINE
from tests.fuzz.strategies import encode

MEGABYTE = 1 << 20
LARGEST_FACTOR = 16
"""Bytes held for each byte that came, at most: orjson's own need while it reads one long line."""


def decoder() -> AnswerDecoder:
    return AnswerDecoder("chat", metadata=InvocationMetadata(endpoint_name="hostile"))


def event(delta: Any, **choice: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": None, **choice}]
    return b"data: " + encode({"choices": choices}) + b"\n\n"


def call(index: int, **function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **function}]}


STREAMS: dict[str, tuple[int, Any]] = {
    # Name: how many, and the event of a number.
    "text": (20_000, lambda number: event({"content": "x"})),
    "nothing": (20_000, lambda number: event({})),
    "choices": (5_000, lambda number: event({"content": "x"}, index=number)),
    "calls": (5_000, lambda number: event(call(number, function={"name": "f"}))),
    "calls at one index": (
        20_000,
        lambda number: event(call(0, id=f"{number}", function={"name": "f", "arguments": "{}"})),
    ),
    "pieces of arguments": (20_000, lambda number: event(call(0, function={"arguments": "["}))),
    "logprobs": (
        5_000,
        lambda number: event({"content": "x"}, logprobs={"content": [{"token": "x"}]}),
    ),
    "unknown keys": (5_000, lambda number: b'data: {"choices":[],"%d":1}\n\n' % number),
}


@pytest.mark.parametrize("name", STREAMS)
def test_endless_stream_holds_no_more_than_a_few_times_what_came(name: str) -> None:
    count, make = STREAMS[name]
    parts = [make(number) for number in range(count)]

    peak = peak_of(parts)

    assert peak < LARGEST_FACTOR * sum(map(len, parts))


def test_comments_and_blank_lines_are_not_held() -> None:
    assert peak_of([b": keep-alive\n\n" * 100] * 1000) < MEGABYTE


def test_line_of_ten_megabytes_is_read_whole() -> None:
    line = event({"content": "x" * 10 * MEGABYTE})
    answer = decoder()

    chunks = [
        chunk
        for start in range(0, len(line), 8192)
        for chunk in answer.feed(line[start : start + 8192])
    ]

    assert len(chunks) == 1
    assert len(answer.completion.text) == 10 * MEGABYTE


def test_line_without_an_end_is_refused_at_its_limit() -> None:
    answer, part = decoder(), b"x" * MEGABYTE

    with pytest.raises(StreamDecodeError, match="longer than"):
        list(answer.feed(part * (MAX_LINE // MEGABYTE + 1)))


def peak_of(parts: Iterable[bytes]) -> int:
    answer = decoder()
    tracemalloc.start()
    try:
        for part in parts:
            for _ in answer.feed(part):
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def nest(depth: int) -> str:
    """Write JSON that is too deep for Python to write it itself."""
    return '{"a":[' * depth + "1" + "]}" * depth


DEEP = [40, 250, 500, 511, 5_000, 100_000]
PLACES = {
    "a field of the chunk": '{"choices":[{"index":0,"delta":{"content":"x"}}],"field":%s}',
    "a field of the delta": '{"choices":[{"index":0,"delta":{"content":"x","field":%s}}]}',
    "arguments": '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":'
    '{"name":"f","arguments":%s}}]}}]}',
    "logprobs": '{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[%s]}}]}',
    "usage": '{"choices":[],"usage":{"total_tokens":1,"field":%s}}',
    "an error": '{"error":{"message":"failed","detail":%s}}',
}


@pytest.mark.parametrize("depth", DEEP)
@pytest.mark.parametrize("place", PLACES)
def test_deep_json_in_a_stream_is_read_or_an_error(place: str, depth: int) -> None:
    answer, growing = decoder(), GrowingResponse(Reading())
    stream = f"data: {PLACES[place] % nest(depth)}\n\n{END}".encode()

    try:
        for chunk in [*answer.feed(stream), *answer.finish()]:
            _replies.from_wire_chunk(chunk)
            growing.from_wire_chunk(chunk)
    except SageMakerVLLMError:
        return

    assert _replies.last_chunk(answer.completion).text == ""
    assert growing.last(answer.completion).raw == answer.completion.response


END = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize("depth", DEEP)
def test_deep_arguments_written_as_text_are_read_or_kept(depth: int) -> None:
    text = nest(depth)
    function = {"name": "f", "arguments": text}
    message = {"content": None, "tool_calls": [{"id": "a", "function": function}]}
    body = encode({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})

    response = read_response(body, kind="chat", endpoint_name="hostile")

    (found,) = response["choices"][0]["message"]["tool_calls"]
    assert found["function"]["arguments"] == text
    json.dumps(response)
