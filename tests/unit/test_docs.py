"""README, docs and examples do what they show: every Python block and every script is run.

They talk to an emulator that stands for the endpoint `my-endpoint`, found through the environment
variables that boto3 reads, so they are written as for a real endpoint. The blocks of a page share
their names, in order. The folder they run in holds a picture, `photo.png`.
"""

import gc
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import boto3
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str = "python") -> Iterator[str]:
    """Yield the code blocks of a page, each on its own line numbers."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield "\n" * text.count("\n", 0, found.start(1)) + found[1]


def run_blocks(page: Path, codes: list[str]) -> None:
    """Run blocks with one set of names, each with the environment as it was."""
    module = ModuleType("a_page")
    sys.modules[module.__name__] = module
    threshold = gc.get_threshold()
    try:
        for code in codes:
            with patch.dict(os.environ):
                exec(compile(code, page, "exec"), vars(module))  # noqa: S102  this is the test
    finally:
        del sys.modules[module.__name__]
        gc.set_threshold(*threshold)
        gc.unfreeze()


@pytest.fixture
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Make `my-bucket` in a local S3 for a page that shows asynchronous inference."""
    page = getattr(request.node, "callspec").params.get("page")  # noqa: B009  # not typed
    if page is None or "AsyncInferenceConfig(" not in page.read_text(encoding="utf-8"):
        return {}
    url = request.getfixturevalue("s3_url")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    s3 = boto3.client(
        "s3", region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
    )
    s3.create_bucket(Bucket="my-bucket")
    s3.close()
    return {"async_output": "s3://my-bucket/answers", "s3_endpoint_url": url}


@pytest.fixture
def endpoint(
    bucket: dict[str, Any],
    start_emulator: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    from PIL import Image

    from sagemaker_vllm.emulator import SyntheticModel, random_parts

    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (32, 32), "red").save("photo.png")
    start_emulator(
        SyntheticModel(),
        endpoint_name="my-endpoint",
        part_size=random_parts(1),
        sessions=True,
        **bucket,
    )
    with patch.dict(os.environ):
        yield


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_the_page_runs(page: Path, endpoint: None) -> None:
    run_blocks(page, list(blocks(page)))


@pytest.mark.parametrize("script", EXAMPLES, ids=name)
def test_example_runs(
    script: Path,
    endpoint: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script)])

    runpy.run_path(str(script), run_name="__main__")

    assert capsys.readouterr().out


def test_quickstart_runs_on_the_small_model_of_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(ROOT / "examples" / "quickstart.py")
    monkeypatch.setattr(sys, "argv", [script, "--demo"])

    with patch.dict(os.environ):
        runpy.run_path(script, run_name="__main__")

    assert "Patient(name='Maria Lopez', age=42" in capsys.readouterr().out


def test_first_block_of_the_readme_needs_no_account_and_no_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = ROOT / "README.md"

    run_blocks(readme, [next(blocks(readme))])

    assert capsys.readouterr().out


@pytest.mark.parametrize("text", TEXTS, ids=name)
def test_make_targets_named_in_the_text_exist(text: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    named = set(
        re.findall(r"(?:^|`)make ([a-z-]+)", text.read_text(encoding="utf-8"), re.MULTILINE)
    )

    assert named <= targets


@pytest.mark.parametrize("text", TEXTS, ids=name)
def test_command_lines_named_in_the_text_exist(text: Path) -> None:
    command = [str(Path(sys.executable).with_name("sagemaker-vllm")), "emulate", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"(?:^|`)sagemaker-vllm (.*?)(?:`|$)", text.read_text("utf-8"), re.MULTILINE)

    named = {word for line in lines for word in re.findall(r"^[a-z]+|--[a-z-]+", line)}

    assert named <= set(re.findall(r"--[a-z-]+", help_text)) | {"emulate"}


@pytest.mark.parametrize("text", TEXTS, ids=name)
def test_links_to_files_lead_somewhere(text: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text.read_text(encoding="utf-8"))

    dead = [link for link in links if not (text.parent / link).exists()]

    assert dead == []
