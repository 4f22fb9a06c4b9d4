"""Claims on queuing delay under the static load: §III-B, Figures 7 and 8; and the paper's abstract."""

from __future__ import annotations

from itertools import pairwise

from evenflow_lab.experiments import Measured, Rows, Threshold, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.papers.smalops import terms

NOT_NEAR = (
    "How busy the busiest partition is at 20 µs depends on what a message costs besides its "
    "processing, which the paper does not say: 39 % if nothing, 88 % at the 250 µs taken here. The "
    "figure `fixed` has other costs, `load` other loads: the gain is that of the last tenth before "
    "saturation."
)


def _percentiles(rows: Rows, service: int, scheme: str) -> dict[float, float]:
    return read.along(rows["fig7"], "percentile", "delay", service_us=service, grouping=scheme)


def _reduction(rows: Rows, service: int) -> float:
    return read.typical(rows["fig8"], "reduction", service_us=service, grouping=terms.SMALOPS)


def _tenth(rows: Rows, service: int) -> float:
    """A tenth of what a message takes its consumer, in µs."""
    return (terms.SAME - 1) * (service + float(rows["fig7"][0]["fixed_us"]))


@claim(
    "p99-73-percent-at-50",
    "abstract, §III-B, Figures 7(b) and 8",
    figures=["fig8"],
    says="At 50 µs a message the 99th percentile of the queuing delay is 73 % lower than Kafka's.",
    threshold=Threshold("99th percentile below key hashing, 50 µs", least=73, unit=" %"),
)
def p99_73_percent_at_50(rows: Rows) -> Measured:
    return Measured(_reduction(rows, 50))


@claim(
    "p99-57-percent-at-20",
    "§III-B, Figure 8",
    figures=["fig8"],
    says="At 20 µs a message the 99th percentile is 57 % lower than Kafka's.",
    threshold=Threshold(
        "99th percentile below key hashing, 20 µs", least=57 / terms.ABOUT, unit=" %"
    ),
)
def p99_57_percent_at_20(rows: Rows) -> Measured:
    return Measured(_reduction(rows, 20), why=NOT_NEAR)


@claim(
    "kafka-keeps-increasing",
    "§III-B, Figure 8",
    figures=["fig8"],
    says="As the system gets overloaded, Kafka's 99th percentile keeps increasing.",
)
def kafka_keeps_increasing(rows: Rows) -> Verdict:
    curve = read.along(rows["fig8"], "service_us", "p99", grouping=terms.KEY)
    values = list(curve.values())
    return read.judged(
        all(a < b for a, b in pairwise(values)),
        f"by processing time, {read.listed(curve, ' µs')}",
        "each is above the one before",
    )


@claim(
    "improvement-stays-stable",
    "§III-B, Figure 8",
    figures=["fig8"],
    says="The improvements achieved by SMALOPS remain stable as the system gets overloaded.",
)
def improvement_stays_stable(rows: Rows) -> Verdict:
    curve = read.along(rows["fig8"], "service_us", "reduction", grouping=terms.SMALOPS)
    return read.judged(
        min(curve.values()) > 0 and max(curve.values()) <= terms.ABOUT * min(curve.values()),
        f"by processing time, {read.listed(curve, ' %')}",
        "the largest is within a quarter of the smallest",
        "The nearer a partition is to saturation, the more is to be gained: the queue of a partition "
        "that is ρ busy grows as 1 ÷ (1 − ρ). " + NOT_NEAR,
    )


@claim(
    "smalops-stays-low",
    "§III-B, §V",
    figures=["fig8"],
    says="SMALOPS achieves stable performance even under higher loads: its 99th percentile is almost "
    "a constant factor [of the processing time].",
)
def smalops_stays_low(rows: Rows) -> Verdict:
    ours = read.along(rows["fig8"], "service_us", "p99", grouping=terms.SMALOPS)
    theirs = read.along(rows["fig8"], "service_us", "p99", grouping=terms.KEY)
    fixed = float(rows["fig8"][0]["fixed_us"])
    times = {us: p99 / (us + fixed) for us, p99 in ours.items()}
    hashed = {us: p99 / (us + fixed) for us, p99 in theirs.items()}
    return read.judged(
        max(times.values()) <= terms.ABOUT * min(times.values()),
        f"the 99th percentile is, in multiples of what a message takes its consumer, "
        f"{read.listed(times)}; with key hashing {read.listed(hashed)}",
        "the largest factor is within a quarter of the smallest",
        "The factor grows with the load, as any queue's does; much less than with key hashing.",
    )


@claim(
    "indistinguishable-until-p90-at-20",
    "§III-B, Figure 7(a)",
    figures=["fig7"],
    says="At 20 µs Kafka and SMALOPS are indistinguishable till the 90th percentile.",
)
def indistinguishable_until_p90_at_20(rows: Rows) -> Verdict:
    kafka, ours = _percentiles(rows, 20, terms.KEY), _percentiles(rows, 20, terms.SMALOPS)
    apart = {p: abs(kafka[p] - ours[p]) for p in kafka if p <= 90}
    return read.judged(
        max(apart.values()) <= _tenth(rows, 20),
        f"up to there they are at most {read.number(max(apart.values()))} µs apart; at the 99th "
        f"percentile {read.number(kafka[99] - ours[99])} µs",
        f"at most a tenth of what a message takes its consumer, {read.number(_tenth(rows, 20))} µs",
        "A load at which the 99th percentile can be 57 % lower is one at which the busiest partitions, "
        "with more than a tenth of the messages, have queues. Without a fixed cost the two are alike "
        "up to the 90th percentile, and at the 99th there is nothing to gain.",
    )


@claim(
    "kafka-degrades-from-p50-at-50",
    "§III-B, Figure 7(b)",
    figures=["fig7"],
    says="At 50 µs Kafka starts degrading around the 50th percentile, while SMALOPS remains nearly "
    "identical.",
)
def kafka_degrades_from_p50_at_50(rows: Rows) -> Verdict:
    kafka, ours = _percentiles(rows, 50, terms.KEY), _percentiles(rows, 50, terms.SMALOPS)
    ratios = {p: kafka[p] / ours[p] for p in kafka if ours[p] >= 1.0}
    worse = [p for p, ratio in ratios.items() if ratio > terms.SAME]
    first = min(worse) if worse else float("nan")
    return read.judged(
        40 <= first <= 60,
        f"Kafka's delay over SMALOPS' is, by percentile, "
        f"{read.listed({p: ratios[p] for p in ratios if p in (50, 75, 90, 95, 99)})}; it is more than "
        f"a tenth above it from percentile {first:g} on (below that, SMALOPS has less than 1 µs or "
        "they are alike)",
        "that begins between the 40th and the 60th percentile",
    )


@claim(
    "realised-earlier",
    "Figure 7",
    figures=["fig7"],
    says="Performance improvement with SMALOPS is realised earlier [at lower percentiles] at 50 µs "
    "than at 20 µs.",
)
def realised_earlier(rows: Rows) -> Verdict:
    firsts = {}
    for service in (20, 50):
        kafka, ours = (
            _percentiles(rows, service, terms.KEY),
            _percentiles(rows, service, terms.SMALOPS),
        )
        limit = _tenth(rows, service)
        gained = [p for p in kafka if kafka[p] - ours[p] > limit]
        firsts[service] = min(gained, default=100.0)
    return read.judged(
        firsts[50] < firsts[20],
        "SMALOPS is ahead by more than a tenth of what a message takes its consumer from percentile "
        f"{firsts[20]:g} on at 20 µs, and from {firsts[50]:g} on at 50 µs",
        "the latter is lower",
    )


@claim(
    "p50-not-worse",
    "§III-B, Figure 7",
    figures=["fig7"],
    says="SMALOPS improves overall native Kafka performance [also the median].",
)
def p50_not_worse(rows: Rows) -> Verdict:
    pairs = {
        s: [_percentiles(rows, s, g)[50] for g in (terms.SMALOPS, terms.KEY)] for s in (20, 50)
    }
    return read.judged(
        all(ours <= kafka for ours, kafka in pairs.values()),
        "; ".join(
            f"at {s} µs the median is {read.number(ours)} µs, Kafka's {read.number(kafka)} µs"
            for s, (ours, kafka) in pairs.items()
        ),
        "neither is above Kafka's",
    )


@claim(
    "no-keys-are-optimal",
    "§III-A",
    figures=["fig8"],
    says="Messages without key, routed one by one, show what an optimal performance might look like.",
)
def no_keys_are_optimal(rows: Rows) -> Verdict:
    ideal = read.along(rows["fig8"], "service_us", "p99", grouping=terms.SHUFFLE)
    ours = read.along(rows["fig8"], "service_us", "p99", grouping=terms.SMALOPS)
    return read.judged(
        all(ideal[us] <= ours[us] for us in ideal),
        f"the 99th percentile without keys is {read.listed(ideal, ' µs')}; SMALOPS' "
        f"{read.listed(ours, ' µs')}",
        "it is nowhere above SMALOPS'",
    )


@claim(
    "hashing-cannot-handle-skew",
    "§I",
    figures=["load"],
    says="Systems like Kafka that assign load statically are unable to handle significantly skewed "
    "input.",
    threshold=Threshold(
        "busiest of 20 partitions under key hashing, over the average", least=terms.SHARPLY
    ),
)
def hashing_cannot_handle_skew(rows: Rows) -> Measured:
    ratio = read.along(rows["load"], "partitions", "max_load_ratio", grouping=terms.KEY)
    moved = read.along(rows["load"], "partitions", "max_load_ratio", grouping=terms.SMALOPS)
    return Measured(
        ratio[20], f"by partitions {read.listed(ratio)}; with SMALOPS {read.listed(moved)}"
    )
