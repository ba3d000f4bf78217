"""Renders a `Reply` as vLLM 0.32 writes it: same keys, same order, same sequence of chunks."""

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from sagemaker_vllm.emulator._replies import Reply

JSON = dict[str, Any]

FINGERPRINT = "vllm-0.32.0-emulated"
MODEL = "/opt/ml/model"
_WORDS = re.compile(r"\s*\S+|\s+$")


def sse(*events: Any, done: bool = True) -> list[bytes]:
    r"""Write server-sent events as vLLM does.

    Args:
        events: JSON values, each written compactly after `data: `; a `str` is written as it is.
        done: Whether `[DONE]` ends the stream.

    Returns:
        The pieces, one an event, ready for `StreamReply`.
    """
    texts = [event.encode() if isinstance(event, str) else orjson.dumps(event) for event in events]
    return [b"data: " + text + b"\n\n" for text in [*texts, *([b"[DONE]"] if done else [])]]


def split_words(text: str) -> list[str]:
    """Cut text into pieces that look like tokens: each word with the white space before it."""
    return _WORDS.findall(text)


def prompt_count(body: Mapping[str, Any]) -> int:
    """Count the prompts of a request: more than one only for text completion."""
    prompt = body.get("prompt")
    if "messages" in body or not isinstance(prompt, list) or not prompt:
        return 1
    return 1 if isinstance(prompt[0], int) else len(prompt)


def render_json(reply: Reply, body: Mapping[str, Any]) -> JSON:
    """Render the answer to a request that does not stream."""
    answer = _Answer.to(body, reply)
    plain = _plain_chat_choice if answer.is_chat else _plain_text_choice
    record = answer_head(
        is_chat=answer.is_chat,
        chat_object="chat.completion",
        model=reply.model,
    ) | {
        "choices": [plain(index, choice) for index, choice in enumerate(answer.choices)],
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": answer.usage(is_stream=False),
    }
    if answer.is_chat:
        record |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
    return record | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}


def render_chunks(reply: Reply, body: Mapping[str, Any]) -> Iterator[JSON]:
    """Render the chunks of a streamed answer, with the choices interleaved."""
    answer = _Answer.to(body, reply)
    options = body.get("stream_options") or {}
    head = answer_head(
        is_chat=answer.is_chat,
        chat_object="chat.completion.chunk",
        model=reply.model,
    )
    streamed = _chat_choice_chunks if answer.is_chat else _text_choice_chunks
    streams = [streamed(index, choice) for index, choice in enumerate(answer.choices)]
    for done, choice in _interleave(streams):
        chunk = head | {"choices": [choice]}
        if options.get("continuous_usage_stats"):
            # The chunk that ends a choice may hold no token.
            tokens = min(done, _count_pieces(answer.choices[choice["index"]]))
            chunk["usage"] = answer.usage(is_stream=True, completion_tokens=tokens)
        if "role" in choice.get("delta", ()):
            chunk |= {"prompt_token_ids": None, "prompt_text": None}
        yield chunk
    if options.get("include_usage"):
        usage = answer.usage(is_stream=True)
        yield head | {"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}


def answer_head(*, is_chat: bool, chat_object: str, model: str = MODEL) -> JSON:
    """Write the keys that an answer and all its chunks begin with."""
    return {
        "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex[:16]}",
        "object": chat_object if is_chat else "text_completion",
        "created": int(time.time()),
        "model": model,
    }


def new_call_id() -> str:
    """Make the id of a tool call."""
    return f"chatcmpl-tool-{uuid.uuid4().hex[:16]}"


def _interleave(streams: Sequence[Iterator[JSON]]) -> Iterator[tuple[int, JSON]]:
    """Take one from each stream in turn, with the number taken from that stream before."""
    left, turn = list(streams), 0
    while left:
        for stream in list(left):
            choice = next(stream, None)
            if choice is None:
                left.remove(stream)
            else:
                yield turn, choice
        turn += 1


@dataclass(frozen=True, slots=True)
class _Answer:
    is_chat: bool
    choices: list[Reply]
    reply: Reply
    prompt_tokens: int

    @classmethod
    def to(cls, body: Mapping[str, Any], reply: Reply) -> "_Answer":
        is_chat = "messages" in body
        count = prompt_count(body) * (body.get("n") or 1)
        forced = is_chat and _forces_a_tool(body)
        return cls(
            is_chat=is_chat,
            choices=[
                _complete(choice, body, forced=forced)
                for choice in reply.choices or [reply] * count
            ],
            reply=reply,
            prompt_tokens=_count_tokens(body["messages"] if is_chat else body.get("prompt")),
        )

    def usage(self, *, is_stream: bool, completion_tokens: int | None = None) -> JSON:
        if self.reply.usage is not None:
            given = dict(self.reply.usage)
            if completion_tokens is not None:
                given["completion_tokens"] = completion_tokens
                given["total_tokens"] = given.get("prompt_tokens", 0) + completion_tokens
            return given
        if completion_tokens is None:
            completion_tokens = sum(_count_pieces(choice) for choice in self.choices)
        usage: JSON = {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
        }
        if not is_stream:
            usage |= {"prompt_tokens_details": None, "completion_tokens_details": None}
        if self.is_chat:
            reasoning = sum(len(split_words(choice.reasoning or "")) for choice in self.choices)
            usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
        return usage


def _forces_a_tool(body: Mapping[str, Any]) -> bool:
    return body.get("tool_choice") == "required" or isinstance(body.get("tool_choice"), Mapping)


def _complete(choice: Reply, body: Mapping[str, Any], *, forced: bool) -> Reply:
    """Fill in what a script left open."""
    content = choice.content
    if content is None and choice.chunks is not None:
        content = "".join(choice.chunks)
    if content is None and (forced or not (choice.tool_calls or choice.reasoning)):
        content = ""
    finish = choice.finish_reason
    if finish is None:
        # vLLM ends a call that was forced by name with `stop`.
        by_name = isinstance(body.get("tool_choice"), Mapping)
        finish = "tool_calls" if choice.tool_calls and not by_name else "stop"
    return Reply(
        content=content,
        reasoning=choice.reasoning,
        tool_calls=[_complete_call(call) for call in choice.tool_calls],
        finish_reason=finish,
        logprobs=choice.logprobs,
        chunks=split_words(content or "") if choice.chunks is None else choice.chunks,
        stop_reason=choice.stop_reason,
    )


def _complete_call(call: Mapping[str, Any]) -> JSON:
    arguments = call.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = orjson.dumps(arguments).decode()
    call_id = call.get("id") or new_call_id()
    return {"id": call_id, "name": call["name"], "arguments": arguments}


def _count_tokens(prompt: Any) -> int:
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        return len(prompt)
    if isinstance(prompt, list):
        return sum(_count_tokens(part) for part in prompt)
    if isinstance(prompt, Mapping):
        return 4 + _count_tokens(prompt.get("content") or prompt.get("text"))
    return len(split_words(prompt)) if isinstance(prompt, str) else 0


def _count_pieces(choice: Reply) -> int:
    calls = sum(len(split_words(call["arguments"])) for call in choice.tool_calls)
    return len(choice.chunks or ()) + len(split_words(choice.reasoning or "")) + calls


def _plain_chat_choice(index: int, choice: Reply) -> JSON:
    message: JSON = {
        "role": "assistant",
        "content": choice.content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if choice.tool_calls:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in choice.tool_calls
        ]
    return {
        "index": index,
        "message": message | {"reasoning": choice.reasoning},
        "logprobs": None if choice.logprobs is None else {"content": choice.logprobs},
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": None,
        "routed_experts": None,
    }


def _plain_text_choice(index: int, choice: Reply) -> JSON:
    return {
        "index": index,
        "text": choice.content or "",
        "logprobs": choice.logprobs,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


def _deltas(choice: Reply) -> Iterator[JSON]:
    for piece in split_words(choice.reasoning or ""):
        yield {"reasoning": piece}
    for piece in choice.chunks or ():
        yield {"content": piece}
    for index, call in enumerate(choice.tool_calls):
        head = {
            "id": call["id"],
            "type": "function",
            "index": index,
            "function": {"name": call["name"]},
        }
        yield {"content": None, "tool_calls": [head]}
        for piece in split_words(call["arguments"]):
            part = {"index": index, "function": {"arguments": piece}}
            yield {"content": None, "tool_calls": [part]}


def _chat_choice_chunks(index: int, choice: Reply) -> Iterator[JSON]:
    head = {"role": "assistant", "content": ""}
    yield {"index": index, "delta": head, "logprobs": None, "finish_reason": None}
    entries = iter(choice.logprobs or ())
    deltas = list(_deltas(choice))
    # A cut or stopped answer ends with its last text; a natural end is a token of its own.
    ends_on_text = choice.finish_reason == "length" or choice.stop_reason is not None
    if not (ends_on_text and deltas):
        deltas.append({})
    for position, delta in enumerate(deltas, 1):
        entry = next(entries, None) if delta.get("content") is not None else None
        chunk: JSON = {"index": index, "delta": delta}
        chunk["logprobs"] = None if entry is None else {"content": [entry]}
        chunk["finish_reason"] = None
        if position == len(deltas):
            chunk["finish_reason"] = choice.finish_reason
            chunk["stop_reason"] = choice.stop_reason
        chunk["token_ids"] = None
        yield chunk


def _text_choice_chunks(index: int, choice: Reply) -> Iterator[JSON]:
    pieces = choice.chunks or [""]
    for position, piece in enumerate(pieces):
        is_last = position == len(pieces) - 1
        yield {
            "index": index,
            "text": piece,
            "logprobs": _text_logprobs(choice.logprobs, position),
            "finish_reason": choice.finish_reason if is_last else None,
            "stop_reason": choice.stop_reason if is_last else None,
            "prompt_token_ids": None,
            "token_ids": None,
        }


def _text_logprobs(logprobs: Any, position: int) -> JSON | None:
    if logprobs is None:
        return None
    return {name: values[position : position + 1] for name, values in logprobs.items()}
