"""Queuing delay behind the gateway on Spark.

The load and the consumers of `evenflow bench smalops-broker`, but everything goes through Spark:
messages are sent to one topic by Kafka's own key hashing, and a Spark stream brings them to the topic
that the consumers read, batch by batch. The contestants:

- `copy`: Spark's own copy from topic to topic; Kafka's key hashing;
- `hashed`: the gateway with a threshold that no key reaches: its hash and its costs, with no moves;
- `smalops`: the gateway.

The gateway's hash is not Kafka's, and one hash is luckier than another. So its seed is the one, of a
few hundred, by which the busiest partition has most nearly the load that it has by Kafka's.

Two delays are measured, each until a consumer begins with a message: since it was sent, and since it
was written to the topic that is read (its timestamp there), which is the waiting behind other messages.
A batch brings its messages all at once, so both have a floor of about what a partition gets in a batch.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from evenflow.kafka.artifacts import connector_jars
from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic
from evenflow.kafka.gateway_batch import PRODUCER
from evenflow.kernels.fingerprints import fingerprint
from evenflow.planning.hot_keys import HotKeys
from evenflow.spark.session import local_session
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.smalops.delays import Observed, Through, figures, observe
from evenflow_lab.benchmarks.smalops.load import SENT, Run, hottest_share, name
from evenflow_lab.checking.broker import Broker

SEEDS = 300
WARM_UP = 60.0  #: seconds of load for each contestant, before any is measured
NEVER = 1.0  #: a share of the messages that no key has
TELLING = ("p50_ms", "p90_ms", "p99_ms", "mean_ms", "timeline")


def run(
    seconds: Annotated[float, "Seconds of the static load."] = 60.0,
    minutes: Annotated[int, "Minutes of the dynamic load; 0: none."] = 2,
    shift: Annotated[int, "Keys shifted every minute."] = 10,
    every: Annotated[str, "How often a batch begins."] = "500 milliseconds",
    saturation: Annotated[float, "How busy the busiest partition is."] = Run.saturation,
    service: Annotated[float, "Seconds per message."] = Run.service,
    progress: Progress = say_nothing,
) -> Result:
    def say(line: str) -> None:
        progress(line, 0, None)

    conf: dict[str, Any] = {"spark.jars": ",".join(str(jar) for jar in connector_jars())}
    spark = local_session(None, "queuing delay", **conf)
    static = Run(seconds=seconds, saturation=saturation, service=service)
    answer: dict[str, Any] = {
        "command": f"evenflow bench smalops-spark --seconds {seconds:g} --minutes {minutes}",
        "every": every,
        "load_average_before": os.getloadavg()[0],
    }
    try:
        with Broker.start() as broker:
            # Java compiles while the first batches run.
            compared(spark, broker, replace(static, seconds=WARM_UP), every)
            answer["static"] = compared(spark, broker, static, every, say)
            if minutes:
                moving = replace(static, seconds=60.0 * minutes, shift=shift)
                answer["dynamic"] = compared(spark, broker, moving, every, say)
    finally:
        spark.stop()
    answer["load_average_after"] = os.getloadavg()[0]
    return Result(
        answer,
        tuple(_table(load, answer[load]) for load in ("static", "dynamic") if load in answer),
    )


def _table(load: str, found: dict[str, Any]) -> Table:
    return Table(
        [
            {
                "contestant": row["grouping"],
                **{
                    f"{p}, ms since {since}": round(of(row, since)[f"{p}_ms"])
                    for since in ("sent", "written")
                    for p in ("p50", "p99")
                },
                "moves": row["moves"],
                "batch, ms": row["batch_ms"],
            }
            for row in found["schemes"]
        ],
        f"{load} load",
    )


def compared(
    spark: Any,
    broker: Broker,
    settings: Run,
    every: str,
    say: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """All contestants under one load."""
    by_kafka = hottest_share(settings)
    rate = settings.saturation / (by_kafka * settings.service)
    policies = [
        HotKeys(settings.partitions, settings.threshold, least=5, seed=s) for s in range(SEEDS)
    ]
    shares = [hottest_share(settings, homes_by(policy)) for policy in policies]
    chosen = int(np.argmin(np.abs(np.array(shares) - by_kafka)))
    policy = policies[chosen]
    contestants = {
        "copy": copied(spark, broker.bootstrap, every),
        "hashed": by_gateway(
            spark, broker.bootstrap, every, settings, replace(policy, threshold=NEVER)
        ),
        "smalops": by_gateway(spark, broker.bootstrap, every, settings, policy),
    }
    rows = {}
    for scheme, through in contestants.items():
        seen = observe(settings, scheme, broker.bootstrap, rate, through)
        written = seen._replace(sent=written_at(broker.bootstrap, seen, settings.partitions))
        since_written = figures(settings, scheme, rate, written)
        rows[scheme] = figures(settings, scheme, rate, seen) | {
            **{what: seen.wrote[what] for what in ("batch_ms", "slowest_batch_ms")},
            "since_written": {what: since_written[what] for what in TELLING},
        }
        if say is not None:
            since = ("sent", rows[scheme]), ("written", since_written)
            parts = (f"p50 {r['p50_ms']:.0f}, p99 {r['p99_ms']:.0f} ms since {w}" for w, r in since)
            say(f"{scheme}: {'; '.join(parts)}; a batch took {seen.wrote['batch_ms']} ms")
    smalops = rows["smalops"]
    return {
        **asdict(settings),
        "rate": rate,
        "busiest_share": {"copy": by_kafka, "hashed": shares[chosen]},
        "gateway_seed": chosen,
        "lower_percent": {
            other: {
                f"{p}_since_{since}": 100
                * (1 - of(smalops, since)[f"{p}_ms"] / of(rows[other], since)[f"{p}_ms"])
                for since in ("sent", "written")
                for p in ("p50", "p99")
            }
            for other in ("copy", "hashed")
        },
        "schemes": list(rows.values()),
    }


def of(row: dict[str, Any], since: str) -> dict[str, Any]:
    figures_since: dict[str, Any] = row if since == "sent" else row["since_written"]
    return figures_since


def homes_by(policy: HotKeys) -> Callable[[list[int]], np.ndarray]:
    """The gateway's home partitions of the load's keys."""

    def homes(keys: list[int]) -> np.ndarray:
        return policy.homes(fingerprint(pa.array([name(key) for key in keys], pa.binary())))

    return homes


def copied(spark: Any, bootstrap: str, every: str) -> Through:
    @contextmanager
    def through(source: str, target: str) -> Iterator[dict[str, int]]:
        totals = {"moves": 0, "hot_keys_most": 0}
        with tempfile.TemporaryDirectory() as folder:
            options = {**PRODUCER, "kafka.bootstrap.servers": bootstrap, "topic": target}
            rows = read_topic(spark, bootstrap, source).select("key", "value")
            writer = rows.writeStream.format("kafka").options(**options)
            writer = writer.option("checkpointLocation", folder).trigger(processingTime=every)
            query = writer.start()
            try:
                yield totals
                totals |= batches(query.recentProgress)
            finally:
                query.stop()

    return through


def by_gateway(spark: Any, bootstrap: str, every: str, run: Run, policy: HotKeys) -> Through:
    @contextmanager
    def through(source: str, target: str) -> Iterator[dict[str, int]]:
        totals = {"moves": 0, "hot_keys_most": 0}

        def on_batch(metrics: Any) -> None:
            totals["moves"] += metrics["moves"]
            totals["hot_keys_most"] = max(totals["hot_keys_most"], metrics["hot_keys"])

        gateway = Gateway(bootstrap, target, policy, interval=run.interval, window=run.window)
        with tempfile.TemporaryDirectory() as folder:
            rows = read_topic(spark, bootstrap, source)
            query = gateway.start(rows, folder, TOPIC_ROWS, every=every, on_batch=on_batch)
            try:
                yield totals
                totals |= batches(query.spark_query.recentProgress)
            finally:
                query.stop()

    return through


def batches(progress: list[Any]) -> dict[str, int]:
    """What batches with messages took, of the last hundred."""
    durations = [one["durationMs"]["triggerExecution"] for one in progress if one["numInputRows"]]
    return {"batch_ms": int(statistics.median(durations)), "slowest_batch_ms": max(durations)}


def written_at(bootstrap: str, seen: Observed, partitions: int) -> np.ndarray:
    """For each message, when it was written to the topic that was consumed."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "times", "enable.auto.commit": False}
    consumer = Consumer(settings)
    places = [TopicPartition(seen.topic, p, 0) for p in range(partitions)]
    times: dict[float, float] = {}
    try:
        left = sum(consumer.get_watermark_offsets(place, 30)[1] for place in places)
        consumer.assign(places)
        while left > 0:
            for message in consumer.consume(10_000, 5.0):
                if message.error() is not None:
                    raise SystemExit(f"{seen.topic}: {message.error()}")
                left -= 1
                if message.value() is not None:  # else a marker
                    times.setdefault(SENT.unpack(message.value())[0], message.timestamp()[1] / 1e3)
    finally:
        consumer.close()
    return np.array([times[sent] for sent in seen.sent.tolist()])
