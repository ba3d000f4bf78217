"""Which failure is sent again, and after how long."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import (
    APIError,
    AuthenticationError,
    ConnectionFailedError,
    InvalidRequestError,
    ModelNotReadyError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
)
from sagemaker_vllm._retry import RetryPolicy

jitters = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("error", "is_repeated"),
    [
        (ConnectionFailedError("x"), True),
        (RateLimitError("x"), True),
        (ServerError("x"), True),
        (ModelNotReadyError("x"), True),
        (ServerError("of its own", is_retryable=False), False),
        (RequestTimeoutError("x"), False),
        (InvalidRequestError("x"), False),
        (AuthenticationError("x"), False),
    ],
    ids=repr,
)
def test_only_what_may_mend_itself_is_repeated(error: APIError, is_repeated: bool) -> None:
    delay = RetryPolicy().delay(error, retries=0, elapsed=0.0, jitter=0.5)

    assert (delay is not None) is is_repeated


def test_read_timeout_is_repeated_when_asked() -> None:
    policy = RetryPolicy(retry_on_timeout=True)

    assert policy.delay(RequestTimeoutError("x"), retries=1, elapsed=0.0, jitter=0.5)


@given(max_retries=st.integers(0, 9), retries=st.integers(0, 20), jitter=jitters)
def test_number_of_repetitions_is_bounded(max_retries: int, retries: int, jitter: float) -> None:
    policy = RetryPolicy(max_retries=max_retries)

    delay = policy.delay(ServerError("x"), retries=retries, elapsed=1e9, jitter=jitter)

    assert (delay is not None) is (retries < max_retries)


@given(jitter=jitters)
def test_delays_double_up_to_twenty_seconds(jitter: float) -> None:
    policy = RetryPolicy(max_retries=2000)

    delays = [
        policy.delay(ServerError("x"), retries=retries, elapsed=0.0, jitter=jitter) or 0.0
        for retries in (*range(12), 1999)
    ]

    assert 0.25 <= delays[0] <= 0.5
    assert delays[1] == delays[0] * 2
    assert all(first <= second for first, second in pairwise(delays))
    assert 10.0 <= delays[-1] <= 20.0


@given(elapsed=st.floats(0.0, 299.999), retries=st.integers(0, 1000), jitter=jitters)
def test_model_that_is_not_ready_is_waited_for(elapsed: float, retries: int, jitter: float) -> None:
    policy = RetryPolicy(max_retries=0, cold_start_timeout=300.0)

    delay = policy.delay(ModelNotReadyError("x"), retries=retries, elapsed=elapsed, jitter=jitter)

    assert delay is not None
    assert elapsed + delay <= 300.0


def test_wait_for_a_model_ends() -> None:
    policy = RetryPolicy(max_retries=2, cold_start_timeout=300.0)

    assert policy.delay(ModelNotReadyError("x"), retries=40, elapsed=300.0, jitter=0.5) is None
    assert policy.delay(ServerError("x"), retries=2, elapsed=0.0, jitter=0.5) is None
