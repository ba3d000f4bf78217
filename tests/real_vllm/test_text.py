"""Text completion with a real vLLM: one prompt and many."""

import asyncio

import pytest

from langchain_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import SageMakerVLLMClient, text_request
from tests.faces import Face
from tests.real_vllm.conftest import Ask, Endpoint
from tests.real_vllm.material import schema_format, writing

PROMPTS = ["The sky is", "Grass is", "Once upon a"]


def test_prompt_is_completed(complete: Ask, face: Face) -> None:
    answer = complete("The sky is", max_tokens=6)

    assert answer.text
    assert answer.finish_reason == "length"
    assert answer.total_tokens
    assert answer.total_tokens > 6


def test_echo_gives_the_prompt_back(complete: Ask) -> None:
    answer = complete("The sky is", max_tokens=2, echo=True)

    assert answer.text.startswith("The sky is")


def test_stop_string_ends_the_text_and_is_named(complete: Ask) -> None:
    answer = complete("Count:", max_tokens=20, stop=["three"], **writing("one two three four"))

    assert answer.text.rstrip() == "one two"
    assert answer.finish_reason == "stop"
    assert answer.stop_reason == "three"


def test_text_follows_a_schema(complete: Ask) -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }

    answer = complete("JSON:", max_tokens=20, response_format=schema_format(schema))

    assert answer.text.replace(" ", "").replace("\n", "") in {'{"ok":true}', '{"ok":false}'}


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_many_prompts_are_answered_in_order(
    endpoint: Endpoint, is_async: bool, samples: int
) -> None:
    model = SageMakerVLLM(
        **endpoint.settings, max_tokens=2, n=samples, temperature=1.0, extra_body={"echo": True}
    )

    result = asyncio.run(model.agenerate(PROMPTS)) if is_async else model.generate(PROMPTS)

    begun = [
        generation.text.startswith(prompt)
        for prompt, generations in zip(PROMPTS, result.generations, strict=True)
        for generation in generations
    ]
    assert begun == [True] * len(PROMPTS) * samples


def test_streams_of_many_prompts_interleave_and_are_kept_apart(endpoint: Endpoint) -> None:
    request = text_request(PROMPTS, parameters={"max_tokens": 4, "echo": True, "temperature": 0})

    with SageMakerVLLMClient(**endpoint.settings).stream_complete(request) as stream:
        indices = [choice["index"] for chunk in stream for choice in chunk["choices"]]

    texts = [choice["text"] for choice in stream.completion.response["choices"]]
    assert set(indices) == {0, 1, 2}
    assert [text.startswith(p) for text, p in zip(texts, PROMPTS, strict=True)] == [True] * 3


def test_logprobs_of_the_prompt_and_the_text_come(endpoint: Endpoint) -> None:
    parameters = {"max_tokens": 2, "temperature": 0, "echo": True, "logprobs": 1}
    request = text_request("The sky is", parameters=parameters)

    completion = SageMakerVLLMClient(**endpoint.settings).complete(request)

    logprobs = completion.response["choices"][0]["logprobs"]
    assert "".join(logprobs["tokens"]) == completion.text
    assert logprobs["token_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])


@pytest.mark.here
def test_prompt_as_token_ids_is_the_same_prompt(endpoint: Endpoint) -> None:
    client = SageMakerVLLMClient(**endpoint.settings)
    parameters = {"max_tokens": 4, "temperature": 0, "return_token_ids": True}
    request = text_request("The sky is", parameters=parameters)
    first = client.complete(request)

    second = client.complete(
        {**request, "prompt": first.response["choices"][0]["prompt_token_ids"]}
    )

    assert second.text == first.text
    assert second.response["usage"] == first.response["usage"]
