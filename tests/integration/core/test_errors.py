"""Every failure of SageMaker, the container and the network: its class, its facts, how often it is tried.

One table, held by both clients and by an asynchronous client on a user's boto3 client, plain and
streamed alike. Only the waits between tries are left out.
"""

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sagemaker_vllm import (
    APIError,
    AuthenticationError,
    ConnectionFailedError,
    ContextOverflowError,
    EndpointNotFoundError,
    InvalidRequestError,
    ModelNotReadyError,
    PayloadTooLargeError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeoutError,
    SageMakerVLLMError,
    ServerError,
    StreamDecodeError,
    StreamInterruptedError,
    chat_request,
)
from sagemaker_vllm.emulator import (
    ContainerFault,
    Cut,
    Emulator,
    ErrorMessageFault,
    Hang,
    InternalStreamFault,
    JSONReply,
    ModelStreamFault,
    Reply,
    ServiceFault,
    StreamReply,
    sse,
)
from tests.callers import CALLERS, Caller, Mode

ACCOUNT = "123456789012"
SECRETS = ("emulated-secret", "tell-nobody", ACCOUNT, "console.aws")
REQUEST = chat_request([{"role": "user", "content": "tell-nobody"}])

CONSOLE = f"See https://us-east-1.console.aws.amazon.com/cloudwatch in account {ACCOUNT}"
CONTEXT = "This model's maximum context length is 2048 tokens. However, you requested 4096 tokens"


def quoted(side: str, status: int, body: str) -> ServiceFault:
    """Make a ModelError that has the container's words in its message only."""
    message = f'Received {side} error ({status}) from primary with message "{body}". {CONSOLE}'
    return ServiceFault("ModelError", 424, f"{message} for more information.")


def nested(message: str, code: int, kind: str = "BadRequestError") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass(frozen=True)
class Case:
    """A failure before any chunk, and what becomes of it."""

    name: str
    reply: Any
    kind: type[APIError]
    status: int | None
    code: str
    tries: int = 1
    said: str = ""


SERVICE = [
    Case("throttled-400", ServiceFault("ThrottlingException", 400, "slow"), RateLimitError, 400, "ThrottlingException", 3, "slow"),
    Case("throttled-429", ServiceFault("ThrottlingException", 429, "slow"), RateLimitError, 429, "ThrottlingException", 3),
    Case("too-many", ServiceFault("TooManyRequestsException", 429), RateLimitError, 429, "TooManyRequestsException", 3),
    Case("untyped-429", ServiceFault("", 429), RateLimitError, 429, "429", 3),
    Case("not-ready", ServiceFault("ModelNotReadyException", 429, "loading"), ModelNotReadyError, 429, "ModelNotReadyException", 3, "cold_start_timeout"),
    Case("no-capacity", ServiceFault("ValidationError", 400, "Inference Component has no capacity to process this request."), ModelNotReadyError, 400, "ValidationError", 3, "cold_start_timeout"),
    Case("unavailable", ServiceFault("ServiceUnavailable", 503, "down"), ServerError, 503, "ServiceUnavailable", 3),
    Case("internal", ServiceFault("InternalFailure", 500), ServerError, 500, "InternalFailure", 3),
    Case("bad-gateway", ServiceFault("", 502), ServerError, 502, "502", 3),
    Case("gateway-timeout", ServiceFault("", 504), ServerError, 504, "504", 3),
    Case("dependency", ServiceFault("InternalDependencyException", 530, "kms"), ServerError, 530, "InternalDependencyException"),
    Case("invalid", ServiceFault("ValidationError", 400, "1 validation error detected"), InvalidRequestError, 400, "ValidationError", said="1 validation error"),
    Case("no-endpoint", ServiceFault("ValidationError", 400, f"Endpoint x of account {ACCOUNT} not found."), EndpointNotFoundError, 400, "ValidationError", said="region_name"),
    Case("no-variant", ServiceFault("ValidationError", 400, "Variant blue not found for Endpoint x"), EndpointNotFoundError, 400, "ValidationError"),
    Case("too-large", ServiceFault("", 413, "HTTP content length exceeded 6291456 bytes."), PayloadTooLargeError, 413, "413", said="6 MiB"),
    Case("oversize", ServiceFault("ValidationError", 400, "Request has an oversize body"), PayloadTooLargeError, 400, "ValidationError"),
    Case("denied", ServiceFault("AccessDeniedException", 403, f"User: arn:aws:iam::{ACCOUNT}:user/x is not authorized to perform: sagemaker:InvokeEndpoint"), PermissionDeniedError, 403, "AccessDeniedException", said="sagemaker:InvokeEndpoint"),
    Case("expired", ServiceFault("ExpiredTokenException", 403, "expired"), AuthenticationError, 403, "ExpiredTokenException", said="refresh"),
    Case("unknown-key", ServiceFault("UnrecognizedClientException", 403), AuthenticationError, 403, "UnrecognizedClientException"),
    Case("untyped-403", ServiceFault("", 403), PermissionDeniedError, 403, "403"),
    Case("redirected", ServiceFault("", 307, headers={"Location": "https://elsewhere.example"}), InvalidRequestError, 307, "307"),
    Case("unknown-code", ServiceFault("SomethingNew", 418, "teapot"), InvalidRequestError, 418, "SomethingNew", said="teapot"),
]  # fmt: skip
CONTAINER = [
    Case("context", ContainerFault(400, nested(CONTEXT, 400)), ContextOverflowError, 400, "BadRequestError", said="maximum context length"),
    Case("flat", ContainerFault(400, {"object": "error", "message": "bad n", "type": "BadRequestError", "param": None, "code": 400}), InvalidRequestError, 400, "BadRequestError", said="bad n"),
    Case("nested", ContainerFault(404, nested("The model `x` does not exist", 404, "NotFoundError")), EndpointNotFoundError, 404, "NotFoundError", said="does not exist"),
    Case("lmi", ContainerFault(424, {"code": 400, "error": "bad input"}), InvalidRequestError, 400, "ModelError", said="bad input"),
    Case("lmi-printed", ContainerFault(500, {"code": 500, "error": "{'error': {'message': \"no more than 4\", 'type': 'BadRequestError', 'param': None, 'code': 400}}"}), InvalidRequestError, 400, "ModelError", said="no more than 4"),
    Case("detail", ContainerFault(422, {"detail": "field required"}), InvalidRequestError, 422, "ModelError", said="field required"),
    Case("plain-text", ContainerFault(500, "Internal Server Error"), ServerError, 500, "ModelError", said="Internal Server Error"),
    Case("no-body", ContainerFault(500, ""), ServerError, 500, "ModelError"),
    Case("cut-json", ContainerFault(400, ('{"error":{"message":"Invalid schema: ' + "x" * 3000)[:2048]), InvalidRequestError, 400, "ModelError", said="Invalid schema"),
    Case("busy", ContainerFault(503, nested("queue is full", 503, "ServiceUnavailableError")), ServerError, 503, "ServiceUnavailableError", 3, "queue is full"),
    Case("bad-gateway-within", ContainerFault(502, "nginx"), ServerError, 502, "ModelError", 3),
    Case("timeout-within", ContainerFault(504, "nginx"), ServerError, 504, "ModelError", 3),
    Case("throttled-within", ContainerFault(429, nested("too many", 429)), RateLimitError, 429, "BadRequestError", 3),
    Case("quoted", quoted("client", 400, '{"error":{"message":"bad \\"top_p\\"","code":400}}'), InvalidRequestError, 400, "ModelError", said="top_p"),
    Case("quoted-server", quoted("server", 500, "boom"), ServerError, 500, "ModelError", said="boom"),
    Case("quoted-unread", ServiceFault("ModelError", 424, f"Received server error (500) from primary and could not load the entire response body. {CONSOLE} for more information."), ServerError, 500, "ModelError", said="could not load"),
    Case("container-timeout", quoted("server", 0, "Your invocation timed out while waiting for a response from container primary. Review the latency metrics"), RequestTimeoutError, None, "ModelError", said="60 seconds"),
    Case("hang", Hang(0.0), RequestTimeoutError, None, "ModelError", said="async_inference"),
]  # fmt: skip

THREE = [CALLERS[0], CALLERS[1], CALLERS[3]]

every_caller = pytest.mark.parametrize("caller", THREE, ids=lambda caller: caller.name)
every_mode = pytest.mark.parametrize("mode", ["chat", "stream_chat"])


class Endpoint:
    """An emulator that gives the same answer again and again."""

    def __init__(self) -> None:
        self.reply: Any = None
        self.emulator = Emulator(script=lambda _: self.reply)

    @property
    def requests(self) -> int:
        return len(self.emulator.requests)


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    with endpoint.emulator:
        yield endpoint


@pytest.fixture
def endpoint(shared: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    shared.emulator.requests.clear()
    environment = shared.emulator.environment() | {"AWS_SECRET_ACCESS_KEY": "emulated-secret"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return shared


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Take the waits between tries out of time, and keep them."""
    kept: list[float] = []

    async def sleep(seconds: float) -> None:
        kept.append(seconds)

    monkeypatch.setattr("sagemaker_vllm._client.sleep", kept.append)
    monkeypatch.setattr("sagemaker_vllm._async_client.sleep", sleep)
    return kept


def failed(caller: Caller, mode: Mode, **settings: Any) -> SageMakerVLLMError:
    """Make a call that fails, and check what holds of every error."""
    with pytest.raises(SageMakerVLLMError) as caught:
        caller.call(mode, request=REQUEST, **settings)
    error = caught.value
    told = f"{error} {error!r} {error.message}"
    assert [secret for secret in SECRETS if secret in told] == []
    assert error.endpoint_name == "emulated"
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  # made here
        assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))
    return error


@every_caller
@every_mode
@pytest.mark.parametrize("case", [*SERVICE, *CONTAINER], ids=lambda case: case.name)
def test_failure_before_any_answer(
    caller: Caller, mode: Mode, case: Case, endpoint: Endpoint, waits: list[float]
) -> None:
    endpoint.reply = case.reply

    error = failed(caller, mode)

    assert type(error) is case.kind
    assert (error.status_code, error.error_code) == (case.status, case.code)
    assert case.said in error.message
    assert error.request_id
    assert error.is_retryable is (case.tries > 1)
    assert error.partial is None
    assert endpoint.requests == case.tries
    assert len(waits) == case.tries - 1


@every_caller
@every_mode
def test_words_that_are_not_shown_are_in_the_body(
    caller: Caller, mode: Mode, endpoint: Endpoint
) -> None:
    endpoint.reply = quoted("client", 400, "bad")

    assert ACCOUNT in str(failed(caller, mode).body)


@every_caller
@every_mode
def test_number_of_tries_is_a_setting(caller: Caller, mode: Mode, endpoint: Endpoint) -> None:
    endpoint.reply = ServiceFault("ServiceUnavailable", 503)

    failed(caller, mode, max_retries=0)

    assert endpoint.requests == 1


@every_caller
@every_mode
def test_answer_after_failures_is_an_answer(
    caller: Caller, mode: Mode, endpoint: Endpoint, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator(
        [ServiceFault("Throttling", 429), ContainerFault(503, "busy"), Reply("at last")]
    )

    assert caller.call(mode).text == "at last"
    assert len(emulator.requests) == 3


# While the model loads


@every_caller
@every_mode
@pytest.mark.parametrize("name", ["not-ready", "no-capacity"])
def test_model_that_starts_is_waited_for(
    caller: Caller,
    mode: Mode,
    name: str,
    start_emulator: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
    waits: list[float],
) -> None:
    [case] = [each for each in SERVICE if each.name == name]
    emulator = start_emulator([case.reply] * 30 + [Reply("awake")])
    for module in ("_client", "_async_client"):
        monkeypatch.setattr(f"sagemaker_vllm.{module}.monotonic", lambda: sum(waits))

    completion = caller.call(mode, cold_start_timeout=600.0, max_retries=0)

    assert completion.text == "awake"
    assert len(emulator.requests) == 31


@every_caller
@every_mode
def test_wait_for_a_model_ends_at_the_time_given(
    caller: Caller,
    mode: Mode,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    waits: list[float],
) -> None:
    endpoint.reply = ServiceFault("ModelNotReadyException", 429, "loading")
    for module in ("_client", "_async_client"):
        monkeypatch.setattr(f"sagemaker_vllm.{module}.monotonic", lambda: sum(waits))

    error = failed(caller, mode, cold_start_timeout=100.0, max_retries=0)

    assert isinstance(error, ModelNotReadyError)
    assert sum(waits) == pytest.approx(100.0)


# The answer's own words


@every_caller
@every_mode
def test_error_inside_a_good_status(caller: Caller, mode: Mode, endpoint: Endpoint) -> None:
    body = nested(CONTEXT, 400)
    endpoint.reply = JSONReply(body) if mode == "chat" else StreamReply(sse(body))

    error = failed(caller, mode)

    assert type(error) is ContextOverflowError
    assert (error.status_code, error.error_code) == (400, "BadRequestError")
    assert endpoint.requests == 1


@every_caller
@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"generated_text": "x"}', b""])
def test_plain_answer_that_is_no_completion(
    caller: Caller, body: bytes, endpoint: Endpoint
) -> None:
    endpoint.reply = JSONReply(body)

    error = failed(caller, "chat")

    assert type(error) is ServerError
    assert (error.error_code, error.body) == ("UnexpectedAnswer", body)
    assert endpoint.requests == 1


# Streams that break


def chunk(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return {"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


BEGUN = sse(chunk("He"), chunk("llo"), done=False)
WHOLE = sse(chunk("Hello", "stop"))


@dataclass(frozen=True)
class Break:
    """How a stream breaks after some chunks, and what becomes of it."""

    name: str
    reply: StreamReply
    kind: type[SageMakerVLLMError]
    code: str | None
    is_retryable: bool
    said: str = ""
    settings: tuple[tuple[str, float], ...] = ()


BREAKS = [
    Break("model-time-exceeded", StreamReply(BEGUN, end=ModelStreamFault("ModelInvocationTimeExceeded", "too slow")), StreamInterruptedError, "ModelInvocationTimeExceeded", False, "too slow"),
    Break("model-stream-broken", StreamReply(BEGUN, end=ModelStreamFault("StreamBroken", "gone")), StreamInterruptedError, "StreamBroken", True, "ModelStreamError"),
    Break("internal-failure", StreamReply(BEGUN, end=InternalStreamFault("oops")), StreamInterruptedError, "InternalStreamFailure", True, "oops"),
    Break("error-message", StreamReply(BEGUN, end=ErrorMessageFault("Odd", "what")), StreamInterruptedError, "Odd", True, "what"),
    Break("inside-a-frame", StreamReply(BEGUN, end=Cut("frame")), StreamInterruptedError, "StreamTruncated", True),
    Break("no-end", StreamReply(BEGUN, end=Cut("clean")), StreamInterruptedError, None, True, "ended early"),
    Break("silence", StreamReply(BEGUN, end=Hang(60)), StreamInterruptedError, "ReadTimeout", True, "silent", (("timeout", 0.2),)),
    Break("connection", StreamReply(BEGUN, end=Cut("connection")), StreamInterruptedError, "Connection", True, "lost its connection"),
    Break("error-event", StreamReply([*BEGUN, *sse(nested("died", 500, "InternalServerError"))]), ServerError, "InternalServerError", False, "died"),
    Break("busy-event", StreamReply([*BEGUN, *sse(nested("retry", 503, "ServiceUnavailableError"))]), ServerError, "ServiceUnavailableError", True, "retry"),
    Break("lmi-error", StreamReply([*BEGUN, b'{"code": 500, "error": "engine died"}\n']), ServerError, "ModelError", False, "engine died"),
    Break("no-json", StreamReply([*BEGUN, b"data: {oops\n\n"]), StreamDecodeError, None, False),
    Break("no-chunk", StreamReply([*BEGUN, b'data: {"token": 1}\n\n']), StreamDecodeError, None, False, "token"),
]  # fmt: skip


@every_caller
@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.name)
def test_stream_that_breaks_keeps_what_came(
    caller: Caller, case: Break, endpoint: Endpoint
) -> None:
    endpoint.reply = case.reply

    error = failed(caller, "stream_chat", **dict(case.settings))

    assert type(error) is case.kind
    if case.code in {"ReadTimeout", "Connection"}:
        assert error.error_code
    else:
        assert error.error_code == case.code
    assert error.is_retryable is case.is_retryable
    assert case.said in error.message
    assert error.partial is not None
    assert error.partial.text == "Hello"
    assert error.request_id
    assert endpoint.requests == 1


@every_caller
@pytest.mark.parametrize(
    "end",
    [ModelStreamFault(), InternalStreamFault(), Cut("frame"), Cut("connection"), Cut("clean")],
    ids=["model", "internal", "frame", "connection", "clean"],
)
def test_break_after_the_whole_answer_takes_nothing_away(
    caller: Caller, end: Any, endpoint: Endpoint
) -> None:
    endpoint.reply = StreamReply(WHOLE, end=end)

    assert caller.call("stream_chat").text == "Hello"


@every_caller
@pytest.mark.parametrize("end", [ModelStreamFault(), Cut("connection"), Cut("clean"), None])
def test_stream_without_any_chunk_is_interrupted(
    caller: Caller, end: Any, endpoint: Endpoint
) -> None:
    endpoint.reply = StreamReply(b"", end=end)

    error = failed(caller, "stream_chat")

    assert type(error) is StreamInterruptedError
    assert endpoint.requests == 1


# The network


@every_caller
def test_plain_answer_that_breaks_off_is_not_paid_for_twice(
    caller: Caller, endpoint: Endpoint
) -> None:
    endpoint.reply = StreamReply(b'{"choices":', end=Cut("connection"))

    error = failed(caller, "chat")

    assert type(error) is ConnectionFailedError
    assert not error.is_retryable
    assert endpoint.requests == 1


@every_caller
@every_mode
@pytest.mark.parametrize(("is_asked", "tries"), [(False, 1), (True, 3)])
def test_read_timeout_is_repeated_only_when_asked(
    caller: Caller, mode: Mode, is_asked: bool, tries: int, endpoint: Endpoint
) -> None:
    endpoint.reply = Hang(60)

    error = failed(caller, mode, timeout=0.1, retry_on_timeout=is_asked)

    assert type(error) is RequestTimeoutError
    assert not error.is_retryable
    assert "timeout=0.1 seconds" in error.message
    assert endpoint.requests == tries
