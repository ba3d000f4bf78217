"""Rounds, rates and ratios."""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.ours import AsyncCall, Call


class Sample(NamedTuple):
    """One round of one subject: its value by the clock, and by the processor time it took.

    The processor time is of this process alone, so other work on the machine disturbs it less.
    """

    wall: float
    cpu: float


Run = Callable[[], Sample]


@dataclass
class Case:
    """Subjects that do the same work.

    Attributes:
        name: Title in the table.
        unit: What a value counts.
        runs: One round of each subject.
        reference: The subject that the others are divided by.
        slow: Subjects that run in the first rounds only.
        samples: What each round gave.
    """

    name: str
    unit: str
    runs: dict[str, Run]
    reference: str
    slow: frozenset[str] = frozenset()
    samples: dict[str, dict[int, Sample]] = field(default_factory=dict)

    def round(self, number: int, *, with_slow: bool) -> None:
        for name, run in self.runs.items():
            if with_slow or name not in self.slow:
                # Else a collection walks through what others left, on this one's time.
                gc.collect()
                gc.freeze()
                self.samples.setdefault(name, {})[number] = run()

    def values(self, name: str, *, cpu: bool = False) -> list[float]:
        return [sample.cpu if cpu else sample.wall for sample in self.samples[name].values()]

    def pairs(self, name: str, other: str, *, cpu: bool = False) -> list[tuple[float, float]]:
        """Pair the values of two subjects round by round: what slows a whole round drops out."""
        mine, theirs = self.samples[name], self.samples[other]
        both = [(mine[number], theirs[number]) for number in mine.keys() & theirs.keys()]
        return [(one.cpu, two.cpu) if cpu else (one.wall, two.wall) for one, two in both]

    def ratios(self, name: str, against: str | None = None, *, cpu: bool = False) -> list[float]:
        pairs = self.pairs(name, against or self.reference, cpu=cpu)
        return [mine / theirs for mine, theirs in pairs]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and the quartiles."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


class Driver:
    """Runs calls for a while and counts what they give.

    Attributes:
        seconds: How long one round of one subject takes, at least.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._runner = asyncio.Runner()
        # The peers' sessions are left to the end of the process; their complaints are no result.
        self._runner.get_loop().set_exception_handler(lambda _loop, _context: None)

    def one_by_one(self, call: Call) -> Run:
        call()

        def run() -> Sample:
            count, wall, cpu = 0, time.perf_counter(), time.process_time()
            while time.perf_counter() - wall < self.seconds:
                count += call()
            return _rate(count, wall, cpu)

        return run

    def in_threads(self, call: Call, threads: int) -> Run:
        pool = ThreadPoolExecutor(threads)

        def work(until: float) -> int:
            count = 0
            while time.perf_counter() < until:
                count += call()
            return count

        def run() -> Sample:
            wall, cpu = time.perf_counter(), time.process_time()
            count = sum(pool.map(work, [wall + self.seconds] * threads))
            return _rate(count, wall, cpu)

        call()
        run()
        return run

    def in_flight(self, call: AsyncCall, tasks: int) -> Run:
        async def work(until: float) -> int:
            count = 0
            while time.perf_counter() < until:
                count += await call()
            return count

        async def work_all() -> Sample:
            wall, cpu = time.perf_counter(), time.process_time()
            until = wall + self.seconds
            count = sum(await asyncio.gather(*(work(until) for _ in range(tasks))))
            return _rate(count, wall, cpu)

        def run() -> Sample:
            return self._runner.run(work_all())

        run()
        return run


def _rate(count: int, wall: float, cpu: float) -> Sample:
    return Sample(count / (time.perf_counter() - wall), count / (time.process_time() - cpu))


def first_chunk(call: Callable[[], float], samples: int) -> Run:
    """Return the median of several times to the first token, in milliseconds."""
    call()

    def run() -> Sample:
        middle = statistics.median(call() for _ in range(samples)) * 1000
        return Sample(middle, middle)

    return run
