from collections.abc import Iterator
from typing import Any

import boto3.session
import pytest

from tests.callers import KEYS


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
