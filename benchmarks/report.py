"""Tables of figures."""

from collections.abc import Mapping, Sequence

from benchmarks.measure import Case, spread
from benchmarks.processes import ManyStreams
from benchmarks.targets import Target


def ceilings_text(limits: Mapping[str, float]) -> str:
    """Say what the endpoint itself can do, read by a client that does nothing."""
    return "The endpoint's own limit: " + ", ".join(
        f"{limit:,.0f} {unit}" for unit, limit in limits.items()
    )


def table(case: Case) -> str:
    """Return the figures of a case: medians, and ratios with their quartiles."""
    lines = [
        f"{case.name} ({case.unit}; ratios to {case.reference}, of the clock and of processor time)"
    ]
    for name in case.runs:
        middle, _, _ = spread(case.values(name))
        ratio, low, high = spread(case.ratios(name))
        by_cpu, cpu_low, cpu_high = spread(case.ratios(name, cpu=True))
        lines.append(
            f"  {name:30} {middle:12,.1f}   {ratio:6.2f} [{low:.2f}–{high:.2f}]"
            f"   cpu {by_cpu:6.2f} [{cpu_low:.2f}–{cpu_high:.2f}]"
        )
    return "\n".join(lines)


def reached(
    target: Target, case: Case, streams: ManyStreams, *, cpu: bool = False
) -> tuple[float, float, float]:
    """Return the median and quartiles of what a target speaks of."""
    if target.kind == "memory":
        return spread(streams.memory[target.subject])
    if target.kind == "lag":
        return spread(streams.lag[target.subject])
    if target.kind == "value":
        return spread(case.values(target.subject, cpu=cpu))
    if target.kind == "difference":
        pairs = case.pairs(target.subject, target.against)
        return spread([mine - theirs for mine, theirs in pairs])
    return spread(case.ratios(target.subject, target.against, cpu=cpu))


def targets_table(targets: Sequence[Target], done: Sequence[Case], streams: ManyStreams) -> str:
    """Return every target beside the figure reached."""
    by_name = {case.name: case for case in done}
    lines = ["Targets, with the figure reached (by the clock; by processor time)"]
    for target in targets:
        case = by_name.get(target.case)
        if case is None:
            continue
        figure, low, high = reached(target, case, streams)
        by_cpu, _, _ = reached(target, case, streams, cpu=True)
        sign = "≥" if target.kind == "ratio" else "≤"
        verdict = "met" if target.is_met(figure) else "MISSED"
        lines.append(
            f"  {target.text:42} {sign} {target.bound:<6g} {figure:8.2f} [{low:.2f}–{high:.2f}]"
            f"  cpu {by_cpu:8.2f}  {verdict}"
        )
    return "\n".join(lines)
