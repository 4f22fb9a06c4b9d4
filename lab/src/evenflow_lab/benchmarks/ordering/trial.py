"""One trial: a writer, consumers that are harmed, and a check of all outputs in the end."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenflow_lab.benchmarks.ordering.consumers import Consumers
from evenflow_lab.benchmarks.ordering.outputs import Outputs, all_outputs
from evenflow_lab.benchmarks.ordering.settings import STALLED, Run
from evenflow_lab.benchmarks.ordering.writer import command
from evenflow_lab.checking.broker import Broker
from evenflow_lab.checking.order_checker import Anomalies, check


def run_trial(
    settings: Run, broker: Broker, say: Callable[[str], object] = print
) -> dict[str, Any]:
    """One trial on a broker; its figures."""
    name = f"order-{settings.seed}-{os.getpid()}-{random.randrange(1 << 30)}"
    output = f"{name}-output"
    _create(broker.bootstrap, {name: settings.partitions, output: 4})
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        consumers = Consumers(settings, broker.bootstrap, name, output, Path(folder))
        writer = subprocess.Popen(
            command(broker.bootstrap, name, settings, Path(folder) / "sent.json")
        )
        try:
            sent = _watch(settings, broker, writer, consumers, output, Path(folder), say)
        finally:
            if writer.poll() is None:
                writer.kill()
            consumers.end()
        rows = all_outputs(broker.bootstrap, output)
        counts = consumers.counts()
    found: Anomalies = check({key.encode(): count for key, count in sent["keys"].items()}, rows)
    return {
        **{
            name: value
            for name, value in asdict(settings).items()
            if name not in ("faults", "most_faults")
        },
        "moves": sent["moves"],
        "replayed": sent["replayed"],
        "written": sum(sent["keys"].values()),
        "keys_written": len(sent["keys"]),
        "seconds": time.monotonic() - start,
        "faults": consumers.faults,
        "consumers": counts,
        "anomalies": asdict(found),
        "any_anomaly": found.any,
    }


def _watch(
    settings: Run,
    broker: Broker,
    writer: subprocess.Popen[bytes],
    consumers: Consumers,
    output: str,
    folder: Path,
    say: Callable[[str], object],
) -> dict[str, Any]:
    """Looks on, and does harm, until all outputs are there; what was sent."""
    chance = random.Random(settings.seed)
    outputs = Outputs(broker.bootstrap, output)
    seen = 0
    sent: dict[str, Any] | None = None
    last = last_said = time.monotonic()
    harm = _pause(chance, settings.seconds_between_faults, last)
    kills = [
        settings.messages * (i + 1) // (settings.broker_kills + 1)
        for i in range(settings.broker_kills)
    ]
    while sent is None or seen < sum(sent["keys"].values()):
        new = outputs.poll()
        seen += len(new)
        now = time.monotonic()
        if new:
            last = now
        if now - last > STALLED:
            say(f"nothing came for {STALLED:.0f} s: giving up at {seen} outputs")
            break
        if now - last_said > 10:
            last_said = now
            say(f"{seen} outputs; faults {consumers.faults}")
        if kills and seen >= kills[0]:
            kills.pop(0)
            say("killing the broker")
            broker.kill()
            broker.restart()
            consumers.count("broker killed")
            last = time.monotonic()
        if now >= harm and sum(consumers.faults.values()) < settings.most_faults:
            consumers.harm(chance)
            harm = _pause(chance, settings.seconds_between_faults, now)
        consumers.revive(now)
        if sent is None and writer.poll() is not None:
            if writer.returncode:
                raise RuntimeError(f"the writer ended with code {writer.returncode}")
            sent = json.loads((folder / "sent.json").read_text())
            say(f"all is written: {sent['moves']} moves, {sent['replayed']} records again")
    assert sent is not None, "the writer did not end"
    return sent


def _pause(chance: random.Random, mean: float, now: float) -> float:
    return now + chance.uniform(0.5, 1.5) * mean if mean else float("inf")


def _create(bootstrap: str, topics: dict[str, int]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(t, n, 1) for t, n in topics.items()]).values():
        made.result(30)
