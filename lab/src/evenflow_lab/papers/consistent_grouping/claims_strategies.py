"""Claims on ε and on the strategies of assignment: §VII-B, Q1, Figures 6 and 7."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments.reading import judged, number, rising, spanned
from evenflow_lab.papers.consistent_grouping.measures import (
    beside,
    chosen,
    excess,
    extreme,
    has,
    memory,
    over,
    place,
    relative,
    symbol,
    where,
)
from evenflow_lab.papers.consistent_grouping.terms import (
    CG,
    CH,
    CLOSE,
    EPSILON,
    KG,
    PKG,
    PORC,
    POTC,
    SG,
)


@claim(
    "epsilon-trade-off",
    "§II, §V-A, §VII-B",
    figures=["fig6"],
    says="ε trades imbalance for memory: CG has low imbalance at low ε and low memory at high ε.",
)
def epsilon_trade_off(rows: Rows) -> Verdict:
    held, findings = True, []
    for scheme in has(rows["fig6"], CG):
        found = sorted(where(rows["fig6"], grouping=scheme), key=lambda row: row["epsilon"])
        uneven, replicas = [relative(row) for row in found], [memory(row) for row in found]
        held &= all(a <= 1.01 * b for a, b in pairwise(uneven))
        held &= all(a >= 0.99 * b for a, b in pairwise(replicas))
        held &= uneven[0] < uneven[-1] and replicas[0] > replicas[-1]
        findings.append(
            f"{symbol(found[0])} from ε = {found[0]['epsilon']:g} to {found[-1]['epsilon']:g}: "
            f"imbalance ÷ average load {number(uneven[0])} → {number(uneven[-1])}, replicas per key "
            f"{number(replicas[0])} → {number(replicas[-1])}"
        )
    return judged(
        held,
        "; ".join(findings),
        "imbalance never falls and memory never rises from one ε to the next (1 % for chance), and "
        "their ends differ",
    )


@claim(
    "cg-between-kg-and-sg",
    "§VII-B, Q1",
    figures=["fig6"],
    says="CG interpolates well between KG and SG.",
)
def cg_between_kg_and_sg(rows: Rows) -> Verdict:
    fig = rows["fig6"]
    kg, sg = where(fig, grouping=KG)[0], where(fig, grouping=SG)[0]
    found = chosen(fig, CG)
    # KG over 100 virtual workers is another draw of hash functions than KG over 10 workers.
    between = [
        relative(sg) <= relative(row) <= 1.25 * relative(kg)
        and memory(kg) <= memory(row) <= memory(sg)
        for row in found
    ]
    return judged(
        all(between),
        f"Imbalance ÷ average load: SG {number(relative(sg))}, CG "
        f"{number(min(map(relative, found)))} … {number(max(map(relative, found)))}, KG "
        f"{number(relative(kg))}; replicas per key: KG {number(memory(kg))}, CG "
        f"{number(min(map(memory, found)))} … {number(max(map(memory, found)))}, SG "
        f"{number(memory(sg))}; between both in {sum(between)} of {len(between)} runs",
        "between the two in imbalance (KG's with a quarter for the luck of its hash function) and in "
        "memory, at every ε",
        "At ε = 10 CG is KG with another hash function, over 100 virtual workers: which keys meet the "
        "top key on its worker is luck, and more than a quarter of it.",
    )


@claim(
    "epsilon-middle-ground",
    "§VII-B, Q1",
    figures=["fig6"],
    says="ε = 0.01 is a middle ground between memory and imbalance.",
)
def epsilon_middle_ground(rows: Rows) -> Verdict:
    fig = rows["fig6"]
    kg, sg = where(fig, grouping=KG)[0], where(fig, grouping=SG)[0]
    found = [row for row in chosen(fig, CG) if row["epsilon"] == EPSILON]
    gone = [(memory(row) - memory(kg)) / (memory(sg) - memory(kg)) for row in found]
    return judged(
        all(relative(row) < relative(kg) / 10 for row in found) and all(g < 0.5 for g in gone),
        "At ε = 0.01: "
        + "; ".join(
            f"{symbol(row)} has {number(relative(row) / relative(kg))} of KG's imbalance and "
            f"{number(100 * share)} % of the way from KG's memory to SG's"
            for row, share in zip(found, gone, strict=True)
        ),
        "less than a tenth of KG's imbalance, and memory nearer to KG's than to SG's",
    )


@claim(
    "fig7-high-imbalance",
    "§VII-B, Q1",
    figures=["fig7"],
    says="On 50 to 1000 bins KG and PKG generate high imbalance, PoTC and SG nearly perfect balance.",
)
def fig7_high_imbalance(rows: Rows) -> Verdict:
    fig = rows["fig7"]
    high, low = chosen(fig, KG, PKG), chosen(fig, POTC, SG)
    return judged(
        all(relative(row) > 10 * EPSILON for row in high)
        and all(relative(row) < EPSILON for row in low),
        f"Imbalance ÷ average load: {over(high, 'workers', relative)}; the others at most "
        f"{extreme(low, relative)}",
        "KG and PKG above ten times ε everywhere, PoTC and SG below ε",
    )


@claim(
    "fig7-bounded",
    "§VII-B, Q1",
    figures=["fig7"],
    says="CH and PoRC bound the imbalance close to a constant factor from ε.",
)
def fig7_bounded(rows: Rows) -> Verdict:
    found = chosen(rows["fig7"], CH, PORC)
    return judged(
        all(excess(row) <= 1 for row in found),
        f"Imbalance ÷ average load: {over(found, 'workers', relative)}",
        "at most ε and one message, on every number of bins",
    )


@claim(
    "fig7-linear",
    "§VII-B, Q1",
    figures=["fig7"],
    says="The imbalance of KG and PKG grows linearly with the number of workers.",
)
def fig7_linear(rows: Rows) -> Verdict:
    fig, held, findings = rows["fig7"], True, []
    for scheme in (KG, PKG):
        found = sorted(where(fig, grouping=scheme), key=lambda row: row["workers"])
        n = np.array([row["workers"] for row in found], float)
        y = np.array([relative(row) for row in found])
        slope = np.polyfit(n, y, 1)[0]
        fit = float(np.corrcoef(n, y)[0, 1] ** 2)
        held &= fit > 0.99 and slope > 0
        findings.append(f"{symbol(found[0])} {slope:.4f} a worker (R² = {fit:.4f})")
    return judged(
        held,
        f"Slope of imbalance ÷ average load over n: {', '.join(findings)}; p₁ = 0.0932 for a key on "
        "one worker, half of it on two",
        "a straight line explains more than 99 % of the variance",
    )


@claim(
    "porc-memory-as-pkg",
    "§VII-B, Q1",
    figures=["fig7"],
    says="PoRC keeps the memory footprint as low as PKG.",
)
def porc_memory_as_pkg(rows: Rows) -> Verdict:
    fig = rows["fig7"]
    found = chosen(fig, PORC, PKG)
    ratios = [memory(row) / memory(beside(fig, row, PKG)) for row in chosen(fig, PORC)]
    return judged(
        max(ratios) <= 1.05,
        f"Replicas per key: {over(found, 'workers', memory)}; PoRC's are {number(min(ratios))} … "
        f"{number(max(ratios))} of PKG's",
        "at most 5 % more than PKG on every number of bins",
        "A bin whose own keys bring more than the average stays at its capacity, and every key that "
        "finds it full is sent on, rare ones too; the more bins, the more of them are full.",
    )


@claim(
    "porc-memory-near-kg",
    "§VII-B, Q1",
    figures=["fig7"],
    says="PoRC generates a nearly perfect memory footprint, very close to KG's.",
)
def porc_memory_near_kg(rows: Rows) -> Verdict:
    found = chosen(rows["fig7"], PORC)
    return judged(
        all(memory(row) <= CLOSE for row in found),
        f"Replicas per key (KG's is 1): {over(found, 'workers', memory)}",
        "at most a tenth more than KG",
        "Nearly perfect in the sense of §VI-B (at most two per key), but more than a tenth above KG; "
        "see porc-memory-as-pkg.",
    )


@claim(
    "ch-more-memory-than-porc",
    "§VII-B, Q1 and Q2",
    figures=["fig4", "fig7"],
    says="CH, which sends on to the next worker of the ring, needs more memory than PoRC, which sends "
    "on at random.",
)
def ch_more_memory_than_porc(rows: Rows) -> Verdict:
    ratios = {}
    for fig in (rows["fig4"], rows["fig7"]):
        for row in where(fig, grouping=CH):
            ratio = memory(row) / memory(beside(fig, row, PORC))
            ratios[f"{symbol(row)}, {place(row)}"] = ratio
    fewer = sum(ratio <= 1 for ratio in ratios.values())
    return judged(
        not fewer,
        f"CH has {spanned(ratios)} times the replicas of PoRC; not more in {fewer} of "
        f"{len(ratios)} cases",
        "more replicas at every point",
    )


@claim(
    "sg-memory-grows",
    "§III-D, §VI-B",
    figures=["fig7"],
    says="The memory of PoTC and SG grows with the number of workers, in the worst case in proportion.",
)
def sg_memory_grows(rows: Rows) -> Verdict:
    held, found = True, chosen(rows["fig7"], POTC, SG)
    for scheme in (POTC, SG):
        replicas = [memory(row) for row in where(found, grouping=scheme)]
        bins = [row["workers"] for row in where(found, grouping=scheme)]
        held &= rising(replicas)
        held &= replicas[-1] <= bins[-1]
    return judged(
        held,
        f"Replicas per key: {over(found, 'workers', memory)}",
        "growing with every step, and never above n",
    )
