"""Claims on load under hashing: §V "Load Skewness Phenomenon", Figure 7."""

from __future__ import annotations

from pathlib import Path

from evenflow.simulator.experiments import claim
from evenflow.simulator.experiments.declaration import load_module

read = load_module(Path(__file__).with_name("reading.py"))


def _by(rows, varied, column):
    return read.along(rows["fig7"], varied, column, varied=varied)


@claim(
    "skewness-grows-with-workers",
    "§V, Figure 7(a)",
    figures=["fig7"],
    says="The skewness grows when increasing the number of task instances.",
)
def skewness_grows_with_workers(rows):
    largest = _by(rows, "workers", "largest")
    correlation = read.grows(largest)
    return read.judged(
        correlation >= read.GROWS and largest[max(largest)] > largest[min(largest)],
        f"the largest load is, by N_D, {read.listed(largest)} times the average; rank correlation "
        f"{correlation:.2f}",
        "it is at least 0.8 and the last is above the first",
    )


@claim(
    "forty-workers-two-and-a-half",
    "§V, Figure 7(a)",
    figures=["fig7"],
    says="With 40 instances the maximal workload is almost 2.5 times the minimal one.",
)
def forty_workers_two_and_a_half(rows):
    ratio = _by(rows, "workers", "largest_over_smallest")[40]
    each = _by(rows, "workers", "largest_over_smallest_each")[40]
    return read.judged(
        2.5 / read.ABOUT <= ratio <= 2.5 * read.ABOUT,
        f"{read.number(ratio)} times, loads averaged over the intervals; in a single interval "
        f"{read.number(each)} times on average",
        "the former is within a quarter of 2.5",
        "How uneven hashing is depends on how long the same keys stay frequent. The generator swaps "
        "keys until one worker's load has grown by f; which keys it swaps the paper does not say.",
    )


@claim(
    "more-keys-more-even",
    "§V, Figure 7(b)",
    figures=["fig7"],
    says="When there are more keys in the domain, the hash function generates more balanced workload.",
)
def more_keys_more_even(rows):
    largest = _by(rows, "keys", "largest")
    correlation = read.grows(largest)
    return read.judged(
        correlation <= -read.GROWS,
        f"the largest load is, by K, {read.listed(largest)} times the average; rank correlation "
        f"{correlation:.2f}",
        "at most −0.8",
    )


@claim(
    "five-thousand-keys-four-times",
    "§V, Figure 7(b)",
    figures=["fig7"],
    says="The maximal workload for K = 5,000 is around 4 times the minimal one.",
)
def five_thousand_keys_four_times(rows):
    ratio = _by(rows, "keys", "largest_over_smallest")[5_000]
    each = _by(rows, "keys", "largest_over_smallest_each")[5_000]
    return read.judged(
        4 / read.ABOUT <= ratio <= 4 * read.ABOUT,
        f"{read.number(ratio)} times, loads averaged over the intervals; in a single interval "
        f"{read.number(each)} times on average",
        "the former is within a quarter of 4",
        "As with 40 workers: where the generator swaps keys in every interval, the averages over 50 "
        "intervals are more even than any single one of them.",
    )


@claim(
    "five-thousand-keys-worst",
    "§V, Figure 7(b)",
    figures=["fig7"],
    says="The maximal load for K = 5,000 is much larger than under larger key domains (K = 1,000,000).",
)
def five_thousand_keys_worst(rows):
    largest = _by(rows, "keys", "largest")
    return read.judged(
        largest[5_000] >= read.MUCH * largest[1_000_000]
        and largest[5_000] == max(largest.values()),
        f"{read.number(largest[5_000])} times the average for K = 5,000, "
        f"{read.number(largest[1_000_000])} times for K = 1,000,000",
        "the former is the largest of all and at least 1.5 times the latter",
    )


@claim(
    "hashing-is-not-enough",
    "§V",
    figures=["fig7"],
    says="Workload imbalance is a serious problem that randomized hash functions cannot solve.",
)
def hashing_is_not_enough(rows):
    workers, keys = _by(rows, "workers", "skewness"), _by(rows, "keys", "skewness")
    return read.judged(
        min(*workers.values(), *keys.values()) > 1 + read.THETA,
        f"in an interval the busiest worker has on average, by N_D, {read.listed(workers)} and, by K, "
        f"{read.listed(keys)} times the average load",
        "above 1 + θmax = 1.08 in every setting",
    )
