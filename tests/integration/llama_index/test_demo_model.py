"""The examples run on a real model too: the small one of the demo, in llama.cpp."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from llama_index.core import Settings

from sagemaker_vllm.emulator import Emulator, demo_model

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    llm = Settings._llm
    yield
    Settings._llm = llm


@pytest.mark.parametrize(
    ("example", "lines"),
    [
        ("llama_index_rag.py", ("Sources: ['rentals.md'", '"euros":', "Remembered: 4 messages")),
        ("llama_index_agent.py", ("Answer: ",)),
        ("llama_index_workflow.py", ("Letter: Letter(topic=", "Looked up: ", "Reply: ")),
    ],
)
def test_example_runs_on_the_demos_model(
    start_emulator: Callable[..., Emulator],
    capsys: pytest.CaptureFixture[str],
    example: str,
    lines: tuple[str, ...],
) -> None:
    start_emulator(gguf=demo_model())

    runpy.run_path(str(EXAMPLES / example), run_name="__main__")

    printed = capsys.readouterr().out
    assert [line for line in lines if line not in printed] == []
