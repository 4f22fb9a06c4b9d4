"""Claims on the head and on the number of choices, by analysis: §I to §IV, Figures 3 and 4."""

from __future__ import annotations

from itertools import pairwise

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.two_choices_not_enough import terms

FORMULA = "formula"
LARGE = (50, 100)  #: the numbers of workers of Figures 5 and 6
WIDE, NARROW = "θ = 2/n", "θ = 1/(5n)"  #: the ends of the range of θ


@claim(
    "z2-top-key",
    "§I",
    figures=["fig3"],
    says="Under a Zipf distribution with z = 2.0 the top key has nearly 60 % of the messages.",
)
def z2_top_key(rows: Rows) -> Verdict:
    p1 = read.where(rows["fig3"], zipf=2.0)[0]["p1"]
    return terms.judged(
        abs(p1 - 0.6) <= 0.05, f"p1 = {terms.percent(p1)} of 10⁴ keys (held if 60 % ± 5)."
    )


@claim(
    "z2-three-workers",
    "§I",
    figures=["fig3"],
    says="With z = 2.0 PKG cannot guarantee ideal balance on any deployment larger than 3 workers.",
)
def z2_three_workers(rows: Rows) -> Verdict:
    p1 = read.where(rows["fig3"], zipf=2.0)[0]["p1"]
    return terms.judged(
        p1 > 2 / 4 and p1 <= 2 / 3,
        f"p1 = {p1:.3f}: above the 2/n of 4 workers (0.5), below that of 3 (0.667) (held if both).",
    )


@claim(
    "head-is-small",
    "§III-A",
    figures=["fig3"],
    says="θ = 1/(5n) makes a small head: at most 5n keys whatever the distribution, substantially "
    "fewer under skew.",
)
def head_is_small(rows: Rows) -> Verdict:
    exact = read.where(rows["fig3"], theta=NARROW, how=FORMULA)
    largest = {n: read.worst(read.where(exact, workers=n), "hot_keys") for n in LARGE}
    parts = [
        f"n = {n}: at most {row['hot_keys']} keys of {5 * n} possible, at z = {row['zipf']}"
        for n, row in largest.items()
    ]
    held = all(row["hot_keys"] <= 5 * n / 2 for n, row in largest.items())
    return terms.judged(held, "; ".join(parts) + " (held if at most half of 5n at every z).")


@claim(
    "few-keys-pay",
    "§III-A",
    figures=["fig3"],
    says="The price of added replication is paid for a small number of keys only.",
)
def few_keys_pay(rows: Rows) -> Verdict:
    row = read.worst(read.where(rows["fig3"], theta=NARROW), "hot_keys")
    share = row["hot_keys"] / row["keys"]
    return terms.judged(
        share <= 0.01,
        f"at most {row['hot_keys']} of {row['keys']} keys, {terms.percent(share)} (z = {row['zipf']}, "
        f"n = {row['workers']}, {row['how']}; held if at most 1 %).",
    )


@claim(
    "handful-of-hot-keys",
    "§I",
    figures=["fig3"],
    says="If the stream is very skewed, the hot keys are only a handful.",
)
def handful_of_hot_keys(rows: Rows) -> Verdict:
    size = {
        (theta, n): read.typical(
            rows["fig3"], "hot_keys", theta=theta, workers=n, zipf=2.0, how=FORMULA
        )
        for theta in (WIDE, NARROW)
        for n in LARGE
    }
    parts = ", ".join(f"{theta}, n = {n}: {count:.0f}" for (theta, n), count in size.items())
    return terms.judged(
        max(size.values()) <= 20, f"z = 2.0: {parts} keys (held if at most 20 of 10 000)."
    )


@claim(
    "head-grows-then-shrinks",
    "§IV-B",
    figures=["fig3"],
    says="As skew grows, more keys pass θ at first; later only a few keys dominate.",
)
def head_grows_then_shrinks(rows: Rows) -> Verdict:
    parts, held = [], True
    for n in LARGE:
        exact = read.where(rows["fig3"], theta=NARROW, how=FORMULA, workers=n)
        sizes = [row["hot_keys"] for row in sorted(exact, key=lambda row: row["zipf"])]
        top = sizes.index(max(sizes))
        rises = all(a <= b for a, b in pairwise(sizes[: top + 1]))
        falls = all(a >= b for a, b in pairwise(sizes[top:]))
        held = held and rises and falls and 0 < top < len(sizes) - 1
        peak = read.worst(exact, "hot_keys")
        parts.append(f"n = {n}: {sizes[0]} → {peak['hot_keys']} (z = {peak['zipf']}) → {sizes[-1]}")
    return terms.judged(held, "; ".join(parts) + " keys (held if rises to one peak, then falls).")


@claim(
    "tight-constraints",
    "§IV-A",
    figures=["fig4"],
    says="In practice the tight constraints are those of the most frequent key and of the whole head.",
)
def tight_constraints(rows: Rows) -> Verdict:
    other = [row for row in rows["fig4"] if row["d_two_prefixes"] != row["d_all_prefixes"]]
    return terms.judged(
        not other,
        f"the two alone give the d of all prefixes in {len(rows['fig4']) - len(other)} of "
        f"{len(rows['fig4'])} settings (held if all).",
    )


@claim(
    "d-below-n",
    "§IV-B",
    figures=["fig4"],
    says="At larger scales, n = 50 and n = 100, d is always smaller than n.",
)
def d_below_n(rows: Rows) -> Verdict:
    top = {n: read.worst(read.where(rows["fig4"], workers=n), "d") for n in LARGE}
    parts = ", ".join(f"n = {n}: d ≤ {row['d']} (z = {row['zipf']})" for n, row in top.items())
    return terms.judged(
        all(row["d"] < n for n, row in top.items()), f"{parts} (held if below n at every z)."
    )


@claim(
    "dc-needs-fewer-workers",
    "§IV-B",
    figures=["fig4"],
    says="D-Choices reduces the number of workers of hot keys compared to W-Choices and Round-Robin.",
)
def dc_needs_fewer_workers(rows: Rows) -> Verdict:
    parts, held = [], True
    for n in read.values(rows["fig4"], "workers"):
        fractions = [row["fraction"] for row in read.where(rows["fig4"], workers=n)]
        fewer = sum(fraction < 1 for fraction in fractions)
        held = held and fewer > len(fractions) / 2
        mean = sum(fractions) / len(fractions)
        parts.append(
            f"n = {n}: fewer at {fewer} of {len(fractions)} skews, {mean:.2f} n on average"
        )
    return terms.judged(held, "; ".join(parts) + " (held if fewer at most skews, for every n).")
