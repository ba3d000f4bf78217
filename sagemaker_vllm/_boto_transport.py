"""Calls through boto3: the synchronous shell."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sagemaker_vllm._boto_session import (
    credentials_missing,
    is_credentials_error,
    make_client,
    make_session,
)
from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._error_table import (
    answer_broken,
    connection_failed,
    service_error,
    stream_broken,
    stream_fault,
    timed_out,
)
from sagemaker_vllm._errors import APIError, ConfigurationError
from sagemaker_vllm._frames import FrameDecoder, part_of
from sagemaker_vllm._operations import METHODS, Operation, check_members
from sagemaker_vllm._per_process import PerProcess
from sagemaker_vllm._transport import RawAnswer, RawStream


class BotoTransport:
    """Calls boto3; builds its client at first use, once per process."""

    def __init__(self, config: EndpointConfig, client: Any = None) -> None:
        """Keep the settings.

        Args:
            config: Where and how to call.
            client: A ready boto3 client to use in place of an own one.
        """
        self._config = config
        self._given = client
        self._own = PerProcess(lambda: make_client(make_session(config), config))

    @property
    def client(self) -> Any:
        """The boto3 client."""
        return self._own.get() if self._given is None else self._given

    def invoke(self, operation: Operation, arguments: Mapping[str, Any]) -> RawAnswer:
        """Call an operation and read its whole body."""
        with self._translated_errors():
            output = self._call(operation, arguments)
        body = output.get("Body", b"")
        if not isinstance(body, bytes):
            with self._translated_errors(answer_broken):
                body = body.read()
        return RawAnswer(output, body)

    def open(self, operation: Operation, arguments: Mapping[str, Any]) -> RawStream:
        """Call a streaming operation; the parts are read as they are iterated."""
        with self._translated_errors():
            output = self._call(operation, arguments)
        body = output["Body"]
        raw = _raw_stream(body)
        # botocore's own decoder drops ModelStreamError's ErrorCode and takes 40 µs an event.
        decoded = _parts_of_events(body) if raw is body else _parts_of_frames(raw)
        parts = _parts(decoded, endpoint_name=self._config.endpoint_name)
        return RawStream(output, parts, lambda: _close(raw))

    def close(self) -> None:
        """Close the connections of the own client; a given one stays the caller's."""
        client = self._own.take()
        if client is not None:
            client.close()

    def knows(self, operation: Operation, member: str) -> bool:
        """Tell whether the client's botocore knows a member of an operation."""
        known = self._known_members(operation)
        return known is None or member in known

    def _call(self, operation: Operation, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        known = self._known_members(operation)
        if known is not None:
            check_members(operation, arguments, known)
        output: Mapping[str, Any] = getattr(self.client, METHODS[operation])(**arguments)
        return output

    def _known_members(self, operation: Operation) -> Collection[str] | None:
        """Return the members of an operation; `None` for a client that is a stand-in."""
        from botocore.client import BaseClient

        client = self.client
        if not isinstance(client, BaseClient):
            return None
        shape = client.meta.service_model.operation_model(operation).input_shape
        return shape.members if shape else None

    @contextmanager
    def _translated_errors(
        self, failed: Callable[..., APIError] = connection_failed
    ) -> Iterator[None]:
        from botocore import exceptions as boto

        config = self._config
        try:
            yield
        except boto.ClientError as error:
            raise service_error(
                error.response, endpoint_name=config.endpoint_name, region_name=config.region_name
            ) from error
        except boto.ReadTimeoutError as error:
            raise timed_out(
                error, endpoint_name=config.endpoint_name, seconds=config.timeout
            ) from error
        except (boto.ParamValidationError, boto.UnsupportedSignatureVersionError) as error:
            message = f"botocore refused the call before sending it: {error}"
            raise ConfigurationError(message) from error
        except (boto.BotoCoreError, boto.HTTPClientError, OSError) as error:
            if is_credentials_error(error):
                if isinstance(error, boto.NoCredentialsError):
                    # The client would never look again.
                    self.close()
                raise credentials_missing(error, config) from error
            raise failed(error, endpoint_name=config.endpoint_name) from error
        except RuntimeError as error:
            if is_credentials_error(error):
                raise credentials_missing(error, config) from error
            raise


def _parts(decoded: Iterator[bytes], *, endpoint_name: str) -> Iterator[bytes]:
    """Yield the container's bytes of a response body; every failure is an error of ours."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from urllib3.exceptions import HTTPError

    try:
        yield from decoded
    except ClientError as error:
        found = error.response.get("Error", {})
        raise stream_fault(
            str(found.get("Code")), str(found.get("Message", "")), endpoint_name=endpoint_name
        ) from error
    except (BotoCoreError, HTTPClientError, HTTPError, OSError) as error:
        raise stream_broken(error, endpoint_name=endpoint_name) from error


def _parts_of_frames(raw: Any) -> Iterator[bytes]:
    decoder = FrameDecoder()
    for read in raw.stream():
        for frame in decoder.feed(read):
            if part := part_of(frame):
                yield part
    decoder.finish()


def _parts_of_events(events: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Read events that a client of the user's own has decoded already."""
    for event in events:
        if "PayloadPart" in event:
            yield event["PayloadPart"].get("Bytes", b"")
        for code in ("ModelStreamError", "InternalStreamFailure"):
            if found := event.get(code):
                raise stream_fault(
                    code, found.get("Message", ""), error_code=found.get("ErrorCode")
                )


def _raw_stream(body: Any) -> Any:
    """Return the bytes below botocore's decoder; a stand-in for it is returned as it is."""
    from botocore.eventstream import EventStream

    is_botocores = isinstance(body, EventStream)
    raw: Any = body
    return raw._raw_stream if is_botocores else raw  # noqa: SLF001  # no public way


def _close(raw: Any) -> None:
    """Close a body; it imports nothing, for it runs when the interpreter shuts down, too."""
    # No such method, or the connection has ended and gone back to the pool.
    with suppress(AttributeError, OSError, RuntimeError, ValueError):
        # Wakes a reader in another thread, which closing alone does not.
        raw.shutdown()
    close = getattr(raw, "close", None)
    if close is not None:
        close()
