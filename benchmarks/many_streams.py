"""Run many streams at once in this process and print what they took, as JSON."""

import asyncio
import gc
import json
import os
import re
import sys
import time
from pathlib import Path

import psutil

from benchmarks import ours, peers

_SCRIPT = "tokens-100-each"
_TICK = 0.01
# What docs/scale.md recommends for hundreds of streams.
_THRESHOLD = (10_000, 50, 100)
_SUBJECTS = {
    "bare aiohttp": peers.aiohttp_stream,
    "core": ours.core_astream,
    "LangChain": ours.langchain_astream,
    "LangChain, rare gc": ours.langchain_astream,
    "LlamaIndex": ours.llama_astream,
}


async def _watch(lags: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(_TICK)
        lags.append(time.perf_counter() - began - _TICK)


async def main(subject: str, streams: int, waves: int) -> dict[str, float]:
    # The peers' sessions are left to the end of the process; their complaints are no result.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    call = _SUBJECTS[subject](_SCRIPT)
    await call()
    # Else each full collection walks through all that was ever imported, every peer too.
    gc.collect()
    gc.freeze()
    if subject.endswith("rare gc"):
        gc.set_threshold(*_THRESHOLD)
    before = psutil.Process().memory_info().rss / 2**20
    lags: list[float] = []
    watch = asyncio.ensure_future(_watch(lags))
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = 0
    for _ in range(waves):
        tokens += sum(await asyncio.gather(*(call() for _ in range(streams))))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    watch.cancel()
    return {
        "wall": tokens / wall,
        "cpu": tokens / cpu,
        "memory": _peak() - before,
        "lag": max(lags, default=0.0) * 1000,
    }


def _peak() -> float:
    """Return the most memory of this process in MB; `ru_maxrss` holds the parent's at the fork."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024


if __name__ == "__main__":
    found = asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    print(json.dumps(found), flush=True)
    # The peers' sessions are never closed.
    os._exit(0)
