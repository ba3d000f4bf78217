"""S3, as far as asynchronous inference needs it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sagemaker_vllm._async_errors import asynchronous, storage_error
from sagemaker_vllm._boto_session import credentials_missing, is_credentials_error, make_session
from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._errors import AsyncInferenceError
from sagemaker_vllm._per_process import PerProcess
from sagemaker_vllm._threads import Threads

if TYPE_CHECKING:
    from collections.abc import Coroutine

_logger = logging.getLogger(__name__)
_ABSENT = frozenset({"NoSuchKey", "404"})


class S3Storage:
    """Reads, writes and deletes objects; builds its boto3 client at first use."""

    def __init__(self, config: EndpointConfig, *, url: str | None, region_name: str | None) -> None:
        """Keep the settings.

        Args:
            config: Credentials and time-outs.
            url: Base URL in place of AWS's.
            region_name: The region of the endpoint, when `config` does not say it.
        """
        self._config = config
        self._client = PerProcess(lambda: _make_client(config, url, region_name))

    def put(self, location: str, body: bytes) -> None:
        """Write a JSON object.

        Raises:
            AsyncInferenceError: S3 refused, or could not be reached, or there are no credentials.
        """
        with self._translated_errors("put", location):
            self._client.get().put_object(
                **_place(location), Body=body, ContentType="application/json"
            )

    def get(self, location: str) -> bytes | None:
        """Read an object; `None` when it is not there. Errors as for `put`."""
        try:
            with self._translated_errors("get", location):
                body: bytes = self._client.get().get_object(**_place(location))["Body"].read()
                return body
        except AsyncInferenceError as error:
            if error.error_code in _ABSENT:
                return None
            raise

    def delete(self, location: str) -> None:
        """Delete an object. What cannot be deleted is logged: the answer matters more."""
        try:
            with self._translated_errors("delete", location):
                self._client.get().delete_object(**_place(location))
        except AsyncInferenceError as error:
            _logger.warning("%s", error.message)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        client = self._client.take()
        if client is not None:
            client.close()

    @contextmanager
    def _translated_errors(self, action: str, location: str) -> Iterator[None]:
        from botocore import exceptions as boto
        from urllib3.exceptions import HTTPError

        try:
            yield
        except boto.ClientError as error:
            code = str(error.response.get("Error", {}).get("Code"))
            answered = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            raise storage_error(action, location, code, answered) from error
        except (boto.BotoCoreError, boto.HTTPClientError, HTTPError, OSError) as error:
            if is_credentials_error(error):
                raise asynchronous(credentials_missing(error, self._config)) from error
            status = 400 if isinstance(error, boto.ParamValidationError) else None
            raise storage_error(action, location, type(error).__name__, status) from error


class ThreadStorage:
    """The asynchronous twin of `S3Storage`: the same, in threads of its own."""

    def __init__(self, storage: S3Storage, threads: int) -> None:
        """Keep the storage; no thread starts before the first call."""
        self._storage = storage
        self._threads = Threads(threads)

    def put(self, location: str, body: bytes) -> "Coroutine[Any, Any, None]":
        """Write a JSON object."""
        return self._threads.run(partial(self._storage.put, location, body))

    def get(self, location: str) -> "Coroutine[Any, Any, bytes | None]":
        """Read an object; `None` when it is not there."""
        return self._threads.run(partial(self._storage.get, location))

    def delete(self, location: str) -> "Coroutine[Any, Any, None]":
        """Delete an object."""
        return self._threads.run(partial(self._storage.delete, location))

    def close(self) -> None:
        """End the threads and close the connections."""
        self._threads.close()
        self._storage.close()


def _make_client(config: EndpointConfig, url: str | None, region_name: str | None) -> Any:
    from botocore.config import Config

    settings = Config(
        connect_timeout=config.connect_timeout,
        read_timeout=config.timeout,
        max_pool_connections=config.max_concurrency,
        retries={"mode": "standard", "total_max_attempts": config.max_retries + 1},
    )
    return make_session(config).client(
        "s3", endpoint_url=url, region_name=config.region_name or region_name, config=settings
    )


def _place(location: str) -> dict[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}
