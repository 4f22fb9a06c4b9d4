"""Claims on consistent grouping and its rivals without time: §I, §VII-B, Figures 8 and 11."""

from __future__ import annotations

from evenflow_lab.experiments import FigureRows, Rows, Verdict, claim
from evenflow_lab.experiments.claims import Row
from evenflow_lab.experiments.reading import judged, number, rising
from evenflow_lab.papers.consistent_grouping.measures import (
    Measure,
    chosen,
    excess,
    extreme,
    has,
    memory,
    one,
    over,
    relative,
    symbol,
    values,
    where,
)
from evenflow_lab.papers.consistent_grouping.terms import (
    CG,
    CH,
    CLOSE,
    EPSILON,
    KG,
    NEARLY_OPTIMAL,
    PKG,
    POTC,
    SAME_ON_LOG_AXIS,
    SG,
)


def _virtual(row: Row) -> int:
    """Virtual workers of a worker, each of which may be one message above its bound, a source."""
    return int(row["parameters"].get("virtual", 1)) * int(row["sources"])


@claim(
    "kg-worst-balance-least-memory",
    "§VII-B, Q2",
    figures=["fig8"],
    says="KG performs worst in terms of imbalance while generating the optimal memory footprint.",
)
def kg_worst_balance_least_memory(rows: Rows) -> Verdict:
    fig, held = where(rows["fig8"]), True
    for n in values(fig, "workers"):
        here = where(fig, workers=n)
        kg = one(here, grouping=KG)
        held &= all(relative(row) <= relative(kg) for row in here)
        held &= all(memory(row) >= memory(kg) for row in here)
    others = [row for row in fig if row["grouping"] != KG]
    return judged(
        held,
        f"Imbalance ÷ average load: {over(chosen(fig, KG), 'workers', relative)}, of all others at "
        f"most {extreme(others, relative)}; replicas per key: KG "
        f"{number(max(map(memory, chosen(fig, KG))))}, others at least "
        f"{extreme(others, memory, least=True)}",
        "the largest imbalance and the fewest replicas of all schemes at every n",
    )


@claim(
    "pkg-even-on-few",
    "§VII-B, Q2",
    figures=["fig8"],
    says="PKG is nearly perfect in imbalance and memory on 5 and 10 workers; then its imbalance grows.",
)
def pkg_even_on_few(rows: Rows) -> Verdict:
    found = sorted(where(rows["fig8"], grouping=PKG), key=lambda row: row["workers"])
    few = [row for row in found if row["workers"] <= 10]
    many = [relative(row) for row in found if row["workers"] >= 10]
    return judged(
        all(relative(row) < EPSILON and memory(row) <= NEARLY_OPTIMAL for row in few)
        and rising(many)
        and many[-1] > EPSILON,
        f"Imbalance ÷ average load: {over(found, 'workers', relative)}; replicas per key: "
        f"{over(found, 'workers', memory)}",
        "below ε with at most two replicas per key for n ≤ 10; growing from there, to above ε",
    )


@claim(
    "potc-sg-alike",
    "§VII-B, Q2",
    figures=["fig8"],
    says="PoTC and SG perform very similarly, with nearly perfect imbalance.",
)
def potc_sg_alike(rows: Rows) -> Verdict:
    found = chosen(rows["fig8"], POTC, SG)
    ratios = [
        memory(row) / memory(one(found, grouping=SG, workers=row["workers"]))
        for row in where(found, grouping=POTC)
    ]
    return judged(
        all(relative(row) < EPSILON for row in found)
        and all(1 / CLOSE <= ratio <= CLOSE for ratio in ratios),
        f"Imbalance ÷ average load at most {extreme(found, relative)}; PoTC has {min(ratios):.3f} … "
        f"{max(ratios):.3f} times the replicas of SG",
        "both below ε, and replicas within a tenth of each other, at every n",
    )


@claim(
    "potc-sg-more-memory",
    "§VII-B, Q2",
    figures=["fig8"],
    says="PoTC and SG need more memory than all others.",
)
def potc_sg_more_memory(rows: Rows) -> Verdict:
    fig, held = where(rows["fig8"]), True
    for n in values(fig, "workers"):
        here = where(fig, workers=n)
        others = [memory(row) for row in here if row["grouping"] not in {POTC, SG}]
        held &= min(map(memory, chosen(here, POTC, SG))) > max(others)
    return judged(
        held,
        f"Replicas per key: {over(fig, 'workers', memory)}",
        "more replicas than every other scheme at every n",
    )


@claim(
    "ch-bounded",
    "§VII-B, Q2",
    figures=["fig8"],
    says="CH has bounded imbalance and less memory than PoTC and SG.",
)
def ch_bounded(rows: Rows) -> Verdict:
    fig = where(rows["fig8"])
    found = chosen(fig, CH)
    ratios = [
        memory(row) / memory(one(fig, grouping=other, workers=row["workers"]))
        for row in found
        for other in (POTC, SG)
    ]
    return judged(
        all(excess(row) <= 1 for row in found) and max(ratios) < 1,
        f"Imbalance ÷ average load at most {extreme(found, relative)}; replicas {min(ratios):.3f} … "
        f"{max(ratios):.3f} of those of PoTC and SG",
        "at most ε and one message; fewer replicas than either at every n",
    )


@claim(
    "cg-bounded",
    "§I, §VII-B, Q2",
    figures=["fig8"],
    says="CG provides bounded imbalance.",
)
def cg_bounded(rows: Rows) -> Verdict:
    found = chosen(rows["fig8"], CG)
    return judged(
        all(excess(row) <= _virtual(row) for row in found),
        f"Imbalance ÷ average load: {over(found, 'workers', relative)}",
        "at most ε, and one message for each virtual worker, at every n",
    )


@claim(
    "cg-memory-below-ch",
    "§VII-B, Q2",
    figures=["fig8"],
    says="CG improves the memory footprint compared to CH.",
)
def cg_memory_below_ch(rows: Rows) -> Verdict:
    fig = where(rows["fig8"])
    ratios = {
        f"n = {n}": memory(one(fig, grouping=CG, workers=n))
        / memory(one(fig, grouping=CH, workers=n))
        for n in values(fig, "workers")
    }
    return judged(
        max(ratios.values()) < 1,
        "CG's replicas ÷ CH's: " + ", ".join(f"{number(v)} ({k})" for k, v in ratios.items()),
        "fewer replicas at every n",
    )


@claim(
    "cg-memory-almost-optimal",
    "§I",
    figures=["fig8"],
    says="CG generates an almost optimal memory footprint.",
)
def cg_memory_almost_optimal(rows: Rows) -> Verdict:
    found = chosen(rows["fig8"], CG)
    return judged(
        all(memory(row) <= NEARLY_OPTIMAL for row in found),
        f"Replicas per key (1 is optimal): {over(found, 'workers', memory)}",
        'at most 2, which §VI-B calls "nearly optimal" of PKG',
    )


@claim(
    "flights-alike",
    "§VII-B, Q2",
    figures=["fig8"],
    says="(Ours) Bounded imbalance with less memory than CH, PoTC and SG also on real data: flights.",
)
def flights_alike(rows: Rows) -> Verdict:
    findings, held = [], True
    flights = [row for row in rows["fig8"] if row.get("workload_name") == "flights"]
    for key in sorted({row["key"] for row in flights}):
        here = [{**row, "extra": False} for row in flights if row["key"] == key]
        cg = where(here, grouping=CG)
        least = [
            min(memory(one(here, grouping=g, workers=row["workers"])) for g in (CH, POTC, SG))
            for row in cg
        ]
        held &= all(excess(row) <= _virtual(row) for row in cg)
        held &= all(memory(row) < other for row, other in zip(cg, least, strict=True))
        shown = ", ".join(
            f"{number(memory(row))} against {number(other)} (n = {row['workers']})"
            for row, other in zip(cg, least, strict=True)
        )
        findings.append(
            f"by {key}: imbalance ÷ average load at most {number(max(map(relative, cg)))}, replicas a "
            f"key of CG against the least of the three {shown}"
        )
    return judged(
        held,
        "; ".join(findings),
        "as for WP, at every n",
        "By origin there are only 229 keys. CG fills 10·n virtual workers, CH n workers: a key that "
        "has filled one of CG's virtual workers goes on to another worker even if its own has room, "
        "and with few workers that costs more than sending on at random saves.",
    )


@claim(
    "sources-imbalance",
    "§VII-B, Q3",
    figures=["fig11"],
    says="CG's imbalance almost remains the same, on a log scale, from 1 to 100 sources and from 5 to "
    "100 workers.",
)
def sources_imbalance(rows: Rows) -> Verdict:
    return _same(rows["fig11"], relative, "imbalance ÷ average load")


@claim(
    "sources-memory",
    "§VII-B, Q3",
    figures=["fig11"],
    says="CG's memory almost remains the same, on a log scale, from 1 to 100 sources and from 5 to 100 "
    "workers.",
)
def sources_memory(rows: Rows) -> Verdict:
    return _same(rows["fig11"], memory, "replicas per key")


def _same(fig: FigureRows, measure: Measure, words: str) -> Verdict:
    held, findings = True, []
    for scheme in has(fig, CG):
        found = where(fig, grouping=scheme)
        ends = min(map(measure, found)), max(map(measure, found))
        by_sources = [
            (max(here) / min(here), n)
            for n in values(found, "workers")
            if (here := [measure(row) for row in where(found, workers=n)])
        ]
        held &= ends[1] <= SAME_ON_LOG_AXIS * ends[0]
        findings.append(
            f"{symbol(found[0])} {number(ends[0])} … {number(ends[1])}; over the sources alone by a "
            f"factor of {number(max(by_sources)[0])} at most (n = {max(by_sources)[1]})"
        )
    return judged(
        held,
        f"{words}: " + "; ".join(findings),
        "all points within a factor of two, 0.3 of a decade",
        "The more sources and virtual workers share a stream, the fewer messages a source has for each "
        "of them: capacities are whole messages, and rounding up is no longer small beside ε; on the "
        "other side our default lets capacities lag by up to 16 messages each, which keeps a short "
        "stream below ε.",
    )
