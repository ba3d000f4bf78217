"""LangChain's calls through InvokeEndpointAsync and S3."""

import pickle
from collections.abc import Iterator

import boto3.session
import pytest
from langchain_core.exceptions import ContextOverflowError
from moto.server import ThreadedMotoServer

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from sagemaker_vllm import AsyncInferenceConfig, AsyncInferenceError, ConfigurationError
from sagemaker_vllm.emulator import ContainerFault, Emulator, Reply
from tests.callers import KEYS
from tests.integration.langchain.conftest import StartEmulator, Way


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    """Serve a local S3 with one bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.session.Session().client("s3", endpoint_url=url, region_name="us-east-1", **KEYS)
    client.create_bucket(Bucket="bucket")
    client.close()
    yield url
    server.stop()


@pytest.fixture
def config(s3_url: str) -> AsyncInferenceConfig:
    """Look often."""
    return AsyncInferenceConfig("s3://bucket/in/", poll_interval=0.01, s3_endpoint_url=s3_url)


def start(start_emulator: StartEmulator, s3_url: str, *replies: object) -> Emulator:
    """Start an emulator that writes its answers into the bucket."""
    return start_emulator(list(replies), async_output="s3://bucket/out", s3_endpoint_url=s3_url)


async def test_a_chat_is_answered_whole_in_every_way(
    way: Way, start_emulator: StartEmulator, config: AsyncInferenceConfig, s3_url: str
) -> None:
    emulator = start(start_emulator, s3_url, Reply("Because of the air."))

    items = await way.items(ChatSageMakerVLLM(async_inference=config))

    assert [item.text for item in items] == ["Because of the air."]
    assert items[0].response_metadata["output_location"].startswith("s3://bucket/out")
    assert [request.operation for request in emulator.requests] == ["InvokeEndpointAsync"]


async def test_a_text_is_completed(
    plain: Way, start_emulator: StartEmulator, config: AsyncInferenceConfig, s3_url: str
) -> None:
    start(start_emulator, s3_url, Reply("Paris"))

    assert await plain.items(SageMakerVLLM(async_inference=config)) == ["Paris"]


async def test_a_stream_of_text_is_refused(
    streamed: Way, start_emulator: StartEmulator, config: AsyncInferenceConfig, s3_url: str
) -> None:
    emulator = start(start_emulator, s3_url)

    with pytest.raises(ConfigurationError, match="cannot stream"):
        await streamed.items(SageMakerVLLM(async_inference=config))

    assert emulator.requests == []


async def test_a_failure_is_of_all_families(
    way: Way, start_emulator: StartEmulator, config: AsyncInferenceConfig, s3_url: str
) -> None:
    too_long = {"error": {"message": "maximum context length is 8 tokens", "code": 400}}
    start(start_emulator, s3_url, ContainerFault(400, too_long))

    with pytest.raises(AsyncInferenceError) as caught:
        await way.items(ChatSageMakerVLLM(async_inference=config))

    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own bytes
    assert issubclass(type(again), ContextOverflowError)
    assert again.failure_location == caught.value.failure_location
