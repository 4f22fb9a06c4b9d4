"""The gateway's throughput beside a plain Spark → Kafka copy.

All read the same topic from a real broker on this machine and write it to another one. The contestants:

- `plain`: the copy that one writes in Spark, with Spark's and Kafka's own settings;
- `tuned`: the same copy with the gateway's settings of Kafka's consumer and producer: like beside like,
  for whoever asks what the gateway's own work costs;
- `tuned_with_header`: that, with a constant header and an explicit partition: what no gateway can do
  without, whatever it computes;
- with `--parts`, two that do a part of what the gateway does;
- `gateway`.

They take turns batch by batch, each going on where it was, because the machine's own speed changes
within a minute: a round is one batch of each, of the gateway's own default size, every other round in
the opposite order, and a ratio is the median of the rounds' ratios. The first rounds are left out,
because Java compiles in them; most of these are brief. Beside it stand all rounds' ratios, the median
rates, the seconds of the gateway's steps in a batch, and the load average before and after.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from evenflow.kafka.artifacts import connector_jars
from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic
from evenflow.kafka.gateway_batch import PRODUCER, write_batch
from evenflow.kafka.gateway_counts import countable, counts, observed, sampling
from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_rows import placed, with_headers
from evenflow.ordering import MESSAGE, Header, pack
from evenflow.planning.hot_keys import HotKeys
from evenflow.spark.session import local_session
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.checking.broker import Broker
from evenflow_lab.checking.kafka_topics import end_offsets, new_topic

GOAL = 0.8
THRESHOLD = 1e-3  #: the share of messages that makes a key hot
ONCE = "1 hour"  #: between batches: a query is stopped after its first
BRIEF = 20_000  #: messages in a batch of the brief rounds

# Spark keeps what a stopped query's consumers have read for five minutes. Here a query is stopped after
# every batch, and that would fill the heap.
FORGET = {
    f"spark.kafka.consumer.{what}cache.{name}": "2s"
    for what in ("", "fetchedData.")
    for name in ("timeout", "evictorThreadRunInterval")
}


@dataclass(frozen=True)
class Settings:
    """The options of `run`."""

    batch: int = 1_000_000
    keys: int = 100_000
    value_bytes: int = 100
    partitions: int = 8
    rounds: int = 9
    brief: int = 60
    warm_up: int = 5
    interval: float = 2.0
    headers: int = 0
    sorted: bool = False
    parts: bool = False


def run(
    batch: Annotated[int, "Messages in a batch."] = Settings.batch,
    keys: Annotated[int, "Keys."] = Settings.keys,
    value_bytes: Annotated[int, "Size of a value."] = Settings.value_bytes,
    partitions: Annotated[int, "Partitions of source and target."] = Settings.partitions,
    rounds: Annotated[int, "Rounds, besides the first ones, left out."] = Settings.rounds,
    brief: Annotated[int, "Brief rounds that are left out."] = Settings.brief,
    warm_up: Annotated[int, "Whole rounds that are left out."] = Settings.warm_up,
    interval: Annotated[float, "Seconds between two decisions."] = Settings.interval,
    headers: Annotated[int, "Headers of every message in the source."] = Settings.headers,
    sorted: Annotated[bool, "As rows that come in no order."] = False,
    parts: Annotated[bool, "Contestants that do less and less."] = False,
    progress: Progress = say_nothing,
) -> Result:
    settings = Settings(
        batch,
        keys,
        value_bytes,
        partitions,
        rounds,
        brief,
        warm_up,
        interval,
        headers,
        sorted,
        parts,
    )
    jars = ",".join(str(jar) for jar in connector_jars())
    conf: dict[str, Any] = {"spark.jars": jars, "spark.driver.memory": "2g", **FORGET}
    spark = local_session(None, "gateway benchmark", **conf)
    try:
        with Broker.start() as broker:
            found = measured(spark, broker, settings, progress)
    finally:
        spark.stop()
    rates, ratios = found["per_second"], found["gateway_to"]
    rows = [
        {"contestant": name, "messages per second": rate, "gateway ÷ it": ratios.get(name)}
        for name, rate in rates.items()
    ]
    goals = tuple(
        Goal(f"gateway ÷ {name} copy", ratios[name], GOAL, at_least=True)
        for name in ("plain", "tuned")
    )
    return Result(found, (Table(rows),), goals=goals)


def measured(
    spark: Any, broker: Broker, settings: Settings, progress: Progress = say_nothing
) -> dict[str, Any]:
    source = new_topic(broker, settings.partitions)
    # One batch more than is read: at the end of a topic every reader waits for more.
    sizes = [BRIEF] * settings.brief + [settings.batch] * (settings.warm_up + settings.rounds)
    progress("filling the source", 0, len(sizes))
    fill(broker, source, settings, sum(sizes) + settings.batch)
    starts = {"plain": plain, "tuned": tuned, "tuned_with_header": with_constant_header}
    if settings.parts:
        starts |= {
            "placed": in_parts(counting=False),
            "placed_and_counted": in_parts(counting=True),
        }
    starts["gateway"] = through_gateway
    rates: dict[str, list[float]] = {name: [] for name in starts}
    written = dict.fromkeys(starts, 0)
    steps: dict[str, list[float]] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        targets = {name: new_topic(broker, settings.partitions) for name in starts}
        metrics: list[Any] = []
        for turn, size in enumerate(sizes):
            for name, start in list(starts.items())[:: -1 if turn % 2 else 1]:
                read = read_plainly if name == "plain" else read_topic
                df = read(spark, broker.bootstrap, source, most=size)
                query = start(df, broker, targets[name], f"{folder}/{name}", settings)
                rows, seconds = one_batch(query)
                assert abs(rows - size) < 0.01 * size
                rates[name].append(rows / seconds)
                written[name] += rows
                if name == "gateway":
                    metrics.append(query.metrics()[-1])
                    for step, spent in metrics[-1]["durations"].items():
                        steps.setdefault(step, []).append(spent)
                    written[name] += 2 * metrics[-1]["moves"]
            last = ", ".join(f"{name} {found[-1]:,.0f}" for name, found in rates.items())
            progress("brief rounds" if size == BRIEF else last, turn + 1, len(sizes))
        for name, target in targets.items():
            assert sum(end_offsets(broker, target)) == written[name]
    left_out = settings.brief + settings.warm_up
    kept = {name: np.array(found[left_out:]) for name, found in rates.items()}
    beside = {name: kept["gateway"] / kept[name] for name in starts if name != "gateway"}
    ratios = {name: float(np.median(by_round)) for name, by_round in beside.items()}
    return {
        "batch": settings.batch,
        "keys": settings.keys,
        "value_bytes": settings.value_bytes,
        "partitions": settings.partitions,
        "headers": settings.headers,
        "per_second": {name: round(float(np.median(found))) for name, found in kept.items()},
        "gateway_to": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "gateway_to_by_round": {
            name: [round(one, 3) for one in by_round.tolist()] for name, by_round in beside.items()
        },
        "goal": GOAL,
        "held": {name: ratios[name] >= GOAL for name in ("plain", "tuned")},
        "moves": sum(m["moves"] for m in metrics),
        "hot_keys_at_most": max(m["hot_keys"] for m in metrics),
        "seconds_by_step": {s: round(statistics.median(x[left_out:]), 3) for s, x in steps.items()},
        "load_average": [round(load, 1), round(os.getloadavg()[0], 1)],
    }


def one_batch(query: Any) -> tuple[int, float]:
    """Messages and seconds of a query's next batch; then the query is stopped."""
    spark_query = getattr(query, "spark_query", query)
    while not any(p["numInputRows"] for p in spark_query.recentProgress):
        if spark_query.exception() is not None:
            raise spark_query.exception()
        time.sleep(0.05)
    [progress] = [p for p in spark_query.recentProgress if p["numInputRows"]]
    query.stop()
    return progress["numInputRows"], progress["durationMs"]["triggerExecution"] / 1000


def read_plainly(spark: Any, bootstrap: str, topic: str, *, most: int) -> Any:
    """A stream of all messages of a topic, with nothing set that can be left as it is."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return reader.option("includeHeaders", "true").option("maxOffsetsPerTrigger", most).load()


def plain(df: Any, broker: Broker, target: str, folder: str, settings: Settings) -> Any:
    return written_by_spark(df.select("key", "value", "headers"), broker, target, folder, {})


def tuned(df: Any, broker: Broker, target: str, folder: str, settings: Settings) -> Any:
    return written_by_spark(df.select("key", "value", "headers"), broker, target, folder, PRODUCER)


def with_constant_header(
    df: Any, broker: Broker, target: str, folder: str, settings: Settings
) -> Any:
    from pyspark.sql import functions as F

    ours = pack(Header(MESSAGE, 1, 2, 3))
    own = F.array(*(F.struct(F.lit(n).alias("key"), F.lit(v).alias("value")) for n, v in ours))
    if settings.headers:
        own = F.concat("headers", own)
    rows = df.select("key", "value", "partition", own.alias("headers"))
    return written_by_spark(rows, broker, target, folder, PRODUCER)


def written_by_spark(
    rows: Any, broker: Broker, target: str, folder: str, settings: dict[str, str]
) -> Any:
    options = {**settings, "kafka.bootstrap.servers": broker.bootstrap, "topic": target}
    writer = rows.writeStream.format("kafka").options(**options)
    return writer.option("checkpointLocation", folder).trigger(processingTime=ONCE).start()


def through_gateway(df: Any, broker: Broker, target: str, folder: str, settings: Settings) -> Any:
    policy = HotKeys(settings.partitions, threshold=THRESHOLD)
    gateway = Gateway(broker.bootstrap, target, policy, settings.interval)
    rows = replace(TOPIC_ROWS, in_order=False) if settings.sorted else TOPIC_ROWS
    return gateway.start(df, folder, rows, every=ONCE)


def in_parts(counting: bool) -> Callable[..., Any]:
    """A gateway that never moves a key: it places all by hash, with their true positions, and counts
    them or does not. It keeps no state."""

    def start(df: Any, broker: Broker, target: str, folder: str, settings: Settings) -> Any:
        every = sampling(settings.batch, THRESHOLD)

        def each(rows: Any, batch: int) -> None:
            seen, query = None, Selection.of(rows)
            if counting:
                query = countable(query, every)
            rows = with_headers(placed(query, None, settings.partitions, 0), 1, batch).df()
            if counting:
                rows, seen = observed(rows, THRESHOLD, every)
            write_batch(rows, {**PRODUCER, "kafka.bootstrap.servers": broker.bootstrap}, target)
            if seen is not None:
                counts(seen, every)

        writer = TOPIC_ROWS.selected(df).writeStream.foreachBatch(each)
        return writer.option("checkpointLocation", folder).trigger(processingTime=ONCE).start()

    return start


def fill(broker: Broker, topic: str, settings: Settings, messages: int) -> None:
    """Messages with keys of the paper's power law, in a topic by Kafka's own hashing."""
    from confluent_kafka import Producer

    rng = np.random.default_rng(0)
    weights = (2.72 + np.arange(settings.keys)) ** -1.1
    drawn = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(messages))
    value = rng.bytes(settings.value_bytes)
    headers = [(f"name-{i}", rng.bytes(16)) for i in range(settings.headers)]
    producing: dict[str, Any] = {
        "linger.ms": 20,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 1_000_000,
    }
    producer = Producer({"bootstrap.servers": broker.bootstrap, **producing})
    for i, key in enumerate(drawn.tolist()):
        send(producer, topic, value, b"key-%d" % key, headers)
        if i % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def send(producer: Any, topic: str, value: bytes, key: bytes, headers: list[Any]) -> None:
    while True:
        try:
            producer.produce(topic, value, key, headers=headers)
            return
        except BufferError:
            producer.poll(0.05)  # or its reports of what was sent fill the queue
