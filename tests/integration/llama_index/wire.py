"""Wire JSON for scripts, and a script that gives one answer plain or streamed."""

import json
from collections.abc import Callable
from typing import Any

from sagemaker_vllm.emulator import AnyReply, JSONReply, RecordedRequest, StreamReply

DONE = b"data: [DONE]\n\n"
ABSENT: Any = object()
"""A key that a piece of a tool call does not have."""
SPLITS = ("one part", "events", "bytes")
Script = Callable[[RecordedRequest], AnyReply]


def chunk(choices: list[Any] | None, **more: Any) -> bytes:
    """Write one event of a chat stream."""
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    body = json.dumps({**head, "choices": choices, **more}, ensure_ascii=False)
    return f"data: {body}\n\n".encode()


def event(delta: Any, finish_reason: str | None = None, **choice: Any) -> bytes:
    """Write an event with one choice."""
    return chunk([{"index": 0, "delta": delta, "finish_reason": finish_reason, **choice}])


def call(index: Any, call_id: Any, name: Any, arguments: Any) -> bytes:
    """Write an event with one piece of a tool call."""
    function = {"name": name, "arguments": arguments}
    piece = {"index": index, "id": call_id, "function": _present(function)}
    return event({"tool_calls": [_present(piece)]})


def usage(prompt: int, completion: int) -> bytes:
    """Write the event that ends a stream with usage."""
    return chunk([], usage=counts(prompt, completion))


def counts(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def whole(message: Any, finish_reason: str | None = "stop", **choice: Any) -> dict[str, Any]:
    """Make the body of a plain answer; a text is the message's content."""
    if isinstance(message, str):
        message = {"content": message}
    made = {"index": 0, "message": {"role": "assistant", "content": None, **message}}
    made |= {"finish_reason": finish_reason, **choice}
    head = {"id": "r1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [made], "usage": counts(3, 2)}


def whole_call(call_id: Any, name: str, arguments: Any) -> dict[str, Any]:
    """Make one tool call of a plain answer."""
    function = _present({"name": name, "arguments": arguments})
    return {"id": call_id, "type": "function", "function": function}


def stream(*events: bytes, split: str = "one part", **end: Any) -> StreamReply:
    """Make a stream of events, cut as `split` says."""
    if split == "bytes":
        return StreamReply(b"".join(events), parts=1, **end)
    return StreamReply(list(events) if split == "events" else b"".join(events), **end)


def either(body: Any, *events: bytes, split: str = "one part") -> Script:
    """Answer plainly with `body`, or with a stream of `events`, as it is asked."""

    def answer(request: RecordedRequest) -> AnyReply:
        if request.json.get("stream"):
            return stream(*events, split=split)
        return JSONReply(body)

    return answer


def in_turn(*scripts: Script) -> Script:
    """Answer the first request by the first script, the next by the next."""
    left = iter(scripts)

    def answer(request: RecordedRequest) -> AnyReply:
        return next(left)(request)

    return answer


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not ABSENT}
