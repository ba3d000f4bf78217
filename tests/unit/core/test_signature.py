"""Signatures, held equal to botocore's own."""

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm._signature import Signer

HOST = "runtime.sagemaker.eu-west-1.amazonaws.com"
PATH = "/endpoints/my-endpoint/invocations"
NOW = datetime(2026, 11, 29, 23, 59, 58, tzinfo=UTC)
VISIBLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
VALUES = st.lists(VISIBLE, min_size=1, max_size=3).flatmap(
    lambda words: st.sampled_from([" ", "  "]).map(lambda blank: blank.join(words))
)
NAMES = st.sampled_from(
    ["Content-Type", "Accept", "User-Agent", "X-Amzn-SageMaker-Custom-Attributes", "A", "a-b"]
)
CREDENTIALS = st.builds(ReadOnlyCredentials, VISIBLE, VISIBLE, st.none() | VISIBLE)


def theirs(
    headers: dict[str, str], body: bytes, credentials: ReadOnlyCredentials, now: datetime
) -> dict[str, str]:
    request = AWSRequest("POST", f"https://{HOST}{PATH}", headers, body)
    signer = botocore.auth.SigV4Auth(credentials, "sagemaker", "eu-west-1")
    with patch.object(botocore.auth, "get_current_datetime", lambda: now):
        signer.add_auth(request)
    return dict(request.headers.items())


@given(
    st.lists(
        st.tuples(
            st.dictionaries(NAMES, VALUES),
            st.binary(max_size=20),
            CREDENTIALS,
            st.integers(0, 10**6),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_signatures_are_those_of_botocore(
    calls: list[tuple[dict[str, str], bytes, ReadOnlyCredentials, int]],
) -> None:
    signer = Signer(region="eu-west-1", service="sagemaker", host=HOST)

    for headers, body, credentials, seconds in calls:
        now = NOW + timedelta(seconds=seconds)
        signed = signer.sign(PATH, headers, body, credentials=credentials, now=now)
        assert signed == theirs(headers, body, credentials, now)


def test_a_new_day_and_new_credentials_get_a_new_key() -> None:
    signer = Signer(region="eu-west-1", service="sagemaker", host=HOST)
    calls = [
        (ReadOnlyCredentials("id", secret, None), NOW + timedelta(seconds=seconds))
        for secret, seconds in [("one", 0), ("one", 1), ("one", 2), ("two", 3), ("one", 4)]
    ]

    signed = [
        signer.sign(PATH, {}, b"", credentials=credentials, now=now) for credentials, now in calls
    ]

    assert signed == [theirs({}, b"", credentials, now) for credentials, now in calls]
