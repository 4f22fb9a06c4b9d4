"""The gateway's throughput beside a plain Spark → Kafka copy: `python -m benchmarks.gateway`.

Both read the same topic from a real broker on this machine and write it to a new one, with the same
settings of source and sink, in turns within one run. The first round of each is left out, because
Java compiles in it. The ratio is that of the median rates of batches of full size. Beside it stand
the ratios round by round, because on a machine that others use one median may have had the better
minutes; the seconds of the gateway's steps in a batch; and the load average before and after.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from evenflow.kafka.artifacts import connector_jars
from evenflow.kafka.broker import Broker
from evenflow.kafka.gateway import PRODUCER, TOPIC_ROWS, Gateway, read_topic
from evenflow.planning.hot_keys import HotKeys
from evenflow.spark.session import local_session
from kafka_topics import end_offsets, new_topic

GOAL = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=8, help="of source and target")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="besides the first, left out")
    parser.add_argument("--interval", type=float, default=2.0, help="between two decisions")
    parser.add_argument("--headers", type=int, default=0, help="of every message in the source")
    parser.add_argument("--sorted", action="store_true", help="as rows that come in no order")
    told = parser.parse_args()
    jars = ",".join(str(jar) for jar in connector_jars())
    spark = local_session(None, "gateway benchmark", **{"spark.jars": jars})
    try:
        with Broker.start() as broker:
            print(json.dumps(measured(spark, broker, told), indent=2))
    finally:
        spark.stop()


def measured(spark: Any, broker: Broker, told: argparse.Namespace) -> dict[str, Any]:
    source = new_topic(broker, told.partitions)
    fill(broker, source, told)
    most = -(-told.messages // told.batches)
    rates: dict[str, list[float]] = {"copy": [], "gateway": []}
    moves = hot = 0
    steps: dict[str, list[float]] = {}
    rounds: list[float] = []
    load = os.getloadavg()[0]
    for round_ in range(told.rounds + 1):
        of_round: dict[str, float] = {}
        for name, run in (("copy", copied), ("gateway", through_gateway)):
            target = new_topic(broker, told.partitions)
            with tempfile.TemporaryDirectory() as folder:
                df = read_topic(spark, broker.bootstrap, source, most=most)
                progress, metrics = run(df, broker, target, folder, told)
            written = sum(end_offsets(broker, target))
            if name == "copy":
                assert written == told.messages
            else:
                moved = sum(m["moves"] for m in metrics)
                assert written == told.messages + 2 * moved
                moves, hot = moves + moved, max(hot, *(m["hot_keys"] for m in metrics))
            batches = [
                p["numInputRows"] / (p["durationMs"]["triggerExecution"] / 1000)
                for p in progress
                if p["numInputRows"] >= 0.9 * most
            ]
            note(
                f"round {round_}, {name}: {', '.join(f'{rate:,.0f}' for rate in batches)} a second"
            )
            if round_:
                rates[name] += batches
                for one in metrics:
                    for step, seconds in one["durations"].items():
                        steps.setdefault(step, []).append(seconds)
            drop_topic(broker, target)
            of_round[name] = statistics.median(batches)
        if round_:
            rounds.append(of_round["gateway"] / of_round["copy"])
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratio = medians["gateway"] / medians["copy"]
    return {
        "messages": told.messages,
        "keys": told.keys,
        "partitions": told.partitions,
        "headers": told.headers,
        "copy_per_second": round(medians["copy"]),
        "gateway_per_second": round(medians["gateway"]),
        "ratio": round(ratio, 3),
        "ratio_by_round": [round(one, 3) for one in rounds],
        "goal": GOAL,
        "held": ratio >= GOAL,
        "moves": moves,
        "hot_keys_at_most": hot,
        "batches_each": len(rates["copy"]),
        "seconds_by_step": {s: round(statistics.median(x), 3) for s, x in steps.items()},
        "load_average": [round(load, 1), round(os.getloadavg()[0], 1)],
    }


def copied(
    df: Any, broker: Broker, target: str, folder: str, told: argparse.Namespace
) -> tuple[list[Any], list[Any]]:
    options = {**PRODUCER, "kafka.bootstrap.servers": broker.bootstrap, "topic": target}
    writer = df.select("key", "value", "headers").writeStream.format("kafka").options(**options)
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination()
    return list(query.recentProgress), []


def through_gateway(
    df: Any, broker: Broker, target: str, folder: str, told: argparse.Namespace
) -> tuple[list[Any], list[Any]]:
    policy = HotKeys(told.partitions, threshold=1e-3)
    gateway = Gateway(broker.bootstrap, target, policy, told.interval)
    rows = TOPIC_ROWS
    if told.sorted:
        from dataclasses import replace

        rows = replace(rows, in_order=False)
    query = gateway.start(df, folder, rows, available_now=True)
    query.wait()
    return list(query.spark_query.recentProgress), query.metrics()


def fill(broker: Broker, topic: str, told: argparse.Namespace) -> None:
    """Messages with keys of the paper's power law, in a topic by Kafka's own hashing."""
    from confluent_kafka import Producer

    rng = np.random.default_rng(0)
    weights = (2.72 + np.arange(told.keys)) ** -1.1
    drawn = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(told.messages))
    value = rng.bytes(told.value_bytes)
    headers = [(f"name-{i}", rng.bytes(16)) for i in range(told.headers)]
    settings: dict[str, Any] = {
        "linger.ms": 20,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    began = time.perf_counter()
    for i, key in enumerate(drawn.tolist()):
        send(producer.produce, topic, value, b"key-%d" % key, headers)
        if i % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0
    note(f"{told.messages:,} messages in the source after {time.perf_counter() - began:.0f} s")


def send(
    produce: Callable[..., None], topic: str, value: bytes, key: bytes, headers: list[Any]
) -> None:
    while True:
        try:
            return produce(topic, value, key, headers=headers)
        except BufferError:
            time.sleep(0.05)


def drop_topic(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})  # must outlive its answer
    admin.delete_topics([topic])[topic].result(30)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
