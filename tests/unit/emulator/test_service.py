"""The rules of SageMaker Runtime, seen through boto3 and through bare HTTP."""

import http.client
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from sagemaker_vllm.emulator import (
    ContainerFault,
    Emulator,
    Hang,
    JSONReply,
    Reply,
    ServiceFault,
    StreamReply,
    sse,
)

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
SIGNED = {
    "Authorization": (
        "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/sagemaker/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=0"
    ),
    "X-Amz-Date": "20260101T000000Z",
}
DIRECT = ["invoke_endpoint", "invoke_endpoint_with_response_stream"]


def call(runtime: Any, operation: str = "invoke_endpoint", **members: Any) -> Any:
    members = {"EndpointName": "emulated", "ContentType": "application/json", **members}
    members.setdefault("Body", json.dumps(CHAT))
    return getattr(runtime, operation)(**members)


def refused(runtime: Any, operation: str = "invoke_endpoint", **members: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(runtime, operation, **members)
    response: dict[str, Any] = dict(caught.value.response)
    return response


def read(response: Any) -> bytes:
    """Read the body of either operation."""
    body = response["Body"]
    if hasattr(body, "read"):
        plain: bytes = body.read()
        return plain
    return b"".join(event["PayloadPart"]["Bytes"] for event in body)


def post(
    emulator: Emulator,
    headers: dict[str, str],
    path: str = "/endpoints/emulated/invocations",
    body: bytes = b"{}",
) -> tuple[http.client.HTTPResponse, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(emulator.url).netloc)
    try:
        connection.request("POST", path, body=body, headers=headers)
        response = connection.getresponse()
        return response, json.loads(response.read() or b"{}")
    finally:
        connection.close()


@pytest.mark.parametrize("operation", DIRECT)
def test_answer_carries_the_members_of_the_service(
    emulator: Emulator, runtime: Any, operation: str
) -> None:
    emulator.enqueue(Reply("Hello"))

    response = call(runtime, operation, CustomAttributes="trace=1", TargetVariant="blue")

    assert b"Hello" in read(response)
    assert response["InvokedProductionVariant"] == "blue"
    assert response["CustomAttributes"] == "trace=1"
    assert len(response["ResponseMetadata"]["RequestId"]) == 36
    assert response["ContentType"] == "application/json"


def test_stream_names_the_content_type_of_the_container(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(StreamReply(b"{}\n", content_type="application/jsonlines"))

    response = call(runtime, "invoke_endpoint_with_response_stream")

    assert response["ContentType"] == "application/jsonlines"
    assert response["ResponseMetadata"]["HTTPHeaders"]["content-type"] == (
        "application/vnd.amazon.eventstream"
    )
    assert read(response) == b"{}\n"


def test_variant_has_the_default_name_of_the_service(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(Reply("x"))

    assert call(runtime)["InvokedProductionVariant"] == "AllTraffic"


def test_requests_are_recorded_refused_ones_too(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(Reply("x"))

    call(runtime, InferenceId="abc")
    refused(runtime, EndpointName="other")

    first, second = emulator.requests
    assert first.operation == "InvokeEndpoint"
    assert first.headers["x-amzn-sagemaker-INFERENCE-id"] == "abc"
    assert first.json == CHAT
    assert second.endpoint_name == "other"
    assert "Hi" not in repr(first)


@pytest.mark.parametrize("operation", DIRECT)
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_error_of_the_container_is_a_model_error(
    emulator: Emulator, runtime: Any, operation: str, status: int
) -> None:
    body = {"error": {"message": "no", "code": status}}
    emulator.enqueue(ContainerFault(status, body))

    response = refused(runtime, operation)

    side = "client" if status < 500 else "server"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert response["Error"]["Code"] == "ModelError"
    assert response["OriginalStatusCode"] == status
    assert json.loads(response["OriginalMessage"]) == body
    assert response["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/emulated")
    assert response["Message"].startswith(
        f'Received {side} error ({status}) from primary with message "{{"error":'
    )
    assert response["Message"].endswith("in account 000000000000 for more information.")
    assert "https://eu-west-1.console.aws.amazon.com/" in response["Message"]


def test_original_message_is_cut_at_2048_characters(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(ContainerFault(400, "é" * 3000))

    assert refused(runtime)["OriginalMessage"] == "é" * 2048


@pytest.mark.parametrize("operation", DIRECT)
def test_fault_of_the_service_keeps_code_status_message_and_headers(
    emulator: Emulator, runtime: Any, operation: str
) -> None:
    fault = ServiceFault("ThrottlingException", 400, "Rate exceeded", headers={"x-why": "rate"})
    emulator.enqueue(fault)

    response = refused(runtime, operation)

    assert response["Error"] == {"Code": "ThrottlingException", "Message": "Rate exceeded"}
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert response["ResponseMetadata"]["HTTPHeaders"]["x-why"] == "rate"
    assert len(response["ResponseMetadata"]["RequestId"]) == 36


def test_other_endpoint_is_not_found(runtime: Any) -> None:
    response = refused(runtime, EndpointName="other")

    assert response["Error"] == {
        "Code": "ValidationError",
        "Message": "Endpoint other of account 000000000000 not found.",
    }


def test_body_above_six_mebibytes_is_too_large(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(JSONReply({}))

    response = refused(runtime, Body=b" " * (6_291_456 + 1))

    assert response["ResponseMetadata"]["HTTPStatusCode"] == 413
    assert response["Error"]["Code"] == "413"
    assert call(runtime, Body=b" " * 6_291_456)["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ({"CustomAttributes": "x" * 1025}, "customAttributes"),
        ({"TargetVariant": "x" * 64}, "targetVariant"),
        ({"InferenceComponentName": "x" * 64}, "inferenceComponentName"),
    ],
)
def test_option_above_its_length_is_a_validation_error(
    runtime: Any, members: dict[str, str], name: str
) -> None:
    response = refused(runtime, **members)

    assert response["Error"]["Code"] == "ValidationError"
    assert f"'{name}'" in response["Error"]["Message"]


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("invocations-response-stream", "X-Amzn-SageMaker-Target-Model"),
        ("invocations-response-stream", "X-Amzn-SageMaker-Enable-Explanations"),
        ("async-invocations", "X-Amzn-SageMaker-Session-Id"),
        ("async-invocations", "X-Amzn-SageMaker-Inference-Component"),
        ("invocations", "X-Amzn-SageMaker-InputLocation"),
        ("invocations", "X-Amzn-SageMaker-Nonsense"),
    ],
)
def test_option_that_the_operation_does_not_take_is_refused(
    emulator: Emulator, path: str, header: str
) -> None:
    response, body = post(emulator, SIGNED | {header: "x"}, f"/endpoints/emulated/{path}")

    assert response.status == 400
    assert response.headers["x-amzn-ErrorType"] == "ValidationError"
    assert f"does not take the header {header.lower()}" in body["Message"]


def test_stream_cannot_create_a_session(runtime: Any) -> None:
    response = refused(runtime, "invoke_endpoint_with_response_stream", SessionId="NEW_SESSION")

    assert response["Error"]["Code"] == "ValidationError"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MissingAuthenticationTokenException"),
        ({"Authorization": "Bearer x"}, "IncompleteSignatureException"),
        ({"Authorization": SIGNED["Authorization"]}, "IncompleteSignatureException"),
        (
            SIGNED | {"Authorization": SIGNED["Authorization"].replace("/sagemaker/", "/s3/")},
            "IncompleteSignatureException",
        ),
    ],
)
def test_request_without_a_whole_signature_is_refused(
    emulator: Emulator, headers: dict[str, str], code: str
) -> None:
    response, body = post(emulator, headers)

    assert response.status == 403
    assert response.headers["x-amzn-ErrorType"] == code
    assert body["Message"]


@pytest.mark.parametrize("path", ["/", "/endpoints/emulated/other", "/endpoints//invocations"])
def test_unknown_path_is_an_unknown_operation(emulator: Emulator, path: str) -> None:
    response, _ = post(emulator, SIGNED, path)

    assert response.status == 404
    assert response.headers["x-amzn-ErrorType"] == "UnknownOperationException"
    assert emulator.requests == []


@pytest.mark.parametrize("operation", DIRECT)
def test_container_that_does_not_answer_in_time_is_a_model_error(
    connect: Callable[..., Any], operation: str
) -> None:
    with Emulator(script=[Hang(60)], invocation_timeout=0.05) as emulator:
        response = refused(connect(emulator), operation)

    assert response["OriginalStatusCode"] == 0
    assert response["Message"].startswith("Received server error (0) from primary")
    assert "timed out while waiting for a response" in response["OriginalMessage"]


def test_plain_answer_that_comes_too_slowly_is_a_model_error(connect: Callable[..., Any]) -> None:
    slow = StreamReply([b"x"] * 1000, delay=0.01)

    with Emulator(script=[slow], invocation_timeout=0.05) as emulator:
        response = refused(connect(emulator))

    assert response["OriginalStatusCode"] == 0


def test_stream_may_take_longer_than_a_plain_answer(connect: Callable[..., Any]) -> None:
    slow = StreamReply([b"x"] * 10, delay=0.02)

    with Emulator(script=[slow], invocation_timeout=0.1) as emulator:
        response = call(connect(emulator), "invoke_endpoint_with_response_stream")

        assert read(response) == b"x" * 10


def test_hang_ends_with_the_timeout_of_the_service(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(Hang(0.01))

    assert refused(runtime)["OriginalStatusCode"] == 0


def test_stream_flag_decides_what_the_container_sends(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(Reply("Hi"), Reply("Hi"))
    streamed = json.dumps(CHAT | {"stream": True})

    assert read(call(runtime, Body=streamed)).startswith(b"data: {")
    assert read(call(runtime, "invoke_endpoint_with_response_stream")).startswith(b'{"id"')


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_body_that_is_no_json_object_is_refused_by_the_container(
    emulator: Emulator, runtime: Any, body: bytes
) -> None:
    emulator.enqueue(Reply("x"))

    assert refused(runtime, Body=body)["OriginalStatusCode"] == 400


def test_raw_stream_of_the_container_is_the_plain_body(emulator: Emulator, runtime: Any) -> None:
    emulator.enqueue(StreamReply(sse({"a": 1})))

    assert read(call(runtime)) == b'data: {"a":1}\n\ndata: [DONE]\n\n'
