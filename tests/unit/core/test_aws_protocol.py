"""What the asynchronous transport would send, held equal to what boto3 sends."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3.session
import botocore.auth
import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config

from sagemaker_vllm import ConfigurationError, EndpointConfig
from sagemaker_vllm import _aws_protocol as aws_protocol
from sagemaker_vllm._aws_protocol import AWSProtocol, SignedRequest
from sagemaker_vllm._boto_session import USER_AGENT
from sagemaker_vllm._boto_transport import BotoTransport
from sagemaker_vllm._operations import METHODS, Operation

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
KEYS: dict[str, Any] = {
    "aws_access_key_id": "AKIDEXAMPLE",
    "aws_secret_access_key": "made/up+secret",
}
COMMON = {"EndpointName": "my-endpoint", "ContentType": "application/json", "Body": b'{"a":1}'}
OPTIONS = COMMON | {
    "Accept": "application/json",
    "CustomAttributes": "trace=1,  two blanks",
    "InferenceId": "id",
    "InferenceComponentName": "component",
    "TargetVariant": "variant",
    "SessionId": "session",
}
CALLS: dict[Operation, Any] = {
    "InvokeEndpoint": OPTIONS,
    "InvokeEndpointWithResponseStream": OPTIONS,
    "InvokeEndpointAsync": COMMON | {"RequestTTLSeconds": 60, "InvocationTimeoutSeconds": 3600},
}
PROFILE = """
[default]
region = eu-central-1
[profile own]
region = eu-west-3
services = local
[services local]
sagemaker_runtime =
  endpoint_url = http://from-profile.example:8080
"""


@pytest.fixture(autouse=True)
def frozen_time() -> Iterator[None]:
    class Frozen(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Frozen":
            return cls(*NOW.timetuple()[:6], tzinfo=tz)

    with (
        patch.object(botocore.auth, "get_current_datetime", lambda: NOW),
        patch.object(aws_protocol, "datetime", Frozen),
    ):
        yield


def theirs(config: EndpointConfig, calls: dict[Operation, Any]) -> list[AWSPreparedRequest]:
    """Return the requests that boto3 is about to send, by a client made as a user would."""
    session = boto3.session.Session(
        config.aws_access_key_id,
        config.aws_secret_access_key,
        config.aws_session_token,
        config.region_name,
        profile_name=config.credentials_profile_name,
    )
    client = session.client(
        "sagemaker-runtime",
        endpoint_url=config.endpoint_url,
        config=Config(user_agent_extra=USER_AGENT, retries={"total_max_attempts": 1}),
    )
    sent: list[AWSPreparedRequest] = []

    def keep(request: AWSPreparedRequest, **_: Any) -> None:
        sent.append(request)
        raise InterruptedError

    client.meta.events.register("before-send", keep)
    for operation, call in calls.items():
        with pytest.raises(InterruptedError):
            getattr(client, METHODS[operation])(**call)
    client.close()
    return sent


def ours(config: EndpointConfig, calls: dict[Operation, Any]) -> list[SignedRequest]:
    async def sign() -> list[SignedRequest]:
        protocol = AWSProtocol(config)
        return [await protocol.signed_request(*each) for each in calls.items()]

    return asyncio.run(sign())


PLACES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "region": ({}, {"region_name": "us-east-1"}),
    "region-of-the-environment": ({"AWS_DEFAULT_REGION": "eu-west-1"}, {}),
    "region-of-the-profile": ({}, {}),
    "unknown-region": ({}, {"region_name": "mars-north-1"}),
    "gov": ({}, {"region_name": "us-gov-west-1"}),
    "china": ({}, {"region_name": "cn-north-1"}),
    "iso": ({}, {"region_name": "us-iso-east-1"}),
    "fips": ({"AWS_USE_FIPS_ENDPOINT": "true"}, {"region_name": "us-east-1"}),
    "fips-gov": ({"AWS_USE_FIPS_ENDPOINT": "true"}, {"region_name": "us-gov-west-1"}),
    "fips-elsewhere": ({"AWS_USE_FIPS_ENDPOINT": "true"}, {"region_name": "eu-west-1"}),
    "dual-stack": ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, {"region_name": "us-east-1"}),
    "dual-stack-china": ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, {"region_name": "cn-north-1"}),
    "fips-and-dual-stack": (
        {"AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_USE_FIPS_ENDPOINT": "true"},
        {"region_name": "us-west-2"},
    ),
    "url": ({}, {"region_name": "us-east-1", "endpoint_url": "http://127.0.0.1:8080"}),
    "url-with-a-path": ({}, {"region_name": "us-east-1", "endpoint_url": "https://x.example/a/b/"}),
    "url-with-the-default-port": (
        {},
        {"region_name": "us-east-1", "endpoint_url": "https://x.example:443"},
    ),
    "url-of-the-environment": (
        {"AWS_ENDPOINT_URL": "http://any.example:1"},
        {"region_name": "us-east-1"},
    ),
    "url-of-the-service": (
        {
            "AWS_ENDPOINT_URL": "http://any.example:1",
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": "http://runtime.example:2",
        },
        {"region_name": "us-east-1"},
    ),
    "url-of-the-profile": ({}, {"credentials_profile_name": "own"}),
    "urls-ignored": (
        {
            "AWS_ENDPOINT_URL": "http://any.example:1",
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        },
        {"region_name": "us-east-1"},
    ),
}


@pytest.mark.parametrize(("environment", "settings"), PLACES.values(), ids=PLACES)
def test_requests_are_those_of_boto3(
    environment: dict[str, str],
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "config").write_text(PROFILE)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    config = EndpointConfig(
        endpoint_name="my-endpoint", aws_session_token="token", **(KEYS | settings)
    )

    for expected, request in zip(theirs(config, CALLS), ours(config, CALLS), strict=True):
        assert request.url == expected.url
        assert request.body == expected.body
        assert without_extras(request.headers) == without_extras(expected.headers)


def call_sync(config: EndpointConfig) -> None:
    BotoTransport(config).invoke("InvokeEndpoint", OPTIONS)


def call_async(config: EndpointConfig) -> None:
    ours(config, {"InvokeEndpoint": OPTIONS})


def without_extras(headers: Any) -> dict[str, str]:
    """Return headers as they are compared.

    Left out: how botocore counts its own retries, what the HTTP library adds, and the part of the
    user agent that says which features of botocore's were used.
    """
    found = {
        name.lower(): value.decode() if isinstance(value, bytes) else value
        for name, value in headers.items()
    }
    left_out = {"amz-sdk-invocation-id", "amz-sdk-request", "content-length", "accept-encoding"}
    agent = [word for word in found["user-agent"].split() if not word.startswith("m/")]
    kept = {name: value for name, value in found.items() if name not in left_out}
    return kept | {"user-agent": " ".join(agent)}


def test_user_agent_names_this_package_once() -> None:
    config = EndpointConfig(endpoint_name="e", region_name="us-east-1", **KEYS)

    agent = ours(config, CALLS)[0].headers["User-Agent"]

    assert agent.startswith("Boto3/")
    assert agent.count("sagemaker-vllm/") == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({}, "region_name is missing"),
        ({"region_name": "us-east-1", "endpoint_url": "no url"}, "endpoint_url='no url'"),
        ({"credentials_profile_name": "nobody"}, "credentials_profile_name='nobody'"),
        ({"region_name": "us east"}, "region_name='us east'"),
    ],
    ids=["region", "url", "profile", "no-region"],
)
def test_setting_that_botocore_refuses_is_named(
    is_async: bool, settings: dict[str, Any], argument: str
) -> None:
    config = EndpointConfig(endpoint_name="e", **settings)

    call = call_async if is_async else call_sync

    with pytest.raises(ConfigurationError, match=argument):
        call(config)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_missing_bundle_of_certificates_is_named(
    is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    config = EndpointConfig(endpoint_name="e", region_name="us-east-1", **KEYS)

    call = call_async if is_async else call_sync

    with pytest.raises(ConfigurationError, match=r"AWS_CA_BUNDLE='/nowhere/ca.pem'"):
        call(config)


def test_large_body_is_sent_as_a_file_that_can_be_sent_again() -> None:
    config = EndpointConfig(endpoint_name="e", region_name="us-east-1", **KEYS)
    body = bytes(2**20 + 1)

    requests = ours(config, {"InvokeEndpoint": OPTIONS | {"Body": body}})

    assert requests[0].body.read() == body


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]"])
def test_submission_answer_that_is_no_json_object_names_no_inference(body: bytes) -> None:
    protocol = AWSProtocol(EndpointConfig(endpoint_name="e", region_name="us-east-1", **KEYS))

    output = protocol.read_output("InvokeEndpointAsync", {"x-amzn-RequestId": "r"}, body)

    assert output == {"ResponseMetadata": {"RequestId": "r"}}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("environment", "text", "named"),
    [
        ({"AWS_PROFILE": "nobody"}, "", "AWS_PROFILE: .*nobody"),
        ({}, "[default", "shared AWS files"),
        ({"AWS_DEFAULTS_MODE": "odd", "AWS_DEFAULT_REGION": "us-east-1"}, "", "settings: .*odd"),
    ],
    ids=["profile", "file", "mode"],
)
def test_environment_that_botocore_refuses_is_named(
    is_async: bool,
    environment: dict[str, str],
    text: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    call = call_async if is_async else call_sync

    with pytest.raises(ConfigurationError, match=named):
        call(EndpointConfig(endpoint_name="e"))
