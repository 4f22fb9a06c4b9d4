"""Claims on imbalance under Zipf streams: §III-A and §V-B Q3, Figure 10."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from statistics import fmean, median
from typing import Any

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.two_choices_not_enough import terms

TOP_KEY = {"wp": 0.0932, "tw": 0.0267, "ct": 0.0329}  #: p1, Table I
SETTING = ("keys", "workers", "zipf")
DISTINCT = "d-choices:distinct=true"


def _lower_bound(p1: float, n: int, messages: int) -> float:
    """p1/2 − 1/n, less what five standard deviations of the top key's count can take away."""
    return p1 / 2 - 1 / n - 5 * sqrt(p1 / messages) / 2


@claim(
    "pkg-lower-bound",
    "§III-A",
    figures=["fig3", "fig10", "fig11"],
    says="If p1 > 2/n, PKG's imbalance is at least p1/2 − 1/n.",
)
def pkg_lower_bound(rows: Rows) -> Verdict:
    top = {row["zipf"]: row["p1"] for row in rows["fig3"]}
    points = [
        (top[row["zipf"]], row)
        for row in read.where(rows["fig10"], grouping=terms.PKG, keys=10_000)
        if row["zipf"] in top
    ]
    points += [
        (TOP_KEY[row["workload_name"]], row)
        for row in read.where(rows["fig11"], grouping=terms.PKG)
        if row["workload_name"] in TOP_KEY
    ]
    above = [(p1, row) for p1, row in points if p1 > 2 / row["workers"]]
    kept = [
        row["imbalance"] >= _lower_bound(p1, row["workers"], row["messages"]) for p1, row in above
    ]
    ratio = [
        row["imbalance"] / (p1 / 2 - 1 / row["workers"])
        for p1, row in above
        if p1 / 2 - 1 / row["workers"] > terms.LOW
    ]
    return terms.judged(
        all(kept),
        f"kept in {sum(kept)} of {len(kept)} runs with p1 > 2/n (ZF with 10⁴ keys, WP, TW, CT); the "
        f"imbalance is {min(ratio):.3f} to {max(ratio):.3f} times the bound, {median(ratio):.3f} "
        "typically (held if all, but for 5 standard deviations of the top key's count).",
    )


@claim(
    "pkg-upper-bound",
    "§III-A",
    figures=["fig3", "fig10"],
    says="If p1 ≤ 1/(5n), PKG's imbalance is bounded.",
)
def pkg_upper_bound(rows: Rows) -> Verdict:
    top = {row["zipf"]: row["p1"] for row in rows["fig3"]}
    own = [
        row
        for row in read.where(rows["fig10"], grouping=terms.PKG, keys=10_000)
        if row["zipf"] in top and top[row["zipf"]] <= 1 / (5 * row["workers"])
    ]
    row = read.worst(own, "imbalance")
    return terms.judged(
        row["imbalance"] < terms.LOW,
        f"at most {terms.percent(row['imbalance'])} in {len(own)} runs (n = {row['workers']}, z = "
        f"{row['zipf']}; held if below 0.1 %).",
    )


@claim(
    "keys-do-not-matter",
    "§V-B Q3",
    figures=["fig10"],
    says="The number of keys does not influence the imbalance.",
)
def keys_do_not_matter(rows: Rows) -> Verdict:
    points = read.pivot(rows["fig10"], ("grouping", "workers", "zipf"), "keys", "imbalance_mean")
    table = {
        at: {keys: terms.floored(value) for keys, value in by.items()} for at, by in points.items()
    }
    ratio = {
        at: max(by.values()) / min(by.values())
        for at, by in table.items()
        if at[0] in terms.SYMBOLS
    }
    alike = sum(value < terms.MAGNITUDE for value in ratio.values())
    (scheme, n, z), far = max(ratio.items(), key=lambda item: item[1])
    summary = ", ".join(
        f"{keys} keys: {terms.percent(value)}"
        for keys, value in sorted(table[scheme, n, z].items())
    )
    return terms.judged(
        alike == len(ratio),
        f"within a factor of 10 over 10⁴ to 10⁶ keys in {alike} of {len(ratio)} settings (medians of "
        f"{_seeds(rows)}; values below ε count as ε); at most a factor of {far:.1f}: "
        f"{terms.SYMBOLS[scheme]}, n = {n}, z = {z}: "
        f"{summary} (held if all).",
        "For z ≤ 1 the sum of r^−z goes on growing with the number of keys, and p1 falls: with it "
        "PKG's imbalance, which depends on p1. Above z = 1.2 or so p1 hardly depends on the keys, and "
        "the claim holds.",
    )


@claim(
    "harder-with-skew-and-scale",
    "§V-B Q3",
    figures=["fig10"],
    says="The problem becomes harder as both skew and scale increase.",
)
def harder_with_skew_and_scale(rows: Rows) -> Verdict:
    own = read.where(rows["fig10"], grouping=terms.PKG)
    by_skew = [
        fmean(terms.floored(r["imbalance_mean"]) for r in read.where(own, zipf=z))
        for z in read.values(own, "zipf")
    ]
    by_scale = [
        fmean(terms.floored(r["imbalance_mean"]) for r in read.where(own, workers=n))
        for n in read.values(own, "workers")
    ]
    rises = [all(b >= a for a, b in pairwise(means)) for means in (by_skew, by_scale)]
    return terms.judged(
        all(rises),
        f"PKG averaged over the rest: {terms.percent(by_skew[0])} at the lowest z to "
        f"{terms.percent(by_skew[-1])} at z = 2.0; "
        + ", ".join(
            f"n = {n}: {terms.percent(v)}"
            for n, v in zip(read.values(own, "workers"), by_scale, strict=True)
        )
        + " (held if never falls along either; values below ε count as ε).",
    )


def _seeds(rows: Rows) -> str:
    return terms.seeds(rows["fig10"], SETTING, "imbalance_mean")


def _second(pair: tuple[object, float]) -> float:
    return pair[1]


def _settings(rows: Rows) -> dict[tuple[Any, ...], dict[str, float]]:
    """(keys, workers, zipf) → scheme → average imbalance."""
    return read.pivot(rows["fig10"], SETTING, "grouping", "imbalance_mean")


@claim(
    "wc-best-and-constantly-low",
    "§V-B Q3",
    figures=["fig10"],
    says="W-C is the best performer and keeps the imbalance constantly low in every setting.",
)
def wc_best_and_constantly_low(rows: Rows) -> Verdict:
    table = _settings(rows)
    best = [
        all(
            terms.floored(at[terms.W_C]) <= terms.floored(at[s])
            for s in (terms.PKG, terms.D_C, terms.RR)
        )
        for at in table.values()
    ]
    most = max(at[terms.W_C] for at in table.values())
    return terms.judged(
        all(best) and most < terms.LOW,
        f"W-C is at most {terms.percent(most)}; the best, or below ε, in {sum(best)} of {len(best)} "
        "settings (held if below 0.1 %, and all).",
    )


@claim(
    "dc-and-rr-similar",
    "§V-B Q3",
    figures=["fig10"],
    says="D-C and RR perform similarly.",
)
def dc_and_rr_similar(rows: Rows) -> Verdict:
    ratio = {
        at: terms.floored(by[terms.D_C]) / terms.floored(by[terms.RR])
        for at, by in _settings(rows).items()
    }
    alike = sum(1 / terms.MAGNITUDE < value < terms.MAGNITUDE for value in ratio.values())
    ends = (min(ratio.items(), key=_second), max(ratio.items(), key=_second))
    least, most = (f"{v:.2g} (n = {n}, z = {z}, {keys} keys)" for (keys, n, z), v in ends)
    return terms.judged(
        alike == len(ratio),
        f"D-C's imbalance is {least} to {most} times RR's, values below ε counting as ε; within a "
        f"factor of 10 in {alike} of {len(ratio)} settings (medians of {_seeds(rows)}; held if all).",
        "RR is the worse on few workers at high skew, where the tail has too few keys to fill what the "
        "head leaves; D-C is the worse where its hashes collide. " + terms.COLLISIONS,
    )


@claim(
    "dc-and-rr-much-below-pkg",
    "§V-B Q3",
    figures=["fig10"],
    says="D-C and RR keep the imbalance much lower than PKG for larger values of skew and scale.",
)
def dc_and_rr_much_below_pkg(rows: Rows) -> Verdict:
    large = {at: by for at, by in _settings(rows).items() if at[1] >= 50 and at[2] >= 1.2}
    factor = {
        (s, *at): terms.floored(by[terms.PKG]) / terms.floored(by[s])
        for at, by in large.items()
        for s in (terms.D_C, terms.RR)
    }
    (scheme, keys, n, z), least = min(factor.items(), key=lambda item: item[1])
    return terms.judged(
        least >= terms.MAGNITUDE,
        f"n ≥ 50, z ≥ 1.2: PKG's imbalance is at least {least:.0f} times as large "
        f"({terms.SYMBOLS[scheme]}, n = {n}, z = {z}, {keys} keys), {median(factor.values()):.0f} "
        "times typically, values below ε counting as ε (held if at least 10 times in every setting).",
    )


@claim(
    "dc-cheaper-than-rr",
    "§V-B Q3",
    figures=["fig10"],
    says="D-C does so at a fraction of the cost of RR.",
)
def dc_cheaper_than_rr(rows: Rows) -> Verdict:
    skewed = [row for row in rows["fig10"] if row["workers"] >= 50 and row["zipf"] >= 0.8]
    table = read.pivot(skewed, SETTING, "grouping", "replicas")
    extra = {
        at: (by[terms.D_C] - by[terms.PKG]) / max(by[terms.RR] - by[terms.PKG], 1)
        for at, by in table.items()
    }
    (keys, n, z), most = max(extra.items(), key=_second)
    return terms.judged(
        most < 1,
        f"n ≥ 50, z ≥ 0.8: replicas beyond PKG's are {min(extra.values()):.2f} to {most:.2f} times "
        f"RR's (most at n = {n}, z = {z}, {keys} keys), {median(extra.values()):.2f} typically "
        "(held if fewer in every setting).",
        "Where d is close to n, D-C's head costs about as much as RR's; and RR, which fails to "
        "balance there, keeps more tail keys on one worker.",
    )


@claim(
    "single-threshold-suffices",
    "§I",
    figures=["fig10"],
    says="A single threshold is sufficient for most settings.",
)
def single_threshold_suffices(rows: Rows) -> Verdict:
    parts, held = [], True
    for scheme in (terms.D_C, terms.W_C):
        own = read.where(rows["fig10"], grouping=scheme)
        low = sum(row["imbalance_mean"] < terms.LOW for row in own)
        held = held and low > len(own) / 2
        parts.append(f"{terms.SYMBOLS[scheme]} {low} of {len(own)}")
    return terms.judged(
        held,
        f"settings with less than 0.1 % at θ = 1/(5n): {', '.join(parts)} (held if more than half).",
    )


# s·ε is what §V-B expects of D-C in the worst case; W-C's memory is what D-C is meant to stay below.
@claim(
    "distinct-workers-within-s-epsilon",
    "§IV-A",
    figures=["distinct"],
    says="(Ours) With d different workers for a hot key, instead of d hash functions, D-C is within "
    "s·ε in every run, and needs less memory than W-C.",
)
def distinct_workers_within_s_epsilon(rows: Rows) -> Verdict:
    fig, parts = rows["distinct"], []
    for scheme, name in ((DISTINCT, "different workers"), (terms.D_C, "hash functions")):
        own = read.where(fig, grouping=scheme)
        within = sum(row["imbalance"] <= terms.S_EPSILON for row in own)
        most = terms.percent(read.worst(own, "imbalance")["imbalance"])
        parts.append(f"{name}: within s·ε in {within} of {len(own)} runs, at most {most}")
    table = read.pivot(fig, ("workers", "zipf", "seed"), "grouping", "replicas")
    more = [100 * (by[DISTINCT] / by[terms.D_C] - 1) for by in table.values()]
    of_all = [by[DISTINCT] / by[terms.W_C] for by in table.values()]
    own = read.where(fig, grouping=DISTINCT)
    return terms.judged(
        all(row["imbalance"] <= terms.S_EPSILON for row in own) and max(of_all) < 1,
        f"{'; '.join(parts)}. Different workers cost {min(more):.1f} to {max(more):.1f} % more "
        f"replicas than hash functions, and {min(of_all):.2f} to {max(of_all):.2f} of W-C's (held if "
        "within s·ε in all runs, with fewer replicas than W-C in each).",
    )
