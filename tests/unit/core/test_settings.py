"""The constructor, the copies and the pickles of both clients."""

import asyncio
import copy
import pickle
from typing import Any

import pytest

from sagemaker_vllm import (
    AsyncInferenceConfig,
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    EndpointConfig,
    SageMakerVLLMClient,
    chat_request,
    text_request,
)
from sagemaker_vllm._boto_session import make_session
from sagemaker_vllm._parameters import RequestKind

Client = type[SageMakerVLLMClient] | type[AsyncSageMakerVLLMClient]
CONFIG = EndpointConfig(endpoint_name="e", timeout=5.0)
INFERENCE = AsyncInferenceConfig("s3://bucket/in")

every_client = pytest.mark.parametrize("client", [SageMakerVLLMClient, AsyncSageMakerVLLMClient])


@every_client
def test_single_settings_make_a_config(client: Client) -> None:
    assert client(endpoint_name="e", timeout=5.0).config == CONFIG


@every_client
def test_unknown_setting_names_the_nearest(client: Client) -> None:
    with pytest.raises(ConfigurationError, match=r"'endpoint'.* Did you mean 'endpoint_"):
        client(endpoint="e")


@every_client
def test_config_and_single_settings_exclude_each_other(client: Client) -> None:
    with pytest.raises(ConfigurationError, match="not both: timeout"):
        client(CONFIG, timeout=1.0)


@every_client
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],  # noqa: S301  # own
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_keep_every_setting(client: Client, duplicate: Any) -> None:
    original = client(CONFIG, async_inference=INFERENCE)

    copied = duplicate(original)

    assert type(copied) is client
    assert copied.config == CONFIG
    assert copied._async_inference == INFERENCE
    assert copied is not original


class Picklable:
    """A client of the user's that can be pickled, such as a proxy."""


@every_client
def test_given_client_is_shared_by_copies_and_goes_into_pickles_that_take_it(
    client: Client,
) -> None:
    given = Picklable()
    original = client(CONFIG, client=given)

    assert copy.deepcopy(original)._given_client is given
    assert isinstance(pickle.loads(pickle.dumps(original))._given_client, Picklable)  # noqa: S301


@every_client
def test_given_client_that_cannot_be_pickled_says_what_to_do(client: Client) -> None:
    with pytest.raises(ConfigurationError, match="let every process build its own"):
        pickle.dumps(client(CONFIG, client=lambda: None))


@every_client
def test_repr_shows_settings_and_no_secret(client: Client) -> None:
    secret = EndpointConfig(
        endpoint_name="e", aws_access_key_id="AKIASECRET", aws_secret_access_key="SECRET"
    )

    assert repr(client(CONFIG)) == f"{client.__name__}({CONFIG!r})"
    assert "SECRET" not in repr(client(secret))


@every_client
@pytest.mark.parametrize("kind", ["chat", "text"])
def test_body_is_complete_before_anything_is_sent(client: Client, kind: RequestKind) -> None:
    made = client(CONFIG)
    request = (
        chat_request([{"role": "user", "content": "?"}]) if kind == "chat" else text_request("?")
    )

    call = made._arguments(
        "InvokeEndpointWithResponseStream", kind, request, None, include_usage=True
    )

    assert call["EndpointName"] == "e"
    assert call["Body"].endswith(b'"stream":true,"stream_options":{"include_usage":true}}')


def test_closing_what_was_never_opened_does_nothing() -> None:
    SageMakerVLLMClient(CONFIG).close()
    asyncio.run(AsyncSageMakerVLLMClient(CONFIG).aclose())


def test_settings_reach_boto3() -> None:
    config = EndpointConfig(
        endpoint_name="e",
        region_name="eu-west-1",
        timeout=240.0,
        connect_timeout=3.0,
        max_concurrency=7,
        max_retries=5,
    )

    with SageMakerVLLMClient(config) as client:
        made = client._transport.client.meta.config

    assert (made.read_timeout, made.connect_timeout) == (240.0, 3.0)
    assert made.max_pool_connections == 7
    # Retries are ours alone.
    assert made.retries["total_max_attempts"] == 1


def test_models_that_come_and_go_leave_no_trace_in_what_sessions_share() -> None:
    def search_paths() -> list[str]:
        config = EndpointConfig(endpoint_name="e", region_name="eu-west-1")
        session = make_session(config)._session
        paths: list[str] = session.get_component("data_loader").search_paths
        return list(paths)

    assert search_paths() == [search_paths() for _ in range(3)][-1]
