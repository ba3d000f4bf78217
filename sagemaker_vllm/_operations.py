"""The operations of SageMaker Runtime: their members, and which options each takes (pure)."""

from collections.abc import Collection
from typing import Any, Literal

from sagemaker_vllm._config import EndpointConfig, InvocationOptions
from sagemaker_vllm._errors import ConfigurationError

Operation = Literal["InvokeEndpoint", "InvokeEndpointWithResponseStream", "InvokeEndpointAsync"]

METHODS: dict[Operation, str] = {
    "InvokeEndpoint": "invoke_endpoint",
    "InvokeEndpointWithResponseStream": "invoke_endpoint_with_response_stream",
    "InvokeEndpointAsync": "invoke_endpoint_async",
}
_MEMBERS = {
    "inference_component_name": "InferenceComponentName",
    "target_variant": "TargetVariant",
    "target_model": "TargetModel",
    "target_container_hostname": "TargetContainerHostname",
    "custom_attributes": "CustomAttributes",
    "inference_id": "InferenceId",
    "session_id": "SessionId",
    "enable_explanations": "EnableExplanations",
    "prefix_aware_id": "PrefixAwareId",
    "accept": "Accept",
}
# botocore's service model of 1.44.
_NOT_TAKEN: dict[Operation, frozenset[str]] = {
    "InvokeEndpoint": frozenset(),
    "InvokeEndpointWithResponseStream": frozenset({"target_model", "enable_explanations"}),
    "InvokeEndpointAsync": frozenset(_MEMBERS) - {"custom_attributes", "inference_id", "accept"},
}
NEW_SESSION = "NEW_SESSION"
# The first botocore whose service model holds a member that our oldest one lacks.
_SINCE = {
    "S3OutputPathExtension": "1.42.54",
    "Filename": "1.42.54",
    "PrefixAwareId": "1.43.68",
}


def arguments(
    operation: Operation, config: EndpointConfig, options: InvocationOptions, body: bytes
) -> dict[str, Any]:
    """Return the members of a call, named as boto3 names them.

    Raises:
        ConfigurationError: An option that the operation does not take.
    """
    given = options.as_dict()
    for name in sorted(given.keys() & _NOT_TAKEN[operation]):
        takers = [each for each, refused in _NOT_TAKEN.items() if name not in refused]
        message = (
            f"{name}={given[name]!r}: {operation} does not take {_MEMBERS[name]}; only "
            f"{' and '.join(takers)} can take it. Leave it out, or make the other kind of call."
        )
        raise ConfigurationError(message)
    if operation == "InvokeEndpointWithResponseStream" and given.get("session_id") == NEW_SESSION:
        message = (
            "session_id='NEW_SESSION': a stream cannot create a session. Create it with a plain "
            "call, then pass its id."
        )
        raise ConfigurationError(message)
    members = {_MEMBERS[name]: value for name, value in given.items()}
    return {
        "EndpointName": config.endpoint_name,
        "ContentType": "application/json",
        "Body": body,
        **members,
    }


def check_members(operation: Operation, given: Collection[str], known: Collection[str]) -> None:
    """Check the call's members against those that the installed botocore knows.

    Raises:
        ConfigurationError: It names the member and the cure.
    """
    for member in given:
        if member not in known:
            since = _SINCE.get(member)
            needed = f"; it needs botocore {since} or newer" if since else ""
            message = (
                f"The installed botocore does not know {member} of {operation}{needed}. Upgrade "
                "with `pip install -U boto3`."
            )
            raise ConfigurationError(message)
