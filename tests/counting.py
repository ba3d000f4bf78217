"""Counts of what code does, the same on any machine.

Instructions are bytecodes (`sys.settrace` with `f_trace_opcodes`), calls are of Python and C
functions (`sys.setprofile`).
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_instructions(run: Callable[[], None]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def count_calls(run: Callable[[], None]) -> int:
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
