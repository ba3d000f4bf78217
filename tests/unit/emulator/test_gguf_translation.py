"""Requests to llama.cpp and its answers, without a model."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sagemaker_vllm.emulator._gguf_answer import (
    ChoiceStream,
    LlamaError,
    read_chunks,
    usage_of,
)
from sagemaker_vllm.emulator._gguf_request import (
    RefusedRequestError,
    SubRequest,
    choice_request,
    forced_tools,
    sub_requests,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "now"}},
]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}


def bodies(request: dict[str, Any], tool: str | None = None) -> list[dict[str, Any]]:
    return [part.body for part in sub_requests(request, tool)]


def test_prompts_and_samples_get_the_indexes_of_vllm() -> None:
    parts = sub_requests({"prompt": ["a", "b"], "n": 2}, None)

    assert [(part.index, part.body["prompt"]) for part in parts] == [
        (0, "a"),
        (1, "a"),
        (2, "b"),
        (3, "b"),
    ]


@pytest.mark.parametrize(
    ("prompt", "expected"), [("a", ["a"]), ([1, 2], [[1, 2]]), ([[1], [2]], [[1], [2]])]
)
def test_every_form_of_prompt_is_taken(prompt: Any, expected: list[Any]) -> None:
    assert [body["prompt"] for body in bodies({"prompt": prompt})] == expected


def test_text_completion_has_the_token_limit_of_vllm() -> None:
    assert bodies({"prompt": "a"})[0]["max_tokens"] == 16
    assert bodies({"prompt": "a", "max_tokens": 3})[0]["max_tokens"] == 3


def test_samples_of_a_seeded_request_differ() -> None:
    assert [body["seed"] for body in bodies(CHAT | {"n": 3, "seed": 7})] == [7, 8, 9]


def test_names_of_llama_cpp_are_used() -> None:
    request = CHAT | {"repetition_penalty": 1.2, "max_completion_tokens": 5, "model": "x", "n": 1}

    (body,) = bodies(request)

    assert body == CHAT | {"repeat_penalty": 1.2, "max_tokens": 5}


def test_stream_always_reports_usage() -> None:
    (body,) = bodies(CHAT | {"stream": True, "stream_options": {"continuous_usage_stats": True}})

    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("structured", "expected"),
    [
        ({"choice": ["yes", 'n"o']}, {"grammar": 'root ::= "yes" | "n\\"o"'}),
        ({"grammar": 'root ::= "x"'}, {"grammar": 'root ::= "x"'}),
        ({"json_object": True}, {"response_format": {"type": "json_object"}}),
        (
            {"json": SCHEMA},
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        ),
        (
            {"json": '{"type": "object"}', "regex": None},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"schema": {"type": "object"}},
                }
            },
        ),
    ],
)
def test_constraints_are_translated(structured: dict[str, Any], expected: dict[str, Any]) -> None:
    (body,) = bodies(CHAT | {"structured_outputs": structured})

    assert body == CHAT | expected


@pytest.mark.parametrize(
    ("request_body", "words"),
    [
        (CHAT | {"structured_outputs": {"regex": "a"}}, "'regex' is not supported"),
        (CHAT | {"n": 0}, "n must be at least 1"),
        ({}, "Either prompt or prompt_embeds"),
        ({"prompt": []}, "Either prompt or prompt_embeds"),
        ({"prompt": 5}, "Either prompt or prompt_embeds"),
    ],
)
def test_request_that_cannot_be_translated_is_refused(
    request_body: dict[str, Any], words: str
) -> None:
    with pytest.raises(RefusedRequestError, match=words):
        sub_requests(request_body, None)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", []),
        ("none", []),
        (None, []),
        ("required", ["weather", "now"]),
        ({"type": "function", "function": {"name": "now"}}, ["now"]),
    ],
)
def test_tools_are_forced_by_tool_choice(choice: Any, expected: list[str]) -> None:
    assert forced_tools(CHAT | {"tools": TOOLS, "tool_choice": choice}) == expected


@pytest.mark.parametrize(
    "request_body",
    [
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
        {"tools": [{"type": "function"}], "tool_choice": "required"},
    ],
)
def test_wrong_tool_choice_is_refused(request_body: dict[str, Any]) -> None:
    with pytest.raises(RefusedRequestError, match="tool"):
        forced_tools(request_body)


def test_forced_call_is_made_of_the_tools_schema() -> None:
    (body,) = bodies(CHAT | {"tools": TOOLS, "tool_choice": "required"}, "weather")

    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "weather" in body["messages"][0]["content"]
    assert body["messages"][1:] == CHAT["messages"]
    assert not {"tools", "tool_choice"} & set(body)


def test_tool_without_parameters_takes_an_empty_object() -> None:
    (body,) = bodies(CHAT | {"tools": TOOLS, "tool_choice": "required"}, "now")

    assert body["response_format"]["json_schema"]["schema"] == {"type": "object", "properties": {}}


def test_tool_is_chosen_by_a_grammar_of_the_names() -> None:
    body = choice_request(CHAT | {"tools": TOOLS, "stream": True}, ["weather", "now"])

    assert body["grammar"] == 'root ::= "weather" | "now"'
    assert body["stream"] is False


def test_tools_stay_with_the_model_that_may_call_them() -> None:
    assert bodies(CHAT | {"tools": TOOLS})[0]["tools"] == TOOLS
    assert "tools" not in bodies(CHAT | {"tools": TOOLS, "tool_choice": "none"})[0]


def test_calls_of_the_model_itself_are_vllms_deltas() -> None:
    stream = ChoiceStream(SubRequest(0, "", {}), CHAT)
    call = {"index": 0, "id": "abc", "function": {"name": "f", "arguments": ""}}
    chunks: list[dict[str, Any]] = [
        {"choices": [{"delta": {"role": "assistant", "content": None}, "finish_reason": None}]},
        {"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": None}]},
        {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ]

    choices = [choice for chunk in chunks for choice in stream.choices(chunk)]

    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "content": ""},
        {"reasoning": "hm"},
        {
            "content": None,
            "tool_calls": [
                {
                    "id": "abc",
                    "type": "function",
                    "index": 0,
                    "function": {"name": "f", "arguments": ""},
                }
            ],
        },
        {},
    ]
    assert choices[-1]["finish_reason"] == "tool_calls"


def test_prompts_count_once_in_the_usage() -> None:
    usages = {index: {"prompt_tokens": 5, "completion_tokens": 2} for index in range(4)}

    assert usage_of(usages, samples=2) == {
        "prompt_tokens": 10,
        "completion_tokens": 8,
        "total_tokens": 18,
    }


def test_unknown_picture_is_a_bad_request() -> None:
    error = LlamaError(500, {"error": {"message": "image input is not supported - hint"}})

    assert error.status == 400
    assert error.body["error"]["type"] == "BadRequestError"


def test_failure_of_llama_cpp_keeps_its_status() -> None:
    error = LlamaError(500, {"error": {"message": "out of memory"}})

    assert error.status == 500
    assert error.body["error"]["message"] == "out of memory"


async def lines(*texts: bytes) -> AsyncIterator[bytes]:
    for text in texts:
        yield text


async def test_comments_of_a_busy_llama_cpp_are_no_chunks() -> None:
    stream = lines(b": ping\n", b"\n", b'data: {"a": 1}\n', b"\n", b":\n", b"data: [DONE]\n")

    assert [chunk async for chunk in read_chunks(stream)] == [{"a": 1}]


async def test_error_event_of_llama_cpp_is_raised() -> None:
    stream = lines(b'data: {"error": {"message": "lost"}}\n')

    with pytest.raises(LlamaError, match="lost"):
        _ = [chunk async for chunk in read_chunks(stream)]
