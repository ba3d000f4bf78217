"""What botocore knows of SageMaker Runtime, for a transport that is not botocore's.

Names of headers and paths come from botocore's own service model, so that members that a later
botocore learns work here too.
"""

import asyncio
import io
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import orjson

from sagemaker_vllm._boto_session import (
    USER_AGENT,
    ca_bundle,
    credentials_missing,
    is_credentials_error,
    make_client,
    make_session,
)
from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._error_table import service_error
from sagemaker_vllm._errors import APIError
from sagemaker_vllm._operations import METHODS, Operation, check_members
from sagemaker_vllm._per_process import PerProcess
from sagemaker_vllm._signature import Signer

# aiohttp warns of a bytes body above this size, which it would write in one piece.
_LARGE_BODY = 2**20


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request that is ready to be sent."""

    url: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Route:
    """The way to the endpoint.

    Attributes:
        proxy: URL of the proxy that the environment names for the endpoint.
        ssl_context: Trusts what boto3 trusts; `None` for plain HTTP.
    """

    proxy: str | None
    ssl_context: ssl.SSLContext | None


class AWSProtocol:
    """Signs requests and reads answers, by botocore; loads it at first use, off the event loop."""

    def __init__(self, config: EndpointConfig) -> None:
        """Keep the settings."""
        self._config = config
        self._loaded = PerProcess(self._load)

    async def route(self) -> Route:
        """Return the way to the endpoint; errors as for `signed_request`."""
        return (await self._ready()).route

    async def signed_request(
        self, operation: Operation, arguments: Mapping[str, Any]
    ) -> SignedRequest:
        """Write and sign a request.

        Raises:
            ConfigurationError: No region, or a member that the installed botocore does not know.
            AuthenticationError: No credentials, or they cannot be refreshed.
        """
        loaded = await self._ready()
        credentials = loaded.credentials
        # Only credentials that may need the network are asked for in a thread.
        if getattr(credentials, "refresh_needed", _never)():
            frozen = await asyncio.to_thread(self._freeze, credentials)
        else:
            frozen = self._freeze(credentials)
        return loaded.sign(operation, arguments, frozen)

    async def knows(self, operation: Operation, member: str) -> bool:
        """Tell whether the installed botocore knows a member of an operation."""
        loaded = await self._ready()
        return member in loaded.operations[operation].input_members

    def read_output(
        self, operation: Operation, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        """Return the output members besides the payload, named as boto3 names them."""
        return self._loaded.get().read_output(operation, headers, body)

    def read_error(
        self, operation: Operation, status: int, headers: Mapping[str, str], body: bytes
    ) -> APIError:
        """Make the error for an answer whose status says that the call failed."""
        parsed = self._loaded.get().parse_error(operation, status, headers, body)
        return service_error(
            parsed,
            endpoint_name=self._config.endpoint_name,
            region_name=self._config.region_name,
        )

    async def _ready(self) -> "_Loaded":
        if not self._loaded.is_made:
            await asyncio.to_thread(self._loaded.get)
        return self._loaded.get()

    def _load(self) -> "_Loaded":
        with self._translated_errors():
            return _Loaded(self._config)

    def _freeze(self, credentials: Any) -> Any:
        """Return the credentials of this moment; refreshes them when they are about to expire."""
        from botocore.exceptions import NoCredentialsError

        if credentials is None:
            # The next call looks for them again.
            self._loaded.take()
            raise credentials_missing(NoCredentialsError(), self._config)
        with self._translated_errors():
            return credentials.get_frozen_credentials()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise credentials_missing(error, self._config) from error
        except RuntimeError as error:
            if is_credentials_error(error):
                raise credentials_missing(error, self._config) from error
            raise


def _never() -> bool:
    return False


class _Loaded:
    """botocore's parts, for one configuration."""

    def __init__(self, config: EndpointConfig) -> None:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest, HeadersDict
        from botocore.credentials import ReadOnlyCredentials
        from botocore.httpsession import get_cert_path
        from botocore.parsers import create_parser
        from botocore.utils import get_environ_proxies

        session = make_session(config)
        client = make_client(session, config)
        self._headers = HeadersDict
        self._service = client.meta.service_model
        base_url = client.meta.endpoint_url.rstrip("/")
        self._parser = create_parser("rest-json")
        service, region = self._service.signing_name, client.meta.region_name
        theirs = SigV4Auth(ReadOnlyCredentials("", "", None), service, region)

        def place(path: str) -> tuple[str, str]:
            """Return a path's URL, and the path as it is signed."""
            url = base_url + path.replace("{EndpointName}", config.endpoint_name)
            return url, theirs.canonical_request(AWSRequest("POST", url)).split("\n")[1]

        self.operations = {
            name: _Operation(self._service.operation_model(name), place) for name in METHODS
        }
        host = theirs.headers_to_sign(AWSRequest("POST", base_url))["host"]
        self._signer = Signer(region=region, service=service, host=host)
        self._user_agent = f"{client.meta.config.user_agent or ''}".strip() or USER_AGENT
        self.credentials = session.get_credentials()
        ssl_context = None
        if base_url.startswith("https:"):
            trusted = ca_bundle(session) or get_cert_path(verify=True)
            ssl_context = ssl.create_default_context(cafile=trusted)
        proxy = get_environ_proxies(base_url).get(urlsplit(base_url).scheme)
        self.route = Route(proxy, ssl_context)
        client.close()

    def sign(
        self, operation: Operation, arguments: Mapping[str, Any], credentials: Any
    ) -> SignedRequest:
        model = self.operations[operation]
        check_members(operation, arguments, model.input_members)
        body = arguments.get("Body", b"")
        headers = {
            model.input_headers[member]: str(value)
            for member, value in arguments.items()
            if member in model.input_headers
        }
        headers["User-Agent"] = self._user_agent
        now = datetime.now(UTC)
        signed = self._signer.sign(
            model.canonical_path, headers, body, credentials=credentials, now=now
        )
        # Not signed, as with boto3: a proxy may change it.
        signed["Accept-Encoding"] = "identity"
        sent = io.BytesIO(body) if len(body) > _LARGE_BODY else body
        return SignedRequest(model.url, signed, sent)

    def read_output(
        self, operation: Operation, headers: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        model = self.operations[operation]
        found = {} if model.has_payload else _read_json(body)
        found |= {
            member: headers[name]
            for member, name in model.output_headers.items()
            if name in headers
        }
        found["ResponseMetadata"] = {"RequestId": headers.get("x-amzn-RequestId")}
        return found

    def parse_error(
        self, operation: Operation, status: int, headers: Mapping[str, str], body: bytes
    ) -> Mapping[str, Any]:
        response = {"status_code": status, "headers": self._headers(headers), "body": body}
        parsed: dict[str, Any] = self._parser.parse(
            response, self.operations[operation].output_shape
        )
        code = parsed.get("Error", {}).get("Code")
        shape = self._service.shape_for_error_code(code) if code else None
        return parsed | self._parser.parse(response, shape) if shape is not None else parsed


class _Operation:
    """Where an operation's members travel."""

    def __init__(self, model: Any, place: Callable[[str], tuple[str, str]]) -> None:
        self.url, self.canonical_path = place(model.http["requestUri"])
        self.output_shape = model.output_shape
        self.has_payload = "payload" in model.output_shape.serialization
        self.input_members = frozenset(model.input_shape.members)
        self.input_headers = _header_names(model.input_shape)
        self.output_headers = _header_names(model.output_shape)


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _header_names(shape: Any) -> dict[str, str]:
    return {
        name: member.serialization["name"]
        for name, member in shape.members.items()
        if member.serialization.get("location") == "header"
    }
