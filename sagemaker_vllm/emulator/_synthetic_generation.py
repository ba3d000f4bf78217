"""Turns what a model would write into an answer: limits, stop strings, parsers, logprobs."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from sagemaker_vllm.emulator._replies import Reply
from sagemaker_vllm.emulator._synthetic_conversation import split_tokens
from sagemaker_vllm.emulator._synthetic_tools import read_calls
from sagemaker_vllm.emulator._synthetic_validation import max_tokens

JSON = dict[str, Any]

_OTHER_TOKENS = (" the", ",", " a", " of", ".", " and", " to", " in", "\n", " is", " I", " on")


@dataclass(frozen=True, slots=True)
class Generation:
    """What is left of a model's text after the limits of a request.

    Attributes:
        reasoning: The thinking part.
        text: The answer; `None` when it was cut while thinking.
        finish_reason: `stop` or `length`.
        stop_reason: The stop string that was met.
        count: Tokens that were written, marks and end included.
    """

    reasoning: str | None
    text: str | None
    finish_reason: str
    stop_reason: str | None
    count: int


def generate(request: Mapping[str, Any], text: str, reasoning: str | None, room: int) -> Generation:
    """Cut a model's text as a request asks.

    Args:
        request: The request, checked.
        text: What the model would write.
        reasoning: What it would think before.
        room: Tokens that the context has left.
    """
    thought = split_tokens(reasoning or "")[: _thinking_budget(request)]
    wanted = max_tokens(request)
    limit = room if wanted is None else min(wanted, room)
    if len(thought) >= limit:
        return Generation("".join(thought[:limit]), None, "length", None, limit)
    opening = len(thought) + 1 if thought else 0  # the mark that ends the thinking is a token
    left, tokens = limit - opening, split_tokens(text)
    least = left if request.get("ignore_eos") else min(request.get("min_tokens", 0), left)
    if len(tokens) < least:
        tokens = list(islice(cycle(tokens or ["."]), least))
        text = "".join(tokens)
    thinking = "".join(thought) or None
    if stopped := _stop_place(text, request.get("stop", ())):
        stop, start = stopped
        end = start + len(stop)
        count = _tokens_before(tokens, end)
        if count <= left:
            kept = text[: end if request.get("include_stop_str_in_output") else start]
            return Generation(thinking, kept, "stop", stop, opening + count)
    if len(tokens) >= left:
        return Generation(thinking, "".join(tokens[:left]), "length", None, limit)
    return Generation(thinking, text, "stop", None, opening + len(tokens) + 1)


def chat_choice(request: Mapping[str, Any], made: Generation) -> Reply:
    """Part a generation into content and tool calls, as the server's parsers do."""
    choice = request.get("tool_choice", "auto")
    content, calls = made.text, list[JSON]()
    if request.get("tools") and choice != "none" and content is not None:
        content, calls = read_calls(content, is_stream=bool(request.get("stream")))
    finish = made.finish_reason
    if calls:
        content = "" if choice != "auto" else content if content and content.strip() else None
        finish = "tool_calls" if finish == "stop" and not isinstance(choice, Mapping) else finish
    tokens = split_tokens(content or "")
    return Reply(
        content,
        reasoning=made.reasoning if request.get("include_reasoning", True) else None,
        tool_calls=calls,
        finish_reason=finish,
        stop_reason=made.stop_reason,
        chunks=None if content is None else tokens,
        logprobs=_chat_logprobs(tokens, request) if request.get("logprobs") else None,
    )


def text_choice(request: Mapping[str, Any], prompt: str, made: Generation) -> Reply:
    """Give a generation as a text completion, after its prompt if the request asks for that."""
    prefix = split_tokens(prompt) if request.get("echo") else []
    tokens = prefix + split_tokens(made.text or "")
    count = request.get("logprobs")
    return Reply(
        "".join(tokens),
        finish_reason=made.finish_reason,
        stop_reason=made.stop_reason,
        chunks=tokens,
        logprobs=None if count is None else _text_logprobs(tokens, count, is_echo=bool(prefix)),
    )


def _thinking_budget(request: Mapping[str, Any]) -> int | None:
    budget = request.get("thinking_token_budget", -1)
    return None if budget < 0 else max(budget - 1, 0)


def _stop_place(text: str, stops: Sequence[str]) -> tuple[str, int] | None:
    places = {stop: text.find(stop) for stop in stops}
    found = {stop: place for stop, place in places.items() if place >= 0}
    return min(found.items(), key=lambda item: item[1] + len(item[0])) if found else None


def _tokens_before(tokens: Sequence[str], end: int) -> int:
    length = 0
    for count, token in enumerate(tokens, 1):
        length += len(token)
        if length >= end:
            return count
    return len(tokens)


def _logprob(token: str) -> float:
    return -0.01 - zlib.crc32(token.encode()) % 100 / 100


def _alternatives(token: str, count: int) -> dict[str, float]:
    """Give the token itself, then less likely ones."""
    others = cycle(other for other in _OTHER_TOKENS if other != token)
    first = _logprob(token)
    ranked = {token: first}
    for rank, other in enumerate(islice(others, max(count - 1, 0)), 1):
        ranked.setdefault(other if rank < len(_OTHER_TOKENS) else f"{other}{rank}", first - rank)
    return ranked


def _chat_logprobs(tokens: Sequence[str], request: Mapping[str, Any]) -> list[JSON]:
    def entry(token: str, logprob: float) -> JSON:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

    count = request.get("top_logprobs", 0)
    return [
        entry(token, _logprob(token))
        | {"top_logprobs": [entry(*item) for item in _alternatives(token, count).items()][:count]}
        for token in tokens
    ]


def _text_logprobs(tokens: Sequence[str], count: int, *, is_echo: bool) -> JSON:
    offsets = [sum(map(len, tokens[:index])) for index in range(len(tokens))]
    known = list(tokens[1:] if is_echo else tokens)
    unknown = [None] * (len(tokens) - len(known))
    return {
        "text_offset": offsets,
        "token_logprobs": unknown + [_logprob(token) for token in known],
        "tokens": list(tokens),
        "top_logprobs": unknown + [_alternatives(token, count) for token in known],
    }
