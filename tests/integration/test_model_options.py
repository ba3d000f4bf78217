"""SageMaker's options through both frameworks: per object, per call, by `bind` and by `config`."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from langchain_core.runnables import ConfigurableField

import langchain_sagemaker_vllm
import llama_index_sagemaker_vllm
from sagemaker_vllm import AsyncInferenceConfig, ConfigurationError
from sagemaker_vllm.emulator import Emulator, Reply

HEADERS = {
    "inference_component_name": "X-Amzn-SageMaker-Inference-Component",
    "target_variant": "X-Amzn-SageMaker-Target-Variant",
    "target_container_hostname": "X-Amzn-SageMaker-Target-Container-Hostname",
    "custom_attributes": "X-Amzn-SageMaker-Custom-Attributes",
    "inference_id": "X-Amzn-SageMaker-Inference-Id",
    "session_id": "X-Amzn-SageMaker-Session-Id",
    "prefix_aware_id": "X-Amzn-SageMaker-Prefix-Aware-Id",
}
ONLY_PLAIN = {
    "target_model": "X-Amzn-SageMaker-Target-Model",
    "enable_explanations": "X-Amzn-SageMaker-Enable-Explanations",
}
CHAT, TEXT = langchain_sagemaker_vllm.ChatSageMakerVLLM, langchain_sagemaker_vllm.SageMakerVLLM
INDEX = llama_index_sagemaker_vllm.SageMakerVLLM


class Face(NamedTuple):
    """A model class and the names of its plain and its streaming method."""

    model: Any
    plain: str
    stream: str


FACES = {
    "langchain-chat": Face(CHAT, "invoke", "stream"),
    "langchain-text": Face(TEXT, "invoke", "stream"),
    "llama-index": Face(INDEX, "complete", "stream_complete"),
}
every_face = pytest.mark.parametrize("face", FACES.values(), ids=FACES)
every_mode = pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "stream"])
every_color = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def ask(face: Face, model: Any, *, is_stream: bool, is_async: bool, **options: Any) -> None:
    """Ask in one of four ways, and read the answer to its end."""
    name = face.stream if is_stream else face.plain

    async def ask_async() -> None:
        answer = getattr(model, f"a{name}")("Hi", **options)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if is_stream:
            async for _ in answer:
                pass

    if is_async:
        asyncio.run(ask_async())
        return
    answer = getattr(model, name)("Hi", **options)
    if is_stream:
        list(answer)


@every_face
@every_mode
@every_color
def test_options_of_the_object_and_of_the_call_are_sent(
    face: Face, is_stream: bool, is_async: bool, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")])
    names = HEADERS if is_stream else HEADERS | ONLY_PLAIN
    own = {name: f"own-{name}" for name in names}
    calls = {name: f"call-{name}" for name in names}

    ask(face, face.model(**own), is_stream=is_stream, is_async=is_async)
    ask(face, face.model(**own), is_stream=is_stream, is_async=is_async, **calls)

    sent = [
        {name: request.headers.get(header) for name, header in names.items()}
        for request in emulator.requests
    ]
    assert sent == [own, calls]


@every_face
@every_color
@pytest.mark.parametrize("option", ONLY_PLAIN)
def test_option_that_does_not_stream_is_refused_before_sending(
    face: Face, is_async: bool, option: str, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([])

    with pytest.raises(ConfigurationError, match=f"{option}=.*InvokeEndpointWithResponseStream"):
        ask(face, face.model(), is_stream=True, is_async=is_async, **{option: "x"})

    assert emulator.requests == []


@pytest.mark.parametrize("model", [CHAT, TEXT], ids=["chat", "text"])
def test_options_are_bound_and_configured_as_runnables_are(
    model: Any, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")])
    variant = ConfigurableField(id="variant")

    model().bind(target_variant="bound").invoke("Hi")
    model().configurable_fields(target_variant=variant).invoke(
        "Hi", config={"configurable": {"variant": "configured"}}
    )

    header = HEADERS["target_variant"]
    assert [each.headers[header] for each in emulator.requests] == ["bound", "configured"]


@every_face
def test_option_that_an_asynchronous_inference_does_not_take_is_refused(
    face: Face, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([])
    model = face.model(async_inference=AsyncInferenceConfig("s3://bucket/in"))

    with pytest.raises(ConfigurationError, match=r"target_variant=.*InvokeEndpointAsync"):
        ask(face, model, is_stream=False, is_async=False, target_variant="x")

    assert emulator.requests == []
