"""vLLM's answers → LlamaIndex's responses, by the same steps for plain and streamed ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LogProb,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from sagemaker_vllm import Completion, parse_arguments

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the request says about how its answer is to be read.

    Attributes:
        own_names: The tools' own names, where they go by another one on the wire.
        single_call: Keep the first tool call only, as the request asked.
    """

    own_names: Mapping[str, str] = field(default_factory=dict)
    single_call: bool = False


def from_wire_completion(completion: Completion, reading: Reading) -> ChatResponse:
    """Return the response of a whole answer; its first choice is the message.

    `raw` is the answer as wire JSON, with every choice. `additional_kwargs` holds the three token
    counts, `finish_reason`, `stop_reason`, `model_name` and what SageMaker said about the call.
    """
    wire = completion.response
    choice: dict[str, Any] = next((each for each in wire["choices"] if each["index"] == 0), {})
    message = choice.get("message") or {"content": choice.get("text")}
    finish_reason = choice.get("finish_reason")
    calls = message.get("tool_calls") or []
    growing = _Growing(
        text=message.get("content") or "",
        thinking=message.get("reasoning") or "",
        calls=dict(enumerate(calls[:1] if reading.single_call else calls)),
    )
    usage = wire.get("usage") or {}
    facts = {name: usage[name] for name in _COUNTS if usage.get(name) is not None}
    facts |= {"finish_reason": finish_reason, "model_name": wire.get("model")}
    if choice.get("stop_reason") is not None:
        facts["stop_reason"] = choice["stop_reason"]
    if message.get("refusal"):
        facts["refusal"] = message["refusal"]
    return ChatResponse(
        message=growing.message(reading, whole=True, finish_reason=finish_reason),
        raw=wire,
        logprobs=_logprobs(choice.get("logprobs")),
        additional_kwargs=facts | completion.metadata.as_dict(),
    )


class GrowingResponse:
    """Folds the chunks of one stream into LlamaIndex's cumulative responses."""

    def __init__(self, reading: Reading) -> None:
        """Start before the first chunk."""
        self._reading = reading
        self._so_far = _Growing()

    def from_wire_chunk(self, chunk: Mapping[str, Any]) -> ChatResponse | None:
        """Return all that has come of the first choice; `None` when the chunk adds nothing."""
        choice = next((each for each in chunk["choices"] if each["index"] == 0), None)
        if choice is None:
            return None
        delta = choice.get("delta") or {"content": choice.get("text")}
        text, thinking = delta.get("content") or "", delta.get("reasoning") or ""
        calls = delta.get("tool_calls") or []
        if not (text or thinking or calls):
            return None
        self._so_far.text += text
        self._so_far.thinking += thinking
        for call in calls:
            self._so_far.add_call(call)
        return ChatResponse(
            message=self._so_far.message(self._reading),
            delta=text,
            raw=chunk,
            additional_kwargs={"thinking_delta": thinking} if thinking else {},
        )

    def last(self, completion: Completion) -> ChatResponse:
        """Return the response of the whole answer, equal to the plain call's but for `delta`."""
        response = from_wire_completion(completion, self._reading)
        response.delta = ""
        return response


@dataclass(slots=True)
class _Growing:
    text: str = ""
    thinking: str = ""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add_call(self, delta: dict[str, Any]) -> None:
        before = self.calls.get(delta["index"], {"function": {"name": "", "arguments": ""}})
        function, more = before["function"], delta["function"]
        self.calls[delta["index"]] = {
            "id": delta.get("id") or before.get("id"),
            "type": "function",
            "function": {
                "name": more.get("name") or function["name"],
                "arguments": function["arguments"] + more["arguments"],
            },
        }

    def message(
        self, reading: Reading, *, whole: bool = False, finish_reason: str | None = None
    ) -> ChatMessage:
        """Return the message: thinking first, then the text, tool calls last."""
        calls = [self.calls[index] for index in sorted(self.calls)]
        if reading.single_call:
            calls = calls[:1]
        blocks: list[Any] = [ThinkingBlock(content=self.thinking)] if self.thinking else []
        blocks.append(TextBlock(text=self.text))
        blocks += [
            _call_block(call, reading, whole=whole, finish_reason=finish_reason) for call in calls
        ]
        # Older parts of LlamaIndex look for tool calls here: chat engines, streaming programs.
        older = {"tool_calls": calls} if calls else {}
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks, additional_kwargs=older)


def _call_block(
    call: Mapping[str, Any], reading: Reading, *, whole: bool, finish_reason: str | None
) -> ToolCallBlock:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    parsed = parse_arguments(arguments, finish_reason=finish_reason) if whole else None
    return ToolCallBlock(
        tool_call_id=call.get("id"),
        tool_name=reading.own_names.get(name, name),
        tool_kwargs=arguments if parsed is None else parsed,
    )


def to_completion_response(response: ChatResponse) -> CompletionResponse:
    """Return a chat response as the response of `complete`."""
    return CompletionResponse(
        text=response.message.content or "",
        delta=response.delta,
        raw=response.raw,
        logprobs=response.logprobs,
        additional_kwargs={**response.message.additional_kwargs, **response.additional_kwargs},
    )


def _logprobs(wire: Mapping[str, Any] | None) -> list[list[LogProb]] | None:
    """Return for each token its likeliest alternatives, or itself when there are none.

    Logprobs of another shape are in the response's `raw` only.
    """
    try:
        return _read_logprobs(wire) if wire else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _read_logprobs(wire: Mapping[str, Any]) -> list[list[LogProb]]:
    if wire.get("content") is not None:
        return [
            [_logprob(each) for each in token.get("top_logprobs") or [token]]
            for token in wire["content"]
        ]
    tops = wire.get("top_logprobs") or [None] * len(wire["tokens"])
    rows = zip(wire["tokens"], wire["token_logprobs"], tops, strict=True)
    return [
        # The first token of an echoed prompt has no probability.
        [
            LogProb(token=each, logprob=p)
            for each, p in (top or {token: own}).items()
            if p is not None
        ]
        for token, own, top in rows
    ]


def _logprob(token: Mapping[str, Any]) -> LogProb:
    return LogProb(token=token["token"], logprob=token["logprob"], bytes=token.get("bytes") or [])
