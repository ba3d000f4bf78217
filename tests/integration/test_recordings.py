"""Every recorded and synthetic answer, through real HTTP and every face, wherever it is cut.

The bytes go through the emulator's event stream in parts cut at seeded places, and must give what
the whole file says. `tests/unit/core/test_recorded_streams.py` cuts the same files at every byte.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from sagemaker_vllm import SageMakerVLLMError, ServerError
from sagemaker_vllm.emulator import ContainerFault, Emulator, JSONReply, StreamReply, random_parts
from tests.faces import FACES, Answer, Face
from tests.recordings import Choice, Failure, Recording, all_recordings

Model = Any


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def models(emulator: Emulator) -> Any:
    settings = {
        "endpoint_name": emulator.endpoint_name,
        "endpoint_url": emulator.url,
        "region_name": "us-east-1",
        "aws_access_key_id": "emulated",
        "aws_secret_access_key": "emulated",
        "max_retries": 0,
    }

    @cache
    def model(face: Face, kind: str) -> Any:
        return face.chat_model(**settings) if kind == "chat" else face.text_model(**settings)

    return model


def reply_of(recording: Recording) -> JSONReply | StreamReply | ContainerFault:
    if recording.status >= 400:
        return ContainerFault(recording.status, recording.body)
    if recording.is_stream:
        # The seed is the file's own, so that a failure comes back whatever else is run.
        seed = random.Random(str(recording)).randrange(1 << 32)
        parts = random_parts(seed=seed, max_size=40)
        return StreamReply(recording.body, parts=parts, content_type=recording.content_type)
    return JSONReply(recording.body, content_type=recording.content_type)


def ask(face: Face, model: Model, recording: Recording) -> Answer:
    if recording.kind == "text":
        return face.complete(model, "Hi")
    return face.chat(model, [{"role": "user", "content": "Hi"}])


def matching(recordings: list[Recording], *, failed: bool) -> list[Any]:
    """Pair every recording with the faces that could have asked for it."""
    return [
        pytest.param(recording, face, id=f"{recording}-{face}")
        for recording in recordings
        for face in FACES
        if (recording.meaning.failure is not None) == failed
        and face.is_stream == (recording.is_stream or recording.name.endswith("-stream"))
        and not (is_batch(recording) and str(face).startswith("langchain") and not face.is_stream)
    ]


def is_batch(recording: Recording) -> bool:
    """Say whether there are several text answers: LangChain wants them to be asked for."""
    return recording.kind == "text" and len(recording.meaning.choices) > 1


RECORDINGS = all_recordings()


@pytest.mark.parametrize(("recording", "face"), matching(RECORDINGS, failed=False))
def test_recorded_answer_says_the_same_in_every_face(
    recording: Recording, face: Face, emulator: Emulator, models: Any
) -> None:
    emulator.enqueue(reply_of(recording))

    answer = ask(face, models(face, recording.kind), recording)

    expected = recording.meaning
    assert summary(answer) == expected_summary(expected.choices[0])
    assert answer.total_tokens == (expected.usage or {}).get("total_tokens")


@pytest.mark.parametrize(("recording", "face"), matching(RECORDINGS, failed=True))
def test_recorded_failure_is_the_same_error_in_every_face(
    recording: Recording, face: Face, emulator: Emulator, models: Any
) -> None:
    emulator.enqueue(reply_of(recording))

    with pytest.raises(SageMakerVLLMError) as caught:
        ask(face, models(face, recording.kind), recording)

    error, expected = caught.value, recording.meaning.failure
    assert expected is not None
    shown = expected.sentence if expected.sentence in error.message else error.message
    kinds = {kind.__name__ for kind in type(error).__mro__}
    assert expected.kind in kinds, kinds
    assert Failure(expected.kind, error.status_code, shown) == expected
    partial = error.partial.text if error.partial else ""
    assert partial == "".join(choice.text for choice in recording.meaning.choices.values())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "recording", [each for each in RECORDINGS if is_batch(each) and not each.is_stream], ids=str
)
def test_recorded_answers_to_many_prompts_go_to_their_prompts(
    recording: Recording, is_async: bool, emulator: Emulator, models: Any
) -> None:
    emulator.enqueue(reply_of(recording))
    prompt, samples = recording.request["prompt"], recording.request.get("n", 1)
    prompts = prompt if isinstance(prompt, list) else [prompt]
    model = models(Face("langchain", is_async, is_stream=False), "text")

    result = (
        asyncio.run(model.agenerate(prompts, n=samples))
        if is_async
        else model.generate(prompts, n=samples)
    )

    found = {
        position * samples + sample: generation.text
        for position, generations in enumerate(result.generations)
        for sample, generation in enumerate(generations)
    }
    assert found == {index: each.text for index, each in recording.meaning.choices.items()}


def test_more_text_answers_than_asked_for_are_an_error_that_keeps_them(
    emulator: Emulator, models: Any
) -> None:
    (recording,) = (each for each in RECORDINGS if str(each) == "0.32.0/text-three")
    emulator.enqueue(reply_of(recording))

    with pytest.raises(ServerError, match="index 1") as caught:
        models(Face("langchain", is_async=False, is_stream=False), "text").generate(["Hi"])

    assert caught.value.partial is not None
    assert len(caught.value.partial.response["choices"]) == 3


def summary(answer: Answer) -> dict[str, Any]:
    """Keep what an answer says about its first choice."""
    return {
        "text": answer.text,
        "reasoning": answer.reasoning,
        # LangChain keeps valid and invalid calls apart, so their order is not compared.
        "calls": sorted((call[:2] for call in answer.tool_calls), key=str),
        "finish_reason": answer.finish_reason,
        "stop_reason": answer.stop_reason,
    }


def expected_summary(choice: Choice) -> dict[str, Any]:
    return {
        "text": choice.text,
        "reasoning": choice.reasoning,
        "calls": sorted(
            ((name, read(text, choice.finish_reason)) for name, text in choice.tool_calls),
            key=str,
        ),
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
    }


def read(arguments: str, finish_reason: str | None) -> Any:
    """Read a call's arguments; text that is no JSON object stays text."""
    if not arguments.strip() and finish_reason != "length":
        return {}
    try:
        found = json.loads(arguments)
    except ValueError:
        return arguments
    return found if isinstance(found, dict) else arguments
