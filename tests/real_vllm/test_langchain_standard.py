"""LangChain's own integration suite, against a real vLLM with a model of 135 million parameters."""

from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from tests.real_vllm.conftest import LIVE_ENDPOINT, Endpoint
from tests.real_vllm.material import picture


class Download(NamedTuple):
    """What the suite reads of an HTTP answer."""

    content: bytes


class StrictModel(ChatSageMakerVLLM):
    """The model with its calls held to their schemas: this server does so only when asked."""

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **keywords: Any) -> Any:
        return super().bind_tools(tools, tool_choice=tool_choice, **{"strict": True, **keywords})


@pytest.fixture
def benchmark() -> Callable[[Callable[[], None]], None]:
    """Run what pytest-benchmark would time."""
    return lambda function: function()


def too_small(reason: str) -> pytest.MarkDecorator:
    """Expect a failure of the model, which may not be one where the same numbers round otherwise."""
    return pytest.mark.xfail(LIVE_ENDPOINT is None, reason=reason, strict=False)


class TestStandard(ChatModelIntegrationTests):
    """What langchain-tests asks of every chat model."""

    @pytest.fixture(autouse=True)
    def surroundings(self, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
        # The suite downloads a picture from the internet, which tests may not reach.
        monkeypatch.setattr(httpx, "get", lambda url, **_: Download(picture("green", "JPEG")))
        monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "sagemaker-vllm")
        # It makes models of its own, which find the endpoint as a user's would.
        for name, value in endpoint.environment().items():
            monkeypatch.setenv(name, value)

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return StrictModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"temperature": 0, "max_tokens": 200}

    @too_small("without being forced it answers in prose, never with a call")
    def test_agent_loop(self, model: BaseChatModel) -> None:
        super().test_agent_loop(model)

    @too_small("without a schema it makes up keys of its own, or does not end a string")
    def test_json_mode(self, model: BaseChatModel) -> None:
        super().test_json_mode(model)

    @too_small("it does not end a string whose length the schema leaves open")
    def test_structured_output_optional_param(self, model: BaseChatModel) -> None:
        super().test_structured_output_optional_param(model)

    # Skipped by the suite itself: model override, since vLLM's `/invocations` does not look at the
    # body's model; PDF files, which vLLM cannot read; audio, for which this model has no ears.

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_image_inputs(self) -> bool:
        return True

    @property
    def supports_image_tool_message(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True
