"""Endpoint settings and invocation options: defaults, limits, secrets."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from sagemaker_vllm import ConfigurationError, EndpointConfig, InvocationOptions, nearest
from sagemaker_vllm._config import reject_unknown


def test_endpoint_name_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGEMAKER_ENDPOINT_NAME", "from-environment")

    assert EndpointConfig().endpoint_name == "from-environment"
    assert EndpointConfig(endpoint_name="given").endpoint_name == "given"


def test_endpoint_name_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="SAGEMAKER_ENDPOINT_NAME"):
        EndpointConfig()


def test_defaults_are_those_of_the_service() -> None:
    config = EndpointConfig(endpoint_name="e")

    assert (config.timeout, config.connect_timeout) == (70.0, 10.0)
    assert (config.max_retries, config.max_concurrency) == (2, 64)
    assert (config.cold_start_timeout, config.retry_on_timeout) == (0.0, False)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"endpoint_name": "arn:aws:sagemaker:us-east-1:1:endpoint/e"}, "endpoint_name"),
        ({"endpoint_name": "x" * 64}, "endpoint_name"),
        ({"endpoint_name": "ä"}, "endpoint_name"),
        ({"max_retries": -1}, "max_retries"),
        ({"cold_start_timeout": -0.1}, "cold_start_timeout"),
        ({"cold_start_timeout": float("nan")}, "cold_start_timeout"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"connect_timeout": -1}, "connect_timeout"),
        ({"aws_access_key_id": "A"}, "belong together"),
        ({"aws_secret_access_key": "S"}, "belong together"),
        ({"aws_session_token": "T"}, "aws_session_token needs"),
    ],
)
def test_wrong_setting_is_named(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(ConfigurationError, match=argument) as caught:
        EndpointConfig(**({"endpoint_name": "e"} | settings))

    assert isinstance(caught.value, ValueError)


def test_config_shows_no_secret() -> None:
    config = EndpointConfig(
        endpoint_name="e",
        aws_access_key_id="AKIASECRET",
        aws_secret_access_key="SECRETKEY",
        aws_session_token="SECRETTOKEN",
    )

    assert "SECRET" not in repr(config)


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        EndpointConfig(endpoint_name="e").timeout = 1.0  # type: ignore[misc]  # what is tested


@pytest.mark.parametrize(
    ("option", "limit"),
    [
        ("inference_component_name", 63),
        ("target_variant", 63),
        ("target_model", 1024),
        ("target_container_hostname", 63),
        ("custom_attributes", 1024),
        ("inference_id", 64),
        ("session_id", 256),
        ("enable_explanations", 64),
        ("prefix_aware_id", 64),
        ("accept", 1024),
    ],
)
def test_option_has_the_limit_of_the_api(option: str, limit: int) -> None:
    assert InvocationOptions(**{option: "x" * limit}).as_dict() == {option: "x" * limit}

    with pytest.raises(ConfigurationError, match=f"{option} .*at most {limit}"):
        InvocationOptions(**{option: "x" * (limit + 1)})


@pytest.mark.parametrize("value", ["", 7, "ä", "a\nb", " a", "a ", "\x7f", "a\tb"])
def test_option_is_visible_ascii(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="inference_id"):
        InvocationOptions(inference_id=value)


def test_custom_attributes_may_hold_blanks_and_are_never_quoted() -> None:
    assert InvocationOptions(custom_attributes="a=b, c=d").custom_attributes == "a=b, c=d"

    with pytest.raises(ConfigurationError) as caught:
        InvocationOptions(custom_attributes="sensitive ä")

    assert "sensitive" not in str(caught.value)


def test_set_options_of_the_call_win() -> None:
    own = InvocationOptions(target_variant="a", inference_id="i")

    merged = own.merged(InvocationOptions(target_variant="b", session_id="s"))

    assert merged == InvocationOptions(target_variant="b", inference_id="i", session_id="s")
    assert own.merged(None) == own


def test_unknown_keyword_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"'tempature'. Did you mean 'temperature'"):
        reject_unknown(["tempature"], {"temperature", "top_p"}, of="It")

    assert nearest("zzz", ["temperature"]) == ""
