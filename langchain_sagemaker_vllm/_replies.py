"""vLLM's answers, plain and streamed → LangChain messages (pure).

One function makes the metadata of both, so that a summed stream equals the plain answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_sagemaker_vllm._blueprint import Blueprint
from langchain_sagemaker_vllm._chunks import (
    PROVIDER,
    Call,
    VLLMMessageChunk,
    are_fragments,
    arguments_piece,
    block_index,
    generation_piece,
    read_call,
    split_calls,
    text_piece,
)
from sagemaker_vllm import Completion

# What has its own place in a message, or is the same for every answer.
_RESPONSE_ELSEWHERE = frozenset({"choices", "usage", "model", "object"})
_CHOICE_ELSEWHERE = frozenset({"index", "message", "text"})
_MESSAGE_ELSEWHERE = frozenset({"role", "content", "reasoning", "tool_calls"})
# vLLM's reasons → langchain-core's words; a reason without one has none there.
_NORMALIZED = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "content_filter": "content_filter",
}


# Every field of an answer has been checked by the core, or is made here.
_MESSAGE = Blueprint(AIMessage(content=""))
_GENERATION = Blueprint(ChatGeneration(message=AIMessage(content="")))


def to_chat_result(completion: Completion) -> ChatResult:
    """Convert a plain answer; the token counts of all choices are on the first one."""
    response = completion.response
    generations: list[ChatGeneration] = []
    for choice in response["choices"]:
        message = _from_wire_message(choice, completion)
        if not generations:
            message.usage_metadata = usage_metadata(response.get("usage"))
        info = {name: choice[name] for name in ("finish_reason", "logprobs") if choice.get(name)}
        generations.append(
            _GENERATION.make(text=message.content, message=message, generation_info=info)
        )
    return ChatResult(generations=generations, llm_output=llm_output(completion))


def from_wire_chunk(
    chunk: Mapping[str, Any], *, with_logprobs: bool = True
) -> ChatGenerationChunk | None:
    """Convert a chunk; `None` when it brings nothing to show."""
    # A message is one answer; a server may send more of them than were asked for.
    for choice in chunk["choices"]:
        if choice["index"] == 0:
            break
    else:
        return None
    delta = choice["delta"]
    content = delta.get("content") or ""
    kept: dict[str, str] = {}
    if reasoning := delta.get("reasoning"):
        kept["reasoning_content"] = reasoning
    if refusal := delta.get("refusal"):
        kept["refusal"] = refusal
    calls = [
        tool_call_chunk(
            name=call["function"].get("name"),
            args=call["function"]["arguments"],
            id=call.get("id"),
            index=call["index"],
        )
        for call in delta.get("tool_calls") or ()
    ]
    logprobs = choice.get("logprobs") if with_logprobs else None
    if not (content or kept or calls or logprobs):
        return None
    if not calls:
        message = text_piece(content, kept)
    elif are_fragments(calls) and not (content or kept):
        message = arguments_piece(calls)
    else:
        message = VLLMMessageChunk(
            content=content,
            additional_kwargs=kept,
            tool_call_chunks=calls,
            response_metadata={"model_provider": PROVIDER},
        )
    return generation_piece(message, {"logprobs": logprobs} if logprobs else None)


def last_chunk(completion: Completion, *, with_logprobs: bool = False) -> ChatGenerationChunk:
    """Make the chunk that ends a stream: all metadata, and nothing that was streamed already."""
    choices = completion.response["choices"]
    choice = choices[0] if choices else {"message": {}, "finish_reason": None}
    whole = _from_wire_message(choice, completion)
    metadata = whole.response_metadata
    if not with_logprobs:
        metadata.pop("logprobs", None)
    kept = whole.additional_kwargs
    message = VLLMMessageChunk(
        content="",
        additional_kwargs={
            name: value
            for name, value in kept.items()
            if name not in ("reasoning_content", "refusal")
        },
        usage_metadata=usage_metadata(completion.response.get("usage")),
        response_metadata=metadata,
        chunk_position="last",
    )
    # Readers of events learn here which of the calls that they saw begin are invalid.
    message.invalid_tool_calls = [
        InvalidToolCall(**call, index=block_index(at))
        for at, call in enumerate(_calls(choice))
        if call["type"] == "invalid_tool_call"
    ]
    reason = choice["finish_reason"]
    return ChatGenerationChunk(
        message=message, generation_info={"finish_reason": reason} if reason else None
    )


def usage_metadata(usage: Mapping[str, Any] | None) -> UsageMetadata | None:
    """Convert vLLM's token counts; `None` when the server sent none."""
    if not usage:
        return None
    entered, made = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    found = UsageMetadata(
        input_tokens=entered,
        output_tokens=made,
        total_tokens=usage.get("total_tokens") or entered + made,
    )
    inside = usage.get("prompt_tokens_details") or {}
    details = {
        "audio": inside.get("audio_tokens"),
        "cache_read": inside.get("cached_tokens"),
        "cache_creation": inside.get("created_cache_tokens"),
    }
    if counted := {name: count for name, count in details.items() if count is not None}:
        found["input_token_details"] = InputTokenDetails(**counted)  # type: ignore[typeddict-item]  # the keys above
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    if thought is not None:
        found["output_token_details"] = OutputTokenDetails(reasoning=thought)
    return found


def llm_output(completion: Completion) -> dict[str, Any]:
    """Return what concerns the whole call: LangChain adds it up over a batch."""
    return {"token_usage": token_usage(completion), "model_name": completion.response.get("model")}


def combined_output(outputs: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Add up the outputs of several calls; a streamed call has none."""
    given = [output for output in outputs if output]
    if len(given) == 1:
        return dict(given[0])
    total: dict[str, int] = {}
    for output in given:
        for name, count in output["token_usage"].items():
            # Details, which are mappings, are of one call.
            if isinstance(count, int):
                total[name] = total.get(name, 0) + count
    return {**given[0], "token_usage": total} if given else {}


def response_metadata(completion: Completion, choice: Mapping[str, Any]) -> dict[str, Any]:
    """Collect everything that the server and SageMaker said about an answer; nulls are left out."""
    response = completion.response
    found = {"model_provider": PROVIDER, **llm_output(completion)}
    found |= {name: said for name, said in response.items() if name not in _RESPONSE_ELSEWHERE}
    found |= {name: said for name, said in choice.items() if name not in _CHOICE_ELSEWHERE}
    found = {name: said for name, said in found.items() if said is not None}
    if not found["token_usage"]:
        del found["token_usage"]
    found |= completion.metadata.as_dict()
    # JSON or a stream: it says how the answer came, not what it is.
    found.pop("content_type", None)
    return found


def token_usage(completion: Completion) -> dict[str, Any]:
    """Return vLLM's own token counts; a plain answer's nulls are left out, as a stream does."""
    usage = completion.response.get("usage") or {}
    return {name: count for name, count in usage.items() if count is not None}


def _from_wire_message(choice: Mapping[str, Any], completion: Completion) -> AIMessage:
    message, reason = choice["message"], choice["finish_reason"]
    calls, invalid = split_calls(_calls(choice))
    kept = {
        name: message[name]
        for name in message
        if name not in _MESSAGE_ELSEWHERE and message[name] not in (None, [])
    }
    if message.get("reasoning"):
        kept["reasoning_content"] = message["reasoning"]
    metadata = response_metadata(completion, choice)
    normalized = _normalized(reason, has_calls=bool(calls), has_refusal="refusal" in kept)
    if normalized:
        metadata["normalized_finish_reason"] = normalized
    return _MESSAGE.make(
        content=message.get("content") or "",
        additional_kwargs=kept,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        response_metadata=metadata,
    )


def _calls(choice: Mapping[str, Any]) -> list[Call]:
    return [
        read_call(
            call["function"]["name"],
            call["function"]["arguments"],
            call["id"],
            choice["finish_reason"],
        )
        for call in choice["message"].get("tool_calls") or ()
    ]


def _normalized(reason: str | None, *, has_calls: bool, has_refusal: bool) -> str | None:
    """Name a finish reason in langchain-core's words.

    A forced named tool ends with `stop` in vLLM (wire facts A3.1).
    """
    if has_refusal:
        return "refusal"
    normalized = _NORMALIZED.get(reason or "")
    return "tool_call" if normalized == "stop" and has_calls else normalized
