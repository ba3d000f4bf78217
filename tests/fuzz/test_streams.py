"""Damaged streams: an error of ours or an answer that is whole, in core and both frameworks."""

from functools import reduce
from operator import add
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_sagemaker_vllm import _completions, _replies
from llama_index_sagemaker_vllm._responses import GrowingResponse, Reading
from sagemaker_vllm import SageMakerVLLMError
from sagemaker_vllm._answer import AnswerDecoder
from sagemaker_vllm._results import InvocationMetadata
from tests.fuzz.strategies import RECORDINGS, hostile_streams
from tests.recordings import Recording

STREAMS = [each for each in RECORDINGS if each.is_stream]
CHATS = [each for each in STREAMS if each.kind == "chat"]
TEXTS = [each for each in STREAMS if each.kind == "text"]


def read(
    recording: Recording, stream: bytes, size: int
) -> tuple[list[Any], AnswerDecoder, SageMakerVLLMError | None]:
    """Decode a stream, to its end or to an error of ours; nothing else may come out."""
    answer = AnswerDecoder(recording.kind, metadata=InvocationMetadata(endpoint_name="fuzzed"))
    chunks: list[Any] = []
    try:
        for start in range(0, len(stream), size):
            chunks.extend(answer.feed(stream[start : start + size]))
        chunks.extend(answer.finish())
    except SageMakerVLLMError as error:
        assert answer.completion.response is not None
        return chunks, answer, error
    assert answer.is_whole
    return chunks, answer, None


@given(hostile_streams(STREAMS), st.integers(1, 300))
def test_damaged_stream_is_whole_or_an_error(found: tuple[Recording, bytes], size: int) -> None:
    read(*found, size)


@given(hostile_streams(STREAMS), st.integers(1, 300))
def test_parts_of_a_damaged_stream_do_not_matter(found: tuple[Recording, bytes], size: int) -> None:
    whole, _, _ = read(*found, len(found[1]) or 1)

    chunks, _, _ = read(*found, size)

    assert without_made_ids(chunks) == without_made_ids(whole)


def without_made_ids(chunks: list[Any]) -> list[Any]:
    """Leave out the last chunk where it only brings ids of our own making."""
    return [chunk for chunk in chunks if "created" in chunk or "id" in chunk]


@given(hostile_streams(CHATS))
def test_langchain_takes_whatever_the_decoder_lets_through(found: tuple[Recording, bytes]) -> None:
    chunks, answer, _ = read(*found, 1 << 20)

    made = [made for chunk in chunks if (made := _replies.from_wire_chunk(chunk))]
    whole: Any = reduce(add, [*made, _replies.last_chunk(answer.completion)])

    first = [each for each in answer.completion.response["choices"] if each["index"] == 0]
    # An error may come in the middle of a chunk, whose text is then in `partial` only.
    if answer.is_whole:
        assert whole.message.text == "".join(each["message"]["content"] or "" for each in first)


@given(hostile_streams(TEXTS))
def test_langchain_text_takes_whatever_the_decoder_lets_through(
    found: tuple[Recording, bytes],
) -> None:
    chunks, answer, _ = read(*found, 1 << 20)

    made = [made for chunk in chunks if (made := _completions.from_wire_text_chunk(chunk))]
    whole: Any = reduce(add, [*made, _completions.last_text_chunk(answer.completion)])

    assert isinstance(whole.text, str)


@given(hostile_streams(STREAMS))
def test_llama_index_takes_whatever_the_decoder_lets_through(
    found: tuple[Recording, bytes],
) -> None:
    chunks, answer, error = read(*found, 1 << 20)
    growing = GrowingResponse(Reading())

    grown = [made for chunk in chunks if (made := growing.from_wire_chunk(chunk))]
    last = growing.last(answer.completion)

    # An error may come in the middle of a chunk, whose text is then in `partial` only.
    if grown and error is None:
        assert grown[-1].message.content == last.message.content


@pytest.mark.parametrize("recording", STREAMS, ids=str)
def test_stream_that_is_cut_before_its_end_is_never_whole(recording: Recording) -> None:
    ends = [recording.body.find(end) for end in (b'"finish_reason":"', b"data: [DONE]")]
    end = min(place for place in ends if place >= 0)

    _, answer, _ = read(recording, recording.body[: end - 1], 64)

    assert not answer.is_whole
