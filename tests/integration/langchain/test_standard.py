"""LangChain's own integration suite, over HTTP, with every capability that vLLM has switched on.

Skipped by the suite itself: PDF inputs, which vLLM cannot read; the timing of recorded traffic.
"""

import dataclasses
import io
import wave
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from PIL import Image

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm.emulator import AnyReply, Emulator, RecordedRequest, SyntheticModel

SERVER = SyntheticModel(audio=True, video=True)


def answer(request: RecordedRequest) -> AnyReply:
    """Answer as a server that serves adapters would: under the name it was asked by."""
    return dataclasses.replace(SERVER, model=request.json["model"])(request)


class Download(NamedTuple):
    """What the suite reads of an HTTP answer."""

    content: bytes


def download(url: str, **_: Any) -> Download:
    """Give the suite a file of the kind that it would download."""
    file = io.BytesIO()
    if url.endswith(".wav"):
        with wave.open(file, "wb") as audio:
            audio.setparams((1, 2, 8000, 0, "NONE", ""))
            audio.writeframes(bytes(1600))
    else:
        Image.new("RGB", (64, 48), "green").save(file, "PNG")
    return Download(file.getvalue())


@pytest.fixture(autouse=True)
def local(start_emulator: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch) -> Emulator:
    # The suite downloads its pictures and sounds from the internet, which tests may not reach.
    monkeypatch.setattr(httpx, "get", download)
    monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "sagemaker-vllm")
    return start_emulator(answer)


class TestStandard(ChatModelIntegrationTests):
    """What langchain-tests asks of every chat model."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatSageMakerVLLM

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"max_retries": 0}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_urls(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_audio_inputs(self) -> bool:
        return True

    @property
    def supports_video_inputs(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "my-adapter"

    @property
    def supported_usage_metadata_details(
        self,
    ) -> dict[Literal["invoke", "stream"], list[Any]]:
        return {"invoke": ["reasoning_output"], "stream": ["reasoning_output"]}

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        model = ChatSageMakerVLLM(chat_template_kwargs={"enable_thinking": True})
        if not stream:
            return model.invoke("What is 2 + 2?")
        first, *others = model.stream("What is 2 + 2?")
        return first + others
