"""Who writes the load: Kafka's own partitioner, or a gateway in this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from evenflow_lab.benchmarks.smalops.load import SENT, Run, arrivals, home, name


class ByHash:
    """Kafka's own partitioner decides."""

    def __init__(self, settings: Run, produce: Callable[..., None]) -> None:
        self._produce = produce
        self.hot, self.moves = [0], 0

    def send(self, keys: list[int]) -> None:
        for key in keys:
            self._produce(key=name(key), value=SENT.pack(time.time()))

    def act(self, seconds: float) -> None:
        """Nothing to do."""


class BySmalops:
    """A gateway in this process: counts, finds hot keys, decides, and writes message sets."""

    def __init__(self, settings: Run, produce: Callable[..., None]) -> None:
        from evenflow.ordering import Writer
        from evenflow.planning.hot_keys import HotKeys

        class AtHomeByKafka(HotKeys):
            """Keys that are not hot go where Kafka's partitioner sends them.

            With a hash of its own the gateway would be better or worse by luck, before it has moved a
            key.
            """

            def homes(self, keys: Any) -> Any:
                return np.array([home(key, self.partitions) for key in keys.tolist()], np.int32)

        self._settings, self._produce = settings, produce
        if settings.coverage:
            self._policy = AtHomeByKafka(
                settings.partitions,
                0.0,
                least=5,
                epsilon=1e-5,
                coverage=settings.coverage,
                seed=settings.seed,
            )
        else:
            self._policy = AtHomeByKafka(
                settings.partitions, settings.threshold, least=5, seed=settings.seed
            )
        self._state = self._policy.start()
        self._writer = Writer(1, settings.partitions, self._home, epoch=int(time.time() * 1000))
        self._counted: list[int] = []
        self._windows = self._intervals = self._steps = 0
        self.hot, self.moves = [0], 0
        self.act(0.0)

    def _home(self, key: bytes) -> int:
        return home(int(key, 16), self._settings.partitions)

    def send(self, keys: list[int]) -> None:
        self._counted += keys
        for key in keys:
            self._append(self._writer.message(name(key), SENT.pack(time.time())))

    def act(self, seconds: float) -> None:
        """What is due by the clock: a look every half second, the end of a window, a decision."""
        from evenflow.planning.hot_keys_state import at_once, joined

        if int(seconds * 2) == self._steps:
            return
        self._steps = int(seconds * 2)
        self._state = self._policy.count(self._state, np.array(self._counted, np.uint64))
        self._counted = []
        window, interval = (
            int(seconds / s) for s in (self._settings.window, self._settings.interval)
        )
        over = window != self._windows
        step = self._policy.detect if over else self._policy.detect_early
        self._state, moves = step(self._state)
        if interval != self._intervals:
            self._state, decided = self._policy.decide(self._state)
            moves = at_once(joined(moves, decided))
        self._windows, self._intervals = window, interval
        pairs = zip(moves.keys.tolist(), moves.target.tolist(), strict=True)
        for record in self._writer.moves([(name(key), target) for key, target in pairs]):
            self._append(record)
        self.moves += len(moves)
        self.hot.append(len(self._state.keys))

    def _append(self, record: Any) -> None:
        self._produce(
            key=record.key, value=record.value, partition=record.partition, headers=record.headers
        )


def write(settings: Run, scheme: str, bootstrap: str, topic: str, rate: float) -> dict[str, Any]:
    """Sends the load in real time."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",  # as Java's clients
            "linger.ms": 1,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )

    def produce(**record: Any) -> None:
        producer.produce(topic, **record)

    sender = (ByHash if scheme == "key" else BySmalops)(settings, produce)
    begin, sent, late = time.time(), 0, 0.0
    for due, keys in arrivals(settings, rate):
        wait = begin + due - time.time()
        if wait > 0:
            time.sleep(wait)
        late = max(late, -wait)
        sender.send(keys)
        sender.act(due)
        sent += len(keys)
        producer.poll(0)
    producer.flush(60)
    return {
        "began": begin,
        "sent": sent,
        "late_seconds": late,
        "moves": sender.moves,
        "hot_keys_most": max(sender.hot),
    }
