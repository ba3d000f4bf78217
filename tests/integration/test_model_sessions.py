"""Stateful sessions of models, in both frameworks."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import langchain_sagemaker_vllm
import llama_index_sagemaker_vllm
from sagemaker_vllm import InvalidRequestError
from sagemaker_vllm.emulator import Emulator, Reply

HEADER = "X-Amzn-SageMaker-Session-Id"


class Face:
    """A model class and how it is asked."""

    def __init__(self, model: type[Any], ask: str, stream: str, question: Any) -> None:
        self.model, self.ask, self.stream, self.question = model, ask, stream, question

    def run(self, model: Any) -> None:
        getattr(model, self.ask)(self.question)
        list(getattr(model, self.stream)(self.question))

    async def arun(self, model: Any) -> None:
        await getattr(model, f"a{self.ask}")(self.question)
        stream = getattr(model, f"a{self.stream}")(self.question)
        async for _ in await stream if asyncio.iscoroutine(stream) else stream:
            pass


FACES = {
    "langchain-chat": Face(langchain_sagemaker_vllm.ChatSageMakerVLLM, "invoke", "stream", "Why?"),
    "langchain-text": Face(langchain_sagemaker_vllm.SageMakerVLLM, "invoke", "stream", "Once"),
    "llama-index": Face(
        llama_index_sagemaker_vllm.SageMakerVLLM, "complete", "stream_complete", "Why?"
    ),
}

every_face = pytest.mark.parametrize("face", FACES.values(), ids=FACES)
every_mode = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def in_session(face: Face, model: Any, *, is_async: bool) -> Any:
    async def run_async() -> Any:
        async with model.asession() as inside:
            await face.arun(inside)
        return inside

    if is_async:
        return asyncio.run(run_async())
    with model.session() as inside:
        face.run(inside)
    return inside


@every_face
@every_mode
def test_calls_of_the_yielded_model_belong_to_the_session(
    face: Face, is_async: bool, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")], sessions=True)
    model = face.model(target_variant="blue")

    inside = in_session(face, model, is_async=is_async)

    opening, *asking, closing = emulator.requests
    assert opening.json == {"requestType": "NEW_SESSION"}
    assert [each.headers[HEADER] for each in (*asking, closing)] == [inside.session_id] * 3
    assert closing.json == {"requestType": "CLOSE"}
    assert {each.headers["X-Amzn-SageMaker-Target-Variant"] for each in emulator.requests} == {
        "blue"
    }
    assert inside.session_expires > datetime.now(UTC)
    assert (model.session_id, model.session_expires) == (None, None)


@every_face
@every_mode
def test_container_without_sessions_says_so(
    face: Face, is_async: bool, start_emulator: Callable[..., Emulator]
) -> None:
    start_emulator([], sessions=False)

    with pytest.raises(InvalidRequestError, match="SAGEMAKER_ENABLE_STATEFUL_SESSIONS"):
        in_session(face, face.model(), is_async=is_async)
