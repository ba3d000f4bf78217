"""A rendered `Reply` has the shape that vLLM 0.32 was recorded with."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sagemaker_vllm.emulator import Reply, sse
from sagemaker_vllm.emulator._rendering import render_chunks, render_json

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings" / "vllm-0.32.0"
CALL = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
LOGPROBS = [{"token": "The", "logprob": -1.0, "bytes": [84], "top_logprobs": []}] * 4
TEXT_LOGPROBS: dict[str, list[Any]] = {
    "text_offset": [0, 2, 9],
    "token_logprobs": [-1.0, -2.0, -3.0],
    "tokens": [" a", " canvas", " of"],
    "top_logprobs": [{}, {}, {}],
}
REPLIES = {
    "chat": Reply("The answer is 4."),
    "chat-cut": Reply("The answer", finish_reason="length"),
    "chat-stop": Reply("The answer is ", stop_reason="math"),
    "chat-n2": Reply("The answer is 4.", finish_reason="length"),
    "chat-logprobs": Reply("The answer to this", finish_reason="length", logprobs=LOGPROBS),
    "reasoning": Reply("2 + 2 = 4", reasoning="2 + 2"),
    "reasoning-cut": Reply(reasoning="2 + 2 is", finish_reason="length"),
    "tools-required": Reply(tool_calls=[CALL]),
    "tools-named": Reply(tool_calls=[CALL]),
    "tools-auto-parallel": Reply(tool_calls=[CALL, {"name": "add", "arguments": {"a": 1}}]),
    "tools-auto-text-then-call": Reply("Let me look.\n", tool_calls=[CALL]),
    "tools-none": Reply("Paris, France", finish_reason="length"),
    "text": Reply(" a canvas", finish_reason="length"),
    "text-logprobs": Reply(" a canvas of", finish_reason="length", logprobs=TEXT_LOGPROBS),
    "text-three-n2": Reply(" a canvas", finish_reason="length"),
}


def request(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((RECORDINGS / f"{name}.request.json").read_bytes())
    return body


def recorded_chunks(name: str) -> Iterator[dict[str, Any]]:
    for line in (RECORDINGS / f"{name}.response.sse").read_bytes().splitlines():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def shape(value: Any) -> Any:
    """Keep the keys in their order, and the kinds of the values."""
    if isinstance(value, Mapping):
        return [(key, shape(item)) for key, item in value.items() if key != "logprobs"]
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


def ends(choice: Mapping[str, Any]) -> tuple[Any, Any]:
    return choice["finish_reason"], type(choice["stop_reason"])


@pytest.mark.parametrize("name", REPLIES)
def test_plain_answer_has_the_keys_of_the_recorded_one(name: str) -> None:
    recorded = json.loads((RECORDINGS / f"{name}.response.json").read_bytes())

    rendered = render_json(REPLIES[name], request(name))

    assert shape(rendered) == shape(recorded)
    assert [ends(c) for c in rendered["choices"]] == [ends(c) for c in recorded["choices"]]


@pytest.mark.parametrize("name", [name for name in REPLIES if name != "tools-none"])
def test_streamed_chunks_have_the_keys_of_recorded_ones(name: str) -> None:
    rendered = list(render_chunks(REPLIES[name], request(f"{name}-stream")))

    kinds = {str(shape(chunk)) for chunk in rendered}

    assert kinds <= {str(shape(chunk)) for chunk in recorded_chunks(f"{name}-stream")}


@pytest.mark.parametrize("name", [name for name in REPLIES if name != "tools-none"])
def test_stream_ends_with_the_recorded_finish_reasons(name: str) -> None:
    def finishes(chunks: Iterator[dict[str, Any]]) -> list[Any]:
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        return sorted((c["index"], c["finish_reason"]) for c in choices if c["finish_reason"])

    rendered = render_chunks(REPLIES[name], request(f"{name}-stream"))

    assert finishes(rendered) == finishes(recorded_chunks(f"{name}-stream"))


def test_running_usage_is_on_every_chunk_when_asked() -> None:
    body = request("chat-stream-continuous-usage")

    chunks = list(render_chunks(Reply("The answer"), body))

    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 2, 2, 2]


def test_usage_is_absent_from_a_stream_that_did_not_ask() -> None:
    chunks = render_chunks(Reply("Hi"), {"messages": [], "stream": True})

    assert all("usage" not in chunk for chunk in chunks)


def test_choices_of_a_stream_interleave() -> None:
    chunks = render_chunks(Reply("a b"), {"prompt": ["x", "y"], "stream": True})

    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 1, 0, 1]


def test_choices_may_differ() -> None:
    reply = Reply(choices=[Reply("one"), Reply("two", finish_reason="length")])

    answer = render_json(reply, {"prompt": "x", "n": 2})

    assert [c["text"] for c in answer["choices"]] == ["one", "two"]
    assert [c["finish_reason"] for c in answer["choices"]] == ["stop", "length"]


def test_chunks_say_how_content_is_cut() -> None:
    reply = Reply(chunks=["Hel", "lo"])

    chunks = list(render_chunks(reply, {"prompt": "x", "stream": True}))

    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["Hel", "lo"]
    assert render_json(reply, {"prompt": "x"})["choices"][0]["text"] == "Hello"


def test_given_usage_replaces_the_counted_one() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}

    assert render_json(Reply("x", usage=usage), {"messages": []})["usage"] == usage


def test_prompt_of_token_ids_is_one_prompt() -> None:
    answer = render_json(Reply("x"), {"prompt": [1, 2, 3]})

    assert len(answer["choices"]) == 1
    assert answer["usage"]["prompt_tokens"] == 3


def test_sse_writes_json_strings_and_the_end() -> None:
    assert sse({"a": "é"}, "raw") == [
        'data: {"a":"é"}\n\n'.encode(),
        b"data: raw\n\n",
        b"data: [DONE]\n\n",
    ]
    assert sse(done=False) == []
