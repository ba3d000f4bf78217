"""One question, asked in every way: core and two frameworks, sync and async, plain and streamed.

A `Face` takes messages and tools as wire JSON and gives back an `Answer` that has no trace of the
framework, so one parametrised test can hold all twelve to the same answer.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Literal, NamedTuple, TypeVar, cast

from langchain_core.messages import AIMessage
from langchain_core.outputs import Generation
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.prompts import PromptTemplate
from pydantic import BaseModel

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from langchain_sagemaker_vllm import SageMakerVLLM as LangChainText
from llama_index_sagemaker_vllm import SageMakerVLLM as LlamaIndexModel
from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    SageMakerVLLMClient,
    chat_request,
    parse_arguments,
    parse_json,
    response_format,
    text_request,
)

Messages = Sequence[Mapping[str, Any]]
T = TypeVar("T", bound=BaseModel)


class ToolCall(NamedTuple):
    """A call; the arguments are the model's text where they are no JSON object."""

    name: str
    arguments: dict[str, Any] | str
    id: str | None


@dataclass
class Answer:
    """What a framework says came back."""

    text: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None
    total_tokens: int | None = None
    model_name: str | None = None
    pieces: list[str] = field(default_factory=list)
    framework: Any = None


@dataclass(frozen=True)
class Face:
    """One way to ask: `face.chat(face.chat_model(**settings), messages)`."""

    framework: Literal["core", "langchain", "llama_index"]
    is_async: bool
    is_stream: bool

    def __str__(self) -> str:
        mode = ("async" if self.is_async else "sync", "stream" if self.is_stream else "plain")
        return "-".join((self.framework, *mode))

    def chat_model(self, **settings: Any) -> Any:
        """Make the framework's chat model."""
        if self.framework == "langchain":
            return ChatSageMakerVLLM(**settings)
        return self._client(settings) or LlamaIndexModel(**settings)

    def text_model(self, **settings: Any) -> Any:
        """Make the framework's model of text completion."""
        if self.framework == "langchain":
            return LangChainText(**settings)
        return self._client(settings) or LlamaIndexModel(**settings, is_chat_model=False)

    def _client(self, settings: Mapping[str, Any]) -> Any:
        if self.framework != "core":
            return None
        kind = AsyncSageMakerVLLMClient if self.is_async else SageMakerVLLMClient
        return kind(**settings)

    def chat(self, model: Any, messages: Messages, **keywords: Any) -> Answer:
        """Ask a chat model; tools and parameters are keywords, as wire JSON."""
        if self.framework == "core":
            tools = keywords.pop("tools", None)
            request = chat_request(messages, tools=tools, parameters=keywords)
            return self._core("chat", model, request)
        if self.framework == "langchain":
            return self._langchain_chat(model, messages, keywords)
        wire = [_to_llama_index(message) for message in messages]
        if self.is_stream:
            method = model.astream_chat if self.is_async else model.stream_chat
            return self._last_of(method(wire, **keywords), _from_llama_index)
        method = model.achat if self.is_async else model.chat
        return _from_llama_index(self._run(method(wire, **keywords)))

    def complete(self, model: Any, prompt: str, **keywords: Any) -> Answer:
        """Ask a text model for the completion of a prompt."""
        if self.framework == "core":
            return self._core("complete", model, text_request(prompt, parameters=keywords))
        if self.framework == "langchain":
            return self._langchain_text(model, prompt, keywords)
        if self.is_stream:
            method = model.astream_complete if self.is_async else model.stream_complete
            return self._last_of(method(prompt, **keywords), _from_llama_index_text)
        method = model.acomplete if self.is_async else model.complete
        return _from_llama_index_text(self._run(method(prompt, **keywords)))

    def predict(self, model: Any, kind: type[T], question: str, **keywords: Any) -> T:
        """Ask a chat model for an object of a Pydantic class."""
        if self.framework == "core":
            wanted = {**keywords, "response_format": response_format(kind)}
            answer = self.chat(model, [{"role": "user", "content": question}], **wanted)
            return kind.model_validate(parse_json(answer.text, finish_reason=answer.finish_reason))
        if self.framework == "langchain":
            chain = model.with_structured_output(kind).bind(**keywords)
            if self.is_stream:
                stream = (chain.astream if self.is_async else chain.stream)(question)
                return cast("T", self._collect(stream)[-1])
            return cast(
                "T", self._run((chain.ainvoke if self.is_async else chain.invoke)(question))
            )
        name = "stream_structured_predict" if self.is_stream else "structured_predict"
        method = getattr(model, f"a{name}" if self.is_async else name)
        # Braces in a template would be names to fill in.
        prompt = PromptTemplate("{question}")
        found = method(kind, prompt, llm_kwargs=keywords, question=question)
        return cast("T", self._collect(found)[-1] if self.is_stream else self._run(found))

    def _core(self, method: Literal["chat", "complete"], model: Any, request: Any) -> Answer:
        if not self.is_stream:
            return _from_wire(self._run(getattr(model, method)(request)).response)
        opened = getattr(model, f"stream_{method}")(request)
        if self.is_async:

            async def read() -> dict[str, Any]:
                async with await opened as stream:
                    async for _ in stream:
                        pass
                return dict(stream.completion.response)

            return _from_wire(asyncio.run(read()))
        with opened as stream:
            for _ in stream:
                pass
        return _from_wire(stream.completion.response)

    def _langchain_chat(
        self, model: ChatSageMakerVLLM, messages: Messages, keywords: Mapping[str, Any]
    ) -> Answer:
        wire = [dict(message) for message in messages]
        if not self.is_stream:
            call = model.ainvoke if self.is_async else model.invoke
            return _from_langchain(self._run(call(wire, **keywords)))
        chunks = self._collect((model.astream if self.is_async else model.stream)(wire, **keywords))
        answer = _from_langchain(reduce(add, chunks))
        answer.pieces = [str(chunk.text) for chunk in chunks if chunk.text]
        return answer

    def _langchain_text(
        self, model: LangChainText, prompt: str, keywords: Mapping[str, Any]
    ) -> Answer:
        if not self.is_stream:
            call = model.agenerate if self.is_async else model.generate
            result = self._run(call([prompt], **keywords))
            return _from_langchain_text(result.generations[0][0], result.llm_output)
        # `stream` gives bare strings; what comes with them is what is compared here.
        method = model._astream if self.is_async else model._stream
        chunks = self._collect(method(prompt, **keywords))
        answer = _from_langchain_text(reduce(add, chunks), None)
        answer.pieces = [chunk.text for chunk in chunks if chunk.text]
        return answer

    def _last_of(self, stream: Any, read: Callable[[Any], Answer]) -> Answer:
        """Read the last of cumulative responses."""
        responses = self._collect(stream)
        answer = read(responses[-1])
        answer.pieces = [response.delta for response in responses if response.delta]
        return answer

    def _run(self, result: Any) -> Any:
        if not self.is_async:
            return result

        async def run() -> Any:
            return await result

        return asyncio.run(run())

    def _collect(self, stream: Any) -> list[Any]:
        if not self.is_async:
            return list(stream)

        async def collect() -> list[Any]:
            chunks = stream if hasattr(stream, "__anext__") else await stream
            return [chunk async for chunk in chunks]

        return asyncio.run(collect())


FACES = [
    Face(framework, is_async, is_stream)
    for framework in ("core", "langchain", "llama_index")
    for is_async in (False, True)
    for is_stream in (False, True)
]


def _from_wire(response: Mapping[str, Any]) -> Answer:
    choice = response["choices"][0]
    message = choice.get("message") or {"content": choice.get("text")}
    return Answer(
        text=message["content"] or "",
        reasoning=message.get("reasoning") or "",
        tool_calls=[
            _read_call(call["function"], call["id"], choice["finish_reason"])
            for call in message.get("tool_calls", ())
        ],
        finish_reason=choice["finish_reason"],
        stop_reason=choice["stop_reason"],
        total_tokens=(response["usage"] or {}).get("total_tokens"),
        model_name=response.get("model"),
        framework=response,
    )


def _read_call(function: Mapping[str, str], call_id: str, finish_reason: str | None) -> ToolCall:
    text = function["arguments"]
    parsed = parse_arguments(text, finish_reason=finish_reason)
    return ToolCall(function["name"], text if parsed is None else parsed, call_id)


def _from_langchain(message: AIMessage) -> Answer:
    facts: dict[str, Any] = message.response_metadata
    calls = [ToolCall(call["name"], call["args"], call["id"]) for call in message.tool_calls]
    broken = [
        ToolCall(call["name"] or "", call["args"] or "", call["id"])
        for call in message.invalid_tool_calls
    ]
    return Answer(
        text=str(message.text),
        reasoning=message.additional_kwargs.get("reasoning_content") or "",
        tool_calls=calls + broken,
        finish_reason=facts.get("finish_reason"),
        stop_reason=facts.get("stop_reason"),
        total_tokens=message.usage_metadata["total_tokens"] if message.usage_metadata else None,
        model_name=facts.get("model_name"),
        framework=message,
    )


def _from_llama_index(response: ChatResponse) -> Answer:
    facts, blocks = response.additional_kwargs, response.message.blocks
    return Answer(
        text=response.message.content or "",
        reasoning="".join(
            block.content or "" for block in blocks if isinstance(block, ThinkingBlock)
        ),
        tool_calls=[
            ToolCall(block.tool_name, block.tool_kwargs, block.tool_call_id)
            for block in blocks
            if isinstance(block, ToolCallBlock)
        ],
        finish_reason=facts.get("finish_reason"),
        stop_reason=facts.get("stop_reason"),
        total_tokens=facts.get("total_tokens"),
        model_name=facts.get("model_name"),
        framework=response,
    )


def _from_langchain_text(generation: Generation, output: Mapping[str, Any] | None) -> Answer:
    facts = generation.generation_info or {}
    usage = (output or facts).get("token_usage") or {}
    return _text_answer(generation.text, facts, usage.get("total_tokens"), generation)


def _from_llama_index_text(response: CompletionResponse) -> Answer:
    facts = response.additional_kwargs
    return _text_answer(response.text, facts, facts.get("total_tokens"), response)


def _text_answer(text: str, facts: Mapping[str, Any], total: int | None, found: Any) -> Answer:
    return Answer(
        text=text,
        finish_reason=facts.get("finish_reason"),
        stop_reason=facts.get("stop_reason"),
        total_tokens=total,
        model_name=facts.get("model_name"),
        framework=found,
    )


def _to_llama_index(message: Mapping[str, Any]) -> ChatMessage:
    """Write a wire message as LlamaIndex's own."""
    blocks: list[ContentBlock] = []
    if reasoning := message.get("reasoning"):
        blocks.append(ThinkingBlock(content=reasoning))
    content = message.get("content") or ""
    blocks += [TextBlock(text=content)] if isinstance(content, str) else _blocks(content)
    for call in message.get("tool_calls", ()):
        function = call["function"]
        blocks.append(
            ToolCallBlock(
                tool_call_id=call["id"],
                tool_name=function["name"],
                tool_kwargs=json.loads(function["arguments"]),
            )
        )
    extra = {name: message[name] for name in ("tool_call_id", "name") if name in message}
    return ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=extra)


def _blocks(parts: Iterable[Mapping[str, Any]]) -> Iterator[ContentBlock]:
    for part in parts:
        if part["type"] == "image_url":
            yield ImageBlock(url=part["image_url"]["url"])
        else:
            yield TextBlock(text=part["text"])
