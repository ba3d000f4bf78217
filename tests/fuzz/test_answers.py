"""Damaged plain answers: an error of ours or an answer, in core and both frameworks."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from langchain_sagemaker_vllm import _completions, _replies
from llama_index_sagemaker_vllm._responses import Reading, from_wire_completion
from sagemaker_vllm import Completion, SageMakerVLLMError
from sagemaker_vllm._error_table import service_error
from sagemaker_vllm._plain import read_response
from tests.fuzz.strategies import RECORDINGS, anything, encode, mutated
from tests.recordings import Recording

ANSWERS = [
    each for each in RECORDINGS if not each.is_stream and each.status == 200 and each.request
]
FAILURES = [each for each in RECORDINGS if each.status != 200 and each.body.startswith(b"{")]


@st.composite
def hostile_answers(draw: st.DrawFn) -> tuple[Recording, bytes]:
    recording = draw(st.sampled_from(ANSWERS))
    return recording, encode(draw(mutated(json.loads(recording.body))))


def read(recording: Recording, body: bytes) -> Completion | None:
    try:
        response = read_response(body, kind=recording.kind, endpoint_name="fuzzed")
    except SageMakerVLLMError:
        return None
    return Completion(response=response)


@given(hostile_answers())
def test_langchain_takes_whatever_the_reader_lets_through(found: tuple[Recording, bytes]) -> None:
    recording, body = found
    completion = read(recording, body)

    if completion and recording.kind == "chat":
        result = _replies.to_chat_result(completion)
        assert len(result.generations) == len(completion.response["choices"])
        for made in result.generations:
            assert AIMessage(**made.message.__dict__) == made.message
    elif completion:
        with suppress(SageMakerVLLMError):
            _completions.to_llm_result([completion], [{"prompt": recording.request["prompt"]}])


@given(hostile_answers())
def test_llama_index_takes_whatever_the_reader_lets_through(
    found: tuple[Recording, bytes],
) -> None:
    completion = read(*found)

    if completion:
        assert from_wire_completion(completion, Reading()).raw == completion.response


@given(st.sampled_from(FAILURES), st.data())
def test_damaged_failures_are_errors_with_a_message(
    recording: Recording, data: st.DataObject
) -> None:
    body = encode(data.draw(mutated(json.loads(recording.body)))).decode()
    cut = data.draw(st.integers(0, len(body)))

    error = service_error(
        {
            "Error": {"Code": "ModelError", "Message": f"Received client error with {body[:cut]}"},
            "OriginalMessage": body[:cut],
            "OriginalStatusCode": data.draw(st.sampled_from([recording.status, "", None])),
        },
        endpoint_name="fuzzed",
    )

    assert error.message
    assert len(error.message) < 2000


@given(st.dictionaries(st.sampled_from(["Error", "ResponseMetadata", "Message"]), anything))
def test_any_error_record_becomes_an_error(parsed: dict[str, Any]) -> None:
    shaped = {name: value if isinstance(value, dict) else {} for name, value in parsed.items()}

    assert service_error(shaped, endpoint_name="fuzzed").message
