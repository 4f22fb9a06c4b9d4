"""Figures 7 to 10 on a real broker: Apache Kafka on one machine, at a rate that it holds.

`evenflow bench smalops-broker --save …/papers/smalops/broker.json` measures Figures 7 and 10, and
`--sweeps --save …/papers/smalops/broker_sweeps.json` Figures 8 and 9; `evenflow reproduce` starts no
broker and reads these files. Without the first, claims on Figures 7 and 10 are open.
"""

from __future__ import annotations

import json
from pathlib import Path

from evenflow_lab.experiments import Rows, Verdict, claim
from evenflow_lab.experiments import reading as read
from evenflow_lab.experiments.claims import Row
from evenflow_lab.papers.smalops import terms

SAVED = Path(__file__).with_name("broker.json")
OPEN = (
    "Not in the simulator: `evenflow bench smalops-broker` measures it on a real broker, with Kafka's "
    "own partitioner and the same consumer processes. No run of it has been kept yet."
)


def _measured(load: str) -> tuple[Row, Row, str] | None:
    """The row of each scheme, and how it was measured; None if it was not."""
    if not SAVED.is_file():
        return None
    saved = json.loads(SAVED.read_text(encoding="utf-8"))
    if load not in saved:
        return None
    run = saved[load]
    rows = {row["grouping"]: row for row in run["schemes"]}
    how = (
        f"measured on {saved['cores']} cores by `{saved['command']}`: {run['partitions']} partitions, "
        f"{1e3 * run['service']:g} ms a message, {run['rate']:.0f} messages a second; the load average "
        f"was {saved['load_average_before']:.1f} before"
    )
    return rows[terms.SMALOPS], rows[terms.KEY], how


def _judged(load: str, column: str, least: float, held_if: str) -> Verdict:
    found = _measured(load)
    if found is None:
        return Verdict(None, "not measured here", OPEN)
    ours, kafka, how = found
    gain = read.percent_below(ours[column], kafka[column])
    return read.judged(
        gain >= least,
        f"{read.number(ours[column])} ms, Kafka's {read.number(kafka[column])} ms, {gain:.0f} % lower; "
        f"{how}",
        held_if,
        "The clients, the consumers' transactions and the cores that all processes share add to every "
        "delay, whatever the scheme.",
    )


@claim(
    "broker-p99-near-saturation",
    "abstract, §III-B, Figures 7(b) and 8",
    figures=["broker_fig7"],
    says="On Kafka itself, near saturation, the 99th percentile of the queuing delay is 73 % lower.",
)
def broker_p99_near_saturation(rows: Rows) -> Verdict:
    return _judged("static", "p99_ms", 73.0, "at least 73 % lower")


@claim(
    "broker-p50-not-worse",
    "§III-B, Figure 7",
    figures=["broker_fig7"],
    says="On Kafka itself, the median queuing delay is not worse.",
)
def broker_p50_not_worse(rows: Rows) -> Verdict:
    return _judged("static", "p50_ms", 0.0, "not above Kafka's")


@claim(
    "broker-dynamic-load",
    "§III-B, Figure 10",
    figures=["broker_fig10"],
    says="On Kafka itself, SMALOPS significantly improves the tail under the dynamic load.",
)
def broker_dynamic_load(rows: Rows) -> Verdict:
    return _judged("dynamic", "p99_ms", 100 / 3, "lower by a factor of 1.5, 33 %")


@claim(
    "broker-kafka-keeps-increasing",
    "§III-B, Figure 8",
    figures=["broker_fig8"],
    says="On Kafka itself, as the system gets overloaded, the 99th percentile of key hashing keeps "
    "increasing.",
)
def broker_kafka_keeps_increasing(rows: Rows) -> Verdict:
    curve = read.along(rows["broker_fig8"], "service_ms", "p99", grouping=terms.KEY)
    return read.judged(
        read.rank_correlation(curve) >= terms.GROWS,
        f"by ms a message, the 99th percentile is {read.listed(curve, ' ms')}",
        f"the rank correlation is at least {terms.GROWS}",
        "Below saturation, two runs of one setting differ by more than the processing time matters.",
    )


@claim(
    "broker-p99-at-lower-load",
    "§III-B, Figure 8",
    figures=["broker_fig8"],
    says="On Kafka itself, the 99th percentile is 57 % lower already at 0.4 of the processing time at "
    "which the system is nearly overloaded [20 of 50 µs].",
)
def broker_p99_at_lower_load(rows: Rows) -> Verdict:
    gain = read.along(rows["broker_fig8"], "service_ms", "reduction", grouping=terms.SMALOPS)
    ours = read.along(rows["broker_fig8"], "service_ms", "p99", grouping=terms.SMALOPS)
    return read.judged(
        gain[min(gain)] >= 57,
        f"by ms a message, it is lower by {read.listed(gain, ' %')} (negative: higher)",
        "at the shortest it is at least 57 % lower",
        "Where nothing is near saturation there is little to gain. With SMALOPS it is "
        f"{read.listed(ours, ' ms')}; why it does not fall with the load was not looked into.",
    )


@claim(
    "broker-ten-percent-drops-sharply",
    "§III-B, Figure 9",
    figures=["broker_fig9"],
    says="On Kafka itself, when flows that account for 10 % or more of the messages are heavy, the "
    "tail latency drops sharply.",
)
def broker_ten_percent_drops_sharply(rows: Rows) -> Verdict:
    tail, alone, hashed = _by_threshold(rows)
    return read.judged(
        tail[10] * terms.SHARPLY <= hashed,
        f"the 99th percentile is {read.number(hashed)} ms with Kafka's partitioner and, by the percent "
        f"that hot keys have together, {read.listed(tail, ' ms')}; by the percent that each has "
        f"itself, {read.listed(alone, ' ms')}",
        "at 10 % together it is lower than with key hashing by a factor of 1.5",
        "The same as in the simulator: see ten-percent-drops-sharply.",
    )


@claim(
    "broker-more-percent-no-impact",
    "§III-B, Figure 9",
    figures=["broker_fig9"],
    says="On Kafka itself, further increasing the threshold [above 10 %] has no significant impact.",
)
def broker_more_percent_no_impact(rows: Rows) -> Verdict:
    tail, _, _ = _by_threshold(rows)
    return read.judged(
        max(tail.values()) <= terms.SAME * min(tail.values()),
        f"the 99th percentile is, from 10 % on, {read.listed(tail, ' ms')}",
        "all are within a tenth",
        "The drop is not at 10 % (see broker-ten-percent-drops-sharply).",
    )


def _by_threshold(rows: Rows) -> tuple[read.Curve, read.Curve, float]:
    """By percent: of hot keys together, of each itself; and key hashing."""
    found = rows["broker_fig9"]
    together = read.along(found, "percent", "p99", reading="that hot keys have together")
    alone = read.along(found, "percent", "p99", reading="that a hot key has itself")
    return together, alone, read.typical(found, "hashed_p99")
