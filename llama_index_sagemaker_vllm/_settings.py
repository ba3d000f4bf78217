"""The constructor of the LLM: every setting, its checks, and the clients made of them."""

import pickle
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Self

from llama_index.core.base.llms.types import LLMMetadata
from llama_index.core.bridge.pydantic import Field, PrivateAttr, SecretStr, ValidationError
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW, DEFAULT_NUM_OUTPUTS
from llama_index.core.llms.function_calling import FunctionCallingLLM

from sagemaker_vllm import (
    OPTION_NAMES,
    AsyncInferenceConfig,
    AsyncSageMakerVLLMClient,
    ConfigurationError,
    EndpointConfig,
    InvocationOptions,
    SageMakerVLLMClient,
    StatefulSession,
    chat_request,
    merge_parameters,
    split_keywords,
    text_request,
)

_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_CONNECTION = (
    "endpoint_name",
    "model",
    "region_name",
    "credentials_profile_name",
    "endpoint_url",
    "timeout",
    "connect_timeout",
    "max_retries",
    "max_concurrency",
    "cold_start_timeout",
    "retry_on_timeout",
)
_SAMPLING = (
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "seed",
    "n",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
    "top_k",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
    "structured_outputs",
)
# Characters of a wrong value in an error: longer ones may hold a prompt.
_MOST_SHOWN = 60
_CONNECTED_BY = frozenset({*_CONNECTION, *_SECRETS, "client", "async_inference"})


def _secret(what: str) -> Any:
    return Field(default=None, exclude=True, repr=False, description=what)


def _option(what: str) -> Any:
    return Field(default=None, description=f"{what} A SageMaker option, also taken per call.")


def _parameter(what: str) -> Any:
    return Field(
        default=None, description=f"{what} Not sent when unset: the server's default rules."
    )


class SageMakerVLLMSettings(FunctionCallingLLM):
    """What a `SageMakerVLLM` is made of. Use that class."""

    # Where
    endpoint_name: str = Field(
        default="",
        description="Name of the endpoint; by default the environment's SAGEMAKER_ENDPOINT_NAME.",
    )
    model: str = Field(
        default="/opt/ml/model", description="The model that vLLM serves. Also taken per call."
    )
    region_name: str | None = Field(
        default=None, description="AWS region; by default boto3's own rules."
    )
    credentials_profile_name: str | None = Field(
        default=None, description="Profile of the shared AWS files."
    )
    aws_access_key_id: SecretStr | None = _secret("Access key; prefer roles and profiles.")
    aws_secret_access_key: SecretStr | None = _secret("Secret key.")
    aws_session_token: SecretStr | None = _secret("Session token of temporary credentials.")
    endpoint_url: str | None = Field(
        default=None,
        description="Base URL in place of AWS's; by default AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME.",
    )
    client: Any = Field(
        default=None,
        exclude=True,
        repr=False,
        description="A ready boto3 sagemaker-runtime client; every call goes through it.",
    )

    # SageMaker's options
    inference_component_name: str | None = _option("Inference (or adapter) component to invoke.")
    target_variant: str | None = _option("Production variant to invoke.")
    target_model: str | None = _option("Model of a multi-model endpoint (not for streams).")
    target_container_hostname: str | None = _option("Container of a multi-container endpoint.")
    custom_attributes: str | None = _option("Text for the container.")
    inference_id: str | None = _option("Id kept with captured data.")
    session_id: str | None = _option("Stateful session, or NEW_SESSION.")
    enable_explanations: str | None = _option("Expression for the explainer (not for streams).")
    prefix_aware_id: str | None = _option("Routing hint: calls with one id share a prefix.")
    accept: str | None = _option("Wanted MIME type of the answer.")

    # Sampling
    temperature: float | None = _parameter("Randomness; 0 picks the likeliest token.")
    top_p: float | None = _parameter("Probability mass to sample from.")
    max_tokens: int | None = _parameter("Most tokens of an answer.")
    stop: str | list[str] | None = _parameter("Where to stop: one to four strings.")
    seed: int | None = _parameter("Seed for repeatable sampling.")
    n: int | None = _parameter("Answers per request; the first is the message, raw has all.")
    presence_penalty: float | None = _parameter("Penalty on tokens that occurred, -2 to 2.")
    frequency_penalty: float | None = _parameter("Penalty by how often a token occurred, -2 to 2.")
    logprobs: bool | int | None = _parameter("Return log probabilities.")
    top_logprobs: int | None = _parameter("How many alternatives per token; needs logprobs.")
    top_k: int | None = _parameter("How many tokens to sample from.")
    min_p: float | None = _parameter("Least probability, relative to the likeliest token.")
    repetition_penalty: float | None = _parameter("Penalty on repetition; above 1 discourages.")
    chat_template_kwargs: dict[str, Any] | None = _parameter("Arguments of the chat template.")
    structured_outputs: dict[str, Any] | None = _parameter("vLLM's regex, choice, grammar or json.")
    extra_body: dict[str, Any] | None = _parameter("Any other parameters of the request body.")
    additional_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="Further parameters of every request, LlamaIndex's name for extra_body.",
    )

    # Transport
    timeout: float = Field(
        default=70.0, description="Seconds to wait for an answer, or between parts of a stream."
    )
    connect_timeout: float = Field(default=10.0, description="Seconds to wait for a connection.")
    max_retries: int = Field(default=2, description="How often a failed request is sent again.")
    max_concurrency: int = Field(
        default=64, description="Connections, and asynchronous calls in flight, at most."
    )
    cold_start_timeout: float = Field(
        default=0.0, description="Seconds to keep trying while the model is not ready."
    )
    retry_on_timeout: bool = Field(
        default=False, description="Send a request again after a read timeout."
    )
    async_inference: AsyncInferenceConfig | None = Field(
        default=None, description="Run chat and complete through InvokeEndpointAsync and S3."
    )

    # What the model behind the endpoint can do
    context_window: int = Field(
        default=DEFAULT_CONTEXT_WINDOW, gt=0, description="Tokens of prompt and answer together."
    )
    is_chat_model: bool = Field(
        default=True, description="Call the chat API; else vLLM's text completion."
    )
    is_function_calling_model: bool = Field(
        default=True, description="The server parses tool calls (--tool-call-parser)."
    )
    should_use_structured_outputs: bool = Field(
        default=True,
        description="Predict structured objects by response_format; else by tool calls.",
    )
    merge_consecutive_messages: bool = Field(
        default=False,
        description="Join neighbouring messages of one role, for templates that must alternate.",
    )
    send_names: bool = Field(
        default=True,
        description="Send a message's additional_kwargs['name']; Mistral's tokenizer refuses it.",
    )

    _client: SageMakerVLLMClient = PrivateAttr()
    _async_client: AsyncSageMakerVLLMClient = PrivateAttr()
    _session_expires: datetime | None = PrivateAttr(default=None)

    def __init__(self, **settings: Any) -> None:
        """Check every setting before anything is connected.

        Raises:
            ConfigurationError: A setting is unknown, of a wrong type or out of its range, or
                `max_tokens` exceeds `context_window`.
        """
        # vLLM's parameters that are no field are parameters all the same; others are refused.
        fields = type(self).model_fields
        others = {name: value for name, value in settings.items() if name not in fields}
        split_keywords(others, kind="chat", extra=fields)
        if others:
            given = settings.get("additional_kwargs") or {}
            settings = {k: v for k, v in settings.items() if k in fields}
            settings["additional_kwargs"] = {**given, **others}
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigurationError(_explained(error)) from None  # it quotes all input, keys too
        self._options()
        self._check_parameters()
        self._connect()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field; another connection setting makes other clients."""
        super().__setattr__(name, value)
        if name in _CONNECTED_BY:
            self._connect()

    def __getstate__(self) -> dict[Any, Any]:
        """Pickle the settings. The base class would drop what cannot be pickled, silently."""
        pickle.dumps(self._client)  # raises a clear error for a given client
        return super().__getstate__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy the settings; a given client is shared."""
        return super().__deepcopy__({**(memo or {}), id(self.client): self.client})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the model, with some fields changed; the copy has its own connections."""
        copied = super().model_copy(update=update, deep=deep)
        copied._connect()  # noqa: SLF001 - of its own class
        return copied

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex plans prompts and agents by."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or DEFAULT_NUM_OUTPUTS,
            is_chat_model=self.is_chat_model,
            is_function_calling_model=self.is_chat_model and self.is_function_calling_model,
            model_name=self.model,
        )

    @property
    def session_expires(self) -> datetime | None:
        """When the stateful session of this model ends by itself, if the container said so."""
        return self._session_expires

    @contextmanager
    def session(self) -> Iterator[Self]:
        """Open a stateful session of the container; it is closed at the end of the `with` block.

        Yields:
            A copy of the model, every call of which belongs to the session.
        """
        with self._client.session(options=self._options()) as session:
            yield self._in_session(session)

    @asynccontextmanager
    async def asession(self) -> AsyncIterator[Self]:
        """Open a stateful session for an `async with` block; see `session`."""
        async with self._async_client.session(options=self._options()) as session:
            yield self._in_session(session)

    def _in_session(self, session: StatefulSession) -> Self:
        copied = self.model_copy(update={"session_id": session.session_id})
        private = {"_client": self._client, "_async_client": self._async_client}
        for name, value in (private | {"_session_expires": session.expires}).items():
            setattr(copied, name, value)
        return copied

    def close(self) -> None:
        """Close the connections of the synchronous calls; a later call opens new ones."""
        self._client.close()

    async def aclose(self) -> None:
        """Close the connections of the asynchronous calls; a later call opens new ones."""
        await self._async_client.aclose()

    def _connect(self) -> None:
        values = {name: getattr(self, name) for name in _CONNECTION}
        secrets = {name: getattr(self, name) for name in _SECRETS}
        values |= {name: secret.get_secret_value() for name, secret in secrets.items() if secret}
        config = EndpointConfig(**values)
        shared = {"client": self.client, "async_inference": self.async_inference}
        # Written past `__setattr__`, which is what calls this.
        self.__dict__["endpoint_name"] = config.endpoint_name
        self._client = SageMakerVLLMClient(config, **shared)
        self._async_client = AsyncSageMakerVLLMClient(config, **shared)

    def _options(self) -> InvocationOptions:
        fields = OPTION_NAMES & type(self).model_fields.keys()
        return InvocationOptions(**{name: getattr(self, name) for name in fields})

    def _parameters(self) -> dict[str, Any]:
        """Return the parameters of every request; what is unset is `None`."""
        own = {name: getattr(self, name) for name in _SAMPLING}
        if not self.is_chat_model:
            # A text completion counts its logprobs, and knows no chat template.
            tops = own.pop("top_logprobs")
            del own["chat_template_kwargs"]
            if isinstance(self.logprobs, bool):
                own["logprobs"] = (tops or 0) if self.logprobs else None
        return own | self.additional_kwargs | (self.extra_body or {})

    def _check_parameters(self) -> None:
        """Check now what else the first call would."""
        parameters = merge_parameters(self._parameters())
        self._check_limit(parameters)
        # The tools come with a call.
        parameters.pop("tool_choice", None)
        if self.is_chat_model:
            chat_request([{"role": "user", "content": "-"}], parameters=parameters)
        else:
            text_request("-", parameters=parameters)

    def _check_limit(self, parameters: Mapping[str, Any]) -> None:
        for name in ("max_tokens", "max_completion_tokens"):
            limit = parameters.get(name)
            if isinstance(limit, int) and limit > self.context_window:
                raise ConfigurationError(
                    f"{name}={limit} is more than context_window={self.context_window}: lower it, "
                    "or set context_window to what the model takes."
                )


def _explained(error: ValidationError) -> str:
    """Say which settings are wrong, without the values of secrets and without long ones."""
    wrong = []
    for each in error.errors(include_context=False, include_url=False):
        name, value = ".".join(map(str, each["loc"])), repr(each["input"])
        shown = "" if name in _SECRETS or len(value) > _MOST_SHOWN else f"={value}"
        wrong.append(f"{name}{shown}: {each['msg']}.")
    return " ".join(wrong)
