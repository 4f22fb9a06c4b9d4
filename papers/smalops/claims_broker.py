"""Figures 7, 8 and 10 on a real broker: Apache Kafka on one machine, at a rate that it holds.

`python -m benchmarks.smalops_broker --save papers/smalops/broker.json` measures them; `evenflow
reproduce` starts no broker and reads that file. Without it these claims are open.
"""

from __future__ import annotations

import json
from pathlib import Path

from evenflow.simulator.experiments import Verdict, claim
from evenflow.simulator.experiments.declaration import load_module

read = load_module(Path(__file__).with_name("reading.py"))

SAVED = Path(__file__).with_name("broker.json")
OPEN = (
    "Not in the simulator: `python -m benchmarks.smalops_broker` measures it on a real broker, with "
    "Kafka's own partitioner and the same consumer processes. No run of it has been kept yet."
)


def _measured(load):
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
    return rows[read.SMALOPS], rows[read.KEY], how


def _judged(load, column, least, held_if):
    found = _measured(load)
    if found is None:
        return Verdict(None, "not measured here", OPEN)
    ours, kafka, how = found
    gain = read.below(ours[column], kafka[column])
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
    says="On Kafka itself, near saturation, the 99th percentile of the queuing delay is 73 % lower.",
)
def broker_p99_near_saturation(rows):
    return _judged("static", "p99_ms", 73.0, "at least 73 % lower")


@claim(
    "broker-p50-not-worse",
    "§III-B, Figure 7",
    says="On Kafka itself, the median queuing delay is not worse.",
)
def broker_p50_not_worse(rows):
    return _judged("static", "p50_ms", 0.0, "not above Kafka's")


@claim(
    "broker-dynamic-load",
    "§III-B, Figure 10",
    says="On Kafka itself, SMALOPS significantly improves the tail under the dynamic load.",
)
def broker_dynamic_load(rows):
    return _judged("dynamic", "p99_ms", 100 / 3, "lower by a factor of 1.5, 33 %")
