"""The constructor that both clients share: settings, copies and pickles."""

import pickle
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from sagemaker_vllm._async_inference import AsyncInferenceConfig
from sagemaker_vllm._config import EndpointConfig, InvocationOptions, reject_unknown
from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm._operations import Operation, arguments
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._request import prepare
from sagemaker_vllm._results import InvocationMetadata
from sagemaker_vllm._retry import RetryPolicy
from sagemaker_vllm._s3 import S3Storage

_FIELDS = frozenset(each.name for each in fields(EndpointConfig))


class Configured:
    """Holds what a client was made with, and can be copied and pickled by it."""

    def __init__(
        self,
        config: EndpointConfig | None = None,
        *,
        client: Any = None,
        async_inference: AsyncInferenceConfig | None = None,
        **settings: Any,
    ) -> None:
        """Keep the settings; nothing is connected before the first call.

        Args:
            config: Where and how to call.
            client: A ready boto3 `sagemaker-runtime` client; every call goes through it.
            async_inference: An `AsyncInferenceConfig`: plain calls run through
                InvokeEndpointAsync and S3.
            settings: Fields of `EndpointConfig`, when `config` is not given.

        Raises:
            ConfigurationError: An unknown or wrong setting, or settings beside `config`.
        """
        if config is not None and settings:
            message = f"Pass config or single settings, not both: {', '.join(sorted(settings))}."
            raise ConfigurationError(message)
        reject_unknown(settings, _FIELDS, of=type(self).__name__)
        self.config = config or EndpointConfig(**settings)
        self._given_client = client
        if not isinstance(async_inference, AsyncInferenceConfig | None):
            message = (
                f"async_inference={async_inference!r} must be an "
                "AsyncInferenceConfig(input_s3_uri='s3://bucket/prefix/')."
            )
            raise ConfigurationError(message)
        self._async_inference = async_inference
        region_name = getattr(getattr(client, "meta", None), "region_name", None)
        self._s3 = S3Storage(
            self.config,
            url=async_inference.s3_endpoint_url if async_inference else None,
            region_name=region_name if isinstance(region_name, str) else None,
        )

    def __repr__(self) -> str:
        """Show the settings, without secrets."""
        return f"{type(self).__name__}({self.config!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings; the copy connects by itself."""
        if self._given_client is not None:
            try:
                pickle.dumps(self._given_client)
            except Exception as error:  # whatever a foreign object raises when it cannot be pickled
                message = (
                    "client: a ready boto3 client cannot be pickled. Pass region_name, "
                    "credentials_profile_name or endpoint_url, and let every process build its own."
                )
                raise ConfigurationError(message) from error
        return _rebuild, (type(self), self.config, self._given_client, self._async_inference)

    def __copy__(self) -> Self:
        """Copy the settings; the copy connects by itself."""
        return type(self)(
            self.config, client=self._given_client, async_inference=self._async_inference
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the settings, which never change; a given client is shared."""
        return self.__copy__()

    @property
    def _plain_operation(self) -> Operation:
        return "InvokeEndpointAsync" if self._async_inference else "InvokeEndpoint"

    def _policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_retries=self.config.max_retries,
            cold_start_timeout=self.config.cold_start_timeout,
            retry_on_timeout=self.config.retry_on_timeout,
        )

    def _arguments(
        self,
        operation: Operation,
        kind: RequestKind,
        request: dict[str, Any],
        options: InvocationOptions | None,
        *,
        include_usage: bool = False,
    ) -> dict[str, Any]:
        """Check a call wholly, before anything is sent."""
        stream = operation == "InvokeEndpointWithResponseStream"
        if stream and self._async_inference:
            message = (
                "async_inference: an asynchronous inference cannot stream. Make the plain call, or "
                "use a client without async_inference."
            )
            raise ConfigurationError(message)
        body = prepare(
            request,
            kind=kind,
            model=self.config.model,
            stream=stream,
            include_usage=include_usage,
            is_limited=operation != "InvokeEndpointAsync",
        )
        return arguments(operation, self.config, options or InvocationOptions(), body)

    def _session_arguments(self, options: InvocationOptions, body: bytes) -> dict[str, Any]:
        if self._async_inference:
            message = (
                "async_inference: an asynchronous inference takes no session. Use a client without "
                "async_inference."
            )
            raise ConfigurationError(message)
        return arguments("InvokeEndpoint", self.config, options, body)

    def _metadata(self, output: Mapping[str, Any], call: Mapping[str, Any]) -> InvocationMetadata:
        return InvocationMetadata.from_output(
            output,
            endpoint_name=self.config.endpoint_name,
            inference_id=call.get("InferenceId"),
        )


def _rebuild(cls: Any, config: EndpointConfig, client: Any, async_inference: Any) -> Any:
    return cls(config, client=client, async_inference=async_inference)
