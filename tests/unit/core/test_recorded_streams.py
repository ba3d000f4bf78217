"""The pure decoder reads recorded and synthetic streams of servers, wherever they are cut."""

from dataclasses import replace
from typing import Any

import pytest

from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._errors import SageMakerVLLMError
from sagemaker_vllm._results import InvocationMetadata
from sagemaker_vllm._sse import SSEDecoder
from tests.recordings import Choice, Failure, Recording, all_recordings

STREAMS = [recording for recording in all_recordings() if recording.is_stream]

in_every_stream = pytest.mark.parametrize("recording", STREAMS, ids=str)


def decode(
    recording: Recording, parts: list[bytes]
) -> tuple[dict[str, Any], SageMakerVLLMError | None]:
    """Return the answer in `parts`, and the error that ended it."""
    metadata = InvocationMetadata(endpoint_name="recorded")
    answer = AnswerDecoder(recording.kind, metadata=metadata)
    error = None
    try:
        for part in parts:
            list(answer.feed(part))
        list(answer.finish())
    except SageMakerVLLMError as caught:
        error = caught
    return answer.completion.response, error


def failure_of(error: SageMakerVLLMError | None, expected: Failure | None) -> Failure | None:
    """Describe an error; its sentence is the expected one if the message holds it."""
    if error is None:
        return None
    sentence = expected.sentence if expected else ""
    shown = sentence if sentence in error.message else error.message
    return Failure(type(error).__name__, error.status_code, shown)


def choice_of(found: dict[str, Any]) -> Choice:
    """Read a choice of our normalised answer as `tests.recordings` reads the server's."""
    message = found.get("message") or {}
    logprobs = found["logprobs"] or {}
    return Choice(
        text=found.get("text") or message.get("content") or "",
        reasoning=message.get("reasoning") or "",
        calls={
            index: {"id": call["id"], **call["function"]}
            for index, call in enumerate(message.get("tool_calls", []))
        },
        finish_reason=found["finish_reason"],
        stop_reason=found["stop_reason"],
        tokens=logprobs.get("tokens") or [each["token"] for each in logprobs.get("content", [])],
    )


@in_every_stream
def test_stream_means_what_the_whole_file_says(recording: Recording) -> None:
    response, error = decode(recording, [recording.body])

    found = {choice["index"]: choice_of(choice) for choice in response["choices"]}
    expected = recording.meaning
    assert found.keys() == expected.choices.keys()
    for index, choice in found.items():
        wanted = expected.choices[index]
        assert choice.tool_calls == wanted.tool_calls
        # Compared above; ours has an id where the server gave none.
        assert replace(choice, calls={}) == replace(wanted, calls={})
    assert (response["usage"] or {}).items() >= (expected.usage or {}).items()
    assert failure_of(error, expected.failure) == expected.failure


@in_every_stream
def test_stream_cut_at_any_byte_gives_the_same_events(recording: Recording) -> None:
    body = recording.body
    whole = SSEDecoder()
    events = whole.feed(body) + whole.finish()

    for cut in range(1, len(body)):
        decoder = SSEDecoder()
        found = decoder.feed(body[:cut]) + decoder.feed(body[cut:]) + decoder.finish()
        assert found == events, cut


@in_every_stream
def test_stream_fed_byte_by_byte_gives_the_same_answer(recording: Recording) -> None:
    expected, _ = decode(recording, [recording.body])

    response, _ = decode(recording, [bytes([byte]) for byte in recording.body])

    assert without_made_ids(response) == without_made_ids(expected)


def without_made_ids(response: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the ids that we make where a server gives none."""
    for choice in response["choices"]:
        for call in choice.get("message", {}).get("tool_calls", []):
            call["id"] = call["id"] if len(call["id"] or "") > 9 else None
    return response
