"""LangChain models for vLLM behind Amazon SageMaker endpoints."""

try:
    import langchain_core  # noqa: F401  # tells a missing framework from a broken one
except ImportError as error:
    message = (
        "langchain_sagemaker_vllm needs langchain-core: pip install 'sagemaker-vllm[langchain]'"
    )
    raise ImportError(message) from error

from langchain_sagemaker_vllm.chat_models import ChatSageMakerVLLM
from langchain_sagemaker_vllm.llms import SageMakerVLLM
from sagemaker_vllm import __version__

__all__ = ["ChatSageMakerVLLM", "SageMakerVLLM", "__version__"]
