"""Compare this package with what people use today: `make bench`, or `make bench QUICK=1`."""

import argparse
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks.cases import cases, rare_cases
from benchmarks.measure import Driver
from benchmarks.plot import plot
from benchmarks.processes import ManyStreams, ceiling, endpoint
from benchmarks.report import ceilings_text, table, targets_table
from benchmarks.targets import TARGETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", default="", help="run the cases whose names hold this text")
    parser.add_argument("--rounds", type=int, help="rounds of the cases that take little time")
    parser.add_argument("--rare-rounds", type=int, help="rounds of the slow peers and long cases")
    parser.add_argument("--plot", type=Path, help="write the plot to this PNG file")
    options = parser.parse_args()
    rounds, rare_rounds, seconds = (3, 1, 0.1) if options.quick else (7, 3, 0.25)
    rounds, rare_rounds = options.rounds or rounds, options.rare_rounds or rare_rounds
    driver, streams = Driver(seconds), ManyStreams(waves=1 if options.quick else 3)
    began = time.perf_counter()
    with endpoint() as url:
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores,", end=" ")
        print(f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
        limits = {
            "requests/s": ceiling(url, "tokens-20", "invocations", seconds * 2),
            "streamed tokens/s": 100
            * ceiling(url, "tokens-100", "invocations-response-stream", seconds * 2),
            "tokens/s, each sent by itself": 100
            * ceiling(url, "tokens-100-each", "invocations-response-stream", seconds * 2),
        }
        print(ceilings_text(limits), flush=True)
        often = [case for case in cases(driver) if options.only in case.name]
        rare = rare_cases(driver, streams, quick=options.quick)
        rare = [case for case in rare if options.only in case.name]
        for number in range(rounds):
            is_rare = number < rare_rounds
            for case in often + (rare if is_rare else []):
                case.round(number, with_slow=is_rare)
            elapsed = time.perf_counter() - began
            print(f"round {number + 1} of {rounds}, {elapsed:.0f} s", file=sys.stderr, flush=True)
    done = often + rare
    for case in done:
        print("\n" + table(case))
    print("\n" + targets_table(TARGETS, done, streams))
    print(
        f"\n{rounds} rounds in {time.perf_counter() - began:.0f} s, load {os.getloadavg()[0]:.1f}"
    )
    if options.plot:
        plot(done, options.plot)
    sys.stdout.flush()
    # litellm's threads and sessions would keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
