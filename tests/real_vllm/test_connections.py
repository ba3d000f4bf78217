"""Many streams at once, and streams that nobody reads to the end."""

import asyncio
import time
import urllib.request
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from llama_index_sagemaker_vllm import SageMakerVLLM
from tests.faces import Face
from tests.real_vllm.conftest import FRAMEWORK_FACES, Endpoint
from tests.real_vllm.material import writing

LONG: dict[str, Any] = {"max_tokens": 1500, "ignore_eos": True}


def running(endpoint: Endpoint) -> int:
    """Count the requests that vLLM is answering now."""
    assert endpoint.server is not None
    with urllib.request.urlopen(f"{endpoint.server.url}/metrics", timeout=30) as answer:  # noqa: S310  # loopback
        lines = answer.read().decode().splitlines()
    return int(sum(float(line.split()[-1]) for line in lines if line.startswith(METRIC)))


METRIC = "vllm:num_requests_running{"


@pytest.mark.here
@pytest.mark.parametrize("face", [face for face in FRAMEWORK_FACES if face.is_stream], ids=str)
def test_stream_that_is_left_early_is_no_more_answered(
    face: Face, endpoint: Endpoint, models: Any
) -> None:
    model = models(face, "chat", endpoint)

    begin_and_leave(face, model)

    # The whole answer would keep this server busy for most of a minute.
    deadline = time.monotonic() + 20
    while (busy := running(endpoint)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert busy == 0


def begin_and_leave(face: Face, model: Any) -> None:
    question = "Tell a story." if face.framework == "langchain" else [ChatMessage("Tell a story.")]
    if not face.is_async:
        name = "stream" if face.framework == "langchain" else "stream_chat"
        stream = getattr(model, name)(question, **LONG)
        next(stream)
        stream.close()
        return

    async def begin() -> None:
        if face.framework == "langchain":
            chunks = model.astream(question, **LONG)
        else:
            chunks = await model.astream_chat(question, **LONG)
        await anext(chunks)
        await chunks.aclose()

    asyncio.run(begin())


def test_streams_at_once_are_kept_apart(endpoint: Endpoint) -> None:
    model = ChatSageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=20)
    texts = [f"this is answer number {number}" for number in range(24)]

    async def read(text: str) -> str:
        return "".join([str(c.text) async for c in model.astream("Say it.", **writing(text))])

    async def read_all() -> list[str]:
        return await asyncio.gather(*map(read, texts))

    assert asyncio.run(read_all()) == texts


def test_answers_at_once_are_kept_apart(endpoint: Endpoint) -> None:
    model = SageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=20)
    texts = [f"this is answer number {number}" for number in range(24)]

    async def read_all() -> list[str]:
        answers = await asyncio.gather(
            *(model.acomplete("Say it.", **writing(text)) for text in texts)
        )
        return [answer.text for answer in answers]

    assert asyncio.run(read_all()) == texts
