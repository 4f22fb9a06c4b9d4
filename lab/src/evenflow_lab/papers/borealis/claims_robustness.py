"""Claims on parameters and bursty inputs: §5.2.3 and §5.2.4, Figures 9 and 10."""

from __future__ import annotations

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.experiments.claims import Judge
from evenflow_lab.papers.borealis import terms

CORRELATED = (terms.COR_GLB, terms.SE_IMP)
LARGEST = (terms.LLF_GLB, terms.LLF_BAL)
NOT_M = ("n", "window", "samples", "period", "ratio")


def _curve(rows: Rows, varied: str, name: str) -> dict[float, float]:
    return terms.along(rows["fig9"], "value", terms.LATENCY, varied=varied, grouping=name)


def _spread(curve: read.Curve) -> float:
    return max(curve.values()) / min(curve.values())


@claim(
    "correlation-not-sensitive",
    "§5.2.3, Figure 9",
    figures=["fig9"],
    says="The correlation based algorithms are not sensitive to these parameters except when m is "
    "very small.",
)
def correlation_not_sensitive(rows: Rows) -> Verdict:
    spread = {
        f"{name} by {varied}": _spread(_curve(rows, varied, name))
        for name in CORRELATED
        for varied in NOT_M
    }
    worst = max(spread, key=lambda what: spread[what])
    curve = _curve(rows, worst.partition(" by ")[2], worst.partition(" by ")[0])
    return read.judged(
        max(spread.values()) < terms.SENSITIVE,
        "largest latency ratio over the smallest: "
        + ", ".join(f"{what} {read.number(value)}" for what, value in spread.items())
        + f"; {worst}: {read.listed(curve)}",
        "below 2 for each algorithm and parameter but m",
        "COR-GLB is asked once. Where the window is shorter than the period, the averages that it "
        "sees are not the averages: it evens out loads that are uneven a moment later, and nobody "
        "mends that. COR-SE-IMP, which is asked every second, mends it. With a larger ratio bursts "
        "are larger, and so is what is left of them.",
    )


@claim(
    "small-m-is-bad",
    "§5.2.3, Figure 9",
    figures=["fig9"],
    says="When m is very small, the load of the system cannot be well balanced.",
)
def small_m_is_bad(rows: Rows) -> Verdict:
    curves = {name: _curve(rows, "m", name) for name in CORRELATED}
    over = {name: c[min(c)] / c[10] for name, c in curves.items()}
    return read.judged(
        min(over.values()) >= terms.MUCH,
        "; ".join(f"{name} by m: {read.listed(c)}" for name, c in curves.items()),
        "at least 1.5 times as large with the smallest m as with m = 10",
    )


@claim(
    "largest-first-sensitive",
    "§5.2.3, Figure 9",
    figures=["fig9"],
    says="The largest-load-first algorithms are sensitive to these parameters.",
)
def largest_first_sensitive(rows: Rows) -> Verdict:
    spread = {
        f"{name} by {varied}": _spread(_curve(rows, varied, name))
        for name in LARGEST
        for varied in ("n", "m", "period", "ratio")
    }
    return read.judged(
        min(spread.values()) >= terms.SENSITIVE,
        "largest latency ratio over the smallest: "
        + ", ".join(f"{what} {read.number(value)}" for what, value in spread.items()),
        "at least 2 by n, m, period and ratio",
        "It does not hold for the number of nodes: here each node has as many chains whatever n is, "
        "and what a node's load varies by depends on those.",
    )


def _worse_at(id: str, section: str, varied: str, small: bool, says: str) -> Judge:
    """A claim that largest load first is bad at one end of a parameter."""

    @claim(id, section, figures=["fig9"], says=says)
    def judge(rows: Rows) -> Verdict:
        curves = {name: _curve(rows, varied, name) for name in LARGEST}
        end = {name: min(c) if small else max(c) for name, c in curves.items()}
        other = {name: max(c) if small else min(c) for name, c in curves.items()}
        return read.judged(
            all(c[end[name]] > c[other[name]] for name, c in curves.items()),
            "; ".join(f"{name} by {varied}: {read.listed(c)}" for name, c in curves.items()),
            f"both are worse at the {'smallest' if small else 'largest'} value than at the other end",
            "Each node has as many chains whatever n is, and offsets are spread evenly: what a node's "
            "load varies by does not depend on n."
            if varied == "n"
            else "",
        )

    judge.__name__ = id.replace("-", "_")
    return judge


largest_first_bad_with_few_nodes = _worse_at(
    "largest-first-bad-with-few-nodes",
    "§5.2.3, Figure 9",
    "n",
    True,
    "The largest-load-first algorithms perform badly when the number of nodes is small.",
)
largest_first_bad_with_few_operators = _worse_at(
    "largest-first-bad-with-few-operators",
    "§5.2.3, Figure 9",
    "m",
    True,
    "The largest-load-first algorithms perform badly when the number of operators a node is small.",
)
largest_first_bad_with_long_periods = _worse_at(
    "largest-first-bad-with-long-periods",
    "§5.2.3, Figure 9",
    "period",
    False,
    "The largest-load-first algorithms perform badly when the fluctuation period is long.",
)
largest_first_bad_with_large_ratios = _worse_at(
    "largest-first-bad-with-large-ratios",
    "§5.2.3, Figure 9",
    "ratio",
    False,
    "The largest-load-first algorithms perform badly when the fluctuation ratio is large.",
)


@claim(
    "largest-first-good-with-many-operators",
    "§5.2.3, Figure 9",
    figures=["fig9"],
    says="When m is large, the static performance of largest load first is almost as good as that "
    "of the correlation based algorithms.",
)
def largest_first_good_with_many_operators(rows: Rows) -> Verdict:
    largest, ours = _curve(rows, "m", terms.LLF_GLB), _curve(rows, "m", terms.COR_GLB)
    ratios = read.ratios(largest, ours)
    return read.judged(
        ratios[max(ratios)] <= terms.ALIKE,
        f"latency ratio of LLF-GLB over that of COR-GLB, by m: {read.listed(ratios)}",
        "at most 1.25 at the largest m",
        "At a level of 0.9 even the little that is left of the fluctuation with many operators a node "
        "overloads nodes for a while; the ratio falls with m, as the paper says.",
    )


@claim(
    "half-a-period-is-enough",
    "§5.2.3, Figure 9",
    figures=["fig9"],
    says="The correlation based algorithms work pretty well even when the statistics window is "
    "only half of the fluctuation period (a period of 20 s).",
)
def half_a_period_is_enough(rows: Rows) -> Verdict:
    found = {name: _curve(rows, "period", name) for name in (terms.COR_GLB, terms.SE_IMP, *LARGEST)}
    return read.judged(
        found[terms.COR_GLB][20] < found[terms.LLF_GLB][20]
        and found[terms.SE_IMP][20] < found[terms.LLF_BAL][20],
        "; ".join(f"{name} by period: {read.listed(curve)}" for name, curve in found.items()),
        "at a period of 20 each is better than its largest-load-first counterpart",
        "COR-SE-IMP does, COR-GLB does not: in half a period a stream is high or low most of the "
        "time, the averages seen are not those of the next half, and COR-GLB is asked once.",
    )


@claim(
    "bursty-correlation-effective",
    "§5.2.4, Figure 10",
    figures=["fig10"],
    says="The correlation based algorithms are effective under the bursty on–off workload.",
)
def bursty_correlation_effective(rows: Rows) -> Verdict:
    names = ("COR-RE-GLB-IMP", "COR-SE-GLB-IMP", "LLF-GLB-BAL", "RAND-GLB-BAL")
    curves = dict(
        zip(names, terms.curves(rows["fig10"], "level", terms.LATENCY, *names), strict=True)
    )
    ours = {
        level: min(curves[names[0]][level], curves[names[1]][level]) for level in curves[names[0]]
    }
    rivals = {
        level: min(curves[names[2]][level], curves[names[3]][level]) for level in curves[names[2]]
    }
    return read.judged(
        all(ours[level] < rivals[level] for level in ours),
        "latency ratio by level: "
        + "; ".join(f"{name} {read.listed(curve)}" for name, curve in curves.items()),
        "the better of the improved correlation based ones is below both rivals at every level",
    )


@claim(
    "bursty-each-combination-better",
    "§5.2.4, Figure 10",
    figures=["fig10"],
    says="Each of the correlation based combinations is better than its rivals with on–off inputs.",
)
def bursty_each_combination_better(rows: Rows) -> Verdict:
    ours = ("COR-GLB-BAL", "COR-RE-GLB-IMP", "COR-SE-GLB-IMP")
    rivals = ("LLF-GLB-BAL", "RAND-GLB-BAL")
    found = {
        name: terms.along(rows["fig10"], "level", terms.LATENCY, grouping=name)
        for name in (*ours, *rivals)
    }
    levels = list(found[ours[0]])
    return read.judged(
        all(
            max(found[name][level] for name in ours) < min(found[name][level] for name in rivals)
            for level in levels
        ),
        "latency ratio by level: "
        + "; ".join(f"{name} {read.listed(curve)}" for name, curve in found.items()),
        "the worst of them is below both rivals at every level",
        "Correlations measured in 10 s of such inputs do not last: redistribution goes on and on, and "
        "suspends operators each time; one-way balancing corrects only average loads.",
    )
