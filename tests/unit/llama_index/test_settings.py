"""The constructor: every setting is checked before anything is connected, no secret is written."""

import copy
import json
import pickle
from typing import Any

import pytest
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW, DEFAULT_NUM_OUTPUTS
from llama_index.core.llms.function_calling import FunctionCallingLLM

from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import AsyncInferenceConfig, ConfigurationError

SECRETS = {
    "aws_access_key_id": "AKIAMADEUP",
    "aws_secret_access_key": "made-up-secret",
    "aws_session_token": "made-up-token",
}


def make(**settings: Any) -> SageMakerVLLM:
    return SageMakerVLLM(**{"endpoint_name": "e", **settings})


class Client:
    """Stands for a ready boto3 client, which cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"endpoint_name": ""}, "SAGEMAKER_ENDPOINT_NAME"),
        ({"endpoint_nam": "e"}, "Did you mean 'endpoint_name'"),
        ({"temprature": 1}, "Did you mean 'temperature'"),
        ({"temperature": -1}, "temperature=-1.0 must be at least 0"),
        ({"temperature": "hot"}, "temperature='hot': Input should be a valid number"),
        ({"top_p": 2}, "top_p=2.0"),
        ({"stop": [""]}, "stop="),
        ({"logprobs": 3}, "must be True or False"),
        ({"is_chat_model": False, "logprobs": -2}, "logprobs=-2"),
        ({"context_window": 0}, "context_window"),
        ({"context_window": 10, "max_tokens": 20}, "max_tokens=20 is more than context_window=10"),
        ({"extra_body": {"max_completion_tokens": 9999}}, "max_completion_tokens=9999"),
        ({"timeout": 0}, "timeout=0.0"),
        ({"max_concurrency": 0}, "max_concurrency=0"),
        ({"target_variant": "x" * 64}, "target_variant has 64 characters"),
        ({"aws_access_key_id": "AKIA"}, "belong together"),
        ({"async_inference": 3}, "async_inference=3"),
    ],
)
def test_wrong_setting_is_refused_by_name(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make(**settings)


def test_error_shows_no_secret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make(temperature="hot", **SECRETS)

    shown = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert not any(secret in shown for secret in SECRETS.values())


def test_name_of_the_endpoint_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGEMAKER_ENDPOINT_NAME", "from-env")

    assert SageMakerVLLM().endpoint_name == "from-env"
    assert SageMakerVLLM().to_dict()["endpoint_name"] == "from-env"


def test_parameter_that_is_no_field_is_a_parameter_all_the_same() -> None:
    llm = make(ignore_eos=True, additional_kwargs={"min_tokens": 1})

    assert llm.additional_kwargs == {"ignore_eos": True, "min_tokens": 1}


def test_serialised_model_holds_everything_but_secrets() -> None:
    config = AsyncInferenceConfig("s3://bucket/in/")
    llm = make(
        temperature=0.5, target_variant="v", client=Client(), async_inference=config, **SECRETS
    )

    written = llm.to_json()
    again = SageMakerVLLM.from_dict(json.loads(written))

    assert not any(secret in written + repr(llm) + str(llm) for secret in SECRETS.values())
    assert json.loads(written)["class_name"] == "SageMakerVLLM"
    assert (again.temperature, again.target_variant) == (0.5, "v")
    assert again.async_inference == config
    assert again.client is None


def test_payload_for_observers_holds_no_secret() -> None:
    payload = json.dumps(make(**SECRETS).to_payload(), default=str)

    assert "SageMakerVLLM" in payload
    assert not any(secret in payload for secret in SECRETS.values())


@pytest.mark.parametrize(
    "copied",
    [
        lambda llm: pickle.loads(pickle.dumps(llm)),  # noqa: S301 - the test's own bytes
        copy.copy,
        copy.deepcopy,
        lambda llm: llm.model_copy(),
        lambda llm: llm.model_copy(deep=True),
    ],
    ids=["pickle", "copy", "deepcopy", "model-copy", "model-copy-deep"],
)
def test_copies_keep_the_settings_and_the_secrets(copied: Any) -> None:
    llm = make(temperature=0.5, timeout=3, **SECRETS)

    again = copied(llm)

    assert again is not llm
    assert again.to_dict() == llm.to_dict()
    assert again.aws_secret_access_key.get_secret_value() == "made-up-secret"
    assert again._client.config == llm._client.config


def test_given_client_is_shared_by_copies_and_not_pickled() -> None:
    llm = make(client=Client())

    assert copy.deepcopy(llm).client is llm.client
    with pytest.raises(ConfigurationError, match="client: a ready boto3 client cannot be pickled"):
        pickle.dumps(llm)


def test_changed_connection_setting_makes_other_clients() -> None:
    llm = make(timeout=3)
    before = llm._client

    llm.temperature = 0.5
    assert llm._client is before

    llm.timeout = 5
    assert llm._client.config.timeout == llm._async_client.config.timeout == 5
    assert llm.model_copy(update={"timeout": 7})._client.config.timeout == 7


@pytest.mark.parametrize(
    ("settings", "window", "output", "chat", "tools"),
    [
        ({}, DEFAULT_CONTEXT_WINDOW, DEFAULT_NUM_OUTPUTS, True, True),
        ({"context_window": 9000, "max_tokens": 70}, 9000, 70, True, True),
        ({"is_function_calling_model": False}, 3900, 256, True, False),
        ({"is_chat_model": False}, 3900, 256, False, False),
    ],
)
def test_metadata_says_what_the_model_can_do(
    settings: dict[str, Any], window: int, output: int, chat: bool, tools: bool
) -> None:
    metadata = make(**settings).metadata

    assert (metadata.context_window, metadata.num_output) == (window, output)
    assert (metadata.is_chat_model, metadata.is_function_calling_model) == (chat, tools)
    assert metadata.model_name == "/opt/ml/model"


def test_every_field_is_described() -> None:
    own = SageMakerVLLM.model_fields.keys() - FunctionCallingLLM.model_fields.keys()

    assert {"endpoint_name", "top_k", "context_window"} <= own
    assert [name for name in own if not SageMakerVLLM.model_fields[name].description] == []


def test_text_completion_counts_its_logprobs() -> None:
    text = make(is_chat_model=False, logprobs=True, top_logprobs=3, chat_template_kwargs={"a": 1})

    assert text._parameters()["logprobs"] == 3
    assert not {"top_logprobs", "chat_template_kwargs"} & text._parameters().keys()
    assert make(is_chat_model=False, logprobs=False)._parameters()["logprobs"] is None
