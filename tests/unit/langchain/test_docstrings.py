"""The class docstrings have LangChain's fixed sections, and every block in them runs."""

import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from sagemaker_vllm.emulator import Emulator, SyntheticModel

SECTIONS = [
    "Setup",
    "Key init args — completion params",
    "Key init args — client params",
    "Instantiate",
    "Invoke",
    "Stream",
    "Async",
    "Tool calling",
    "Structured output",
    "JSON mode",
    "Image input",
    "Token usage",
    "Logprobs",
    "Response metadata",
]


def test_the_chat_model_has_langchains_sections_in_their_order() -> None:
    found = re.findall(r'^ *\?\?\?\+? info "(.*)"$', ChatSageMakerVLLM.__doc__ or "", re.MULTILINE)

    assert found == SECTIONS


@pytest.mark.parametrize("cls", [ChatSageMakerVLLM, SageMakerVLLM])
def test_every_block_runs(
    cls: Any,
    start_emulator: Callable[..., Emulator],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (32, 32), "red").save("photo.png")
    start_emulator(SyntheticModel(), endpoint_name="my-endpoint")
    blocks = re.findall(r"^( *)```python\n(.*?)^\1```$", cls.__doc__, re.DOTALL | re.MULTILINE)
    page = ModuleType("a_docstring")
    monkeypatch.setitem(sys.modules, page.__name__, page)

    for _, block in blocks:
        exec(compile(textwrap.dedent(block), cls.__name__, "exec"), vars(page))  # noqa: S102  # the test

    assert len(blocks) > 4
    assert capsys.readouterr().out
