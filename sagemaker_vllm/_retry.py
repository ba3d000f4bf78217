"""Which failure is sent again, and after how long: a pure decision, shared by both clients."""

from dataclasses import dataclass

from sagemaker_vllm._errors import APIError, ModelNotReadyError, RequestTimeoutError

_FIRST_DELAY = 0.5
_MAX_DELAY = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long to try.

    Attributes:
        max_retries: Repetitions of a failed request.
        cold_start_timeout: Seconds during which a model that is not ready is asked again, on top
            of `max_retries`.
        retry_on_timeout: Whether a read timeout is repeated. An answer may have been made and
            billed, so not by default.
    """

    max_retries: int = 2
    cold_start_timeout: float = 0.0
    retry_on_timeout: bool = False

    def delay(
        self, error: APIError, *, retries: int, elapsed: float, jitter: float
    ) -> float | None:
        """Decide whether and when to send the request again.

        Args:
            error: Why the last try failed.
            retries: Repetitions made so far.
            elapsed: Seconds since the first try began.
            jitter: A random number from 0 to 1; spreads callers that failed together.

        Returns:
            Seconds to wait before the next try, or `None` to give up.
        """
        wait = min(_MAX_DELAY, _FIRST_DELAY * 2.0 ** min(retries, 10)) * (0.5 + jitter / 2)
        if isinstance(error, ModelNotReadyError) and elapsed < self.cold_start_timeout:
            return min(wait, self.cold_start_timeout - elapsed)
        repeatable = error.is_retryable or (
            self.retry_on_timeout and isinstance(error, RequestTimeoutError)
        )
        return wait if repeatable and retries < self.max_retries else None
