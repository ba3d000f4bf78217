"""vLLM's text completions → LangChain generations (pure)."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.outputs import Generation, GenerationChunk, LLMResult

from langchain_sagemaker_vllm._errors import ServerError, langchain_errors
from langchain_sagemaker_vllm._replies import combined_output, llm_output, response_metadata
from sagemaker_vllm import Completion, SageMakerVLLMError, TextRequest

Outcome = Completion | SageMakerVLLMError
"""What came of one request of several."""


def to_llm_result(outcomes: Sequence[Outcome], requests: Sequence[TextRequest]) -> LLMResult:
    """Convert the answers to one or several requests, in the order of the prompts.

    Raises:
        SageMakerVLLMError: A request failed; the answers to the others are in `partial`, where
            `index` still is position of the prompt × n + sample.
    """
    answered = _joined(outcomes, requests)
    for outcome in outcomes:
        if isinstance(outcome, SageMakerVLLMError):
            with langchain_errors(**({"partial": answered} if len(outcomes) > 1 else {})):
                raise outcome
    generations: list[list[Generation]] = []
    for outcome, request in zip(outcomes, requests, strict=True):
        if isinstance(outcome, Completion):
            generations += _generations(outcome, request)
    outputs = [llm_output(each) for each in outcomes if isinstance(each, Completion)]
    return LLMResult(generations=generations, llm_output=combined_output(outputs))


def from_wire_text_chunk(chunk: Mapping[str, Any]) -> GenerationChunk | None:
    """Convert a chunk of one answer; `None` when it brings nothing to show."""
    # A chunk is of one answer; a server may send more of them than were asked for.
    choice = next((each for each in chunk["choices"] if each["index"] == 0), None)
    if choice is None:
        return None
    logprobs = choice.get("logprobs")
    if not (choice["text"] or logprobs):
        return None
    return GenerationChunk(
        text=choice["text"], generation_info={"logprobs": logprobs} if logprobs else None
    )


def last_text_chunk(completion: Completion) -> GenerationChunk:
    """Make the chunk that ends a stream: all metadata, and nothing that was streamed already."""
    choices = completion.response["choices"]
    info = response_metadata(completion, choices[0] if choices else {})
    info.pop("logprobs", None)
    return GenerationChunk(text="", generation_info=info)


def _generations(completion: Completion, request: TextRequest) -> list[list[Generation]]:
    samples, prompts = request.get("n") or 1, _count(request)
    found: list[list[Generation]] = [[] for _ in range(prompts)]
    for choice in sorted(completion.response["choices"], key=lambda each: int(each["index"])):
        if not 0 <= choice["index"] < samples * prompts:
            # Whose answer this is cannot be known, nor whose the others are.
            raise ServerError(
                f"The container answered with index {choice['index']}, which {prompts} prompts "
                f"with n={samples} do not have; what came is in the error's `partial`.",
                partial=completion,
                endpoint_name=completion.metadata.endpoint_name,
            )
        info = response_metadata(completion, choice)
        if prompts > 1:
            # The counts are of the whole request.
            info.pop("token_usage", None)
        found[choice["index"] // samples].append(
            Generation(text=choice["text"], generation_info=info)
        )
    missing = sum(not each for each in found)
    if missing:
        raise ServerError(
            f"The container answered only {prompts - missing} of {prompts} prompts; what came is "
            "in the error's `partial`.",
            partial=completion,
            endpoint_name=completion.metadata.endpoint_name,
        )
    return found


def _joined(outcomes: Sequence[Outcome], requests: Sequence[TextRequest]) -> Completion:
    """Join the answers that came, with the indices of the whole batch."""
    first, offset, choices = None, 0, []
    for outcome, request in zip(outcomes, requests, strict=True):
        if isinstance(outcome, Completion):
            first = first or outcome
            choices += [
                {**choice, "index": choice["index"] + offset}
                for choice in outcome.response["choices"]
            ]
        offset += _count(request) * (request.get("n") or 1)
    if first is None:
        return Completion(response={"choices": []})
    return Completion(response={**first.response, "choices": choices}, metadata=first.metadata)


def _count(request: TextRequest) -> int:
    return 1 if isinstance(request["prompt"], str) else len(request["prompt"])
