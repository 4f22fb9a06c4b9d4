"""Claims of the appendix: the limit of the table, its growth, the window and β. Figures 17 to 21."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.skewness_and_variance import terms

ENOUGH = 2048  #: entries: "when N_A is relaxed to 2000"
EARLY = 16  #: adjustments, after which growth is compared


def _by_limit(rows: Rows, theta: float) -> dict[Any, float]:
    own = read.where(rows["fig17"], grouping=terms.MIXED)
    return read.along(own, "table_limit", terms.COST, theta=theta)


@claim(
    "small-table-costs-much",
    "Appendix, Figure 17",
    figures=["fig17"],
    says="With N_A below 1000 and θmax = 0.08 the migration cost is large; relaxed to 2000 it "
    "decreases greatly.",
)
def small_table_costs_much(rows: Rows) -> Verdict:
    curve = _by_limit(rows, terms.THETA)
    small = {limit: cost for limit, cost in curve.items() if limit <= 1000}
    large = {limit: cost for limit, cost in curve.items() if limit >= ENOUGH}
    return read.judged(
        min(small.values()) >= terms.GREATLY * max(large.values()),
        f"Literal Mixed's migration cost by N_A: {read.listed(curve, ' %')}",
        "with every N_A up to 1000 at least twice that with every N_A from 2048 on",
        "It acts as MinTable there, as the paper says; but MinTable's cost is less than twice that of "
        "Mixed with K = 10⁶: see mintable-three-times-mixed.",
    )


@claim(
    "small-table-acts-as-mintable",
    "Appendix, Figure 17",
    figures=["fig17", "fig9"],
    says="With a small N_A Mixed acts as MinTable and leaves the table's limit alone.",
)
def small_table_acts_as_mintable(rows: Rows) -> Verdict:
    curve = _by_limit(rows, terms.THETA)
    least = min(curve)
    window = rows["fig17"][0]["window"]
    mintable = read.typical(
        rows["fig9"], terms.COST, grouping=terms.MIN_TABLE, theta=terms.THETA, window=window
    )
    own = read.where(rows["fig17"], grouping=terms.MIXED)
    table = read.typical(own, "table_size_max", theta=terms.THETA, table_limit=least)
    return read.judged(
        mintable / terms.ABOUT <= curve[least] <= mintable * terms.ABOUT and table > least,
        f"with N_A = {least} literal Mixed's migration cost is {read.number(curve[least])} %, its "
        f"largest table has {table:,.0f} entries; MinTable's cost is {read.number(mintable)} %",
        "the costs are within a quarter of each other, and the limit is exceeded",
        "Where no number of keys moved back keeps the limit, all are moved back; MinTable then takes "
        "the costliest keys from a full worker and Mixed those of the largest γ.",
    )


@claim(
    "theta-decides-the-table-needed",
    "Appendix, Figure 17",
    figures=["fig17"],
    says="Different θmax require a different least N_A, which drastically reduces the migration cost.",
)
def theta_decides_the_table_needed(rows: Rows) -> Verdict:
    needed, falls = {}, {}
    for theta in read.values(rows["fig17"], "theta"):
        curve = _by_limit(rows, theta)
        most, least = max(curve.values()), curve[max(curve)]
        falls[theta] = most / least if least else float("inf")
        too_few = [limit for limit, cost in curve.items() if cost > (most + least) / 2]
        needed[theta] = min(limit for limit in curve if limit > max(too_few, default=0))
    sizes = list(needed.values())
    return read.judged(
        min(falls.values()) >= terms.GREATLY
        and sizes[0] > sizes[-1]
        and all(a >= b for a, b in pairwise(sizes)),
        f"the largest cost over that with the largest N_A, by θmax: {read.listed(falls)}; the least "
        f"N_A from which the cost is half way down: {read.listed(needed)}",
        "the cost falls at least by half for every θmax, and a smaller θmax never needs a smaller N_A, "
        "the smallest a larger one than the largest",
        "The least N_A does depend on θmax; but the cost can fall only from MinTable's to Mixed's, "
        "which is less than by half with K = 10⁶: see mintable-three-times-mixed.",
    )


@claim(
    "smaller-theta-grows-faster",
    "Appendix, Figure 18",
    figures=["fig18"],
    says="The smaller θmax accelerates the growth of the routing table.",
)
def smaller_theta_grows_faster(rows: Rows) -> Verdict:
    sizes = read.along(rows["fig18"], "theta", terms.TABLE, adjustments=EARLY)
    return read.judged(
        all(a > b for a, b in pairwise(sizes.values())),
        f"entries after {EARLY} adjustments, by θmax: {read.listed(sizes)}",
        "each θmax has more than the next larger one",
    )


def _last(rows: Rows) -> dict[float, tuple[int, float]]:
    """θmax → (adjustments, entries) at the end."""
    ends = {}
    for theta in read.values(rows["fig18"], "theta"):
        curve = read.along(rows["fig18"], "adjustments", terms.TABLE, theta=theta)
        ends[theta] = max(curve.items())
    return ends


@claim(
    "tables-converge-to-the-same-size",
    "Appendix, Figure 18",
    figures=["fig18"],
    says="The routing table sizes with different θmax converge to the same size.",
)
def tables_converge_to_the_same_size(rows: Rows) -> Verdict:
    ends = _last(rows)
    sizes = {theta: size for theta, (_, size) in ends.items()}
    return read.judged(
        max(sizes.values()) <= terms.ALIKE * min(sizes.values()),
        f"entries by θmax: {read.listed(sizes)}, after "
        + ", ".join(f"{count:,}" for count, _ in ends.values())
        + " adjustments",
        "within a tenth of each other",
        "The tables still grow: the larger θmax, the fewer keys an adjustment moves.",
    )


@claim(
    "table-converges-to-n-1-over-n",
    "Appendix, Figure 18",
    figures=["fig18"],
    says="After a long period of balancing, MinMig's routing table has (N_D − 1)/N_D · K entries.",
)
def table_converges_to_n_1_over_n(rows: Rows) -> Verdict:
    ends = _last(rows)
    limit = rows["fig18"][0]["limit"]
    return read.judged(
        all(limit / terms.ALIKE <= size <= limit * terms.ALIKE for _, size in ends.values()),
        f"entries by θmax: {read.listed({theta: size for theta, (_, size) in ends.items()})}, after "
        + ", ".join(f"{count:,}" for count, _ in ends.values())
        + f" adjustments; (N_D − 1)/N_D · K is {limit:,.0f}",
        "within a tenth of it for every θmax",
        "The tables still grow: the larger θmax, the fewer keys an adjustment moves, and a key gets "
        "into the table only once it has been one of those that are moved.",
    )


@claim(
    "minmig-does-not-limit-its-table",
    "§V, Baseline Approaches",
    figures=["fig18"],
    says="MinMig cannot control the size of the routing table.",
)
def minmig_does_not_limit_its_table(rows: Rows) -> Verdict:
    ends = _last(rows)
    return read.judged(
        min(size for _, size in ends.values()) > 3000,
        f"entries at the end, by θmax: {read.listed({t: size for t, (_, size) in ends.items()})}",
        "more than the default limit of 3000 for every θmax",
    )


@claim(
    "mixed-cheaper-at-any-window",
    "Appendix, Figure 19",
    figures=["fig19"],
    says="The migration cost of Mixed is smaller than MinTable's, whatever the window.",
)
def mixed_cheaper_at_any_window(rows: Rows) -> Verdict:
    ratios = read.ratios(
        *(
            read.along(rows["fig19"], "window", terms.COST, grouping=planner)
            for planner in (terms.MIN_TABLE, terms.MIXED)
        )
    )
    return read.judged(
        min(ratios.values()) > 1,
        f"MinTable's cost over literal Mixed's, by w: {read.listed(ratios)}",
        "above 1 at every w",
    )


@claim(
    "larger-window-cheaper",
    "Appendix, Figure 19",
    figures=["fig19"],
    says="The larger window provides more chance for finding appropriate keys: Mixed's migration cost "
    "falls.",
)
def larger_window_cheaper(rows: Rows) -> Verdict:
    curve = read.along(rows["fig19"], "window", terms.COST, grouping=terms.MIXED)
    correlation = read.rank_correlation(curve)
    return read.judged(
        correlation <= -terms.GROWS,
        f"Literal Mixed's migration cost by w: {read.listed(curve, ' %')}; rank correlation "
        f"{correlation:.2f}",
        "at most −0.8",
    )


def _by_beta(rows: Rows, figure: str, column: str) -> dict[float, dict[Any, float]]:
    """θmax → β → value."""
    return {
        theta: read.along(rows[figure], "beta", column, theta=theta)
        for theta in read.values(rows[figure], "theta")
    }


def _list(curves: Mapping[float, read.Curve], unit: str = "") -> str:
    return "; ".join(
        f"θmax = {theta:g}: {read.listed(curve, unit)}" for theta, curve in curves.items()
    )


@claim(
    "larger-beta-smaller-table",
    "§III-B and Appendix, Figure 20",
    figures=["fig20"],
    says="The larger β, the smaller the routing table.",
)
def larger_beta_smaller_table(rows: Rows) -> Verdict:
    curves = _by_beta(rows, "fig20", terms.TABLE)
    up_to = {
        key: {beta: size for beta, size in curve.items() if beta <= 1.5}
        for key, curve in curves.items()
    }
    return read.judged(
        all(read.rank_correlation(curve) <= -terms.GROWS for curve in up_to.values()),
        f"entries by β: {_list(curves)}",
        "from β = 1 to 1.5 the rank correlation is at most −0.8 for every θmax",
    )


@claim(
    "beta-1-larger-table",
    "Appendix, Figure 20",
    figures=["fig20"],
    says="With β = 1 keys with smaller load are selected and a larger routing table is generated.",
)
def beta_1_larger_table(rows: Rows) -> Verdict:
    ratios = {
        key: curve[1.0] / curve[1.5] for key, curve in _by_beta(rows, "fig20", terms.TABLE).items()
    }
    return read.judged(
        min(ratios.values()) > 1,
        "entries with β = 1 over those with β = 1.5: "
        + ", ".join(f"{read.number(r)} (θmax = {theta:g})" for theta, r in ratios.items()),
        "above 1 for every θmax",
    )


@claim(
    "table-stable-from-beta-15",
    "Appendix, Figure 20",
    figures=["fig20"],
    says="When β is in [1.5, 2] the routing table's size is stable.",
)
def table_stable_from_beta_15(rows: Rows) -> Verdict:
    spread = {}
    for key, curve in _by_beta(rows, "fig20", terms.TABLE).items():
        sizes = [size for beta, size in curve.items() if beta >= 1.5]
        spread[key] = max(sizes) / min(sizes)
    return read.judged(
        max(spread.values()) <= terms.ALIKE,
        "the largest table over the smallest for β from 1.5 to 2: "
        + ", ".join(f"{read.number(r)} (θmax = {theta:g})" for theta, r in spread.items()),
        "at most 1.1 for every θmax",
        "It still shrinks there, though far more slowly than from β = 1 to 1.5.",
    )


@claim(
    "larger-beta-costlier-migration",
    "Appendix, Figure 21",
    figures=["fig21"],
    says="Larger β concerns less on less migration cost: migration costs more.",
)
def larger_beta_costlier_migration(rows: Rows) -> Verdict:
    costs = _by_beta(rows, "fig21", terms.COST)
    return read.judged(
        all(curve[2.0] > curve[1.0] for curve in costs.values()),
        f"migration cost by β: {_list(costs, ' %')}",
        "higher with β = 2 than with β = 1, for every θmax",
    )


@claim(
    "larger-beta-faster",
    "Appendix, Figure 21",
    figures=["fig21"],
    says="Larger β represents that the migration method concerns more on faster computation.",
)
def larger_beta_faster(rows: Rows) -> Verdict:
    times = _by_beta(rows, "fig21", terms.TIME)
    faster = {theta: curve[1.0] / curve[2.0] for theta, curve in times.items()}
    return read.judged(
        min(faster.values()) > 1,
        f"planning time with β = 1 over that with β = 2, by θmax: {read.listed(faster)}",
        "above 1 for every θmax",
        "γ is worked out for every key: with β = 1 by a division, with β = 1.5 by a root, with "
        "any other β by a power, which takes longer than placing fewer keys saves.",
    )
