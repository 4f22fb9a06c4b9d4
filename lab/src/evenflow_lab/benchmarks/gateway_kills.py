"""Gateway, broker and consumers killed with SIGKILL under load.

A producer writes numbered messages to a topic all the while; a gateway copies them to another, with
keys that become hot and move twice a second; ordered consumers, processes of their own, read that and
write what they have counted. Gateway, broker and consumers are killed at random moments and started
again. In the end two things are compared with what was sent: every key's messages in the gateway's
topic, duplicates dropped by position (`checking/gateway_log.py`), and what the consumers have put out,
in which no message may be missing, doubled or out of order (`checking/order_checker.py`). Neither
shares code with readers.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from evenflow_lab.benchmarks.ordering.consumers import Consumers
from evenflow_lab.benchmarks.ordering.outputs import Outputs, all_outputs
from evenflow_lab.benchmarks.ordering.settings import Run
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing
from evenflow_lab.checking.broker import Broker
from evenflow_lab.checking.gateway_log import written
from evenflow_lab.checking.kafka_topics import consumed, end_offsets, new_topic
from evenflow_lab.checking.order_checker import check

PARTITIONS, SOURCES = 6, 4


class Load(threading.Thread):
    """Sends numbered messages at a steady rate, also while the broker is away."""

    def __init__(self, broker: Broker, topic: str, rate: float, keys: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.bootstrap, self.topic, self.rate = broker.bootstrap, topic, rate
        self.rng, self.keys = np.random.default_rng(seed), keys
        self.sent: dict[bytes, list[bytes]] = defaultdict(list)
        self.number = 0
        self.enough = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error

    def _run(self) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "linger.ms": 5,
            "log_level": 0,
        }
        producer = Producer(settings)
        began = time.monotonic()
        while not self.enough.is_set():
            due = int((time.monotonic() - began) * self.rate) - self.number
            # Which keys are hot changes every few seconds, so that they move and cool all the time.
            shift = int((time.monotonic() - began) / 4) * 17
            for drawn in self.rng.zipf(1.3, max(0, min(due, 5000))).tolist():
                number = (drawn + shift) % self.keys
                key = b"key-%d" % number
                value = b"%d" % len(self.sent[key])
                producer.produce(self.topic, value, key, number % SOURCES)
                self.sent[key].append(value)
                self.number += 1
            producer.poll(0.01)
        if producer.flush(120):
            raise RuntimeError("the load could not be sent")


def gateway(broker: Broker, source: str, target: str, folder: str, once: bool) -> list[str]:
    command = [sys.executable, "-m", "evenflow.cli", "gateway", "--json", "--from", source]
    command += ["--to", target, "--bootstrap", broker.bootstrap, "--checkpoint", folder]
    command += ["--threshold", "0.005", "--decision-interval", "500ms", "--most-per-batch", "20000"]
    return [*command, "--once"] if once else command


def run(
    kills: Annotated[int, "Kills of the gateway."] = 10,
    broker_kills: Annotated[int, "Kills of the broker."] = 2,
    rate: Annotated[float, "Messages per second."] = 2000,
    keys: Annotated[int, "Keys."] = 5000,
    consumers: Annotated[int, "Consumer processes."] = 2,
    seed: Annotated[int, "Of keys and moments."] = 0,
    progress: Progress = say_nothing,
) -> Result:
    rng, chance = np.random.default_rng(seed), random.Random(seed)
    began = time.monotonic()
    with Broker.start() as broker, tempfile.TemporaryDirectory() as folder:
        source, target = new_topic(broker, SOURCES), new_topic(broker, PARTITIONS)
        output = new_topic(broker, SOURCES)
        readers = Consumers(
            Run(consumers=consumers, faults=("kill",)),
            broker.bootstrap,
            target,
            output,
            Path(folder),
        )
        load = Load(broker, source, rate, keys, seed + 1)
        load.start()
        try:
            batches = 0
            broker_dies = set(rng.choice(kills, broker_kills, replace=False).tolist())
            for kill in range(kills):
                with subprocess.Popen(
                    gateway(broker, source, target, f"{folder}/gateway", False),
                    stdout=subprocess.PIPE,
                    text=True,
                ) as process:
                    assert process.stdout is not None
                    for line, after in zip(
                        process.stdout, range(int(rng.integers(2, 6))), strict=False
                    ):
                        batches = json.loads(line)["batch"] + 1
                        readers.revive(time.monotonic())
                        if kill in broker_dies and after == 0:
                            progress("the broker is killed", kill, kills)
                            broker.kill()
                            time.sleep(1.0)
                            broker.restart()
                    time.sleep(float(rng.random()))
                    assert process.poll() is None, "the gateway stopped by itself"
                    process.kill()
                readers.harm(chance)
                progress(
                    f"kill {kill + 1} of the gateway, after {batches} batches, {load.number:,} sent, "
                    f"consumers {readers.faults}",
                    kill + 1,
                    kills,
                )
            load.enough.set()
            load.join()
            if load.failure is not None:
                raise load.failure
            assert sum(end_offsets(broker, source)) == load.number
            last = gateway(broker, source, target, f"{folder}/gateway", True)
            subprocess.run(last, check=True, stdout=subprocess.DEVNULL)
            seen = consume_all(readers, Outputs(broker.bootstrap, output), load.number)
            progress(f"{seen:,} outputs of {load.number:,} messages", kills, kills)
        finally:
            readers.end()
        counts = readers.counts()
        found = written(consumed(broker, target))
        effects = check(
            {key: len(values) for key, values in load.sent.items()},
            all_outputs(broker.bootstrap, output),
        )
    expected: dict[bytes | None, list[bytes]] = dict(load.sent.items())
    wrong = {k for k in {*expected, *found.values} if expected.get(k) != found.values.get(k)}
    answer = {
        "seconds": round(time.monotonic() - began),
        "gateway_kills": kills,
        "broker_kills": broker_kills,
        "messages": load.number,
        "keys": len(load.sent),
        "records_in_target": found.records,
        "duplicates_in_target": found.duplicates,
        "moves": found.moves,
        "keys_lost_or_out_of_order": len(wrong),
        "consumer_faults": readers.faults,
        "consumers_that_could_tell": counts,
        "effects": asdict(effects),
    }
    rows = [{"": name, "value": value} for name, value in answer.items()]
    return Result(answer, (Table(rows),), passed=not (wrong or effects.any))


def consume_all(consumers: Consumers, outputs: Outputs, messages: int) -> int:
    """Wait until there is an output for every message, or until no more come; how many there were."""
    seen, last = 0, time.monotonic()
    while seen < messages and time.monotonic() - last < 90:
        new = len(outputs.poll())
        seen += new
        if new:
            last = time.monotonic()
        consumers.revive(time.monotonic())
    return seen
