"""A value that is made at its first use, once in each process."""

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class PerProcess(Generic[_T]):
    """Makes a client or a pool when it is first needed.

    A forked process makes its own: sockets and threads cannot be shared, and a lock that another
    thread of the parent held would never be released.
    """

    def __init__(self, make: Callable[[], _T]) -> None:
        """Keep how the value is made."""
        self._make = make
        self._made: tuple[int, _T] | None = None
        self._locks: dict[int, threading.Lock] = {}

    def get(self) -> _T:
        """Return this process's value; of many threads one makes it."""
        made, process = self._made, os.getpid()
        if made is None or made[0] != process:
            with self._locks.setdefault(process, threading.Lock()):
                made = self._made
                if made is None or made[0] != process:
                    self._made = made = (process, self._make())
        return made[1]

    @property
    def is_made(self) -> bool:
        """Whether `get` has nothing to wait for."""
        made = self._made
        return made is not None and made[0] == os.getpid()

    def take(self) -> _T | None:
        """Return this process's value, if it was made, and forget it: the caller closes it."""
        made, self._made = self._made, None
        return made[1] if made and made[0] == os.getpid() else None
