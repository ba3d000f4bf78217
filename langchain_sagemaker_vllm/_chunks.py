"""The chunk that a stream yields: an `AIMessageChunk` whose sum never invents tool arguments.

langchain-core closes the open strings and brackets of tool arguments whenever chunks are added, so
a call that was cut by `max_tokens` would come out valid, with shortened arguments. That is right
while a stream runs, to show what has come; at its end (`chunk_position="last"`) the arguments must
be what the model wrote, exactly as in a plain answer.
"""

from typing import Any, Literal, Self, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessageChunk,
    InvalidToolCall,
    ToolCall,
)
from langchain_core.messages import content as blocks
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.block_translators import register_translator
from langchain_core.messages.tool import ToolCallChunk, invalid_tool_call
from langchain_core.outputs import ChatGenerationChunk
from pydantic import model_validator

from langchain_sagemaker_vllm._blueprint import Blueprint
from sagemaker_vllm import parse_arguments

PROVIDER = "sagemaker_vllm"
"""`model_provider` in every message, for LangChain's translators and traces."""

Call = ToolCall | InvalidToolCall


def read_call(name: str | None, arguments: str | None, call_id: str | None, reason: Any) -> Call:
    """Read one call; what is no JSON object, or has no name, is an invalid call.

    Args:
        name: The tool's name.
        arguments: The model's text.
        call_id: The call's id.
        reason: The answer's finish reason, which tells a cut call from one without arguments.
    """
    finish_reason = reason if isinstance(reason, str) else None
    parsed = parse_arguments(arguments or "", finish_reason=finish_reason)
    if parsed is not None and name:
        return ToolCall(name=name, args=parsed, id=call_id, type="tool_call")
    problem = "The arguments are not a JSON object." if name else "The call has no name."
    if finish_reason == "length":
        problem += " The answer was cut by the token limit; raise max_tokens."
    return InvalidToolCall(
        type="invalid_tool_call", id=call_id, name=name, args=arguments or "", error=problem
    )


def split_calls(calls: list[Call]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Split calls into the two lists that a message keeps."""
    valid = [cast("ToolCall", call) for call in calls if call.get("type") == "tool_call"]
    invalid = [cast("InvalidToolCall", call) for call in calls if call.get("type") != "tool_call"]
    return valid, invalid


class _WholeMessage(AIMessage):
    """What langchain-core makes of a summed chunk (its first base): a plain `AIMessage`."""

    def __new__(cls, *args: Any, **fields: Any) -> Self:
        if cls is _WholeMessage:
            # An instance of another class, so `__init__` of this one is not called.
            return cast("Self", AIMessage(*args, **fields))
        return super().__new__(cls)


class VLLMMessageChunk(_WholeMessage, AIMessageChunk):
    """A piece of an answer; the sum of all pieces has the same calls as a plain answer."""

    type: Literal["AIMessageChunk"] = "AIMessageChunk"  # type: ignore[assignment]  # as its base

    @classmethod
    def lc_id(cls) -> list[str]:
        """Serialise as langchain-core's own chunk, which every reader knows."""
        return AIMessageChunk.lc_id()

    def __radd__(self, other: Any) -> BaseMessageChunk:
        """Add to a chunk of langchain-core's class, such as the empty one that a sum begins with.

        Python asks the right side first when its class derives from the left side's.
        """
        if isinstance(other, AIMessageChunk):
            return add_ai_message_chunks(VLLMMessageChunk(**dict(other)), self)
        return NotImplemented

    @model_validator(mode="after")
    def init_tool_calls(self) -> Self:
        """Read the calls: leniently while the stream runs, strictly at its end."""
        if self.chunk_position != "last":
            # pydantic's type of a validator is not the method that it wraps.
            return super().init_tool_calls()  # type: ignore[operator,no-any-return]
        if not self.tool_call_chunks:
            # The last delta itself; its invalid calls are there for readers of events.
            return self
        reason = self.response_metadata.get("finish_reason")
        calls = [
            read_call(chunk["name"], chunk["args"], chunk["id"], reason)
            for chunk in self.tool_call_chunks
        ]
        self.tool_calls, self.invalid_tool_calls = split_calls(calls)
        if isinstance(self.content, list):
            whole = {
                block_index(chunk["index"]): call
                for chunk, call in zip(self.tool_call_chunks, calls, strict=True)
            }
            self.content = [
                dict(whole.get(str(block.get("index")), block))
                if isinstance(block, dict)
                else block
                for block in self.content
            ]
        return self


_MESSAGE = Blueprint(VLLMMessageChunk(content=""))
_GENERATION = Blueprint(ChatGenerationChunk(message=VLLMMessageChunk(content="")))


def text_piece(text: str, kept: dict[str, str]) -> VLLMMessageChunk:
    """Return a piece of text; `kept` are its `additional_kwargs`, such as reasoning."""
    return _piece(text, kept, [], [])


def arguments_piece(fragments: list[ToolCallChunk]) -> VLLMMessageChunk:
    """Return fragments of tool arguments: invalid calls, as langchain-core finds by parsing."""
    calls = [
        invalid_tool_call(name=each["name"], args=each["args"], id=each["id"], error=None)
        for each in fragments
    ]
    return _piece("", {}, fragments, calls)


def are_fragments(calls: list[ToolCallChunk]) -> bool:
    """Tell whether none of the deltas can be the beginning of a JSON object."""
    return all(call["args"] and call["args"].lstrip()[:1] not in ("{", "") for call in calls)


def _piece(
    text: str,
    kept: dict[str, str],
    tool_call_chunks: list[ToolCallChunk],
    invalid_tool_calls: list[InvalidToolCall],
) -> VLLMMessageChunk:
    return _MESSAGE.make(
        content=text,
        additional_kwargs=kept,
        response_metadata={"model_provider": PROVIDER},
        tool_calls=[],
        invalid_tool_calls=invalid_tool_calls,
        tool_call_chunks=tool_call_chunks,
    )


def generation_piece(
    message: VLLMMessageChunk, generation_info: dict[str, Any] | None = None
) -> ChatGenerationChunk:
    """Wrap a chunk whose content is text."""
    return _GENERATION.make(text=message.content, message=message, generation_info=generation_info)


def block_index(index: int | str | None) -> str:
    """Name a call's block; a bare number would merge it with the text block of that number."""
    return f"lc_call_{index}"


def _content_blocks(message: AIMessage) -> list[blocks.ContentBlock]:
    """Read a message's standard blocks: reasoning, text, calls, invalid calls, refusal."""
    # AIMessage's own property would ask for this translator again.
    found = list(super(AIMessage, message).content_blocks)
    present = {block["type"] for block in found}
    reasoning = message.additional_kwargs.get("reasoning_content")
    if reasoning and "reasoning" not in present:
        found.insert(0, blocks.ReasoningContentBlock(type="reasoning", reasoning=reasoning))
    if not present & {"tool_call", "invalid_tool_call", "tool_call_chunk"}:
        found += _call_blocks(message)
    refusal = message.additional_kwargs.get("refusal")
    if refusal and "refusal" not in present:
        found.append(blocks.RefusalContentBlock(type="refusal", refusal=refusal))
    return found


def _call_blocks(message: AIMessage) -> list[blocks.ContentBlock]:
    running = isinstance(message, AIMessageChunk) and message.chunk_position != "last"
    if running and isinstance(message, AIMessageChunk):
        return [
            blocks.ToolCallChunk(
                type="tool_call_chunk",
                id=chunk["id"],
                name=chunk["name"],
                args=chunk["args"],
                index=block_index(chunk["index"]),
            )
            for chunk in message.tool_call_chunks
        ]
    calls = [blocks.ToolCall(**call) for call in message.tool_calls]  # type: ignore[typeddict-item]
    return [*calls, *message.invalid_tool_calls]


register_translator(PROVIDER, _content_blocks, _content_blocks)
