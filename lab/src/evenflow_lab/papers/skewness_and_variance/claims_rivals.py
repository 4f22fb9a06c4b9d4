"""Claims on MixedBF and Readj: §I and §V, Figure 12."""

from __future__ import annotations

from typing import Any

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.skewness_and_variance import terms


def _curve(rows: Rows, planner: str, column: str) -> dict[Any, float]:
    return read.along(rows["fig12"], "fluctuation", column, grouping=planner)


@claim(
    "readj-slower-as-f-grows",
    "§V, Figure 12(a)",
    figures=["fig12"],
    says="When increasing f, Readj presents less promising efficiency when generating a plan.",
)
def readj_slower_as_f_grows(rows: Rows) -> Verdict:
    times = _curve(rows, terms.READJ, terms.TIME)
    correlation = read.rank_correlation(times)
    return read.judged(
        correlation >= terms.GROWS,
        f"Readj's planning time by f: {read.listed(times, ' ms')}; rank correlation {correlation:.2f}",
        "at least 0.8",
        "Its time depends on how many keys its search for σ lets take part, and less on how far the "
        "loads have jumped.",
    )


@claim(
    "mixed-faster-than-readj",
    "§V, Figure 12(a)",
    figures=["fig12"],
    says="Mixed outperforms Readj by a large margin in planning time.",
)
def mixed_faster_than_readj(rows: Rows) -> Verdict:
    ratios = read.ratios(
        _curve(rows, terms.READJ, terms.TIME), _curve(rows, terms.MIXED, terms.TIME)
    )
    return read.judged(
        min(ratios.values()) >= terms.GREATLY,
        f"Readj's time over literal Mixed's, by f: {read.listed(ratios)}",
        "at least 2 at every f",
    )


@claim(
    "brute-force-is-slow",
    "§V, Figure 12(a)",
    figures=["fig12"],
    says="Brute force search with MixedBF is a poor option for migration scheduling.",
)
def brute_force_is_slow(rows: Rows) -> Verdict:
    ratios = read.ratios(
        _curve(rows, terms.BRUTE_FORCE, terms.TIME), _curve(rows, terms.MIXED, terms.TIME)
    )
    moving = {f: ratio for f, ratio in ratios.items() if f > 0}
    return read.judged(
        min(moving.values()) >= terms.GREATLY,
        f"MixedBF's time over literal Mixed's, by f: {read.listed(ratios)}",
        "at least 2 at every f above 0",
    )


@claim(
    "mixed-cost-grows-slower-than-readjs",
    "§V, Figure 12(b)",
    figures=["fig12"],
    says="When variances occur more frequently (higher f), Mixed's migration cost grows slower than "
    "Readj's.",
)
def mixed_cost_grows_slower_than_readjs(rows: Rows) -> Verdict:
    mixed, readj = (_curve(rows, planner, terms.COST) for planner in (terms.MIXED, terms.READJ))
    low, high = min(f for f in mixed if f > 0), max(mixed)
    growth = {"Mixed": mixed[high] - mixed[low], "Readj": readj[high] - readj[low]}
    return read.judged(
        growth["Mixed"] < growth["Readj"],
        f"migration cost by f: literal Mixed {read.listed(mixed, ' %')}; Readj "
        f"{read.listed(readj, ' %')}; from f = {low:g} to {high:g} Mixed's grows by "
        f"{read.number(growth['Mixed'])}, Readj's by "
        f"{read.number(growth['Readj'])} points",
        "Mixed's by less",
    )


@claim(
    "readj-migrates-more",
    "§I",
    figures=["fig12"],
    says="Readj adjusts the keys with big load, which incurs expensive migration cost for stateful "
    "operators.",
)
def readj_migrates_more(rows: Rows) -> Verdict:
    ratios = read.ratios(
        _curve(rows, terms.READJ, terms.COST), _curve(rows, terms.MIXED, terms.COST)
    )
    moving = {f: ratio for f, ratio in ratios.items() if f > 0}
    return read.judged(
        min(moving.values()) > 1,
        f"Readj's migration cost over literal Mixed's, by f: {read.listed(ratios)}",
        "above 1 at every f above 0",
    )


@claim(
    "brute-force-costs-the-same",
    "§V, Figure 12(b)",
    figures=["fig12"],
    says="MixedBF performs similarly to Mixed in migration cost.",
)
def brute_force_costs_the_same(rows: Rows) -> Verdict:
    ratios = read.ratios(
        _curve(rows, terms.BRUTE_FORCE, terms.COST), _curve(rows, terms.MIXED, terms.COST)
    )
    return read.judged(
        all(1 / terms.ABOUT <= ratio <= terms.ABOUT for ratio in ratios.values()),
        f"MixedBF's migration cost over literal Mixed's, by f: {read.listed(ratios)}",
        "within a quarter of 1 at every f",
    )
