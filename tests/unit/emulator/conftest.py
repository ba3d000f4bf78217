"""Real boto3 clients for emulators."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import boto3
import pytest
from botocore.config import Config

from sagemaker_vllm.emulator import Emulator


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """One session for all tests here: it reads the service's model once."""
    return boto3.Session(
        aws_access_key_id="test", aws_secret_access_key="test", region_name="eu-west-1"
    )


@pytest.fixture
def connect(session: boto3.Session) -> Iterator[Callable[..., Any]]:
    """Make boto3 clients that never retry: `connect(emulator, read_timeout=1)`."""
    with ExitStack() as stack:

        def make(emulator: Emulator, **config: Any) -> Any:
            client = session.client(
                "sagemaker-runtime",
                endpoint_url=emulator.url,
                config=Config(retries={"total_max_attempts": 1}, **config),
            )
            return stack.enter_context(closing(client))

        yield make


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


@pytest.fixture
def runtime(emulator: Emulator, connect: Callable[..., Any]) -> Any:
    """A boto3 client of the fixture `emulator`."""
    return connect(emulator)
