"""Options against operations, and members against the installed botocore."""

import pytest

from sagemaker_vllm import ConfigurationError, EndpointConfig, InvocationOptions
from sagemaker_vllm._config import OPTION_NAMES
from sagemaker_vllm._operations import Operation, arguments, check_members

CONFIG = EndpointConfig(endpoint_name="e")
EVERY = dict.fromkeys(OPTION_NAMES, "x")

# What botocore's service model of 1.44.8 says.
NOT_TAKEN: list[tuple[Operation, set[str]]] = [
    ("InvokeEndpoint", set()),
    ("InvokeEndpointWithResponseStream", {"target_model", "enable_explanations"}),
    (
        "InvokeEndpointAsync",
        set(OPTION_NAMES) - {"accept", "custom_attributes", "inference_id"},
    ),
]


@pytest.mark.parametrize(
    ("operation", "refused"),
    NOT_TAKEN,
    ids=lambda each: " ".join(sorted(each)) if isinstance(each, set) else each,
)
@pytest.mark.parametrize("option", sorted(OPTION_NAMES))
def test_option_is_checked_against_the_operation(
    operation: Operation, refused: set[str], option: str
) -> None:
    options = InvocationOptions(**{option: "x"})

    if option in refused:
        with pytest.raises(ConfigurationError, match=f"{option}='x': {operation} does not take"):
            arguments(operation, CONFIG, options, b"")
    else:
        assert "x" in arguments(operation, CONFIG, options, b"").values()


def test_every_option_becomes_the_member_of_the_api() -> None:
    assert arguments("InvokeEndpoint", CONFIG, InvocationOptions(**EVERY), b"{}") == {
        "EndpointName": "e",
        "ContentType": "application/json",
        "Body": b"{}",
        "Accept": "x",
        "CustomAttributes": "x",
        "EnableExplanations": "x",
        "InferenceComponentName": "x",
        "InferenceId": "x",
        "PrefixAwareId": "x",
        "SessionId": "x",
        "TargetContainerHostname": "x",
        "TargetModel": "x",
        "TargetVariant": "x",
    }


def test_error_names_the_operations_that_take_the_option() -> None:
    options = InvocationOptions(target_model="m.tar.gz")

    with pytest.raises(ConfigurationError, match="only InvokeEndpoint can take it"):
        arguments("InvokeEndpointWithResponseStream", CONFIG, options, b"")


def test_stream_cannot_create_a_session() -> None:
    options = InvocationOptions(session_id="NEW_SESSION")

    with pytest.raises(ConfigurationError, match="a stream cannot create a session"):
        arguments("InvokeEndpointWithResponseStream", CONFIG, options, b"")

    assert arguments("InvokeEndpoint", CONFIG, options, b"")["SessionId"] == "NEW_SESSION"


@pytest.mark.parametrize(
    ("member", "since"),
    [
        ("PrefixAwareId", "1.43.68"),
        ("Filename", "1.42.54"),
        ("S3OutputPathExtension", "1.42.54"),
    ],
)
def test_member_that_an_older_botocore_lacks_names_the_version(member: str, since: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{member} of InvokeEndpoint; .* {since}"):
        check_members("InvokeEndpoint", [member], {"Body"})


def test_member_that_no_botocore_knows_is_refused_all_the_same() -> None:
    with pytest.raises(ConfigurationError, match="does not know Other"):
        check_members("InvokeEndpoint", ["Body", "Other"], {"Body"})
