"""The constructors: what they take, refuse, show, copy and keep to themselves."""

import copy
import pickle
from typing import Any

import boto3
import pytest
from langchain_core.callbacks import StdOutCallbackHandler
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage
from langchain_core.runnables import ConfigurableField
from pydantic import SecretStr

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM, __version__
from sagemaker_vllm import AsyncInferenceConfig, ConfigurationError

MODELS = [ChatSageMakerVLLM, SageMakerVLLM]
KEYS = {
    "aws_access_key_id": "AKIDTEST",
    "aws_secret_access_key": "hidden",
    "aws_session_token": "t",
}
models = pytest.mark.parametrize("cls", MODELS)


def body(model: ChatSageMakerVLLM | SageMakerVLLM, **keywords: Any) -> dict[str, Any]:
    """Return the parameters that a call would send."""
    prompt: Any = [HumanMessage("a")] if isinstance(model, ChatSageMakerVLLM) else "a"
    made, _ = model._get_request_payload(prompt, **keywords)
    return {k: v for k, v in made.items() if k not in ("model", "messages", "prompt")}


def options(model: ChatSageMakerVLLM | SageMakerVLLM, **keywords: Any) -> dict[str, str]:
    """Return the SageMaker options that a call would use."""
    prompt: Any = [HumanMessage("a")] if isinstance(model, ChatSageMakerVLLM) else "a"
    return model._get_request_payload(prompt, **keywords)[1].as_dict()


@models
def test_a_model_needs_only_an_endpoint(cls: Any) -> None:
    model = cls(endpoint_name="e")

    assert model.model == model.model_name == "/opt/ml/model"
    assert (model.timeout, model.connect_timeout, model.max_retries) == (70.0, 10.0, 2)
    assert model.max_concurrency == 64
    assert body(model) == {}
    assert options(model) == {}


@models
def test_the_endpoint_may_come_from_the_environment(
    cls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGEMAKER_ENDPOINT_NAME", "from-env")

    assert cls().endpoint_name == "from-env"
    assert cls(endpoint_name="given").endpoint_name == "given"


@models
def test_no_endpoint_is_refused(cls: Any) -> None:
    with pytest.raises(ConfigurationError, match="SAGEMAKER_ENDPOINT_NAME"):
        cls()


@models
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temprature": 1}, "Unknown keyword temprature=1. Did you mean 'temperature'"),
        ({"endpointname": "e"}, "Did you mean 'endpoint_name'"),
        ({"temperature": "hot"}, "temperature='hot': Input should be a valid number"),
        ({"temperature": float("nan")}, "temperature=nan must be a finite number"),
        ({"top_p": 2}, "top_p=2.0 must be at most 1"),
        ({"max_tokens": -1}, "max_tokens=-1 must be at least 0"),
        ({"stop": [""]}, "must be one or more strings that are not empty"),
        ({"extra_body": {"top_k": "a"}}, "top_k='a' must be a whole number, not str"),
        ({"timeout": 0}, "timeout=0.0 must be more than 0"),
        ({"max_retries": -1}, "max_retries=-1 must be at least 0"),
        ({"target_variant": ""}, "target_variant='' must be a non-empty string"),
        ({"aws_access_key_id": "a"}, "belong together"),
        ({"endpoint_name": "arn:aws:x"}, "the name, not the ARN"),
        ({"top_k": 1, "model_kwargs": {"top_k": 2}}, "top_k is set both as a keyword and in model"),
        ({"extra_body": {"x": 1}, "model_kwargs": {"x": 2}}, "x is set both as model_kwargs and"),
        ({"seed": 1, "extra_body": {"seed": 1}}, "seed is set both as a keyword and in extra_body"),
        ({"min_tokens": 1, "model_kwargs": {"min_tokens": 1}}, "min_tokens is set both"),
        ({"async_inference": 3}, "must be an AsyncInferenceConfig"),
        ({"max_tokens": 1, "max_completion_tokens": 2}, "two names of one limit"),
        ({"structured_outputs": "long" * 50}, "structured_outputs: Input should be a valid dict"),
    ],
)
def test_wrong_settings_are_refused_with_a_cure(
    cls: Any, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        cls(**{"endpoint_name": "e", **settings})


@models
def test_an_error_shows_no_secret(cls: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        cls(endpoint_name="e", aws_secret_access_key=["hidden"], temperature="hot")

    assert "aws_secret_access_key: " in str(caught.value)
    assert "hidden" not in str(caught.value)


@models
def test_every_parameter_of_vllm_is_taken(cls: Any) -> None:
    model = cls(endpoint_name="e", min_tokens=3, bad_words=["x"], model_kwargs={"new": 1})

    assert body(model) == {"min_tokens": 3, "bad_words": ["x"], "new": 1}


@models
def test_none_means_not_given(cls: Any) -> None:
    model = cls(
        endpoint_name="e",
        model=None,
        timeout=None,
        max_retries=None,
        max_tokens=None,
        streaming=None,
        model_kwargs=None,
        max_completion_tokens=None,
    )

    assert model == cls(endpoint_name="e")


@models
def test_the_limit_has_two_names(cls: Any) -> None:
    assert cls(endpoint_name="e", max_completion_tokens=7).max_tokens == 7


@models
def test_parameters_of_the_call_win(cls: Any) -> None:
    kwargs: dict[str, Any] = {"min_tokens": 1}
    model = cls(endpoint_name="e", temperature=0.5, top_k=5, model_kwargs=kwargs)

    assert body(model, temperature=0, top_k=7, min_tokens=2, extra_body={"new": 1}) == {
        "temperature": 0,
        "top_k": 7,
        "min_tokens": 2,
        "new": 1,
    }
    assert body(model) == {"temperature": 0.5, "top_k": 5, "min_tokens": 1}
    assert kwargs == {"min_tokens": 1}


@models
def test_options_of_the_call_win(cls: Any) -> None:
    model = cls(endpoint_name="e", target_variant="a", custom_attributes="k=v")

    assert options(model, target_variant="b", accept="application/json") == {
        "target_variant": "b",
        "custom_attributes": "k=v",
        "accept": "application/json",
    }


@models
@pytest.mark.parametrize(
    ("stop", "sent"),
    [
        (None, {"stop": ["X"]}),
        (["Y"], {"stop": ["Y"]}),
        ("Z", {"stop": ["Z"]}),
        ([], {}),
    ],
)
def test_a_stop_of_none_keeps_the_models(cls: Any, stop: Any, sent: dict[str, Any]) -> None:
    assert body(cls(endpoint_name="e", stop=["X"]), stop=stop) == sent


@models
def test_an_unknown_keyword_of_a_call_names_the_nearest(cls: Any) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'temperature'"):
        body(cls(endpoint_name="e"), temprature=1)


def test_a_tool_choice_may_wait_for_the_tools_of_a_call() -> None:
    model = ChatSageMakerVLLM(endpoint_name="e", model_kwargs={"tool_choice": "auto"})

    with pytest.raises(ConfigurationError, match="tool_choice='auto' needs tools"):
        body(model)


@models
@pytest.mark.parametrize("keywords", [{"n": 2}, {"n": 2, "temperature": 1}])
def test_several_answers_cannot_be_streamed(cls: Any, keywords: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="n=2 cannot be streamed"):
        next(iter(cls(endpoint_name="e").stream("a", **keywords)))


@models
def test_secrets_are_secret(cls: Any) -> None:
    model = cls(endpoint_name="e", **KEYS)

    assert isinstance(model.aws_secret_access_key, SecretStr)
    assert model.lc_secrets["aws_secret_access_key"] == "AWS_SECRET_ACCESS_KEY"
    shown = repr(model) + str(model) + str(model.asdict()) + dumps(model) + str(model._serialized)
    assert all(secret not in shown for secret in ("AKIDTEST", "hidden"))


@models
def test_credentials_reach_the_client(cls: Any) -> None:
    config = cls(endpoint_name="e", region_name="us-east-1", **KEYS)._sync_client().config

    assert config.aws_secret_access_key == "hidden"
    assert "hidden" not in repr(config)


@models
def test_models_are_not_serialised_by_langchain(cls: Any) -> None:
    assert cls.is_lc_serializable() is False


@models
def test_the_version_is_traced(cls: Any) -> None:
    model = cls(endpoint_name="e")

    assert model.metadata["lc_versions"].keys() >= {"sagemaker-vllm", "langchain-core"}
    assert model.metadata["lc_versions"]["sagemaker-vllm"] == __version__


def pickled(value: Any) -> Any:
    """Return a copy through pickle."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # our own bytes


@models
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled, lambda m: m.model_copy()])
def test_copies_are_equal_and_connect_by_themselves(cls: Any, copied: Any) -> None:
    model = cls(endpoint_name="e", temperature=0.5, target_variant="a", **KEYS)
    model._sync_client()

    again = copied(model)

    assert again == model
    assert again._sync_client().config == model._sync_client().config


@models
def test_a_changed_copy_makes_its_own_client(cls: Any) -> None:
    model = cls(endpoint_name="e")
    first = model._sync_client()

    other = model.model_copy(update={"endpoint_name": "other"})

    assert other._sync_client().config.endpoint_name == "other"
    assert model._sync_client() is first


@models
def test_a_model_keeps_its_clients(cls: Any) -> None:
    model = cls(endpoint_name="e")

    assert model._sync_client() is model._sync_client()
    assert model._async_client() is model._async_client()


@models
def test_a_ready_client_is_used_and_shared_by_copies(cls: Any) -> None:
    client = boto3.client("sagemaker-runtime", region_name="eu-central-1")
    model = cls(endpoint_name="e", client=client)

    assert copy.deepcopy(model).client is client
    assert model._identifying_params["region_name"] == "eu-central-1"


@models
def test_a_ready_client_cannot_be_pickled(cls: Any) -> None:
    client = boto3.client("sagemaker-runtime", region_name="eu-central-1")

    with pytest.raises(ConfigurationError, match="client: a ready boto3 client cannot be pickled"):
        pickle.dumps(cls(endpoint_name="e", client=client))


@models
def test_fields_can_be_configured_at_run_time(cls: Any) -> None:
    model = cls(endpoint_name="e", **KEYS)
    model._sync_client()
    field = ConfigurableField(id="temperature")

    made, _ = model.configurable_fields(temperature=field).prepare(
        {"configurable": {"temperature": 0.25}}
    )

    assert made.temperature == 0.25
    assert made.endpoint_name == "e"
    assert made.aws_secret_access_key == model.aws_secret_access_key


@models
def test_an_asynchronous_inference_does_not_stream(cls: Any) -> None:
    config = AsyncInferenceConfig("s3://bucket/in/")

    assert cls(endpoint_name="e", async_inference=config).async_inference is config


def test_a_chat_model_with_asynchronous_inference_answers_streams_whole() -> None:
    config = AsyncInferenceConfig("s3://bucket/in/")

    assert ChatSageMakerVLLM(endpoint_name="e", async_inference=config).disable_streaming is True


IDENTITY: list[dict[str, Any]] = [
    {},
    {"endpoint_name": "other"},
    {"region_name": "us-east-2"},
    {"endpoint_url": "http://localhost:1"},
    {"model": "other"},
    {"temperature": 1},
    {"stop": ["X"]},
    {"model_kwargs": {"min_tokens": 1}},
    {"extra_body": {"min_tokens": 2}},
    {"target_variant": "b"},
    {"inference_component_name": "ic"},
    {"session_id": "s"},
]


@models
def test_everything_that_changes_an_answer_identifies_a_model(cls: Any) -> None:
    keys = [str(cls(**{"endpoint_name": "e", **each}).asdict()) for each in IDENTITY]

    assert len(set(keys)) == len(IDENTITY)


@models
def test_the_identity_is_the_same_for_equal_models(cls: Any) -> None:
    made = [cls(endpoint_name="e", callbacks=[StdOutCallbackHandler()], **KEYS) for _ in range(2)]

    first, second = (str(model.asdict()) for model in made)
    assert first == second
    assert " at 0x" not in first


@models
@pytest.mark.parametrize(
    ("keywords", "traced"),
    [
        ({}, {"ls_model_name": "/opt/ml/model", "ls_temperature": 0.5, "ls_max_tokens": 9}),
        ({"model": "m"}, {"ls_model_name": "m"}),
        ({"temperature": 1}, {"ls_temperature": 1}),
        ({"max_tokens": 3}, {"ls_max_tokens": 3}),
        ({"max_completion_tokens": 3}, {"ls_max_tokens": 3}),
        ({"stop": ["Y"]}, {"ls_stop": ["Y"]}),
        ({"stop": "Y"}, {"ls_stop": ["Y"]}),
    ],
)
def test_traces_show_the_values_of_the_call(
    cls: Any, keywords: dict[str, Any], traced: dict[str, Any]
) -> None:
    model = cls(endpoint_name="e", temperature=0.5, max_tokens=9, stop=["X"])

    found = model._get_ls_params(**keywords)

    assert found["ls_provider"] == "sagemaker_vllm"
    assert {name: found[name] for name in traced} == traced


def test_traces_know_the_kind_of_model() -> None:
    chat, text = (
        cls(endpoint_name="e")._get_ls_params() for cls in (ChatSageMakerVLLM, SageMakerVLLM)
    )

    assert (chat["ls_model_type"], text["ls_model_type"]) == ("chat", "llm")


@models
def test_tokens_are_counted_without_a_tokenizer(cls: Any) -> None:
    model = cls(endpoint_name="e")

    assert model.get_num_tokens("12345678") == 2
    assert model.get_num_tokens("") == 0
    assert model.get_num_tokens_from_messages([HumanMessage("12345678")]) > 2


@models
def test_a_given_tokenizer_counts(cls: Any) -> None:
    model = cls(endpoint_name="e", custom_get_token_ids=lambda text: [ord(each) for each in text])

    assert model.get_token_ids("ab") == [97, 98]
    assert model.get_num_tokens("abc") == 3
    assert model.get_num_tokens_from_messages([HumanMessage("abc"), HumanMessage("de")]) == 5


@models
def test_token_ids_need_a_tokenizer(cls: Any) -> None:
    with pytest.raises(ConfigurationError, match="custom_get_token_ids"):
        cls(endpoint_name="e").get_token_ids("a")


def test_the_profile_says_what_vllm_can_do() -> None:
    profile = ChatSageMakerVLLM(endpoint_name="e").profile

    assert profile is not None
    assert profile["tool_calling"]
    assert profile["structured_output"]
    assert profile["image_inputs"]
    assert "max_input_tokens" not in profile


def test_a_given_profile_is_kept() -> None:
    given = {"max_input_tokens": 4096, "structured_output": False}

    assert ChatSageMakerVLLM(endpoint_name="e", profile=given).profile == given
