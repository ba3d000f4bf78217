"""Translates llama.cpp's answers into vLLM's (pure)."""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterator, Mapping
from typing import Any

import orjson

from sagemaker_vllm.emulator._gguf_request import SubRequest
from sagemaker_vllm.emulator._rendering import new_call_id
from sagemaker_vllm.emulator._replies import Reply

JSON = dict[str, Any]

_CONTEXT = re.compile(r"request \((\d+) tokens\) exceeds the available context size \((\d+)")
_BAD_REQUEST = 400


class LlamaError(Exception):
    """llama.cpp refused a request or failed.

    Attributes:
        status: The status that vLLM would answer with.
        body: The body that vLLM would answer with.
    """

    def __init__(self, status: int, body: Any) -> None:
        message = str((body.get("error") or {}).get("message", body))
        if found := _CONTEXT.search(message):
            used, limit = found.groups()
            message = (
                f"This model's maximum context length is {limit} tokens. However, your prompt "
                f"contains at least {used} input tokens, which exceeds this limit even without "
                "any output tokens. Please reduce the length of the input prompt. "
                f"(parameter=input_tokens, value={used})"
            )
        if "is not supported" in message:
            status = _BAD_REQUEST
        self.status = status
        self.body = error_body(status, message)
        super().__init__(message)


async def read_chunks(lines: AsyncIterable[bytes]) -> AsyncGenerator[JSON]:
    """Read the events of a stream of llama.cpp's; it also sends comments while it is busy."""
    async for line in lines:
        field, _, text = line.rstrip().partition(b": ")
        if field == b"data" and text != b"[DONE]":
            chunk = orjson.loads(text)
            if "error" in chunk:
                raise LlamaError(500, chunk)
            yield chunk


def error_body(status: int, message: str) -> JSON:
    """Write an error as vLLM does."""
    kind = "BadRequestError" if status == _BAD_REQUEST else "InternalServerError"
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}


def merged_reply(parts: list[tuple[SubRequest, JSON]], samples: int) -> Reply:
    """Make one answer of whole generations, in the order of their indexes."""
    ordered = sorted(parts, key=lambda part: part[0].index)
    return Reply(
        choices=[_choice(request, answer) for request, answer in ordered],
        usage=usage_of({part.index: answer["usage"] for part, answer in ordered}, samples)
        | {"prompt_tokens_details": None, "completion_tokens_details": None},
    )


def usage_of(usages: Mapping[int, Mapping[str, int]], samples: int) -> JSON:
    """Add up usages; vLLM counts a prompt once, however many samples it has."""
    prompt = sum(usage["prompt_tokens"] for index, usage in usages.items() if index % samples == 0)
    completion = sum(usage["completion_tokens"] for usage in usages.values())
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }


def _choice(request: SubRequest, answer: JSON) -> Reply:
    choice = answer["choices"][0]
    finish: str = choice["finish_reason"]
    if "text" in choice:
        return Reply(
            content=request.prefix + choice["text"],
            finish_reason=finish,
            logprobs=text_logprobs(choice.get("logprobs"), len(request.prefix)),
        )
    message = choice["message"]
    if request.tool is not None:
        call = {"name": request.tool, "arguments": message["content"]}
        return Reply(
            tool_calls=[call],
            finish_reason=finish if finish == "length" else None,
        )
    return Reply(
        content=message.get("content"),
        reasoning=message.get("reasoning_content"),
        tool_calls=[
            call["function"] | {"id": call["id"]} for call in message.get("tool_calls", [])
        ],
        finish_reason=finish,
        logprobs=chat_logprobs(choice.get("logprobs")),
    )


def chat_logprobs(logprobs: JSON | None) -> list[JSON] | None:
    """Take llama.cpp's token ids out of the log-probabilities."""
    if logprobs is None:
        return None
    return [
        _entry(token) | {"top_logprobs": [_entry(top) for top in token["top_logprobs"]]}
        for token in logprobs["content"]
    ]


def _entry(token: JSON) -> JSON:
    return {name: token[name] for name in ("token", "logprob", "bytes")}


def text_logprobs(logprobs: JSON | None, offset: int) -> JSON | None:
    """Turn log-probabilities into the parallel lists of a text completion."""
    if logprobs is None:
        return None
    lists: JSON = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for token in logprobs["content"]:
        lists["text_offset"].append(offset)
        lists["token_logprobs"].append(token["logprob"])
        lists["tokens"].append(token["token"])
        tops = {top["token"]: top["logprob"] for top in token["top_logprobs"]}
        lists["top_logprobs"].append({token["token"]: token["logprob"], **tops})
        offset += len(token["token"])
    return lists


class ChoiceStream:
    """Translates the chunks of one streamed generation."""

    def __init__(self, request: SubRequest, body: Mapping[str, Any]) -> None:
        self._request = request
        self._prefix = request.prefix
        self._offset = len(request.prefix)
        self._has_call = request.tool is not None
        self._ends_with_stop = isinstance(body.get("tool_choice"), Mapping)

    def choices(self, chunk: JSON) -> Iterator[JSON]:
        """Give vLLM's choices for one chunk of llama.cpp's."""
        for choice in chunk.get("choices", ()):
            if "text" in choice:
                yield self._text(choice)
            else:
                yield from self._chat(choice)

    def _text(self, choice: JSON) -> JSON:
        text, self._prefix = self._prefix + choice["text"], ""
        logprobs = text_logprobs(choice.get("logprobs"), self._offset)
        self._offset += len(choice["text"])
        finish = choice["finish_reason"]
        return {
            "index": self._request.index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
        }

    def _chat(self, choice: JSON) -> Iterator[JSON]:
        for delta in self._deltas(choice["delta"]):
            logprobs = chat_logprobs(choice.get("logprobs"))
            entries = None if logprobs is None else {"content": logprobs}
            yield self._chunk(delta, entries)
        if choice["finish_reason"] is not None:
            finish = self._finish(choice["finish_reason"])
            yield self._chunk({}) | {"finish_reason": finish, "stop_reason": None}

    def _chunk(self, delta: JSON, logprobs: JSON | None = None) -> JSON:
        chunk = {"index": self._request.index, "delta": delta, "logprobs": logprobs}
        return chunk | {"finish_reason": None, "token_ids": None}

    def _deltas(self, delta: JSON) -> Iterator[JSON]:
        if "role" in delta:
            yield {"role": "assistant", "content": ""}
            if self._request.tool is not None:
                yield _call_delta(0, {"name": self._request.tool}, new_call_id())
        if delta.get("reasoning_content"):
            yield {"reasoning": delta["reasoning_content"]}
        if delta.get("content") and self._request.tool is not None:
            yield _call_delta(0, {"arguments": delta["content"]})
        elif delta.get("content"):
            yield {"content": delta["content"]}
        for call in delta.get("tool_calls", ()):
            self._has_call = True
            yield _call_delta(call["index"], call["function"], call.get("id"))

    def _finish(self, reason: str) -> str:
        if reason == "length" or not self._has_call:
            return reason
        return "stop" if self._ends_with_stop else "tool_calls"


def _call_delta(index: int, function: JSON, call_id: str | None = None) -> JSON:
    head = {} if call_id is None else {"id": call_id, "type": "function"}
    return {"content": None, "tool_calls": [{**head, "index": index, "function": function}]}
