"""Claims on load under hashing: §V "Load Skewness Phenomenon", Figure 7."""

from __future__ import annotations

from typing import Any

from evenflow_lab.experiments import Measured, Rows, Threshold, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.skewness_and_variance import terms

DEFAULT, STILL = 1.0, 0.0  #: f of Table II, by which claims are judged; and frequencies that stay


def _by(rows: Rows, varied: str, column: str, fluctuation: float = DEFAULT) -> dict[Any, float]:
    return read.along(rows["fig7"], varied, column, varied=varied, fluctuation=fluctuation)


def _both(rows: Rows, varied: str, column: str) -> tuple[dict[Any, float], str]:
    """The curve by which a claim is judged, and beside it, in words, the one without changes."""
    still = read.listed(_by(rows, varied, column, STILL))
    return _by(rows, varied, column), f"with f = 0: {still}"


@claim(
    "skewness-grows-with-workers",
    "§V, Figure 7(a)",
    figures=["fig7"],
    says="The skewness grows when increasing the number of task instances.",
)
def skewness_grows_with_workers(rows: Rows) -> Verdict:
    largest, still = _both(rows, "workers", "largest")
    correlation = read.rank_correlation(largest)
    return read.judged(
        correlation >= terms.GROWS and largest[max(largest)] > largest[min(largest)],
        f"the largest load is, by N_D, {read.listed(largest)} times the average ({still}); rank "
        f"correlation {correlation:.2f}",
        "it is at least 0.8 and the last is above the first",
    )


@claim(
    "forty-workers-two-and-a-half",
    "§V, Figure 7(a)",
    figures=["fig7"],
    says="With 40 instances the maximal workload is almost 2.5 times the minimal one.",
    threshold=Threshold(
        "largest load over the smallest on 40 workers, averaged over the intervals",
        2.5 / terms.ABOUT,
        2.5 * terms.ABOUT,
    ),
)
def forty_workers_two_and_a_half(rows: Rows) -> Measured:
    ratio, still = (_by(rows, "workers", "largest_over_smallest", f)[40] for f in (DEFAULT, STILL))
    return Measured(
        ratio,
        f"with f = 0 {read.number(still)}",
        "With f = 1 the generator raises some worker's load by the average in every interval, "
        "which adds to what hashing alone does.",
    )


@claim(
    "more-keys-more-even",
    "§V, Figure 7(b)",
    figures=["fig7"],
    says="When there are more keys in the domain, the hash function generates more balanced workload.",
)
def more_keys_more_even(rows: Rows) -> Verdict:
    largest, still = _both(rows, "keys", "largest")
    correlation = read.rank_correlation(largest)
    return read.judged(
        correlation <= -terms.GROWS,
        f"the largest load is, by K, {read.listed(largest)} times the average ({still}); rank "
        f"correlation {correlation:.2f}",
        "at most −0.8",
        "With f = 1 the generator raises some worker's load by the average in every interval, "
        "however many keys there are, and that outweighs what K does. With f = 0 it is as the "
        "paper says.",
    )


@claim(
    "five-thousand-keys-four-times",
    "§V, Figure 7(b)",
    figures=["fig7"],
    says="The maximal workload for K = 5,000 is around 4 times the minimal one.",
    threshold=Threshold(
        "largest load over the smallest with K = 5,000, averaged over the intervals",
        4 / terms.ABOUT,
        4 * terms.ABOUT,
    ),
)
def five_thousand_keys_four_times(rows: Rows) -> Measured:
    ratio, still = (_by(rows, "keys", "largest_over_smallest", f)[5_000] for f in (DEFAULT, STILL))
    return Measured(
        ratio,
        f"with f = 0 {read.number(still)}",
        "How uneven 15 loads are is luck, and with f = 1 the same in kind for every K: the "
        "generator raises some worker's load by the average in every interval.",
    )


@claim(
    "five-thousand-keys-worst",
    "§V, Figure 7(b)",
    figures=["fig7"],
    says="The maximal load for K = 5,000 is much larger than under larger key domains (K = 1,000,000).",
)
def five_thousand_keys_worst(rows: Rows) -> Verdict:
    largest, still = _both(rows, "keys", "largest")
    return read.judged(
        largest[5_000] >= terms.MUCH * largest[1_000_000]
        and largest[5_000] == max(largest.values()),
        f"the largest load is, by K, {read.listed(largest)} times the average ({still})",
        "that for K = 5,000 is the largest and at least 1.5 times that for K = 1,000,000",
        "With f = 1 the generator raises some worker's load by the average in every interval, "
        "however many keys there are, and that outweighs what K does.",
    )


@claim(
    "hashing-is-not-enough",
    "§V",
    figures=["fig7"],
    says="Workload imbalance is a serious problem that randomized hash functions cannot solve.",
)
def hashing_is_not_enough(rows: Rows) -> Verdict:
    workers, keys = _by(rows, "workers", "skewness"), _by(rows, "keys", "skewness")
    return read.judged(
        min(*workers.values(), *keys.values()) > 1 + terms.THETA,
        f"in an interval the busiest worker has on average, by N_D, {read.listed(workers)} and, by K, "
        f"{read.listed(keys)} times the average load",
        "above 1 + θmax = 1.08 in every setting",
    )
