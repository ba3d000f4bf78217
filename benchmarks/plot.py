"""The picture of the ratios."""

import datetime as dt
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from benchmarks.measure import Case, spread

_SHOWN = (
    "call",
    "async call, 64 in flight",
    "stream 2,000 tokens",
    "async stream 100 tokens, 64 in flight",
    "the same, an event a write",
    "tool-call stream",
    "many streams",
    "long stream",
    "decode events",
    "decode frames",
)


def plot(done: Sequence[Case], path: Path) -> None:
    """Write bars of the medians with their quartiles, one panel for each case."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [case for case in done if case.name in _SHOWN]
    figure, panels = plt.subplots(len(shown) // 2, 2, figsize=(12, 1.6 * len(shown)))
    for case, panel in zip(shown, panels.flat, strict=False):
        names = list(case.runs)
        spreads = [spread(case.ratios(name)) for name in names]
        panel.barh(
            names,
            [middle for middle, _, _ in spreads],
            xerr=(
                [middle - low for middle, low, _ in spreads],
                [high - middle for middle, _, high in spreads],
            ),
            color=["#888888" if name == case.reference else "#2a6f97" for name in names],
        )
        for row, (middle, _, high) in enumerate(spreads):
            panel.text(high, row, f"  {middle:.2f}", va="center", fontsize=8)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.set_title(f"{case.name}: {case.unit}, {case.reference} = 1", fontsize=8)
        panel.tick_params(labelsize=8)
    today = dt.datetime.now(tz=dt.UTC).date()
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    load = f"load {os.getloadavg()[0]:.1f}"
    figure.suptitle(f"{today}, {machine}, {load}; bars are medians, lines quartiles")
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(path, dpi=90)
