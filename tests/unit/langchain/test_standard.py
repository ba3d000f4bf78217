"""LangChain's own unit suite, with every capability that vLLM has switched on.

It skips one test itself, `test_serdes`: langchain-core loads only classes of its own table, so
`is_lc_serializable` is False (and langchain-tests lets no test be overridden).
"""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_tests.unit_tests import ChatModelUnitTests

from langchain_sagemaker_vllm import ChatSageMakerVLLM


class TestStandard(ChatModelUnitTests):
    """What langchain-tests asks of every chat model."""

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatSageMakerVLLM

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"endpoint_name": "emulated", "region_name": "us-east-1"}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        # SageMaker has no API keys, and an unknown keyword is an error here.
        params = super().standard_chat_model_params
        return {name: value for name, value in params.items() if name != "api_key"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        return {"SAGEMAKER_ENDPOINT_NAME": "from-env"}, {}, {"endpoint_name": "from-env"}

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
