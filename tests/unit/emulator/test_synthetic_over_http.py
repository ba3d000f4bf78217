"""The synthetic model behind the emulator, asked by real clients."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from sagemaker_vllm import InvalidRequestError, SageMakerVLLMClient
from sagemaker_vllm.emulator import Emulator, SyntheticModel, random_parts
from tests.unit.emulator.synthetic import tool

USER = [{"role": "user", "content": "What is the weather in Paris and Rome? Answer as 'JSON'."}]
WEATHER = tool("get_weather", "Weather of a city", city={"type": "string"})
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "day": {"type": "integer"}}}
WANTED = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
CHATS: dict[str, dict[str, Any]] = {
    "text": {},
    "samples": {"n": 3, "seed": 2},
    "cut": {"max_tokens": 5},
    "stop": {"stop": ["weather"]},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "tools": {"tools": [WEATHER]},
    "named": {
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    },
    "json": {"response_format": WANTED},
    "reasoning": {"chat_template_kwargs": {"enable_thinking": True}},
    "cut reasoning": {"chat_template_kwargs": {"enable_thinking": True}, "max_tokens": 2},
}
TEXTS: dict[str, dict[str, Any]] = {
    "one": {"prompt": "The sky is"},
    "many": {"prompt": ["The sky is", "Water is"], "n": 2},
    "echo": {"prompt": "The sky is", "echo": True, "logprobs": 1, "max_tokens": 4},
}
UNLIKE = {"id", "created", "object", "system_fingerprint"}


@pytest.fixture(scope="module")
def client() -> Iterator[SageMakerVLLMClient]:
    with Emulator(script=SyntheticModel(), part_size=random_parts(7)) as emulator:
        client = SageMakerVLLMClient(
            endpoint_name=emulator.endpoint_name,
            endpoint_url=emulator.url,
            region_name="eu-west-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        with closing(client):
            yield client


def meaning(response: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs between any two answers, and nulls, which streams do not write."""
    kept = {key: value for key, value in response.items() if key not in UNLIKE}
    text = json.dumps(kept)
    for choice in response["choices"]:
        for call in choice.get("message", {}).get("tool_calls") or ():
            text = text.replace(call["id"], "id")
    found: dict[str, Any] = _without_nulls(json.loads(text))
    return found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", CHATS)
def test_plain_and_streamed_chats_say_the_same(client: SageMakerVLLMClient, name: str) -> None:
    request = {"messages": USER, **CHATS[name]}

    plain = client.chat(request).response
    with client.stream_chat(request) as stream:
        pieces = list(stream)

    assert meaning(stream.completion.response) == meaning(plain)
    assert stream.is_whole
    assert len(pieces) > 3


@pytest.mark.parametrize("name", TEXTS)
def test_plain_and_streamed_texts_say_the_same(client: SageMakerVLLMClient, name: str) -> None:
    plain = client.complete(TEXTS[name]).response
    with client.stream_complete(TEXTS[name]) as stream:
        list(stream)

    assert meaning(stream.completion.response) == meaning(plain)


def test_refusals_arrive_with_their_words(client: SageMakerVLLMClient) -> None:
    schema = {"type": "array", "items": {}, "uniqueItems": True}
    request = {
        "messages": USER,
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }

    with pytest.raises(InvalidRequestError, match="Unimplemented keys"):
        client.chat(request)
    with pytest.raises(InvalidRequestError, match="Unimplemented keys"):
        list(client.stream_chat(request))


def test_running_usage_grows_to_the_whole(client: SageMakerVLLMClient) -> None:
    request = {"messages": USER}
    options = {"include_usage": True, "continuous_usage_stats": True}

    with client.stream_chat({**request, "stream_options": options}) as stream:
        usages = [chunk["usage"] for chunk in stream if chunk.get("usage")]

    counts = [usage["completion_tokens"] for usage in usages]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert usages[-1]["total_tokens"] == usages[-1]["prompt_tokens"] + counts[-1]
