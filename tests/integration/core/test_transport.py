"""What goes over the wire, and how it gets there: options, signatures, proxies, certificates."""

import asyncio
import gc
import ssl
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    ConnectionFailedError,
    InvalidRequestError,
    InvocationOptions,
    PermissionDeniedError,
    chat_request,
)
from sagemaker_vllm.emulator import Emulator, Hang, RecordedRequest, Reply, ServiceFault
from tests.callers import CALLERS, PLAIN, QUESTION, STREAMED, Caller, Mode, until

HEADER = "X-Amzn-SageMaker-"
# What both direct operations take.
OPTIONS = {
    "inference_component_name": "Inference-Component",
    "target_variant": "Target-Variant",
    "target_container_hostname": "Target-Container-Hostname",
    "custom_attributes": "Custom-Attributes",
    "inference_id": "Inference-Id",
    "session_id": "Session-Id",
    "prefix_aware_id": "Prefix-Aware-Id",
}
ONLY_PLAIN = {"target_model": "Target-Model", "enable_explanations": "Enable-Explanations"}

every_caller = pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
both_clients = pytest.mark.parametrize("caller", CALLERS[:2], ids=lambda caller: caller.name)


@every_caller
@pytest.mark.parametrize("mode", [*PLAIN, *STREAMED])
def test_options_travel_as_headers_and_come_back_as_metadata(
    caller: Caller, mode: Mode, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("x")])
    names = OPTIONS if mode in STREAMED else OPTIONS | ONLY_PLAIN
    options = {name: f"{name}!" for name in names} | {"target_variant": "blue"}

    completion = caller.call(mode, options=InvocationOptions(**options, accept="a/b"))

    [request] = emulator.requests
    assert {name: request.headers[HEADER + header] for name, header in names.items()} == options
    assert request.headers[f"{HEADER}Accept" if mode in STREAMED else "Accept"] == "a/b"
    metadata = completion.metadata
    assert metadata.invoked_production_variant == "blue"
    assert metadata.custom_attributes == "custom_attributes!"
    assert metadata.inference_id == "inference_id!"
    assert metadata.request_id
    assert metadata.endpoint_name == "emulated"
    assert str(metadata.content_type).startswith(
        "text/event-stream" if mode in STREAMED else "application/json"
    )


@every_caller
@pytest.mark.parametrize("mode", [*PLAIN, *STREAMED])
def test_nothing_that_is_unset_is_sent(
    caller: Caller, mode: Mode, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("x")])

    caller.call(mode)

    headers = emulator.requests[0].headers
    assert headers["Content-Type"] == "application/json"
    assert [name for name in headers if name.lower().startswith(HEADER.lower())] == []


def signature(request: RecordedRequest, url: str) -> str:
    """Sign what arrived again, with botocore."""
    authorization = request.headers["Authorization"]
    signed = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: request.headers[name] for name in signed}
    again = AWSRequest("POST", url, headers, request.body)
    again.context["timestamp"] = request.headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials("emulated", "emulated"), "sagemaker", "us-east-1")
    return signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)


@both_clients
@pytest.mark.parametrize("size", [10, 2**21], ids=["small", "large"])
def test_signature_is_valid_for_what_arrived(
    caller: Caller, size: int, start_emulator: Callable[..., Emulator]
) -> None:
    emulator = start_emulator([Reply("x")])
    request = chat_request([{"role": "user", "content": "x" * size}])

    caller.call("chat", request=request, options=InvocationOptions(custom_attributes="a,  b"))

    [arrived] = emulator.requests
    path = f"{emulator.url}/endpoints/emulated/invocations"
    assert arrived.headers["Authorization"].endswith(f"Signature={signature(arrived, path)}")
    assert arrived.headers["Content-Length"] == str(len(arrived.body))
    assert "Transfer-Encoding" not in arrived.headers
    assert arrived.headers["Accept-Encoding"] == "identity"
    assert arrived.headers["User-Agent"].startswith("Boto3/")


@both_clients
def test_redirect_is_an_error_and_never_followed(
    caller: Caller, start_emulator: Callable[..., Emulator]
) -> None:
    elsewhere = start_emulator([Reply("stolen")])
    location = {"Location": f"{elsewhere.url}/endpoints/emulated/invocations"}
    start_emulator([ServiceFault("", 307, "moved", headers=location)])

    with pytest.raises(InvalidRequestError) as caught:
        caller.call("chat")

    assert caught.value.status_code == 307
    assert elsewhere.requests == []


@both_clients
def test_cookies_are_not_kept(caller: Caller, start_emulator: Callable[..., Emulator]) -> None:
    cookie = {"Set-Cookie": "a=b"}
    emulator = start_emulator([ServiceFault("Throttling", 429, headers=cookie), Reply("x")])

    caller.call("chat")

    assert "Cookie" not in emulator.requests[1].headers


@both_clients
@pytest.mark.parametrize("mode", ["chat", "stream_chat"])
def test_proxy_of_the_environment_is_used(
    caller: Caller,
    mode: Mode,
    start_emulator: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A proxy takes the same request as a server, with the whole URL in its first line.
    proxy = start_emulator([Reply("through the proxy")])
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", "http://runtime.invalid")
    monkeypatch.setenv("HTTP_PROXY", proxy.url)

    completion = caller.call(mode)

    assert completion.text == "through the proxy"
    assert proxy.requests[0].headers["Host"] == "runtime.invalid"


@both_clients
@pytest.mark.parametrize("is_bypassed", [True, False])
def test_no_proxy_goes_past_the_proxy(
    caller: Caller,
    is_bypassed: bool,
    start_emulator: Callable[..., Emulator],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_emulator([Reply("direct")])
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1" if is_bypassed else "elsewhere.example")

    if is_bypassed:
        assert caller.call("chat").text == "direct"
    else:
        with pytest.raises(ConnectionFailedError):
            caller.call("chat", max_retries=0)


def certificate(folder: Path) -> Path:
    """Write a self-signed certificate for 127.0.0.1 and its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


class TLSFront:
    """Takes TLS connections in a thread of its own, and passes their bytes to a port."""

    def __init__(self, certificate: Path, port: int) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate)
        self._behind = port
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> str:
        self._thread.start()
        self._ready.wait()
        return f"https://127.0.0.1:{self._port}"

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, ssl=self._context)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        passing = asyncio.all_tasks() - {asyncio.current_task()}
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        try:
            await asyncio.gather(pump(reader, behind_writer), pump(behind_reader, writer))
        finally:
            for each in (behind_writer, writer):
                each.transport.abort()
                with suppress(OSError):
                    await each.wait_closed()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
def tls(start_emulator: Callable[..., Emulator], tmp_path: Path) -> Iterator[tuple[str, Path]]:
    emulator = start_emulator([Reply("safe"), Reply("safe")])
    pem = certificate(tmp_path)
    with TLSFront(pem, int(emulator.url.rpartition(":")[2])) as url:
        yield url, pem


@both_clients
@pytest.mark.parametrize("mode", ["chat", "stream_chat"])
def test_certificates_of_the_environment_are_trusted(
    caller: Caller, mode: Mode, tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, bundle = tls
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))

    assert caller.call(mode, endpoint_url=url).text == "safe"


@both_clients
def test_unknown_certificate_is_refused(caller: Caller, tls: tuple[str, Path]) -> None:
    url, _ = tls

    with pytest.raises(ConnectionFailedError, match="certificates") as caught:
        caller.call("chat", endpoint_url=url, max_retries=0)

    assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value.body)


@both_clients
def test_profile_of_the_shared_files_is_used(
    caller: Caller,
    start_emulator: Callable[..., Emulator],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emulator = start_emulator([Reply("x")])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name)
    shared = tmp_path / "config"
    shared.write_text(
        "[profile own]\nregion = eu-west-1\naws_access_key_id = OWN\naws_secret_access_key = x\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(shared))

    caller.call("chat", credentials_profile_name="own")

    authorization: Any = emulator.requests[0].headers["Authorization"]
    assert "Credential=OWN/" in authorization
    assert "/eu-west-1/sagemaker/" in authorization


async def test_call_that_waits_for_a_place_is_signed_when_it_has_one(
    start_emulator: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature is valid for five minutes; a full client may make a call wait longer."""
    emulator = start_emulator([Reply(chunks=["a", "b"]), Reply("c")])
    now = datetime(2026, 1, 1, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Clock":
            return cls(*now.timetuple()[:6], tzinfo=tz)

    monkeypatch.setattr("sagemaker_vllm._aws_protocol.datetime", Clock)
    async with AsyncSageMakerVLLMClient(max_concurrency=1) as client:
        stream = await client.stream_chat(QUESTION)
        await anext(stream)
        waiting = asyncio.create_task(client.chat(QUESTION))
        await asyncio.sleep(0.05)
        now += timedelta(minutes=10)
        await stream.aclose()
        await waiting

    dates = [each.headers["X-Amz-Date"] for each in emulator.requests]
    assert dates == ["20260101T000000Z", "20260101T001000Z"]


async def test_many_calls_at_once_start_over_many_turns_of_the_event_loop(
    start_emulator: Callable[..., Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, turn = 300, 0
    start_emulator([Reply("x")] * (calls + 1))
    turns: list[int] = []
    client = AsyncSageMakerVLLMClient(max_concurrency=calls)
    protocol: Any = client._transport._protocol  # type: ignore[union-attr]
    sign = protocol.signed_request

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def signed_request(*arguments: Any) -> Any:
        turns.append(turn)
        return sign(*arguments)

    async with client:
        # What is made once is made.
        await client.chat(QUESTION)
        monkeypatch.setattr(protocol, "signed_request", signed_request)
        counting = asyncio.create_task(count_turns())
        answers = await asyncio.gather(*(client.chat(QUESTION) for _ in range(calls)))
        counting.cancel()

    assert [each.text for each in answers] == ["x"] * calls
    assert len(turns) == calls
    assert max(Counter(turns).values()) <= 32


@pytest.mark.parametrize(
    "fate", ["answered", "refused", "streamed", "left", "dropped", "cancelled"]
)
async def test_place_is_given_back_whatever_becomes_of_a_call(
    fate: str, start_emulator: Callable[..., Emulator]
) -> None:
    begun: Any = {"refused": ServiceFault("AccessDeniedException", 403), "cancelled": Hang(60)}
    emulator = start_emulator([begun.get(fate, Reply("a")), Reply("next")])

    async def call(client: AsyncSageMakerVLLMClient) -> None:
        if fate in {"answered", "refused"}:
            await client.chat(QUESTION)
            return
        stream = await client.stream_chat(QUESTION)
        if fate == "streamed":
            [_ async for _ in stream]
        elif fate == "left":
            await anext(stream)
            await stream.aclose()

    async with AsyncSageMakerVLLMClient(max_concurrency=1) as client:
        task = asyncio.create_task(call(client))
        if fate == "cancelled":
            await until(lambda: emulator.requests)
            task.cancel()
        with suppress(asyncio.CancelledError, PermissionDeniedError):
            await task
        # A dropped response warns, as it does in aiohttp by itself.
        with warnings.catch_warnings(action="ignore"):
            gc.collect()

        assert (await client.chat(QUESTION)).text == "next"
