"""What the chat model and the LLM share: where to call, how, and with which parameters."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import fields
from datetime import datetime
from functools import cache, cached_property
from operator import itemgetter
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

from langchain_core.language_models import LangSmithParams
from pydantic import BaseModel, Field, SecretStr, ValidationError

from langchain_sagemaker_vllm._chunks import PROVIDER
from langchain_sagemaker_vllm._errors import ConfigurationError, langchain_errors
from langchain_sagemaker_vllm._tokens import TokenCounting
from sagemaker_vllm import (
    OPTION_NAMES,
    AsyncSageMakerVLLMClient,
    CallKeywords,
    EndpointConfig,
    InvocationOptions,
    SageMakerVLLMClient,
    StatefulSession,
    __version__,
    chat_request,
    merge_parameters,
    split_keywords,
    text_request,
)

_CONFIG_NAMES = tuple(each.name for each in fields(EndpointConfig))
_connection = itemgetter(*_CONFIG_NAMES)
_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# Keywords of LangChain's own, which never reach the endpoint.
_FRAMEWORK_KEYWORDS = frozenset({"stream", "stream_usage", "tools"})
_NOT_PICKLED = frozenset({"_clients", "_serialized"})
_NO_OPTIONS = InvocationOptions()
_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", SageMakerVLLMClient, AsyncSageMakerVLLMClient)


def with_signature(function: _F) -> _F:
    """Give a function its signature once: langchain-core inspects it at every call."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # a callable need not, but functions do
    return function


class EndpointModel(TokenCounting, BaseModel):
    """Fields and plumbing of a model behind a SageMaker endpoint."""

    kind: ClassVar[Literal["chat", "text"]]
    parameter_fields: ClassVar[tuple[str, ...]] = (
        "temperature",
        "top_p",
        "max_tokens",
        "stop",
        "seed",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_k",
        "min_p",
        "repetition_penalty",
        "structured_outputs",
    )

    endpoint_name: str = ""
    """Name of the endpoint; by default the environment's `SAGEMAKER_ENDPOINT_NAME`."""
    model: str = "/opt/ml/model"
    """`model` of the request. SageMaker mounts the model at `/opt/ml/model`."""
    region_name: str | None = None
    """AWS region; by default boto3's own rules (environment, profile)."""
    credentials_profile_name: str | None = None
    """Profile of the shared AWS files."""
    aws_access_key_id: SecretStr | None = None
    """Access key; by default boto3's own search, which also refreshes what expires."""
    aws_secret_access_key: SecretStr | None = None
    """Secret key."""
    aws_session_token: SecretStr | None = None
    """Session token of temporary credentials."""
    endpoint_url: str | None = None
    """Base URL in place of AWS's; by default `AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME`."""
    client: Any = Field(default=None, exclude=True, repr=False)
    """A ready boto3 `sagemaker-runtime` client; every call, asynchronous too, goes through it."""

    inference_component_name: str | None = None
    """Inference component (or adapter component) to invoke."""
    target_variant: str | None = None
    """Production variant, in place of the weighted choice."""
    target_model: str | None = None
    """Model of a multi-model endpoint (not for streams)."""
    target_container_hostname: str | None = None
    """Container of a multi-container endpoint."""
    custom_attributes: str | None = None
    """Opaque text for the container, at most 1,024 characters."""
    inference_id: str | None = None
    """Id kept with captured data."""
    session_id: str | None = None
    """Stateful session, or `NEW_SESSION`."""
    enable_explanations: str | None = None
    """JMESPath expression for the explainer (not for streams)."""
    prefix_aware_id: str | None = None
    """Routing hint: calls with the same id share a prefix."""
    accept: str | None = None
    """Wanted MIME type of the answer."""

    timeout: float = 70.0
    """Seconds to wait for an answer, or between two parts of a stream (a container has 60 s)."""
    connect_timeout: float = 10.0
    """Seconds to wait for the connection."""
    max_retries: int = 2
    """How often a failed request is sent again."""
    max_concurrency: int = 64
    """Connections, and asynchronous calls in flight, at most."""
    cold_start_timeout: float = 0.0
    """Seconds to keep trying while the model is not ready or the endpoint scales from zero."""
    retry_on_timeout: bool = False
    """Send the request again after a read timeout, though the first answer may be billed."""
    async_inference: Any = Field(default=None, exclude=True)
    """An `AsyncInferenceConfig`: plain calls run through InvokeEndpointAsync and S3."""

    temperature: float | None = None
    """Sampling temperature. This and every other parameter: `None` leaves it to the server."""
    top_p: float | None = None
    """Share of the probability mass to sample from, more than 0 and at most 1."""
    max_tokens: int | None = None
    """Tokens to generate at most. Also accepted as `max_completion_tokens`."""
    stop: list[str] | str | None = None
    """Strings that end the answer; at most four in recent vLLM."""
    seed: int | None = None
    """Seed of the sampling."""
    n: int | None = None
    """Answers for each prompt."""
    presence_penalty: float | None = None
    """Penalty for tokens that have occurred, -2 to 2."""
    frequency_penalty: float | None = None
    """Penalty by how often tokens have occurred, -2 to 2."""
    top_k: int | None = None
    """Tokens to sample from; 0 or -1 for all. vLLM's own."""
    min_p: float | None = None
    """Least probability, relative to the likeliest token's, 0 to 1. vLLM's own."""
    repetition_penalty: float | None = None
    """Factor against repetition, more than 0. vLLM's own."""
    structured_outputs: dict[str, Any] | None = None
    """vLLM's constraint: one of `regex`, `choice`, `grammar`, `json`, `json_object`."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the request body."""
    extra_body: dict[str, Any] | None = None
    """Further parameters of the request body, under the name that OpenAI's clients use."""

    streaming: bool = False
    """Stream from the endpoint also for `invoke`, so that callbacks get every token."""
    stream_usage: bool = True
    """Ask for token counts at the end of a stream."""

    def __init__(self, **settings: Any) -> None:
        """Check every setting; nothing is connected before the first call.

        Raises:
            ConfigurationError: A keyword is unknown, a value is wrong, or two settings conflict.
        """
        try:
            super().__init__(**self._known(settings))
        except ValidationError as error:
            raise ConfigurationError(_told(error)) from None
        with langchain_errors():
            self.endpoint_name = self._config().endpoint_name
            self._options()
            self._sync_client()
        self._refuse_doubles()
        with langchain_errors():
            self._check_parameters()
        if add_version := getattr(self, "_add_version", None):
            add_version("sagemaker-vllm", __version__)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Say no: langchain-core loads classes of its own table only."""
        return False

    @property
    def lc_secrets(self) -> dict[str, str]:
        """Fields that hold secrets, and the environment variables they are known by."""
        return {name: name.upper() for name in _SECRETS}

    @property
    def model_name(self) -> str:
        """The model, under the name that LangChain's tools ask for."""
        return self.model

    # No private attribute: pydantic would put its own `model_post_init` before langchain-core's.
    @cached_property
    def session_expires(self) -> datetime | None:
        """When the stateful session of this model ends by itself, if the container said so."""
        return None

    @contextmanager
    def session(self) -> Iterator[Self]:
        """Open a stateful session of the container; it is closed at the end of the `with` block.

        Yields:
            A copy of the model, every call of which belongs to the session.
        """
        with langchain_errors(), self._sync_client().session(options=self._options()) as session:
            yield self._in_session(session)

    @asynccontextmanager
    async def asession(self) -> AsyncIterator[Self]:
        """Open a stateful session for an `async with` block; see `session`."""
        with langchain_errors():
            async with self._async_client().session(options=self._options()) as session:
                yield self._in_session(session)

    def _in_session(self, session: StatefulSession) -> Self:
        copied = self.model_copy(update={"session_id": session.session_id})
        copied.__dict__["session_expires"] = session.expires
        return copied

    def close(self) -> None:
        """Close the connections of synchronous calls; a later call opens new ones."""
        self._sync_client().close()

    async def aclose(self) -> None:
        """Close the running event loop's connections; a later call opens new ones."""
        await self._async_client().aclose()

    def _sync_client(self) -> SageMakerVLLMClient:
        return self._client_of(SageMakerVLLMClient)

    def _async_client(self) -> AsyncSageMakerVLLMClient:
        return self._client_of(AsyncSageMakerVLLMClient)

    def _client_of(self, kind: type[_C]) -> _C:
        """Return the client for the present settings; a changed copy makes its own.

        `dict.setdefault` is atomic: threads that call at once share one client.
        """
        key = (kind, *_connection(self.__dict__), id(self.client), id(self.async_inference))
        made: _C | None = self._clients.get(key)
        if made is None:
            new = kind(self._config(), client=self.client, async_inference=self.async_inference)
            made = self._clients.setdefault(key, new)
        return made

    @cached_property
    def _clients(self) -> dict[Any, Any]:
        return {}

    def __getstate__(self) -> dict[Any, Any]:
        """Pickle the settings; the copy connects by itself.

        Raises:
            ConfigurationError: A boto3 `client` was given, which cannot be pickled.
        """
        if self.client is not None:
            with langchain_errors():
                self._sync_client().__reduce__()
        state = super().__getstate__()
        kept = {name: value for name, value in self.__dict__.items() if name not in _NOT_PICKLED}
        return {**state, "__dict__": kept}

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy the settings; a given `client` is shared, since boto3's are thread-safe."""
        memo = {} if memo is None else memo
        memo[id(self.client)] = self.client
        return super().__deepcopy__(memo)

    def _call(self, keywords: Mapping[str, Any]) -> CallKeywords:
        """Sort a call's keywords."""
        return split_keywords(keywords, kind=self.kind, extra=_FRAMEWORK_KEYWORDS)

    def _parameters(
        self, stop: list[str] | str | None, given: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Merge the model's parameters, the call's, and the call's `stop` (`None`: not given)."""
        own = self.__dict__
        return merge_parameters(
            {name: set_ for name in self.parameter_fields if (set_ := own[name]) is not None},
            self.model_kwargs,
            self.extra_body or {},
            given or {},
            {"stop": stop},
        )

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """Everything that changes an answer, and no secret."""
        place = {
            "endpoint_name": self.endpoint_name,
            "region_name": self.region_name,
            "endpoint_url": self.endpoint_url,
            "model": self.model,
        }
        # Any object with boto3's methods is a client; where it leads is known of real ones only.
        meta = getattr(self.client, "meta", None)
        for name in ("endpoint_url", "region_name"):
            known = getattr(meta, name, None)
            place[name] = known if isinstance(known, str) else place[name]
        return {**place, **self._options().as_dict(), **self._parameters(None)}

    def _ls_params(
        self, kind: Literal["chat", "llm"], stop: Any, keywords: Mapping[str, Any]
    ) -> LangSmithParams:
        """Return what LangSmith shows of a call, per-call values first."""
        parameters = self._parameters(stop, {k: keywords[k] for k in _LS_KEYS if k in keywords})
        found = {
            "ls_provider": PROVIDER,
            "ls_model_type": kind,
            "ls_model_name": keywords.get("model") or self.model,
            "ls_temperature": parameters.get("temperature"),
            "ls_max_tokens": parameters.get("max_tokens")
            or parameters.get("max_completion_tokens"),
            "ls_stop": [stop] if isinstance(stop := parameters.get("stop"), str) else stop,
        }
        given = {name: value for name, value in found.items() if value is not None}
        return cast("LangSmithParams", given)

    def _config(self) -> EndpointConfig:
        return EndpointConfig(**{name: _plain(getattr(self, name)) for name in _CONFIG_NAMES})

    def _options(self) -> InvocationOptions:
        own = self.__dict__
        given = {name: own[name] for name in OPTION_NAMES if own[name] is not None}
        return InvocationOptions(**given) if given else _NO_OPTIONS

    @classmethod
    @cache
    def _field_names(cls) -> frozenset[str]:
        return frozenset(cls.model_fields)

    @classmethod
    def _known(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Move vLLM's parameters that are no field into `model_kwargs`; refuse the unknown.

        `None` means not given, as LangChain's users write it for defaults.

        Raises:
            ConfigurationError: A keyword is unknown; the error names the nearest known one.
        """
        known = {name: value for name, value in settings.items() if value is not None}
        if (limit := known.pop("max_completion_tokens", None)) is not None:
            if "max_tokens" in known:
                raise ConfigurationError(
                    "max_tokens and max_completion_tokens are two names of one limit; set one."
                )
            known["max_tokens"] = limit
        names = cls._field_names()
        with langchain_errors():
            others = {name: known.pop(name) for name in settings if name in known.keys() - names}
            split_keywords(others, kind=cls.kind, extra=names)
        kwargs = known.get("model_kwargs") or {}
        for name in sorted(others.keys() & kwargs):
            raise ConfigurationError(
                f"{name} is set both as a keyword and in model_kwargs; set it once."
            )
        if others:
            known["model_kwargs"] = {**kwargs, **others}
        return known

    def _check_parameters(self) -> None:
        """Check now what else the first call would."""
        parameters = self._parameters(None)
        if self.kind == "text":
            text_request("-", parameters=parameters)
            return
        # The tools come with a call.
        parameters.pop("tool_choice", None)
        chat_request([{"role": "user", "content": "-"}], parameters=parameters)

    def _refuse_doubles(self) -> None:
        """Refuse a parameter that is set at two places of the constructor."""
        places = {
            "a keyword": {n for n in self.parameter_fields if getattr(self, n) is not None},
            "model_kwargs": set(self.model_kwargs),
            "extra_body": set(self.extra_body or {}),
        }
        seen: dict[str, str] = {}
        for place, names in places.items():
            for name in sorted(names):
                if name in seen:
                    raise ConfigurationError(
                        f"{name} is set both as {seen[name]} and in {place}; set it once."
                    )
                seen[name] = place


# Characters of a wrong value in an error: longer ones may hold a prompt.
_MOST_SHOWN = 60
_LS_KEYS = ("temperature", "max_tokens", "max_completion_tokens")


def _plain(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _told(error: ValidationError) -> str:
    """Tell which settings are wrong, without the values of secrets."""
    told = []
    for problem in error.errors(include_url=False, include_context=False):
        name = ".".join(map(str, problem["loc"]))
        value = repr(problem["input"])
        shown = "" if name in _SECRETS or len(value) > _MOST_SHOWN else f"={value}"
        told.append(f"{name}{shown}: {problem['msg']}.")
    return " ".join(told)
