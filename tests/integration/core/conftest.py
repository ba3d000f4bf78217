from collections.abc import Iterator
from typing import Any

import boto3.session
import pytest
from moto.server import ThreadedMotoServer

from tests.callers import KEYS


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Base URL of a local S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_client(s3_url: str) -> Iterator[Any]:
    client = boto3.session.Session().client(
        "s3", endpoint_url=s3_url, region_name="us-east-1", **KEYS
    )
    yield client
    client.close()


@pytest.fixture
def s3(s3_client: Any) -> Iterator[Any]:
    """A client of the local S3, which holds nothing but the empty bucket `bucket`."""
    s3_client.create_bucket(Bucket="bucket")
    yield s3_client
    s3_client.delete_bucket_policy(Bucket="bucket")
    for each in s3_client.list_objects_v2(Bucket="bucket").get("Contents", []):
        s3_client.delete_object(Bucket="bucket", Key=each["Key"])
    s3_client.delete_bucket(Bucket="bucket")
