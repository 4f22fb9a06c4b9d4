"""Claims on the pair-wise algorithms: §5.2.2, Figures 6 to 8."""

from __future__ import annotations

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.borealis import terms

ONE_WAY = (terms.COR_BAL, terms.LLF_BAL, terms.RAND_BAL)


def _one_way(rows: Rows, column: str) -> dict[str, read.Curve]:
    return dict(zip(ONE_WAY, terms.curves(rows["fig6"], "level", column, *ONE_WAY), strict=True))


@claim(
    "cor-bal-best-one-way",
    "§5.2.2, Figure 6",
    figures=["fig6"],
    says="Of the one-way pair-wise algorithms, COR-BAL has the best performance.",
)
def cor_bal_best_one_way(rows: Rows) -> Verdict:
    held, words = terms.better(rows["fig6"], terms.COR_BAL, (terms.LLF_BAL, terms.RAND_BAL), 1.0)
    return read.judged(
        held,
        words,
        f"at least 1 at every level, {terms.LATENCY_RULE}",
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
def one_way_move_the_same(rows: Rows) -> Verdict:
    curves = _one_way(rows, terms.MOVED)
    totals = {name: sum(curve.values()) for name, curve in curves.items()}
    return read.judged(
        max(totals.values()) <= terms.ALIKE * min(totals.values()),
        f"load moved, by level: {read.all_listed(curves)}",
        "in all within a quarter of each other",
    )


@claim(
    "one-way-much-worse-than-global",
    "§5.2.2, Figure 6",
    figures=["fig6"],
    says="The performance of the one-way pair-wise algorithms is much worse than that of COR-GLB.",
)
def one_way_much_worse_than_global(rows: Rows) -> Verdict:
    held, words = terms.better(rows["fig6"], terms.COR_GLB, ONE_WAY, terms.MUCH, from_level=0.7)
    return read.judged(
        held,
        words,
        f"at least 1.5 at every level from 0.7 on, {terms.LATENCY_RULE}",
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
def improved_much_better_than_one_way(rows: Rows) -> Verdict:
    found = [
        terms.better(rows["fig7"], name, (terms.COR_BAL,), terms.MUCH)
        for name in (terms.RE_IMP, terms.SE_IMP)
    ]
    moved = terms.along(rows["fig7"], "level", terms.MOVED, grouping=terms.RE_IMP)
    return read.judged(
        all(held for held, _ in found),
        f"{'; '.join(words for _, words in found)}; load moved by COR-RE-IMP: {read.listed(moved)}",
        f"at least 1.5 at every level for both, {terms.LATENCY_RULE}",
        "At the highest level nearly every node is above its divergent level most of the time, and "
        "redistribution goes on without end: see the load that it moves.",
    )


def _at_09(rows: Rows, column: str, *names: str) -> dict[str, float]:
    return {name: terms.typical(rows["fig8"], column, grouping=name) for name in names}


@claim(
    "redistribution-moves-much-more",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="COR-RE-IMP moves much more load than COR-SE-IMP.",
)
def redistribution_moves_much_more(rows: Rows) -> Verdict:
    found = _at_09(rows, terms.MOVED, terms.RE_IMP, terms.SE_IMP)
    return read.judged(
        found[terms.RE_IMP] >= terms.MUCH * found[terms.SE_IMP],
        f"load moved: {read.named(found)}",
        "at least 1.5 times as much",
    )


@claim(
    "redistribution-plan-closer-to-global",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The quality of COR-RE-IMP's final plan is closer to that of the global algorithm than "
    "that of COR-SE-IMP's.",
)
def redistribution_plan_closer_to_global(rows: Rows) -> Verdict:
    found = _at_09(rows, "final_deviation", terms.COR_GLB, terms.RE_IMP, terms.SE_IMP)
    target = found[terms.COR_GLB]
    return read.judged(
        abs(found[terms.RE_IMP] - target) < abs(found[terms.SE_IMP] - target),
        f"load deviation in the last 20 s: {read.named(found)}",
        "COR-RE-IMP's is nearer to COR-GLB's",
    )


@claim(
    "redistribution-worse-on-average",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The average performance of COR-RE-IMP is worse than that of COR-SE-IMP.",
)
def redistribution_worse_on_average(rows: Rows) -> Verdict:
    found = _at_09(rows, terms.LATENCY, terms.RE_IMP, terms.SE_IMP)
    last = _at_09(rows, "final_latency_ratio", terms.RE_IMP, terms.SE_IMP)
    return read.judged(
        found[terms.RE_IMP] > found[terms.SE_IMP],
        f"latency ratio: {read.named(found)}; in the last 20 s: {read.named(last)}",
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
def global_moves_less_than_redistribution(rows: Rows) -> Verdict:
    found = _at_09(rows, terms.MOVED, terms.COR_GLB, terms.RE_IMP)
    return read.judged(
        found[terms.COR_GLB] < found[terms.RE_IMP],
        f"load moved: {read.named(found)}",
        "COR-GLB's is smaller",
    )


@claim(
    "global-better-than-redistribution",
    "§5.2.2, Figure 8",
    figures=["fig8"],
    says="The global algorithm achieves better performance than COR-RE-IMP.",
)
def global_better_than_redistribution(rows: Rows) -> Verdict:
    found = _at_09(rows, terms.LATENCY, terms.COR_GLB, terms.RE_IMP)
    last = _at_09(rows, "final_latency_ratio", terms.COR_GLB, terms.RE_IMP)
    plan = _at_09(rows, "final_deviation", terms.COR_GLB, terms.RE_IMP)
    return read.judged(
        found[terms.COR_GLB] < found[terms.RE_IMP],
        f"latency ratio: {read.named(found)}; in the last 20 s: {read.named(last)}; load deviation in "
        f"the last 20 s: {read.named(plan)}",
        "COR-GLB's is smaller",
        "It is placed once and left alone, while COR-RE-IMP goes on balancing average loads: near "
        "saturation a node that is a little too full works off its queue slowly. In the last seconds "
        "the two are as stands there.",
    )
