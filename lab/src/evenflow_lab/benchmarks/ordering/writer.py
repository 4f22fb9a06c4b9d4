"""The process that writes numbered messages and moves keys at random, until all are written."""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenflow_lab.benchmarks.ordering.settings import Run


def command(bootstrap: str, topic: str, settings: Run, path: Path) -> list[str]:
    """How to start it; what it sent will be in the file at `path`."""
    arguments = [bootstrap, topic, json.dumps(asdict(settings)), str(path)]
    return [sys.executable, "-m", __name__, *arguments]


def write(bootstrap: str, topic: str, settings: Run, path: Path) -> None:
    """Writes all messages; then, to a file, how many of each key there were."""
    from confluent_kafka import Producer

    from evenflow.ordering import Writer

    chance = random.Random(settings.seed + 1)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "delivery.timeout.ms": 300_000,
        }
    )
    writer = Writer(1, settings.partitions, home=lambda key: int(key) % settings.partitions)
    sent = dict.fromkeys((b"%d" % key for key in range(settings.keys)), 0)
    recent: list[list[Any]] = [[] for _ in range(settings.partitions)]
    replay_at = {chance.randrange(settings.messages) for _ in range(settings.replays)}
    moves = replayed = 0
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    def append(record: Any) -> None:
        while True:
            try:
                producer.produce(
                    topic,
                    partition=record.partition,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                    on_delivery=delivered,
                )
                return
            except BufferError:
                producer.poll(0.05)

    def write_one(record: Any) -> None:
        kept = recent[record.partition]
        kept.append(record)
        del kept[:-300]
        append(record)

    # The first message of a key, then a power law: some keys are hot, all are used.
    start = time.monotonic()
    next_move = start
    for i in range(settings.messages):
        key = i if i < settings.keys else int(settings.keys * chance.random() ** 3)
        name = b"%d" % key
        now = time.monotonic()
        if now >= next_move:
            next_move = now + chance.expovariate(1 / settings.seconds_between_moves)
            hot = b"%d" % int(settings.keys * chance.random() ** 4)
            markers = writer.move(hot, chance.randrange(settings.partitions))
            moves += bool(markers)
            for record in markers:
                write_one(record)
        write_one(writer.message(name, b"%d" % sent[name]))
        sent[name] += 1
        if i in replay_at:
            for record in chance.choice(recent)[-chance.randrange(1, 300) :]:
                append(record)
                replayed += 1
        if i % 20 == 0:
            producer.poll(0)
            ahead = i / settings.rate - (time.monotonic() - start)
            if ahead > 0.001:
                time.sleep(ahead)
    left = producer.flush(300)
    if left or failed:
        raise SystemExit(f"{left} records were not delivered, {failed[:3]}")
    keys = {key.decode(): count for key, count in sent.items() if count}
    path.write_text(json.dumps({"keys": keys, "moves": moves, "replayed": replayed}))


if __name__ == "__main__":
    where, name, text, answer = sys.argv[1:]
    write(where, name, Run(**json.loads(text)), Path(answer))
