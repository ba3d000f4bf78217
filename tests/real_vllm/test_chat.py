"""Chats with a real vLLM: text, limits, sampling, log probabilities, usage."""

import itertools
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import SageMakerVLLMClient, chat_request
from tests.faces import Face
from tests.real_vllm.conftest import Ask, Endpoint
from tests.real_vllm.material import user, writing

QUESTION = "What is 2+2?"


def test_answer_has_text_usage_and_finish_reason(ask: Ask, face: Face) -> None:
    answer = ask(QUESTION, max_tokens=8)

    assert answer.text
    assert answer.finish_reason in {"length", "stop"}
    assert answer.total_tokens
    assert answer.total_tokens > 8
    assert answer.model_name
    assert not face.is_stream or face.framework == "core" or "".join(answer.pieces) == answer.text


@pytest.mark.here
def test_answer_is_the_same_in_every_face(ask: Ask, plain_answer: str) -> None:
    assert ask(QUESTION, max_tokens=8).text == plain_answer


@pytest.fixture(scope="module")
def plain_answer(endpoint: Endpoint) -> str:
    request = chat_request([user(QUESTION)], parameters={"temperature": 0, "max_tokens": 8})
    return SageMakerVLLMClient(**endpoint.settings).chat(request).text


def test_stream_comes_in_pieces(ask: Ask, face: Face) -> None:
    answer = ask(QUESTION, max_tokens=12, **writing("one two three four five"))

    assert answer.text == "one two three four five"
    assert len(answer.pieces) > 2 or not face.is_stream or face.framework == "core"


@pytest.mark.here
def test_every_turn_reaches_the_model_in_order(ask: Ask) -> None:
    answer = ask(
        [
            {"role": "system", "content": "You are a pirate."},
            user("Say one."),
            {"role": "assistant", "content": "One!"},
            user("Say two."),
        ],
        max_tokens=2,
        return_prompt_text=True,
    )

    assert prompt_of(answer.framework).split("<|im_start|>")[1:] == [
        "system\nYou are a pirate.<|im_end|>\n",
        "user\nSay one.<|im_end|>\n",
        "assistant\nOne!<|im_end|>\n",
        "user\nSay two.<|im_end|>\n",
        "assistant\n",
    ]


def prompt_of(found: Any) -> str:
    """Return the prompt as vLLM's template made it, which it sends back when asked."""
    raw = found if isinstance(found, dict) else getattr(found, "raw", None)
    return str((raw or found.response_metadata)["prompt_text"])


def test_max_tokens_cuts_and_says_so(ask: Ask) -> None:
    answer = ask(QUESTION, max_tokens=3, **writing("one two three four five six"))

    assert answer.text.startswith("one")
    assert "six" not in answer.text
    assert answer.finish_reason == "length"


def test_stop_string_ends_the_answer_and_is_named(ask: Ask) -> None:
    answer = ask(QUESTION, max_tokens=20, stop=["four"], **writing("one two three four five six"))

    assert answer.text.rstrip() == "one two three"
    assert answer.finish_reason == "stop"
    assert answer.stop_reason == "four"


def test_one_seed_gives_one_answer(ask: Ask, face: Face) -> None:
    first, second = (ask("Say something.", temperature=1.0, seed=7, max_tokens=8) for _ in "ab")

    assert first.text == second.text


@pytest.mark.here
def test_seeds_give_different_answers(ask: Ask) -> None:
    answers = {ask("Invent a name.", temperature=1.5, seed=s, max_tokens=6).text for s in range(4)}

    assert len(answers) > 1


def test_characters_of_several_tokens_stay_whole(ask: Ask) -> None:
    text = "Zoë 日本 🎉 🇫🇷"

    answer = ask(QUESTION, max_tokens=60, **writing(text))

    assert answer.text == text
    assert "\ufffd" not in "".join(answer.pieces)


def test_logprobs_come_for_every_token(ask: Ask, face: Face) -> None:
    answer = ask(QUESTION, max_tokens=6, logprobs=True, top_logprobs=2)

    tokens = tokens_of(answer.framework)
    assert "".join(token for token, _ in tokens).startswith(answer.text)
    assert all(count == 2 for _, count in tokens)


def tokens_of(found: Any) -> list[tuple[str, int]]:
    """Return each token, and how many alternatives came with it."""
    if not isinstance(found, dict) and (rows := getattr(found, "logprobs", None)):
        return [(row[0].token, len(row)) for row in rows]
    logprobs = (
        found["choices"][0]["logprobs"]
        if isinstance(found, dict)
        else found.response_metadata["logprobs"]
    )
    return [(each["token"], len(each["top_logprobs"])) for each in logprobs["content"]]


def test_parameters_of_vllm_are_taken(ask: Ask) -> None:
    answer = ask(
        QUESTION,
        temperature=0.7,
        max_tokens=4,
        top_p=0.9,
        top_k=20,
        min_p=0.01,
        repetition_penalty=1.1,
        presence_penalty=0.1,
        frequency_penalty=0.1,
        seed=1,
        min_tokens=2,
        ignore_eos=True,
        bad_words=["gobbledygook"],
    )

    assert answer.finish_reason == "length"


def test_several_answers_come_plain(endpoint: Endpoint) -> None:
    model = ChatSageMakerVLLM(**endpoint.settings, n=3, temperature=1.0, seed=1, max_tokens=4)

    (generations,) = model.generate([[HumanMessage(QUESTION)]]).generations

    assert len(generations) == 3
    assert all(generation.text for generation in generations)


def test_streamed_choices_are_kept_apart(endpoint: Endpoint) -> None:
    parameters = {"n": 3, "temperature": 1.0, "seed": 1, "max_tokens": 6}
    client = SageMakerVLLMClient(**endpoint.settings)

    with client.stream_chat(chat_request([user(QUESTION)], parameters=parameters)) as stream:
        pieces = [
            (choice["index"], choice["delta"].get("content") or "")
            for chunk in stream
            for choice in chunk["choices"]
        ]

    texts = {
        index: "".join(text for _, text in group)
        for index, group in itertools.groupby(sorted(pieces, key=first_of), key=first_of)
    }
    choices = stream.completion.response["choices"]
    assert texts == {choice["index"]: choice["message"]["content"] for choice in choices}
    assert len(choices) == 3


def first_of(pair: tuple[int, str]) -> int:
    return pair[0]
