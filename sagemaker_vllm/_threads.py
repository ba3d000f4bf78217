"""Blocking calls of asynchronous code, in threads of our own.

The event loop's default pool has few threads and serves everybody; a call that waits for a model
must not take one.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from sagemaker_vllm._per_process import PerProcess

_T = TypeVar("_T")


class Threads:
    """At most `limit` threads; none starts before the first call."""

    def __init__(self, limit: int) -> None:
        """Keep the limit."""
        self._pool = PerProcess(partial(ThreadPoolExecutor, limit, "sagemaker-vllm"))

    async def run(self, call: Callable[[], _T]) -> _T:
        """Return what `call` returns; it must not raise `StopIteration`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool.get(), call)

    def close(self) -> None:
        """End the threads once they are done; a later call starts new ones."""
        pool = self._pool.take()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
