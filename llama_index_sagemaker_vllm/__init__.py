"""LlamaIndex LLM for vLLM behind Amazon SageMaker endpoints."""

try:
    from llama_index_sagemaker_vllm.base import SageMakerVLLM
except ImportError as error:
    if (error.name or "").partition(".")[0] != "llama_index":
        raise
    raise ImportError(
        "llama_index_sagemaker_vllm needs llama-index-core: "
        "pip install 'sagemaker-vllm[llama-index]'."
    ) from error

from sagemaker_vllm import __version__

__all__ = ["SageMakerVLLM", "__version__"]
