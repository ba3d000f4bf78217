"""The wheel that users install."""

import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

import sagemaker_vllm

ROOT = Path(__file__).parents[2]
PACKAGES = ("langchain_sagemaker_vllm", "llama_index_sagemaker_vllm", "sagemaker_vllm")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return ZipFile(path)


def metadata(wheel: ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_wheel_holds_the_three_packages_and_nothing_else(wheel: ZipFile) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert packed == expected


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_marks_each_package_as_typed(wheel: ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()


def test_wheel_carries_licence_version_and_command(wheel: ZipFile) -> None:
    info = f"sagemaker_vllm-{sagemaker_vllm.__version__}.dist-info"

    commands = wheel.read(f"{info}/entry_points.txt").decode()

    assert metadata(wheel)["Version"] == sagemaker_vllm.__version__
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert commands.splitlines() == [
        "[console_scripts]",
        "sagemaker-vllm = sagemaker_vllm._cli:main",
    ]


def test_wheel_needs_three_packages_without_extras(wheel: ZipFile) -> None:
    requirements = metadata(wheel).get_all("Requires-Dist", [])

    needed = {re.split(r"[<>=]", line)[0] for line in requirements if "extra ==" not in line}

    assert needed == {"aiohttp", "boto3", "orjson"}


def test_wheel_offers_one_extra_for_each_framework_and_the_demo(wheel: ZipFile) -> None:
    assert metadata(wheel).get_all("Provides-Extra") == ["demo", "langchain", "llama-index"]
