"""The pure decoder reads the recorded streams of four vLLM versions, wherever they are cut."""

from dataclasses import replace
from typing import Any

import pytest

from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._errors import APIError
from sagemaker_vllm._results import InvocationMetadata
from sagemaker_vllm._sse import SSEDecoder
from tests.recordings import Choice, Recording, all_recordings

STREAMS = [recording for recording in all_recordings() if recording.is_stream]

in_every_stream = pytest.mark.parametrize("recording", STREAMS, ids=str)


def decode(recording: Recording, parts: list[bytes]) -> tuple[dict[str, Any], APIError | None]:
    """Return the answer in `parts`, and the error that ended it."""
    metadata = InvocationMetadata(endpoint_name="recorded")
    answer = AnswerDecoder(recording.kind, metadata=metadata)
    error = None
    try:
        for part in parts:
            list(answer.feed(part))
        list(answer.finish())
    except APIError as caught:
        error = caught
    return answer.completion.response, error


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
def test_recorded_stream_means_what_a_plain_reading_of_the_file_says(recording: Recording) -> None:
    response, error = decode(recording, [recording.body])

    found = {choice["index"]: choice_of(choice) for choice in response["choices"]}
    expected = recording.meaning
    assert found.keys() == expected.choices.keys()
    for index, choice in found.items():
        wanted = expected.choices[index]
        assert choice.tool_calls == wanted.tool_calls
        # Compared above; ours has an id where the server gave none.
        assert replace(choice, calls={}) == replace(wanted, calls={})
    assert response["usage"] == expected.usage
    assert getattr(error, "status_code", None) == (expected.error or {}).get("code")


@in_every_stream
def test_recorded_stream_cut_at_any_byte_gives_the_same_events(recording: Recording) -> None:
    body = recording.body
    whole = SSEDecoder()
    events = whole.feed(body) + whole.finish()

    for cut in range(1, len(body)):
        decoder = SSEDecoder()
        found = decoder.feed(body[:cut]) + decoder.feed(body[cut:]) + decoder.finish()
        assert found == events, cut


@in_every_stream
def test_recorded_stream_fed_byte_by_byte_gives_the_same_answer(recording: Recording) -> None:
    expected, _ = decode(recording, [recording.body])

    response, _ = decode(recording, [bytes([byte]) for byte in recording.body])

    assert without_made_ids(response) == without_made_ids(expected)


def without_made_ids(response: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the ids that we make where a server gives none."""
    for choice in response["choices"]:
        for call in choice.get("message", {}).get("tool_calls", []):
            call["id"] = call["id"] if len(call["id"] or "") > 9 else None
    return response
