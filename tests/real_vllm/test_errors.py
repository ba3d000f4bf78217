"""What a real vLLM refuses, and how it fails: the same error in every face."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sagemaker_vllm import (
    ContextOverflowError,
    InvalidRequestError,
    SageMakerVLLMClient,
    SageMakerVLLMError,
    ServerError,
    chat_request,
)
from tests.faces import Face
from tests.real_vllm.conftest import Ask, Endpoint, in_front_of
from tests.real_vllm.material import TOOLS, picture_part, text_part, user
from tests.real_vllm.server import VLLMServer

QUESTION = "What is 2+2?"


def test_prompt_longer_than_the_context_is_an_overflow(ask: Ask) -> None:
    with pytest.raises(ContextOverflowError, match="maximum context length") as caught:
        ask("word " * 200_000, max_tokens=4)

    assert caught.value.status_code == 400


@pytest.mark.here
def test_text_longer_than_the_context_is_an_overflow(complete: Ask) -> None:
    with pytest.raises(ContextOverflowError, match="maximum context length"):
        complete("word " * 3000, max_tokens=4)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "grammar": ({"structured_outputs": {"grammar": "root ::= missing"}}, "grammar"),
    "regex": ({"structured_outputs": {"regex": "(?=x)["}}, "(?i)regex"),
    "schema": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "bogus"}},
            }
        },
        "bogus",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_constraint_is_refused_also_inside_a_stream(ask: Ask, what: str) -> None:
    parameters, sentence = REFUSED[what]

    with pytest.raises(InvalidRequestError, match=sentence) as caught:
        ask(QUESTION, max_tokens=4, **parameters)

    # A stream has begun with status 200; the event's own code counts.
    assert caught.value.status_code == 400


@pytest.mark.here
def test_answer_longer_than_the_context_is_refused(ask: Ask) -> None:
    with pytest.raises(InvalidRequestError, match="max_model_len=2048"):
        ask(QUESTION, max_tokens=3000)


def test_several_greedy_answers_are_refused(endpoint: Endpoint) -> None:
    request = chat_request([user(QUESTION)], parameters={"n": 2, "temperature": 0})

    with pytest.raises(InvalidRequestError, match="greedy"):
        SageMakerVLLMClient(**endpoint.settings).chat(request)


@pytest.mark.here
def test_audio_for_a_model_without_ears_is_refused(endpoint: Endpoint) -> None:
    part = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    request = chat_request([user([text_part("Listen: "), part])])

    with pytest.raises(InvalidRequestError, match="audio"):
        SageMakerVLLMClient(**endpoint.settings).chat(request)


@pytest.mark.here
def test_broken_image_is_refused(ask: Ask) -> None:
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}

    with pytest.raises(InvalidRequestError, match="image"):
        ask([user([text_part("Look: "), broken])], max_tokens=4)


@pytest.fixture
def ask_text_model(
    face: Face, text_endpoint: Endpoint, models: Callable[..., Any]
) -> Callable[..., Any]:
    def chat(messages: list[dict[str, Any]], **keywords: Any) -> Any:
        return face.chat(models(face, "chat", text_endpoint), messages, **keywords)

    return chat


@pytest.mark.here
def test_image_for_a_text_model_is_refused(ask_text_model: Callable[..., Any]) -> None:
    with pytest.raises(InvalidRequestError, match="not a multimodal model"):
        ask_text_model([user([text_part("Look: "), picture_part("red")])], max_tokens=4)


@pytest.mark.here
def test_tools_without_a_parser_are_refused(ask_text_model: Callable[..., Any]) -> None:
    with pytest.raises(InvalidRequestError, match="--enable-auto-tool-choice"):
        ask_text_model([user(QUESTION)], tools=TOOLS, max_tokens=4)


@pytest.mark.here
def test_thinking_budget_without_a_parser_is_refused(ask_text_model: Callable[..., Any]) -> None:
    with pytest.raises(InvalidRequestError, match="thinking_token_budget"):
        ask_text_model([user(QUESTION)], thinking_token_budget=4, max_tokens=4)


@pytest.fixture
def mortal_endpoint(servers: dict[str, VLLMServer]) -> Iterator[Endpoint]:
    """An endpoint whose server may be broken."""
    with VLLMServer("text", name="mortal") as server:
        yield from in_front_of(server)


@pytest.mark.here
def test_engine_that_dies_while_streaming_is_an_error_that_keeps_the_text(
    mortal_endpoint: Endpoint,
) -> None:
    assert mortal_endpoint.server is not None
    client = SageMakerVLLMClient(**mortal_endpoint.settings, max_retries=0)
    parameters = {"max_tokens": 1000, "ignore_eos": True}
    stream = client.stream_chat(chat_request([user(QUESTION)], parameters=parameters))
    pieces = [content_of(next(stream)) for _ in range(4)]

    os.kill(engine_of(mortal_endpoint.server), signal.SIGKILL)
    with pytest.raises(ServerError) as caught:
        pieces.extend(map(content_of, stream))

    assert caught.value.status_code == 500
    assert caught.value.partial is not None
    assert caught.value.partial.text == "".join(pieces)
    with pytest.raises(SageMakerVLLMError):
        client.chat(chat_request([user(QUESTION)]))


def content_of(chunk: dict[str, Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def engine_of(server: VLLMServer) -> int:
    """Find the process that runs the model."""
    tasks = Path(f"/proc/{server.pid}/task").glob("*/children")
    children = [child for task in tasks for child in task.read_text().split()]
    # Linux keeps fifteen characters of a process's name.
    (engine,) = (c for c in children if Path(f"/proc/{c}/comm").read_text().startswith("VLLM::"))
    return int(engine)
