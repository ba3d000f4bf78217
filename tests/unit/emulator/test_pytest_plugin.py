"""The fixture for users' own test suites, in a test suite of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
import os
from contextlib import closing

import boto3

from sagemaker_vllm.emulator import Emulator, Reply


def test_application(sagemaker_vllm_emulator: Emulator) -> None:
    sagemaker_vllm_emulator.enqueue(Reply("Hello"))

    with closing(boto3.Session().client("sagemaker-runtime")) as runtime:
        response = runtime.invoke_endpoint(
            EndpointName=os.environ["SAGEMAKER_ENDPOINT_NAME"], Body=b'{"messages": []}'
        )
        assert b"Hello" in response["Body"].read()

    assert sagemaker_vllm_emulator.requests[0].json == {"messages": []}


def test_environment_is_restored_between_tests() -> None:
    assert "SAGEMAKER_ENDPOINT_NAME" not in os.environ
    assert os.environ["AWS_PROFILE"] == "no-such-profile"
"""


def test_fixture_serves_an_application_under_test(tmp_path: Path) -> None:
    plugin = 'pytest_plugins = ["sagemaker_vllm.emulator.pytest_plugin"]\n'
    (tmp_path / "conftest.py").write_text(plugin)
    (tmp_path / "test_application.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio", tmp_path],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "AWS_PROFILE": "no-such-profile", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )

    assert "2 passed" in result.stdout, result.stdout + result.stderr
