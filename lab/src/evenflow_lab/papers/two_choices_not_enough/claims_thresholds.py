"""Claims of the evaluation's first two questions: θ and d. §V-B, Figures 7 to 9."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean

from evenflow_lab.experiments import FigureRows, Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.experiments.claims import Row
from evenflow_lab.papers.two_choices_not_enough import terms

SHARE = "θn"  #: the field of the grid: θ as a multiple of 1/n
SETTING = ("workers", SHARE, "zipf")
BOTH = (terms.W_C, terms.RR)
HIGH = 1.6  #: "high skew": the upper fifth of the range of z
MODEST = 1.4  #: "modest skew": the least of the three of §V-B Q4, of which the text says so


def _theta(share: float) -> str:
    return f"{share:g}/n" if share >= 1 else f"1/({1 / share:g}n)"


def _setting(row: Row) -> str:
    return f"θ = {_theta(row[SHARE])}, n = {row['workers']}, z = {row['zipf']}"


def _seeds(rows: Rows) -> str:
    return terms.seeds(rows["fig7"], SETTING, "imbalance")


@claim(
    "lower-threshold-less-imbalance",
    "§V-B Q1",
    figures=["fig7"],
    says="For both W-C and RR, reducing the threshold θ reduces the imbalance.",
)
def lower_threshold_less_imbalance(rows: Rows) -> Verdict:
    parts, held = [], True
    for scheme in BOTH:
        own = read.where(rows["fig7"], grouping=scheme)
        shares = sorted(read.values(own, SHARE), reverse=True)
        means = [
            fmean(terms.floored(r["imbalance"]) for r in read.where(own, **{SHARE: share}))
            for share in shares
        ]
        falls = all(b <= a for a, b in pairwise(means))
        held = held and falls
        summary = ", ".join(
            f"{_theta(s)}: {terms.percent(mean)}" for s, mean in zip(shares, means, strict=True)
        )
        parts.append(f"{terms.SYMBOLS[scheme]} {summary}")
    return terms.judged(
        held,
        f"averaged over z and n: {'; '.join(parts)} (held if never grows as θ falls; values below ε "
        f"count as ε; {_seeds(rows)}).",
    )


@claim(
    "skew-adds-imbalance",
    "§V-B Q1",
    figures=["fig7"],
    says="For both W-C and RR, increasing the skew increases the imbalance.",
)
def skew_adds_imbalance(rows: Rows) -> Verdict:
    parts, held = [], True
    for scheme in BOTH:
        own = read.where(rows["fig7"], grouping=scheme)
        skews = read.values(own, "zipf")
        means = [
            fmean(terms.floored(r["imbalance"]) for r in read.where(own, zipf=z)) for z in skews
        ]
        correlation = read.rank_correlation(dict(zip(skews, means, strict=True)))
        held = held and correlation >= 0.8
        parts.append(
            f"{terms.SYMBOLS[scheme]} {terms.percent(means[0])} at z = {skews[0]}, "
            f"{terms.percent(means[-1])} at z = {skews[-1]}, rank correlation {correlation:.2f}"
        )
    return terms.judged(
        held,
        f"averaged over θ and n: {'; '.join(parts)} (held if rank correlation of at least 0.8; values "
        "below ε count as ε).",
        "W-C leaves nothing but chance wherever θ ≤ 1/n, at every skew. At θ = 2/n it is uneven where "
        "keys between 1/n and 2/n stay in the tail and meet there, which is at moderate skew.",
    )


@claim(
    "wc-ideal-below-1-over-n",
    "§V-B Q1",
    figures=["fig7"],
    says="W-C achieves ideal load balance for any threshold θ ≤ 1/n.",
)
def wc_ideal_below_1_over_n(rows: Rows) -> Verdict:
    own = [row for row in read.where(rows["fig7"], grouping=terms.W_C) if row[SHARE] <= 1]
    row = read.worst(own, "imbalance")
    good = sum(r["imbalance"] <= terms.IDEAL for r in own)
    return terms.judged(
        good == len(own),
        f"at most {terms.percent(row['imbalance'])} ({_setting(row)}); at most ε in {good} of "
        f"{len(own)} runs (held if all; ε = 0.01 %; {_seeds(rows)}).",
        "At θ = 1/n a key may stay in the tail with almost 1/n of the stream, and two such keys may "
        "share their two workers.",
    )


@claim(
    "wc-low-at-1-over-n",
    "§V-B Q1",
    figures=["fig7"],
    says="A threshold of 1/n is enough for W-C to achieve low imbalance in any setting of skew and "
    "scale.",
)
def wc_low_at_1_over_n(rows: Rows) -> Verdict:
    row = read.worst(read.where(rows["fig7"], grouping=terms.W_C, **{SHARE: 1}), "imbalance")
    return terms.judged(
        row["imbalance"] < terms.LOW,
        f"at most {terms.percent(row['imbalance'])} ({_setting(row)}; held if below 0.1 %).",
        "A key may stay in the tail with almost 1/n of the stream, and two such keys may share their "
        "two workers.",
    )


@claim(
    "rr-not-ideal-at-high-skew",
    "§V-B Q1",
    figures=["fig7"],
    says="RR does not reach ideal balance at high skew for all those thresholds: it exhibits a larger "
    "gradient of results than W-C.",
)
def rr_not_ideal_at_high_skew(rows: Rows) -> Verdict:
    spread = {}
    for scheme in BOTH:
        own = [
            row
            for row in read.where(rows["fig7"], grouping=scheme)
            if row[SHARE] <= 1 and row["zipf"] >= HIGH
        ]
        found = [terms.floored(row["imbalance"]) for row in own]
        spread[scheme] = (min(found), max(found))
    (w_least, w_most), (r_least, r_most) = spread[terms.W_C], spread[terms.RR]
    return terms.judged(
        r_most - r_least > w_most - w_least and r_most > terms.IDEAL,
        f"θ ≤ 1/n, z ≥ {HIGH}: RR from {terms.percent(r_least)} to {terms.percent(r_most)}, W-C from "
        f"{terms.percent(w_least)} to {terms.percent(w_most)}, values below ε counting as ε (held if "
        "RR's range is wider and leaves ε).",
    )


# "This behavior is more evident at larger scales, where RR starts generating imbalance even under
# modest levels of skew": there already under modest skew, and so earlier than at small scales.
@claim(
    "rr-gives-way-earlier-at-scale",
    "§V-B Q1",
    figures=["fig7"],
    says="At larger scales RR starts generating imbalance even under modest levels of skew.",
)
def rr_gives_way_earlier_at_scale(rows: Rows) -> Verdict:
    own = [row for row in read.where(rows["fig7"], grouping=terms.RR) if row[SHARE] <= 1]
    first = {
        n: min(
            (row["zipf"] for row in own if row["workers"] == n and row["imbalance"] > terms.IDEAL),
            default=float("inf"),
        )
        for n in read.values(own, "workers")
    }
    summary = ", ".join(f"n = {n}: {'never' if z == float('inf') else z}" for n, z in first.items())
    few = min(z for n, z in first.items() if n <= 10)
    many = max(z for n, z in first.items() if n >= 50)
    return terms.judged(
        many <= MODEST and many < few,
        f"θ ≤ 1/n: smallest z with more than ε: {summary} (held if on 50 and 100 workers at most "
        f"{MODEST}, and below what it is on 5 and 10).",
    )


@claim(
    "wc-beats-rr-at-high-skew",
    "Fig. 7",
    figures=["fig7"],
    says="W-C provides better balance than RR at high skew, especially at larger scale.",
)
def wc_beats_rr_at_high_skew(rows: Rows) -> Verdict:
    high = [row for row in rows["fig7"] if row["zipf"] >= HIGH]
    table = read.pivot(high, SETTING, "grouping", "imbalance")
    table = {
        at: {scheme: terms.floored(value) for scheme, value in pair.items()}
        for at, pair in table.items()
    }
    better = [pair[terms.W_C] <= pair[terms.RR] for pair in table.values()]
    gap = {
        n: fmean(p[terms.RR] - p[terms.W_C] for at, p in table.items() if at[0] == n)
        for n in read.values(high, "workers")
    }
    summary = ", ".join(f"n = {n}: {terms.percent(value)}" for n, value in gap.items())
    gaps = list(gap.values())
    return terms.judged(
        all(better) and gaps[-1] > gaps[0],
        f"z ≥ {HIGH}: W-C is not worse in {sum(better)} of {len(better)} settings; RR's imbalance "
        f"minus W-C's: {summary} (medians of the seeds, values below ε counting as ε; held if never "
        "worse, and the gap is larger on 100 workers than on 5).",
        "RR's imbalance is of the order of what the tail brings to one worker, and that is a share of "
        "the stream which falls as 1/n: in absolute terms the gap shrinks with n. Relative to the "
        "average load 1/n it does not.",
    )


@claim(
    "wc-and-rr-same-memory",
    "Fig. 7",
    figures=["fig7"],
    says="W-C has the same memory overhead as RR.",
)
def wc_and_rr_same_memory(rows: Rows) -> Verdict:
    table = read.pivot(rows["fig7"], SETTING, "grouping", "replicas")
    ratio = {at: pair[terms.W_C] / pair[terms.RR] for at, pair in table.items()}
    (n, share, z), far = max(ratio.items(), key=lambda item: abs(item[1] - 1))
    return terms.judged(
        abs(far - 1) <= 0.1,
        f"replicas of W-C ÷ replicas of RR: between {min(ratio.values()):.2f} and "
        f"{max(ratio.values()):.2f}; furthest from 1 at θ = {_theta(share)}, n = {n}, z = {z} (held if "
        "within 10 % in every setting).",
        "The head costs both the same. Where RR fails to balance, the less loaded of a tail key's two "
        "workers is always the same one, and the key stays there; W-C's tail uses both.",
    )


@claim(
    "most-thresholds-satisfy",
    "§III-A",
    figures=["fig7"],
    says="Most thresholds between 1/(5n) and 2/n provide a satisfactory level of imbalance.",
)
def most_thresholds_satisfy(rows: Rows) -> Verdict:
    own = [row for row in read.where(rows["fig7"], grouping=terms.W_C) if row[SHARE] >= 0.2]
    most = {
        share: max(row["imbalance"] for row in read.where(own, **{SHARE: share}))
        for share in read.values(own, SHARE)
    }
    summary = ", ".join(f"θ = {_theta(s)}: {terms.percent(value)}" for s, value in most.items())
    good = sum(value < terms.LOW for value in most.values())
    return terms.judged(
        good > len(most) / 2,
        f"W-C's largest imbalance over z and n: {summary} (held if below 0.1 % for more than half of "
        "them).",
    )


def _loads(rows: Rows, scheme: str) -> tuple[list[float], list[float], list[float]]:
    """Head, tail and total load of each worker, the busiest first."""
    own = read.where(rows["fig8"], grouping=scheme)
    parts = {
        part: [row["load"] for row in sorted(read.where(own, part=part), key=lambda r: r["worker"])]
        for part in ("head", "tail")
    }
    total = [h + t for h, t in zip(parts["head"], parts["tail"], strict=True)]
    return parts["head"], parts["tail"], total


def _list(loads: Iterable[float]) -> str:
    return " ".join(f"{load:.4f}" for load in loads)


@claim(
    "pkg-overloads-two-workers",
    "§V-B Q1",
    figures=["fig8"],
    says="In PKG the most frequent key overloads the two workers that handle it.",
)
def pkg_overloads_two_workers(rows: Rows) -> Verdict:
    _, _, total = _loads(rows, terms.PKG)
    fair = 1 / len(total)
    over = sum(load > fair + terms.LOW for load in total)
    return terms.judged(
        over == 2,
        f"loads {_list(total)} against 1/n = {fair:.4f}: {over} workers above it (held if two).",
    )


@claim(
    "wc-mixes-head-and-tail",
    "§V-B Q1",
    figures=["fig8"],
    says="W-C mixes head and tail across all workers and achieves ideal load balance.",
)
def wc_mixes_head_and_tail(rows: Rows) -> Verdict:
    head, tail, total = _loads(rows, terms.W_C)
    away = max(abs(load - 1 / len(total)) for load in total)
    return terms.judged(
        away <= terms.IDEAL and min(head) > 0 and min(tail) > 0,
        f"head {_list(head)}, tail {_list(tail)}; totals within {terms.percent(away)} of 1/n (held if "
        "within ε = 0.01 %, both parts everywhere).",
    )


@claim(
    "rr-splits-head-evenly-only",
    "§V-B Q1",
    figures=["fig8"],
    says="RR splits the head evenly across the workers but falls short of perfect balance.",
)
def rr_splits_head_evenly_only(rows: Rows) -> Verdict:
    head, _, total = _loads(rows, terms.RR)
    uneven, away = max(head) - min(head), max(total) - 1 / len(total)
    return terms.judged(
        uneven <= terms.LOW and away > terms.IDEAL,
        f"head {_list(head)} (range {terms.percent(uneven)}), totals {_list(total)}: imbalance "
        f"{terms.percent(away)} (held if range at most 0.1 %, imbalance above ε = 0.01 %).",
    )


def _choices(rows: Rows) -> FigureRows:
    """One row per setting and seed: Figure 9 has three."""
    return read.where(rows["fig9"], which="Min-d")


@claim(
    "d-close-to-minimum",
    "§V-B Q2",
    figures=["fig9"],
    says="The d of D-C is very close to the smallest that matches the balance of W-C, in all cases.",
)
def d_close_to_minimum(rows: Rows) -> Verdict:
    off = {
        (r["workers"], r["zipf"], r.get("seed")): (r["picked"] - r["smallest"]) / r["workers"]
        for r in _choices(rows)
    }
    (n, z, seed), far = max(off.items(), key=lambda item: abs(item[1]))
    mean = fmean(abs(value) for value in off.values())
    return terms.judged(
        abs(far) <= 0.1,
        f"D-C's d minus the smallest, as a share of n: {terms.percent(mean)} away on average, at most "
        f"{terms.percent(far)} (n = {n}, z = {z}, seed {seed}; held if within 10 % of n in all "
        f"{len(off)} runs).",
        terms.COLLISIONS,
    )


@claim(
    "d-slightly-above-minimum",
    "§V-B Q2",
    figures=["fig9"],
    says="In all cases D-C uses a d slightly larger than the minimum.",
)
def d_slightly_above_minimum(rows: Rows) -> Verdict:
    own = _choices(rows)
    less = [r for r in own if r["picked"] < r["smallest"]]
    summary = ", ".join(
        f"{r['picked']} < {r['smallest']} (n = {r['workers']}, z = {r['zipf']})" for r in less[:4]
    )
    below = sum(r["formula"] < r["smallest"] for r in own)
    return terms.judged(
        not less,
        f"D-C's d is below the smallest in {len(less)} of {len(own)} runs (d by the formula: in "
        f"{below}){': ' + summary if summary else ''} (held if in none, equality allowed).",
        "Proposition 4.1 is a necessary condition, a lower bound: a d that satisfies it need not be "
        "enough, and with some hash functions it is not. " + terms.COLLISIONS,
    )
