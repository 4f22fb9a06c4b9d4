"""Claims on MixedBF and Readj: §I and §V, Figure 12."""

from __future__ import annotations

from pathlib import Path

from evenflow_lab.experiments import claim
from evenflow_lab.experiments.declaration import load_module

read = load_module(Path(__file__).with_name("reading.py"))


def _curve(rows, planner, column):
    return read.along(rows["fig12"], "fluctuation", column, grouping=planner)


@claim(
    "readj-slower-as-f-grows",
    "§V, Figure 12(a)",
    figures=["fig12"],
    says="When increasing f, Readj presents less promising efficiency when generating a plan.",
)
def readj_slower_as_f_grows(rows):
    times = _curve(rows, read.READJ, read.TIME)
    correlation = read.grows(times)
    return read.judged(
        correlation >= read.GROWS,
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
def mixed_faster_than_readj(rows):
    ratios = read.ratios(_curve(rows, read.READJ, read.TIME), _curve(rows, read.MIXED, read.TIME))
    return read.judged(
        min(ratios.values()) >= read.GREATLY,
        f"Readj's time over Mixed's, by f: {read.listed(ratios)}",
        "at least 2 at every f",
    )


@claim(
    "brute-force-is-slow",
    "§V, Figure 12(a)",
    figures=["fig12"],
    says="Brute force search with MixedBF is a poor option for migration scheduling.",
)
def brute_force_is_slow(rows):
    ratios = read.ratios(
        _curve(rows, read.BRUTE_FORCE, read.TIME), _curve(rows, read.MIXED, read.TIME)
    )
    moving = {f: ratio for f, ratio in ratios.items() if f > 0}
    return read.judged(
        min(moving.values()) >= read.GREATLY,
        f"MixedBF's time over Mixed's, by f: {read.listed(ratios)}",
        "at least 2 at every f above 0",
    )


@claim(
    "mixed-cost-grows-slower-than-readjs",
    "§V, Figure 12(b)",
    figures=["fig12"],
    says="When variances occur more frequently (higher f), Mixed's migration cost grows slower than "
    "Readj's.",
)
def mixed_cost_grows_slower_than_readjs(rows):
    mixed, readj = (_curve(rows, planner, read.COST) for planner in (read.MIXED, read.READJ))
    low, high = min(f for f in mixed if f > 0), max(mixed)
    growth = {"Mixed": mixed[high] - mixed[low], "Readj": readj[high] - readj[low]}
    return read.judged(
        growth["Mixed"] < growth["Readj"],
        f"migration cost by f: Mixed {read.listed(mixed, ' %')}; Readj {read.listed(readj, ' %')}; "
        f"from f = {low:g} to {high:g} Mixed's grows by {read.number(growth['Mixed'])}, Readj's by "
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
def readj_migrates_more(rows):
    ratios = read.ratios(_curve(rows, read.READJ, read.COST), _curve(rows, read.MIXED, read.COST))
    moving = {f: ratio for f, ratio in ratios.items() if f > 0}
    return read.judged(
        min(moving.values()) > 1,
        f"Readj's migration cost over Mixed's, by f: {read.listed(ratios)}",
        "above 1 at every f above 0",
    )


@claim(
    "brute-force-costs-the-same",
    "§V, Figure 12(b)",
    figures=["fig12"],
    says="MixedBF performs similarly to Mixed in migration cost.",
)
def brute_force_costs_the_same(rows):
    ratios = read.ratios(
        _curve(rows, read.BRUTE_FORCE, read.COST), _curve(rows, read.MIXED, read.COST)
    )
    return read.judged(
        all(1 / read.ABOUT <= ratio <= read.ABOUT for ratio in ratios.values()),
        f"MixedBF's migration cost over Mixed's, by f: {read.listed(ratios)}",
        "within a quarter of 1 at every f",
    )
