"""Claims on the pair-wise algorithms: §5.2.2, Figures 6 to 8."""

from __future__ import annotations

from pathlib import Path

from evenflow_lab.experiments import claim
from evenflow_lab.experiments.declaration import load_module

read = load_module(Path(__file__).with_name("reading.py"))

ONE_WAY = (read.COR_BAL, read.LLF_BAL, read.RAND_BAL)


def _listed(curves):
    return "; ".join(f"{name} {read.listed(curve)}" for name, curve in curves.items())


def _one_way(rows, column):
    return dict(zip(ONE_WAY, read.curves(rows["fig6"], "level", column, *ONE_WAY), strict=True))


@claim(
    "cor-bal-best-one-way",
    "§5.2.2, Figure 6",
    figures=["fig6"],
    says="Of the one-way pair-wise algorithms, COR-BAL has the best performance.",
)
def cor_bal_best_one_way(rows):
    curves = _one_way(rows, read.LATENCY)
    over = {
        name: read.ratios(curves[name], curves[read.COR_BAL])
        for name in (read.LLF_BAL, read.RAND_BAL)
    }
    return read.judged(
        min(ratio for curve in over.values() for ratio in curve.values()) >= 1,
        f"latency ratio over that of COR-BAL, by level: {_listed(over)}",
        "at least 1 at every level",
        "In a connected plan all operators of a node belong to one chain and are perfectly "
        "correlated: they have the same score. One or two of them move, and then loads are within the "
        "threshold: there is nothing to choose between.",
    )


@claim(
    "one-way-move-the-same",
    "§5.2.2, Figure 6",
    figures=["fig6"],
    says="The amount of load moved by the one-way algorithms is almost the same.",
)
def one_way_move_the_same(rows):
    curves = _one_way(rows, read.MOVED)
    totals = {name: sum(curve.values()) for name, curve in curves.items()}
    return read.judged(
        max(totals.values()) <= read.ALIKE * min(totals.values()),
        f"load moved, by level: {_listed(curves)}",
        "in all within a quarter of each other",
    )


@claim(
    "one-way-much-worse-than-global",
    "§5.2.2, Figure 6",
    figures=["fig6"],
    says="The performance of the one-way pair-wise algorithms is much worse than that of COR-GLB.",
)
def one_way_much_worse_than_global(rows):
    [ours] = read.curves(rows["fig6"], "level", read.LATENCY, read.COR_GLB)
    over = {name: read.ratios(curve, ours) for name, curve in _one_way(rows, read.LATENCY).items()}
    high = [ratio for curve in over.values() for level, ratio in curve.items() if level >= 0.7]
    return read.judged(
        min(high) >= read.MUCH,
        f"latency ratio over that of COR-GLB, by level: {_listed(over)}",
        "at least 1.5 at every level from 0.7 on",
        "Close to saturation what has queued in the warm-up is hardly worked off before the end, "
        "whatever the plan.",
    )


@claim(
    "improved-much-better-than-one-way",
    "§5.2.2, Figure 7",
    figures=["fig7"],
    says="The latency ratios of the improved two-way algorithms are much smaller than that of the "
    "one-way algorithm.",
)
def improved_much_better_than_one_way(rows):
    one_way, *improved = read.curves(
        rows["fig7"], "level", read.LATENCY, read.COR_BAL, read.RE_IMP, read.SE_IMP
    )
    over = {
        name: read.ratios(one_way, curve)
        for name, curve in zip((read.RE_IMP, read.SE_IMP), improved, strict=True)
    }
    moved = read.along(rows["fig7"], "level", read.MOVED, grouping=read.RE_IMP)
    return read.judged(
        min(ratio for curve in over.values() for ratio in curve.values()) >= read.MUCH,
        f"latency ratio of COR-BAL over theirs, by level: {_listed(over)}; load moved by COR-RE-IMP: "
        f"{read.listed(moved)}",
        "at least 1.5 at every level",
        "At the highest level nearly every node is above its divergent level most of the time, and "
        "redistribution goes on without end: see the load that it moves.",
    )


def _at_09(rows, column, *names):
    return {name: read.typical(rows["fig8"], column, grouping=name) for name in names}


def _words(found):
    return ", ".join(f"{name} {read.number(value)}" for name, value in found.items())


@claim(
    "redistribution-moves-much-more",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="COR-RE-IMP moves much more load than COR-SE-IMP.",
)
def redistribution_moves_much_more(rows):
    found = _at_09(rows, read.MOVED, read.RE_IMP, read.SE_IMP)
    return read.judged(
        found[read.RE_IMP] >= read.MUCH * found[read.SE_IMP],
        f"load moved: {_words(found)}",
        "at least 1.5 times as much",
    )


@claim(
    "redistribution-plan-closer-to-global",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The quality of COR-RE-IMP's final plan is closer to that of the global algorithm than "
    "that of COR-SE-IMP's.",
)
def redistribution_plan_closer_to_global(rows):
    found = _at_09(rows, "final_deviation", read.COR_GLB, read.RE_IMP, read.SE_IMP)
    target = found[read.COR_GLB]
    return read.judged(
        abs(found[read.RE_IMP] - target) < abs(found[read.SE_IMP] - target),
        f"load deviation in the last 20 s: {_words(found)}",
        "COR-RE-IMP's is nearer to COR-GLB's",
    )


@claim(
    "redistribution-worse-on-average",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The average performance of COR-RE-IMP is worse than that of COR-SE-IMP.",
)
def redistribution_worse_on_average(rows):
    found = _at_09(rows, read.LATENCY, read.RE_IMP, read.SE_IMP)
    last = _at_09(rows, "final_latency_ratio", read.RE_IMP, read.SE_IMP)
    return read.judged(
        found[read.RE_IMP] > found[read.SE_IMP],
        f"latency ratio: {_words(found)}; in the last 20 s: {_words(last)}",
        "COR-RE-IMP's is larger",
        "The paper says itself that it depends on the workload and the migration time. Here both "
        "spend most of the latency in the first seconds, on what the connected plan has left.",
    )


@claim(
    "global-moves-less-than-redistribution",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The global algorithm moves less load than COR-RE-IMP.",
)
def global_moves_less_than_redistribution(rows):
    found = _at_09(rows, read.MOVED, read.COR_GLB, read.RE_IMP)
    return read.judged(
        found[read.COR_GLB] < found[read.RE_IMP],
        f"load moved: {_words(found)}",
        "COR-GLB's is smaller",
    )


@claim(
    "global-better-than-redistribution",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The global algorithm achieves better performance than COR-RE-IMP.",
)
def global_better_than_redistribution(rows):
    found = _at_09(rows, read.LATENCY, read.COR_GLB, read.RE_IMP)
    last = _at_09(rows, "final_latency_ratio", read.COR_GLB, read.RE_IMP)
    plan = _at_09(rows, "final_deviation", read.COR_GLB, read.RE_IMP)
    return read.judged(
        found[read.COR_GLB] < found[read.RE_IMP],
        f"latency ratio: {_words(found)}; in the last 20 s: {_words(last)}; load deviation in the "
        f"last 20 s: {_words(plan)}",
        "COR-GLB's is smaller",
        "It is placed once and left alone, while COR-RE-IMP goes on balancing average loads: near "
        "saturation a node that is a little too full works off its queue slowly. In the last seconds "
        "the two are as stands there.",
    )
