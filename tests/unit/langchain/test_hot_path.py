"""What LangChain's side of a token costs, counted; see the core's test of the same name."""

import inspect
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from langchain_sagemaker_vllm._replies import from_wire_chunk, to_chat_result
from sagemaker_vllm import Completion
from tests.counting import count_calls, count_instructions


def wire(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


CHUNKS = {
    "text": wire({"content": " word"}),
    "reasoning": wire({"reasoning": " word"}),
    "arguments": wire({"tool_calls": [{"index": 0, "function": {"arguments": " word"}}]}),
}


@pytest.mark.parametrize(
    ("kind", "instructions", "calls"),
    [("text", 420, 36), ("reasoning", 420, 36), ("arguments", 610, 51)],
)
def test_a_piece_costs_few_instructions_and_calls(kind: str, instructions: int, calls: int) -> None:
    def run() -> None:
        assert from_wire_chunk(CHUNKS[kind])

    run()
    assert count_instructions(run) < instructions
    assert count_calls(run) < calls


@pytest.mark.parametrize("cls", [ChatSageMakerVLLM, SageMakerVLLM])
@pytest.mark.parametrize("method", ["_generate", "_agenerate"])
def test_the_signature_that_langchain_asks_for_is_ready(cls: Any, method: str) -> None:
    model = cls(endpoint_name="e")

    def run() -> None:
        assert "run_manager" in inspect.signature(getattr(model, method)).parameters

    run()
    assert count_calls(run) < 60


def test_a_call_costs_few_instructions_and_calls() -> None:
    model = ChatSageMakerVLLM(endpoint_name="e", temperature=0, max_tokens=10)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "Hello",
        "reasoning": None,
        "tool_calls": [],
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    completion = Completion(response={"id": "c", "model": "m", "choices": [choice], "usage": None})

    def run() -> None:
        model._get_request_payload([HumanMessage("Hello")])
        to_chat_result(completion)

    run()
    assert count_instructions(run) < 4000
    assert count_calls(run) < 300
