"""Claims on the threshold from which on a stream is heavy: §III-B, Figure 9."""

from __future__ import annotations

from typing import Any

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.smalops import terms

TOGETHER, WITH_OTHERS, ITSELF = "coverage", "others", "threshold"


def _curve(rows: Rows, column: str, means: str = TOGETHER) -> dict[Any, float]:
    return read.along(rows["fig9"], "percent", column, means=means)


def _hashed(rows: Rows) -> float:
    return read.typical(rows["fig9"], "hashed_p99")


@claim(
    "ten-percent-drops-sharply",
    "§III-B, Figure 9",
    figures=["fig9"],
    says="When flows that account for 10 % or more of the messages are heavy, the tail latency drops "
    "sharply.",
)
def ten_percent_drops_sharply(rows: Rows) -> Verdict:
    tail, hashed = _curve(rows, "p99"), _hashed(rows)
    counted, alone = _curve(rows, "p99", WITH_OTHERS), _curve(rows, "p99", ITSELF)
    return read.judged(
        tail[10] * terms.SHARPLY <= hashed,
        f"the 99th percentile is {read.number(hashed)} µs with key hashing and, by the percent that "
        f"hot keys have together, {read.listed(tail, ' µs')}; by the percent that each has itself, "
        f"{read.listed(alone, ' µs')}",
        "at 10 % together it is lower than with key hashing by a factor of 1.5",
        "A partition's size is that of its hot keys alone (equation 1). Three keys that are on three "
        "partitions look even, whatever else makes one of them too busy, and none is moved. With the "
        "load of the other keys counted, which is ours, it is, by the percent that hot keys have "
        f"together, {read.listed(counted, ' µs')}. "
        "By the other reading no key has 10 %, and nothing is hot.",
    )


@claim(
    "more-percent-no-impact",
    "§III-B, Figure 9",
    figures=["fig9"],
    says="Further increasing the threshold [above 10 %] has no significant impact.",
)
def more_percent_no_impact(rows: Rows) -> Verdict:
    tail = {percent: p99 for percent, p99 in _curve(rows, "p99").items() if percent >= 10}
    later = {percent: p99 for percent, p99 in tail.items() if percent >= 30}
    return read.judged(
        max(tail.values()) <= terms.SAME * min(tail.values()),
        f"the 99th percentile is, from 10 % on, {read.listed(tail, ' µs')}",
        "all are within a tenth",
        f"The drop is not at 10 % (see ten-percent-drops-sharply). From 30 % on the largest is "
        f"{read.number(max(later.values()) / min(later.values()))} times the smallest: every key more "
        "that can be moved still helps.",
    )


@claim(
    "low-threshold-few-keys",
    "§III-B, Figure 9",
    figures=["fig9"],
    says="Keeping the threshold as low as possible keeps the number of tracked keys lower.",
)
def low_threshold_few_keys(rows: Rows) -> Verdict:
    tracked = _curve(rows, "tracked")
    return read.judged(
        read.rank_correlation(tracked) >= terms.GROWS and tracked[10] < tracked[max(tracked)],
        f"hot keys at a time are, by the percent that they have together, {read.listed(tracked)}",
        "they grow with it, rank correlation of at least 0.8",
    )
