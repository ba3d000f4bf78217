"""Where and how to call, and SageMaker's options per call: two frozen records."""

import difflib
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Self

from sagemaker_vllm._errors import ConfigurationError

_MAX_NAME = 63


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean …?` for the known word nearest to `word`, or nothing."""
    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" Did you mean {found[0]!r}?" if found else ""


def reject_unknown(given: Collection[str], known: Collection[str], *, of: str) -> None:
    """Raise for the first name in `given` that is not in `known`.

    Raises:
        ConfigurationError: It names the keyword and the nearest known one.
    """
    for name in given:
        if name not in known:
            message = f"{of} does not know the keyword {name!r}.{nearest(name, known)}"
            raise ConfigurationError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConfig:
    """Where the endpoint is and how to call it.

    Attributes:
        endpoint_name: Name of the endpoint; by default the environment's `SAGEMAKER_ENDPOINT_NAME`.
        model: `model` of the request body. SageMaker mounts the model at `/opt/ml/model`.
        region_name: AWS region; by default boto3's own rules.
        credentials_profile_name: Profile of the shared AWS files.
        aws_access_key_id: Access key; prefer roles and profiles.
        aws_secret_access_key: Secret key.
        aws_session_token: Session token of temporary credentials.
        endpoint_url: Base URL in place of AWS's; by default `AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME`.
        timeout: Seconds to wait for the answer, or between two parts of a stream. A container has
            60 s, so AWS advises 70 s (spec/sagemaker-runtime-api).
        connect_timeout: Seconds to wait for the connection.
        max_retries: How often a failed request is sent again.
        max_concurrency: Connections, and asynchronous calls in flight, at most.
        cold_start_timeout: Seconds to keep trying while the model is not ready or the endpoint
            scales from zero.
        retry_on_timeout: Send the request again after a read timeout, though the first answer may
            have been made and billed.

    Raises:
        ConfigurationError: No endpoint name, or a value out of its range.
    """

    endpoint_name: str = ""
    model: str = "/opt/ml/model"
    region_name: str | None = None
    credentials_profile_name: str | None = None
    aws_access_key_id: str | None = field(default=None, repr=False)
    aws_secret_access_key: str | None = field(default=None, repr=False)
    aws_session_token: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None
    timeout: float = 70.0
    connect_timeout: float = 10.0
    max_retries: int = 2
    max_concurrency: int = 64
    cold_start_timeout: float = 0.0
    retry_on_timeout: bool = False

    def __post_init__(self) -> None:
        """Fill the endpoint's name from the environment and check every value."""
        name = self.endpoint_name or os.environ.get("SAGEMAKER_ENDPOINT_NAME", "")
        if not name:
            message = (
                "endpoint_name is missing: pass endpoint_name='my-endpoint' or set the environment "
                "variable SAGEMAKER_ENDPOINT_NAME."
            )
            raise ConfigurationError(message)
        _check_name("endpoint_name", name)
        object.__setattr__(self, "endpoint_name", name)
        _check_at_least(0, self, ("max_retries", "cold_start_timeout"))
        _check_at_least(1, self, ("max_concurrency",))
        for setting in ("timeout", "connect_timeout"):
            if not getattr(self, setting) > 0:
                value = getattr(self, setting)
                message = f"{setting}={value!r} must be more than 0 seconds."
                raise ConfigurationError(message)
        if bool(self.aws_access_key_id) != bool(self.aws_secret_access_key):
            message = (
                "aws_access_key_id and aws_secret_access_key belong together: pass both, or "
                "neither to use boto3's own credential search."
            )
            raise ConfigurationError(message)
        if self.aws_session_token and not self.aws_access_key_id:
            message = "aws_session_token needs aws_access_key_id and aws_secret_access_key."
            raise ConfigurationError(message)


def _check_at_least(least: int, config: EndpointConfig, names: Iterable[str]) -> None:
    for name in names:
        value = getattr(config, name)
        if not value >= least:
            message = f"{name}={value!r} must be at least {least}."
            raise ConfigurationError(message)


def _check_name(argument: str, value: str) -> None:
    allowed = value.isascii() and value.replace("-", "").isalnum()
    if not allowed or len(value) > _MAX_NAME:
        message = (
            f"{argument}={value!r} must be 1 to {_MAX_NAME} letters, digits and hyphens: the "
            "name, not the ARN or a URL."
        )
        raise ConfigurationError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationOptions:
    """SageMaker's options for a call; what is `None` is not sent.

    Attributes:
        inference_component_name: Inference component (or adapter component) to invoke.
        target_variant: Production variant, in place of the weighted choice.
        target_model: Model of a multi-model endpoint (not for streams).
        target_container_hostname: Container of a multi-container endpoint with direct invocation.
        custom_attributes: Opaque text for the container, at most 1,024 visible ASCII characters.
        inference_id: Id kept with captured data, at most 64 characters.
        session_id: Stateful session, or `NEW_SESSION`.
        enable_explanations: JMESPath expression for the explainer (not for streams).
        prefix_aware_id: Routing hint: calls with the same id share a prefix.
        accept: Wanted MIME type of the answer.

    Raises:
        ConfigurationError: A value breaks a limit of the API (spec/sagemaker-runtime-api).
    """

    inference_component_name: str | None = None
    target_variant: str | None = None
    target_model: str | None = None
    target_container_hostname: str | None = None
    custom_attributes: str | None = None
    inference_id: str | None = None
    session_id: str | None = None
    enable_explanations: str | None = None
    prefix_aware_id: str | None = None
    accept: str | None = None

    def __post_init__(self) -> None:
        """Check the limits that the service would otherwise answer with a bare 400."""
        given: Mapping[str, object] = self.as_dict()
        for name, value in given.items():
            if not isinstance(value, str) or not value:
                message = f"{name}={value!r} must be a non-empty string (None leaves it out)."
                raise ConfigurationError(message)
            _check_limit(name, value)

    def merged(self, other: "InvocationOptions | None") -> Self:
        """Return these options with the set ones of `other` in their place."""
        changed = other.as_dict() if other else {}
        return replace(self, **changed) if changed else self

    def as_dict(self) -> dict[str, str]:
        """Return the options that are set."""
        given = zip(self.__slots__, _option_values(self), strict=True)
        return {name: value for name, value in given if value is not None}


# `fields()` at each call takes ten times as long.
_option_values = attrgetter(*InvocationOptions.__slots__)
OPTION_NAMES = frozenset(InvocationOptions.__slots__)
"""Names of all options, for adapters that sort keywords."""

# Longest value of each option, in characters (botocore's service model; wire facts B1.1).
_LIMITS = {
    "inference_component_name": _MAX_NAME,
    "target_variant": _MAX_NAME,
    "target_model": 1024,
    "target_container_hostname": _MAX_NAME,
    "custom_attributes": 1024,
    "inference_id": 64,
    "session_id": 256,
    "enable_explanations": 64,
    "prefix_aware_id": 64,
    "accept": 1024,
}


def _check_limit(name: str, value: str) -> None:
    limit = _LIMITS[name]
    if len(value) > limit:
        message = f"{name} has {len(value)} characters; SageMaker takes at most {limit}."
        raise ConfigurationError(message)
    # RFC 7230: a header value; SageMaker takes visible ASCII (and blanks between) only.
    if not (value.isascii() and value.isprintable()) or value != value.strip():
        # The API marks custom attributes as sensitive.
        shown = name if name == "custom_attributes" else f"{name}={value!r}"
        message = (
            f"{shown} must be visible ASCII without blanks at its ends: it travels as an HTTP "
            "header. Encode other text first (percent or base64 encoding)."
        )
        raise ConfigurationError(message)
