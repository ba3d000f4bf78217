"""What an import loads, and what it offers. Each is looked at in a fresh interpreter."""

import json
import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp",
    "boto3",
    "botocore",
    "langchain_core",
    "llama_index",
    "numpy",
    "PIL",
    "pydantic",
    "xllamacpp",
}


def loaded_after(statement: str) -> set[str]:
    """Run `statement` in a fresh interpreter and return the top-level modules then loaded."""
    code = f"import json, sys\n{statement}\nprint(json.dumps([m.partition('.')[0] for m in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_core_loads_neither_boto3_nor_aiohttp_nor_a_framework() -> None:
    loaded = loaded_after("import sagemaker_vllm")

    assert loaded & HEAVY == set()


def test_client_is_made_without_loading_boto3() -> None:
    loaded = loaded_after(
        "from sagemaker_vllm import SageMakerVLLMClient\n"
        "SageMakerVLLMClient(endpoint_name='my-endpoint')"
    )

    assert loaded & HEAVY == set()


@pytest.mark.parametrize(
    ("adapter", "other_framework"),
    [
        ("langchain_sagemaker_vllm", "llama_index"),
        ("llama_index_sagemaker_vllm", "langchain_core"),
    ],
)
def test_adapter_loads_its_own_framework_only(adapter: str, other_framework: str) -> None:
    loaded = loaded_after(f"import {adapter}")

    assert loaded & {other_framework, "boto3", "xllamacpp"} == set()


@pytest.mark.parametrize(
    ("adapter", "framework", "extra"),
    [
        ("langchain_sagemaker_vllm", "langchain_core", "sagemaker-vllm[langchain]"),
        ("llama_index_sagemaker_vllm", "llama_index", "sagemaker-vllm[llama-index]"),
    ],
)
def test_adapter_without_its_framework_names_the_extra(
    adapter: str, framework: str, extra: str
) -> None:
    code = f"import sys; sys.modules['{framework}'] = None; import {adapter}"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: ")
    assert extra in run.stderr.splitlines()[-1]
