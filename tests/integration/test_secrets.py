"""No credential is shown: by the clients, the models, their errors, logs, traces and cache keys."""

import copy
import json
import logging
import pickle
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_core.caches import InMemoryCache
from langchain_core.load import dumpd, dumps
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

import langchain_sagemaker_vllm
from langchain_sagemaker_vllm import ChatSageMakerVLLM
from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    EndpointConfig,
    SageMakerVLLMClient,
    SageMakerVLLMError,
    chat_request,
)
from sagemaker_vllm.emulator import Emulator, RecordedRequest, Reply, ServiceFault

REQUEST = chat_request([{"role": "user", "content": "Hi"}])
# A fixed beginning, since Hypothesis tries words of the source, which a repr does show.
PART = st.text(
    "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789/+", min_size=16, max_size=40
)
CREDENTIALS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "aws_access_key_id": st.text("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=16).map(
            "AKIA".__add__
        ),
        "aws_secret_access_key": PART.map("k3y".__add__),
        "aws_session_token": PART.map("t0k3n".__add__),
    }
)
MODELS: list[type[Any]] = [
    ChatSageMakerVLLM,
    langchain_sagemaker_vllm.SageMakerVLLM,
    SageMakerVLLM,
]

few = settings(
    max_examples=10,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def answer(request: RecordedRequest) -> Any:
    """Answer well, or refuse the signature in AWS's own words, which quote it."""
    if b"refuse" not in request.body:
        return Reply("Hello")
    signed = "\n".join(f"{name.lower()}:{value}" for name, value in request.headers.items())
    return ServiceFault(
        "InvalidSignatureException",
        403,
        "The request signature we calculated does not match the signature you provided. The "
        f"Canonical String for this request should have been\n'POST\n/x\n\n{signed}'",
    )


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(script=answer) as emulator:
        yield emulator


def where(emulator: Emulator) -> dict[str, Any]:
    return {
        "endpoint_name": emulator.endpoint_name,
        "endpoint_url": emulator.url,
        "region_name": "us-east-1",
    }


def found(secrets: dict[str, Any], *texts: object) -> list[str]:
    """Return the secrets that a text shows, also within JSON or another literal."""
    shown = " ".join(f"{text} {text!r}" for text in texts)
    shown += shown.replace("\\/", "/")
    return [name for name, value in secrets.items() if value in shown]


@few
@given(secrets=CREDENTIALS)
def test_records_and_clients_show_no_credential(
    secrets: dict[str, Any], emulator: Emulator
) -> None:
    config = EndpointConfig(**where(emulator), **secrets)
    sync, asynchronous = SageMakerVLLMClient(config), AsyncSageMakerVLLMClient(config)

    copies = [
        copied
        for each in (config, sync, asynchronous)
        for copied in (each, copy.deepcopy(each), pickle.loads(pickle.dumps(each)))  # noqa: S301
    ]
    answered = sync.chat(REQUEST)
    with sync.stream_chat(REQUEST) as stream:
        chunks = list(stream)
    sync.close()

    assert found(secrets, *copies, answered, answered.metadata.as_dict(), chunks) == []
    assert found(secrets, answered.response, stream.completion, stream.metadata) == []


def refused(client: SageMakerVLLMClient) -> SageMakerVLLMError:
    with pytest.raises(SageMakerVLLMError) as caught:
        client.chat(chat_request([{"role": "user", "content": "refuse"}]))
    return caught.value


@few
@given(secrets=CREDENTIALS)
def test_errors_show_no_credential(secrets: dict[str, Any], emulator: Emulator) -> None:
    with SageMakerVLLMClient(**where(emulator), **secrets) as client:
        error = refused(client)
    with pytest.raises(ConfigurationError) as lonely:
        EndpointConfig(endpoint_name="e", aws_secret_access_key=secrets["aws_secret_access_key"])
    with pytest.raises(ConfigurationError) as unknown:
        SageMakerVLLMClient(endpoint_name="e", aws_secret=secrets["aws_secret_access_key"])

    assert error.status_code == 403
    shown = [error, vars(error), lonely.value, vars(lonely.value), unknown.value]
    assert found(secrets, *shown) == []


@few
@given(secrets=CREDENTIALS)
async def test_logs_show_no_credential(
    secrets: dict[str, Any], emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        with SageMakerVLLMClient(**where(emulator), **secrets) as client:
            client.chat(REQUEST)
            refused(client)
        async with AsyncSageMakerVLLMClient(**where(emulator), **secrets) as other:
            await other.chat(REQUEST)

    secret = {"aws_secret_access_key": secrets["aws_secret_access_key"]}
    assert found(secret, caplog.text) == []
    # At DEBUG, botocore itself writes down what it signs: key id and session token.
    ours = [each.getMessage() for each in caplog.records if not each.name.startswith("botocore")]
    assert found(secrets, *ours) == []


@pytest.mark.parametrize("model", MODELS, ids=lambda each: f"{each.__module__}.{each.__name__}")
@few
@given(secrets=CREDENTIALS)
def test_models_show_no_credential(
    model: type[Any], secrets: dict[str, Any], emulator: Emulator
) -> None:
    made = model(**where(emulator), **secrets)

    copies = [made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))]  # noqa: S301
    for each in copies:
        assert found(secrets, each, each.model_dump(), each.model_dump_json()) == []
    with pytest.raises(ConfigurationError) as wrong:
        model(
            endpoint_name="e", **(secrets | {"aws_session_token": [secrets["aws_session_token"]]})
        )
    assert found(secrets, wrong.value, vars(wrong.value)) == []


@pytest.mark.parametrize("model", MODELS[:2], ids=lambda each: each.__name__)
@few
@given(secrets=CREDENTIALS)
def test_traces_and_cache_keys_of_langchain_show_no_credential(
    model: type[Any], secrets: dict[str, Any], emulator: Emulator
) -> None:
    runs: list[Run] = []

    class Tracer(BaseTracer):
        def _persist_run(self, run: Run) -> None:
            runs.append(run)

    cache = InMemoryCache()
    made = model(**where(emulator), **secrets, cache=cache)

    made.invoke("Hi", config={"callbacks": [Tracer()]})

    assert cache._cache
    assert found(secrets, cache._cache, [run.model_dump_json() for run in runs]) == []
    shown = [dumps(made), dumpd(made), made._get_ls_params(), made._identifying_params]
    assert found(secrets, *shown) == []


@few
@given(secrets=CREDENTIALS)
def test_serialised_model_of_llama_index_shows_no_credential(
    secrets: dict[str, Any], emulator: Emulator
) -> None:
    made = SageMakerVLLM(**where(emulator), **secrets)

    shown = [made.to_dict(), made.to_json(), made.metadata, made.complete("Hi")]

    assert found(secrets, *shown, json.dumps(made.to_dict())) == []


def test_every_secret_setting_is_kept_out_of_the_repr() -> None:
    hidden = {each.name for each in fields(EndpointConfig) if not each.repr}

    assert hidden == {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
