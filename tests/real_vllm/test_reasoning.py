"""Reasoning with a real vLLM: it thinks when its template is asked to."""

from typing import Any

import pytest

from tests.real_vllm.conftest import Ask
from tests.real_vllm.material import GET_WEATHER, WEATHER_QUESTION, schema_format, user

pytestmark = [pytest.mark.reasoning, pytest.mark.here]

QUESTION = "What is 2+2?"
THINKING: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": True},
    "thinking_token_budget": 5,
}
ENDLESS: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}


def test_thoughts_and_text_are_kept_apart(ask: Ask) -> None:
    answer = ask(QUESTION, max_tokens=20, **THINKING)

    assert answer.reasoning.strip()
    assert answer.text.strip()
    assert "<think>" not in answer.text + answer.reasoning
    assert "</think>" not in answer.text + answer.reasoning


def test_answer_cut_while_it_thinks_has_no_text(ask: Ask) -> None:
    answer = ask(QUESTION, max_tokens=5, **ENDLESS)

    assert answer.reasoning
    assert answer.text == ""
    assert answer.finish_reason == "length"


def test_thoughts_can_be_left_out(ask: Ask) -> None:
    answer = ask(QUESTION, max_tokens=20, include_reasoning=False, **THINKING)

    assert answer.reasoning == ""
    assert answer.text.strip()


def test_schema_begins_after_the_thoughts(ask: Ask) -> None:
    schema = {"enum": ["three", "four"]}

    answer = ask(QUESTION, max_tokens=30, response_format=schema_format(schema), **THINKING)

    assert answer.reasoning.strip()
    assert answer.text in {'"three"', '"four"'}


def test_forced_call_begins_after_the_thoughts(ask: Ask) -> None:
    answer = ask(
        WEATHER_QUESTION, tools=[GET_WEATHER], tool_choice="required", max_tokens=60, **THINKING
    )

    assert answer.reasoning.strip()
    assert {call.name for call in answer.tool_calls} == {"get_weather"}


def test_thoughts_are_sent_back(ask: Ask) -> None:
    answer = ask(
        [
            user(QUESTION),
            {"role": "assistant", "content": "4", "reasoning": "2 and 2"},
            user("And 3+3?"),
        ],
        max_tokens=4,
        extra_body={"return_prompt_text": True},
    )

    found = answer.framework
    raw = found if isinstance(found, dict) else getattr(found, "raw", None)
    prompt = (raw or found.response_metadata)["prompt_text"]
    assert "<think>\n2 and 2\n</think>\n4<|im_end|>" in prompt
