"""Credentials, prompts and answers stay out of reprs, logs, errors, traces and cache keys.

Pickles and deep copies carry the settings, as they must; what those print does not.
"""

import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.load import dumps

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from langchain_sagemaker_vllm import SageMakerVLLM as LangChainText
from llama_index_sagemaker_vllm import SageMakerVLLM as LlamaIndexModel
from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    EndpointConfig,
    SageMakerVLLMClient,
    SageMakerVLLMError,
)
from tests.faces import FACES, Face

OURS = ("sagemaker_vllm", "langchain_sagemaker_vllm", "llama_index_sagemaker_vllm")
MODELS = (ChatSageMakerVLLM, LangChainText, LlamaIndexModel)
SECRET_FIELDS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
PROMPT, ANSWER = "a private prompt", "a private answer"

# Long enough that none is a piece of ordinary text.
secret_texts = st.text("ABCDEFabcdef0123456789+/=", min_size=16, max_size=48)
secrets = st.fixed_dictionaries(dict.fromkeys(SECRET_FIELDS, secret_texts))


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def settings_with(secrets: dict[str, str]) -> dict[str, Any]:
    return {"endpoint_name": "my-endpoint", "region_name": "eu-west-1", **secrets}


def shown(thing: object) -> Iterator[str]:
    """Yield what a person or a tracer gets to see of a model, a client or its settings."""
    yield repr(thing)
    yield str(thing)
    yield f"{thing:}"
    if isinstance(thing, ChatSageMakerVLLM | LangChainText):
        yield dumps(thing)
        yield thing.model_dump_json()
        yield repr(thing._get_ls_params())
        yield repr(thing._identifying_params)
    if isinstance(thing, ChatSageMakerVLLM):
        yield thing._get_llm_string()
    if isinstance(thing, LangChainText):
        yield repr(thing.asdict())
    if isinstance(thing, LlamaIndexModel):
        yield json.dumps(thing.to_dict())
        yield thing.to_json()
        yield repr(thing.metadata)


@pytest.mark.parametrize(
    "kind",
    [EndpointConfig, SageMakerVLLMClient, AsyncSageMakerVLLMClient, *MODELS],
    ids=full_name,
)
@given(secrets=secrets)
@settings(max_examples=20)
def test_no_secret_is_shown_by_what_holds_it(kind: Any, secrets: dict[str, str]) -> None:
    made = kind(**settings_with(secrets))

    seen = [text for each in (made, copy.deepcopy(made)) for text in shown(each)]

    assert not [text for text in seen for secret in secrets.values() if secret in text]


@pytest.mark.parametrize("kind", [EndpointConfig, SageMakerVLLMClient, *MODELS], ids=full_name)
@given(secrets=secrets)
@settings(max_examples=20)
def test_no_secret_is_shown_after_pickling(kind: Any, secrets: dict[str, str]) -> None:
    made = pickle.loads(pickle.dumps(kind(**settings_with(secrets))))  # noqa: S301  our own bytes

    seen = list(shown(made))

    assert not [text for text in seen for secret in secrets.values() if secret in text]


@pytest.mark.parametrize("kind", [EndpointConfig, SageMakerVLLMClient, *MODELS], ids=full_name)
@given(secrets=secrets)
@settings(max_examples=20)
def test_no_secret_is_shown_when_settings_are_refused(kind: Any, secrets: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind(**settings_with(secrets), timeout=-1)

    text = "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in secrets.values() if secret in text]


@pytest.mark.parametrize("field", SECRET_FIELDS)
@pytest.mark.parametrize("kind", [EndpointConfig, *MODELS], ids=full_name)
def test_a_secret_of_the_wrong_type_is_refused_without_showing_it(kind: Any, field: str) -> None:
    secret = "0123456789" + "abcdef"  # a traceback quotes this line

    with pytest.raises(ConfigurationError) as caught:
        kind(**settings_with({}), **{field: [secret]})

    assert secret not in "".join(traceback.format_exception(caught.value))


@pytest.fixture
def faulty(start_emulator: Callable[..., Any]) -> Any:
    from sagemaker_vllm.emulator import Cut, Reply, ServiceFault, StreamReply, sse

    broken = StreamReply(sse({"choices": [{"index": 0, "delta": {"content": ANSWER}}]}), end=Cut())
    return start_emulator(
        lambda request: {
            "good": Reply(ANSWER),
            "cut": broken,
            "refused": ServiceFault("AccessDeniedException", 403, "is not authorized"),
        }[request.json["messages"][-1]["name"]]
    )


@pytest.mark.parametrize("case", ["good", "cut", "refused"])
@pytest.mark.parametrize("face", FACES, ids=str)
def test_no_secret_prompt_or_answer_is_logged_or_told_by_an_error(
    face: Face, case: str, faulty: Any, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = {field: f"0123456789abcdef-{field}" for field in SECRET_FIELDS}
    model = face.chat_model(**settings_with(secrets), endpoint_url=faulty.url, max_retries=0)
    caplog.set_level(logging.DEBUG)

    told = ""
    try:
        face.chat(model, [{"role": "user", "content": PROMPT, "name": case}])
    except SageMakerVLLMError as error:
        told = "".join(traceback.format_exception(error)) + repr(error)

    logged = [record.getMessage() for record in caplog.records if record.name.startswith(OURS)]
    for private in (*secrets.values(), ANSWER):
        assert not [text for text in (told, *logged) if private in text]
    assert not [text for text in logged if PROMPT in text]
