"""Request bodies."""

import json
import warnings
from typing import Any

import pytest

from sagemaker_vllm import ConfigurationError, chat_request, text_request
from sagemaker_vllm._request import MAX_BODY, expected_choices, prepare

MESSAGES = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def sent(request: dict[str, Any], kind: Any = "chat", **keywords: Any) -> dict[str, Any]:
    written = prepare(request, kind=kind, model="/m", **{"stream": False, **keywords})
    found: dict[str, Any] = json.loads(written)
    return found


def test_shared_keys_come_first_and_stream_last() -> None:
    request = chat_request(
        MESSAGES, tools=TOOLS, parameters={"tool_choice": "auto", "temperature": 0}, model="/x"
    )

    body = sent(request, stream=True, include_usage=True)

    assert list(body) == [
        "model",
        "tools",
        "messages",
        "tool_choice",
        "temperature",
        "stream",
        "stream_options",
    ]
    assert body["model"] == "/x"
    assert body["stream_options"] == {"include_usage": True}


def test_model_is_first_when_the_request_names_none() -> None:
    assert list(sent({"messages": MESSAGES, "model": None})) == ["model", "messages"]
    assert sent({"prompt": "x"}, "text")["model"] == "/m"


def test_plain_request_has_no_stream_keys() -> None:
    assert "stream" not in sent(chat_request(MESSAGES))
    assert "stream_options" not in sent(chat_request(MESSAGES))


def test_usage_is_asked_for_only_when_wanted() -> None:
    assert "stream_options" not in sent(chat_request(MESSAGES), stream=True)


def test_callers_own_stream_options_are_kept() -> None:
    request = {"messages": MESSAGES, "stream_options": {"continuous_usage_stats": True}}

    assert sent(request, stream=True, include_usage=True)["stream_options"] == {
        "include_usage": True,
        "continuous_usage_stats": True,
    }


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_are_left_out(tools: Any) -> None:
    assert "tools" not in chat_request(MESSAGES, tools=tools)


def test_builders_change_no_argument() -> None:
    messages, parameters = list(MESSAGES), {"stop": ["a"], "extra_body": {"x": 1}}

    chat_request(messages, tools=TOOLS, parameters=parameters)

    assert messages == MESSAGES
    assert parameters == {"stop": ["a"], "extra_body": {"x": 1}}


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: chat_request([]), "messages=.* is empty"),
        (lambda: chat_request(MESSAGES, parameters={"tool_choice": "required"}), "needs tools"),
        (lambda: chat_request(MESSAGES, parameters={"temperature": "hot"}), "temperature='hot'"),
        (lambda: text_request(""), "prompt is empty: pass a text"),
        (lambda: text_request([]), "prompt is empty"),
        (lambda: text_request(["a", ""]), "none of which is empty"),
        (lambda: text_request(["a"] * 1025), "1025 texts"),
        (lambda: text_request("a", parameters={"logprobs": True}), "logprobs=True"),
        (lambda: sent({}), "no messages"),
        (lambda: sent({"messages": MESSAGES}, "text"), "no prompt"),
        (lambda: sent({"messages": MESSAGES, "stream": True}), "stream is set by the method"),
        (lambda: sent({"messages": MESSAGES, "n": 0}), "n=0"),
        (lambda: sent({"messages": MESSAGES, "x": object()}), "cannot be written as JSON"),
    ],
)
def test_wrong_request_is_refused_before_sending(build: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        build()


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        ({"messages": MESSAGES}, 1),
        ({"messages": MESSAGES, "n": 3}, 3),
        ({"prompt": "a"}, 1),
        ({"prompt": ["a", "b"], "n": 2}, 4),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
    ],
)
def test_choices_are_prompts_times_samples(request_: dict[str, Any], count: int) -> None:
    assert expected_choices(request_) == count


@pytest.mark.parametrize(
    "prompt", ["a", ["a", "b"], [1, 2], [[1], [2]]], ids=["text", "texts", "ids", "lists of ids"]
)
def test_every_form_of_prompt_is_sent(prompt: Any) -> None:
    assert sent(text_request(prompt), "text")["prompt"] == prompt


def test_request_near_the_limit_warns_with_the_biggest_part_named() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * MAX_BODY}}
    messages: list[dict[str, Any]] = [
        *MESSAGES,
        {"role": "user", "content": [{"type": "text", "text": "?"}, image]},
    ]

    with pytest.warns(UserWarning, match=r"messages\[1\].content\[1\]"):
        sent(chat_request(messages))


def test_small_request_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        sent(chat_request(MESSAGES))
