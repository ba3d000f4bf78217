"""Input that cannot work is refused by name, with the cure, before any request."""

from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import Reply
from tests.integration.llama_index.conftest import AskerFactory

URL = "https://example.invalid/a.png"
ASK = [ChatMessage(content="Hello?")]


def find(q: str) -> str:
    """Find something."""
    return q


FIND = FunctionTool.from_defaults(find)


@pytest.mark.parametrize(
    ("settings", "messages", "call", "says"),
    [
        ({}, ASK, {"temprature": 1}, "Did you mean 'temperature'"),
        ({}, ASK, {"temperature": "hot"}, "temperature='hot' must be"),
        ({}, ASK, {"top_p": 0}, "top_p=0 must be more than 0"),
        ({}, ASK, {"stop": [""]}, "stop="),
        ({}, ASK, {"target_variant": ""}, "target_variant=''"),
        ({}, ASK, {"tool_choice": "required"}, "needs tools"),
        ({}, [], {}, "at least one message"),
        ({"is_chat_model": False}, ASK, {"tools": [{"type": "function"}]}, "takes no tools"),
        (
            {"is_chat_model": False},
            [ChatMessage(blocks=[TextBlock(text="a"), ImageBlock(url=URL)])],
            {},
            "holds a ImageBlock",
        ),
        (
            {},
            [ChatMessage(role="tool", content="3")],
            {},
            "answers no call",
        ),
    ],
)
def test_call_is_refused(
    asker: AskerFactory, settings: dict[str, Any], messages: Any, call: dict[str, Any], says: str
) -> None:
    ask = asker(lambda _: Reply("ok"), **settings)

    with pytest.raises(ConfigurationError, match=says):
        ask.chat(messages, **call)

    assert ask.requests == []


@pytest.mark.parametrize(
    ("settings", "call", "says"),
    [
        ({"is_function_calling_model": False}, {}, "is_function_calling_model=False"),
        ({}, {"tool_choice": "lose"}, "one of .*'find'"),
        ({}, {"strict": True, "temprature": 1}, "Did you mean 'temperature'"),
    ],
)
def test_call_with_tools_is_refused(
    asker: AskerFactory, settings: dict[str, Any], call: dict[str, Any], says: str
) -> None:
    ask = asker(lambda _: Reply("ok"), **settings)

    with pytest.raises(ConfigurationError, match=says):
        ask.chat_with_tools([FIND], user_msg="Hello?", **call)

    assert ask.requests == []


def test_tool_required_without_tools_is_refused(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply("ok"))

    with pytest.raises(ConfigurationError, match="needs tools"):
        ask.chat_with_tools([], user_msg="Hello?", tool_required=True)

    assert ask.requests == []


@pytest.mark.parametrize("call", [{"temprature": 1}, {"chat_template_kwargs": {"a": 1}}])
def test_text_completion_is_refused(asker: AskerFactory, call: dict[str, Any]) -> None:
    ask = asker(lambda _: Reply("ok"), is_chat_model=False)

    with pytest.raises(ConfigurationError, match="Unknown keyword"):
        ask.complete("Hello?", **call)

    assert ask.requests == []
