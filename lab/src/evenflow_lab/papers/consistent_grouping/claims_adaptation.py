"""Claims on virtual workers and on changing machines: §VI-A, §VII-B, Q3, Figures 12 and 13."""

from __future__ import annotations

from statistics import median

from evenflow_lab.experiments import FigureRows, Rows, Verdict, claim
from evenflow_lab.experiments.claims import Row
from evenflow_lab.experiments.reading import judged, number
from evenflow_lab.papers.consistent_grouping.measures import (
    chosen,
    day,
    hours,
    mean_over,
    one,
    series,
    settled_after,
    symbol,
    values,
    where,
)
from evenflow_lab.papers.consistent_grouping.terms import (
    CG_100,
    KG,
    LATENCY,
    QUEUE,
    SAME_ON_LOG_AXIS,
    SG,
    UTILISATION,
    WORDS,
)


@claim(
    "virtual-5-too-few",
    "§VII-B, Q3",
    figures=["fig12"],
    says="5 virtual workers a worker do not give the desired results: too few to move around.",
)
def virtual_5_too_few(rows: Rows) -> Verdict:
    fig = rows["fig12"]
    held = all(
        _typical(fig, column, 0.5, 5, arrivals) > _typical(fig, column, 0.5, more, arrivals)
        for column in (QUEUE, UTILISATION)
        for arrivals in values(fig, "arrivals")
        for more in (10, 20, 50, 100)
    )
    return judged(
        held,
        _by_virtual(fig, 0.5),
        "in the second half of the stream worse in queue and utilisation than 10, 20, 50 and 100",
        "One of 5 is worth 0.35 of a weak machine's capacity, one of 10 is worth 0.18. In the busy "
        "hours nothing moves, and whether a machine is left above or below its share is luck with "
        "either; where it is above, its queue grows all evening. Under constant arrivals five go to "
        "and fro all day, but each stays too short a time for a queue to grow.",
    )


def _typical(fig: FigureRows, column: str, begin: float, virtual: int, arrivals: str) -> float:
    """The median over the seeds of a mean over time."""
    found = where(fig, virtual=virtual, arrivals=arrivals)
    return float(median(mean_over(row, column, begin) for row in found))


def _by_virtual(fig: FigureRows, begin: float) -> str:
    """The three measures over the numbers of virtual workers, for each arrival curve."""
    parts = [
        f"{WORDS[column]} "
        + ", ".join(
            number(_typical(fig, column, begin, v, arrivals)) for v in values(fig, "virtual")
        )
        + f" ({arrivals})"
        for arrivals in values(fig, "arrivals")
        for column in (QUEUE, LATENCY, UTILISATION)
    ]
    when = "over the stream" if begin == 0 else "over its second half"
    counts = ", ".join(map(str, values(fig, "virtual")))
    return f"Mean differences {when} with {counts} virtual workers: " + "; ".join(parts)


@claim(
    "virtual-10-as-20",
    "§VII-B, Q3",
    figures=["fig12"],
    says="10 and 20 virtual workers a worker perform similarly.",
)
def virtual_10_as_20(rows: Rows) -> Verdict:
    fig, findings, held = rows["fig12"], [], True
    for arrivals in values(fig, "arrivals"):
        for column in (QUEUE, LATENCY, UTILISATION):
            ten, twenty = (_typical(fig, column, 0.0, v, arrivals) for v in (10, 20))
            held &= max(ten, twenty) <= SAME_ON_LOG_AXIS * min(ten, twenty)
            findings.append(f"{WORDS[column]} {number(ten)} and {number(twenty)} ({arrivals})")
    return judged(
        held,
        "Mean differences over the stream with 10 and with 20: " + ", ".join(findings),
        "within a factor of two in all three",
        "With 20, a virtual worker is worth 0.09 of a weak machine's capacity, less than the 0.1 from "
        "idle to busy: all machines can come to rest in between. With 10 it is worth 0.18, and some "
        "are always busy or idle.",
    )


@claim(
    "virtual-1000-slow",
    "§VII-B, Q3",
    figures=["fig12"],
    says="With 1000 virtual workers a worker the system takes longer to converge.",
)
def virtual_1000_slow(rows: Rows) -> Verdict:
    fig, findings, held = rows["fig12"], [], True
    for arrivals in values(fig, "arrivals"):
        times = {
            v: median(map(settled_after, where(fig, virtual=v, arrivals=arrivals)))
            for v in values(fig, "virtual")
        }
        held &= all(times[1000] > time for count, time in times.items() if count != 1000)
        findings.append(
            ", ".join(f"{count}: {hours(times[count])}" for count in sorted(times))
            + f" ({arrivals})"
        )
    return judged(
        held,
        "Until the utilisation difference has halved: " + "; ".join(findings),
        "longer than with any other number",
    )


@claim(
    "virtual-1000-worse",
    "§VII-B, Q3",
    figures=["fig12"],
    says="That impacts the performance with 1000 virtual workers.",
)
def virtual_1000_worse(rows: Rows) -> Verdict:
    fig = rows["fig12"]
    held = all(
        _typical(fig, column, 0.0, 1000, arrivals) > _typical(fig, column, 0.0, 100, arrivals)
        for column in (QUEUE, LATENCY, UTILISATION)
        for arrivals in values(fig, "arrivals")
    )
    return judged(held, _by_virtual(fig, 0.0), "worse than 100 in all three, over the stream")


@claim(
    "virtual-100-best",
    "§VII-B, Q3",
    figures=["fig12"],
    says="100 virtual workers a worker give the best results.",
)
def virtual_100_best(rows: Rows) -> Verdict:
    fig = rows["fig12"]
    held = all(
        _typical(fig, column, 0.0, 100, arrivals) <= _typical(fig, column, 0.0, other, arrivals)
        for column in (QUEUE, LATENCY, UTILISATION)
        for arrivals in values(fig, "arrivals")
        for other in values(fig, "virtual")
    )
    return judged(
        held,
        _by_virtual(fig, 0.0) + ". " + _by_virtual(fig, 0.5),
        "the smallest of all six in all three differences, mean over the stream",
        "Three strong machines may take one virtual worker a slot each, and 380 must move: 127 slots, "
        "two hours of a day in which the weak machines' queues grow and have to be worked off; 20 and "
        "50 are there sooner and fine enough. Once at rest, under constant arrivals, 100 have the "
        "smallest difference of utilisation but not of queues. Slots of a quarter of the length do not "
        "change the order: chance weighs more in a shorter slot and moves virtual workers to and fro.",
    )


@claim(
    "virtual-proportional",
    "§VI-A",
    figures=["fig12"],
    says="The number of virtual workers of a worker becomes proportional to its capacity.",
)
def virtual_proportional(rows: Rows) -> Verdict:
    found = where(rows["fig12"], virtual=100)
    findings, held = [], True
    for row in found:
        y, z = row["heterogeneity"]
        n = row["workers"]
        total = row["virtual"] * n
        weak = total / (n - y + y * z)
        fewest, most = row["details"]["fewest"], row["details"]["most"]
        # A worker within the band has between 0.75/0.8 and 0.85/0.8 of its share.
        held &= 0.75 / 0.8 * weak - 1 <= fewest and most <= 0.85 / 0.8 * weak * z + 1
        findings.append(
            f"fewest {fewest} (share of a weak machine {weak:.1f}), most {most} (of a strong one "
            f"{weak * z:.1f}), {row['arrivals']}"
        )
    return judged(
        held,
        "At the end, with 100 a worker: " + "; ".join(findings),
        "within the band of 0.75 to 0.85 around 0.8 of each machine's capacity, one virtual worker "
        "more or less",
    )


@claim(
    "cg-adapts",
    "§VII-B, Q3",
    figures=["fig13"],
    says="CG adapts very efficiently to both changes of the machines' capacities.",
)
def cg_adapts(rows: Rows) -> Verdict:
    held, findings = True, []
    for row in chosen(rows["fig13"], CG_100):
        eras = _eras(row)
        before = mean_over(row, UTILISATION, eras[0][1] - 0.05, eras[0][1])
        shown = []
        for begin, end in eras[1:]:
            middle = (begin + end) / 2
            shock = mean_over(row, UTILISATION, begin, begin + 0.01)
            rest = mean_over(row, UTILISATION, middle, end)
            held &= rest <= SAME_ON_LOG_AXIS * before
            shown.append(f"{number(shock)} → {number(rest)}")
        findings.append(
            f"{symbol(row)} {number(before)}, then {', '.join(shown)} ({row['arrivals']})"
        )
    return judged(
        held,
        "Utilisation difference before the first change; then just after each change → in the second "
        "half of the time until the next, or the end: " + "; ".join(findings),
        "by then within a factor of two of what it was before the first change",
        "{2, 10} asks for some 200 moves to each of two machines, one a slot: more than three hours at "
        "best. With hourly arrivals the change comes in the busy hours, when an even cluster would run "
        "at 0.95: the strong machines are probed until they are above 0.85, before they have their "
        "share. Then all are overloaded, nobody is left to be probed, and nothing moves until the "
        "evening, while the weak machines stay at twice their capacity.",
    )


def _eras(row: Row) -> list[tuple[float, float]]:
    """Begin and end of the times between changes, as shares of the slots."""
    arrived = series(row, "messages")
    begins = [
        sum(messages < after for messages in arrived) / len(arrived) for after, _ in row["changes"]
    ]
    return list(zip([0.0, *begins], [*begins, 1.0], strict=True))


@claim(
    "cg-below-kg-sg-after-changes",
    "§VII-B, Q3",
    figures=["fig13"],
    says="While the capacities change, CG's queue, latency and imbalance stay below KG's and SG's.",
)
def cg_below_kg_sg_after_changes(rows: Rows) -> Verdict:
    fig, held, findings = rows["fig13"], True, []
    for column in (QUEUE, LATENCY, UTILISATION):
        held &= all(
            mean_over(row, column, begin, end)
            < mean_over(one(fig, grouping=other, arrivals=row["arrivals"]), column, begin, end)
            for row in chosen(fig, CG_100)
            for begin, end in _eras(row)
            for other in (KG, SG)
        )
        findings.append(f"{WORDS[column]} {day(where(fig), column)}")
    return judged(
        held,
        "Mean differences over the stream: " + "; ".join(findings),
        "smaller in each of the three eras, in all three measures",
    )
