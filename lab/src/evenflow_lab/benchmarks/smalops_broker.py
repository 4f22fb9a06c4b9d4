"""Queuing delay on a real broker: `python -m evenflow_lab.benchmarks.smalops_broker`.

The same load twice: once by Kafka's own key hashing (a producer's default partitioner, murmur2), and
once by SMALOPS, a gateway process that counts keys, moves the hot ones and writes message sets; all
other keys go where Kafka's partitioner sends them, so that the two differ by the moves alone. Both
times the same consumer processes read it, one a partition, which sleep for every message. Queuing delay
is the time from a message's produce call until a consumer begins with it. First the static load, then
keys that shift every minute. Consumers sleep, so that a few cores stand in for as many machines as
there are partitions.

With `--sweeps`, instead, the static load by processing time (at one rate of messages, as in the
paper's Figure 8) and by the threshold of hot keys (Figure 9).

Prints JSON. `--save papers/smalops/broker.json` (with `--sweeps`: `broker_sweeps.json`) puts it where
the paper's page reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[4]
KEYS, S, V = 28_000_000, 1.1, 2.72  # the paper's
PERCENTILES = (10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.5)
SCHEMES = ("key", "smalops")
SENT = struct.Struct(">d")
_KNOWN = 20_000  # keys whose partition is worked out to find a rate
_PATIENCE = 240.0  # seconds for consumers to finish what is left


@dataclass(frozen=True)
class Run:
    """What is run.

    Parameters:
        saturation: how busy the busiest partition is under Kafka's key hashing; sets the rate.
        service: seconds a message.
        shift: keys by which the generator is shifted every minute; 0 for the static load.
        threshold: the share of the messages that makes a key hot.
        coverage: if not 0, the heaviest keys that together have that share are hot instead.
        warm_up: seconds at the beginning that are left out.
    """

    partitions: int = 8
    saturation: float = 0.95
    service: float = 0.003
    seconds: float = 90.0
    shift: int = 0
    window: float = 10.0
    interval: float = 10.0
    threshold: float = 0.001
    coverage: float = 0.0
    commit_interval: float = 1.0
    warm_up: float = 12.0
    seed: int = 1


# --- the load -------------------------------------------------------------------------------------


def murmur2(data: bytes) -> int:
    """The hash of Java's Kafka clients, made positive."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    tail = data[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def name(fingerprint: int) -> bytes:
    """A key as messages carry it."""
    return b"%016x" % fingerprint


@lru_cache(1 << 20)
def home(fingerprint: int, partitions: int) -> int:
    """Where Kafka's own partitioner sends a key."""
    return murmur2(name(fingerprint)) % partitions


def hottest_share(
    told: Run, homes_of: Callable[[list[int]], Sequence[int] | np.ndarray] | None = None
) -> float:
    """The busiest partition's part of the messages in the first minute, by Kafka's hash or another."""
    from evenflow.kernels.mixing import salt
    from evenflow.simulator.workloads.drawing import IDENTITY, named_keys, power_law_weights
    from evenflow_lab.workloads import Smalops

    shares = power_law_weights(S, V - 1, _KNOWN) / Smalops(shift=0).law.total
    keys = named_keys(np.uint64(int(salt(told.seed, IDENTITY)) % 2**64), _KNOWN).tolist()
    homes = homes_of(keys) if homes_of else [home(key, told.partitions) for key in keys]
    loads = np.bincount(homes, shares, told.partitions)
    return float(loads.max() + (1 - shares.sum()) / told.partitions)


def arrivals(told: Run, rate: float) -> Iterator[tuple[float, list[int]]]:
    """(seconds since the beginning, keys) of bunches of messages that are due, a millisecond or more
    apart: Poisson, whatever the consumers do."""
    from evenflow_lab.workloads import Smalops

    messages = int(rate * told.seconds)
    stream = Smalops(messages, KEYS, told.seed, S, V, int(60 * rate), told.shift)
    times = np.cumsum(np.random.default_rng(told.seed).exponential(1 / rate, messages))
    done = 0
    for keys in stream.chunks(1 << 16):
        named = keys.tolist()
        own = times[done : done + len(named)]
        first = 0
        while first < len(named):
            last = int(np.searchsorted(own, own[first] + 1e-3, side="right"))
            yield float(own[last - 1]), named[first:last]
            first = last
        done += len(named)


# --- who writes -----------------------------------------------------------------------------------


class ByHash:
    """Kafka's own partitioner decides."""

    def __init__(self, told: Run, produce: Callable[..., None]) -> None:
        self._produce = produce
        self.hot, self.moves = [0], 0

    def send(self, keys: list[int]) -> None:
        for key in keys:
            self._produce(key=name(key), value=SENT.pack(time.time()))

    def act(self, seconds: float) -> None:
        """Nothing to do."""


class BySmalops:
    """A gateway in this process: counts, finds hot keys, decides, and writes message sets."""

    def __init__(self, told: Run, produce: Callable[..., None]) -> None:
        from evenflow.ordering import Writer
        from evenflow.planning.hot_keys import HotKeys

        class AtHomeByKafka(HotKeys):
            """Keys that are not hot go where Kafka's partitioner sends them.

            With a hash of its own the gateway would be better or worse by luck, before it has moved a
            key.
            """

            def homes(self, keys: Any) -> Any:
                return np.array([home(key, self.partitions) for key in keys.tolist()], np.int32)

        self._told, self._produce = told, produce
        if told.coverage:
            self._policy = AtHomeByKafka(
                told.partitions,
                0.0,
                least=5,
                epsilon=1e-5,
                coverage=told.coverage,
                seed=told.seed,
            )
        else:
            self._policy = AtHomeByKafka(told.partitions, told.threshold, least=5, seed=told.seed)
        self._state = self._policy.start()
        self._writer = Writer(1, told.partitions, self._home, epoch=int(time.time() * 1000))
        self._counted: list[int] = []
        self._windows = self._intervals = self._steps = 0
        self.hot, self.moves = [0], 0
        self.act(0.0)

    def _home(self, key: bytes) -> int:
        return home(int(key, 16), self._told.partitions)

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
        window, interval = (int(seconds / s) for s in (self._told.window, self._told.interval))
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


def write(told: Run, scheme: str, bootstrap: str, topic: str, rate: float) -> dict[str, Any]:
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

    sender = (ByHash if scheme == "key" else BySmalops)(told, produce)
    begin, sent, late = time.time(), 0, 0.0
    for due, keys in arrivals(told, rate):
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


# --- who reads ------------------------------------------------------------------------------------


class Timed:
    """Notes when each message was sent and when its turn came, and then sleeps."""

    def __init__(self, service: float) -> None:
        self.sent: list[float] = []
        self.began: list[float] = []
        self._service, self._owed = service, 0.0

    def handle(self, key: bytes, value: bytes | None, state: Any) -> tuple[None, list[bytes]]:
        now = time.time()
        self.sent.append(SENT.unpack(value or b"")[0])
        self.began.append(now)
        self._owed += self._service
        if self._owed > 0:
            time.sleep(self._owed)
        # What a sleep takes too long is taken off the next one.
        self._owed -= time.time() - now
        return None, []


def consume(told: Run, bootstrap: str, topic: str, number: int, folder: Path) -> None:
    """One consumer process: until it is told to end."""
    from evenflow.kafka.consumer import ConsumerConfig, OrderedConsumer

    handler = Timed(told.service)
    config = ConsumerConfig(
        bootstrap, topic, "timed", instance=f"c{number}", commit_interval=told.commit_interval
    )
    consumer = OrderedConsumer(config, handler)
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    told_owned, told_at = None, 0.0

    def tell() -> bool:
        nonlocal told_owned, told_at
        if consumer.owned != told_owned or time.time() - told_at > 1:
            told_owned, told_at = consumer.owned, time.time()
            status = {"owned": told_owned, "processed": len(handler.sent)}
            unfinished = folder / f"status-{number}.tmp"
            unfinished.write_text(json.dumps(status))
            unfinished.replace(folder / f"status-{number}.json")
        return False

    consumer.run(until=tell)
    np.savez(
        folder / f"times-{number}.npz", sent=handler.sent, began=handler.began, owned=told_owned
    )
    (folder / f"counts-{number}.json").write_text(json.dumps(asdict(consumer.counts)))


class Consumers:
    """As many consumer processes as partitions."""

    def __init__(self, told: Run, bootstrap: str, topic: str, folder: Path) -> None:
        self._folder, self._count = folder, told.partitions
        settings = json.dumps(asdict(told))
        command = [
            sys.executable,
            "-m",
            "evenflow_lab.benchmarks.smalops_broker",
            "--settings",
            settings,
        ]
        self._processes = [
            subprocess.Popen(
                [*command, "--consume", bootstrap, topic, str(i), str(folder)], cwd=ROOT
            )
            for i in range(told.partitions)
        ]

    def statuses(self) -> list[dict[str, Any]]:
        paths = [self._folder / f"status-{i}.json" for i in range(self._count)]
        return [json.loads(path.read_text()) for path in paths if path.is_file()]

    def wait(self, ready: Callable[[list[dict[str, Any]]], bool], seconds: float) -> bool:
        """Until they are as wanted; False if that takes too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(process.poll() is not None for process in self._processes):
                return False
            if ready(self.statuses()):
                return True
            time.sleep(0.5)
        return False

    def end(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def times(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """(sent, began) of all messages, and how many each consumer had."""
        parts = [np.load(self._folder / f"times-{i}.npz") for i in range(self._count)]
        sent, began = (np.concatenate([part[w] for part in parts]) for w in ("sent", "began"))
        return sent, began, [len(part["sent"]) for part in parts]

    def counts(self) -> dict[str, int]:
        paths = [self._folder / f"counts-{i}.json" for i in range(self._count)]
        told = [json.loads(path.read_text()) for path in paths]
        return {what: sum(one[what] for one in told) for what in told[0]}


# --- one run --------------------------------------------------------------------------------------

# Brings messages from one topic to another while it is open; gives what it has counted by then.
Through = Callable[[str, str], AbstractContextManager[dict[str, int]]]


class Observed(NamedTuple):
    """What a run showed: when each message was sent and when its turn came, and counts."""

    topic: str
    wrote: dict[str, Any]
    sent: np.ndarray
    began: np.ndarray
    per_consumer: list[int]
    counts: dict[str, int]
    finished: bool


def observe(
    told: Run, scheme: str, bootstrap: str, rate: float, through: Through | None = None
) -> Observed:
    """One scheme, one load. With `through`, the load goes to a topic of its own by Kafka's hashing, and
    from there to the one that is consumed."""
    topic = new_topic(bootstrap, scheme, told.partitions)
    source = topic if through is None else new_topic(bootstrap, f"{scheme}-source", told.partitions)
    with tempfile.TemporaryDirectory() as name:
        consumers = Consumers(told, bootstrap, topic, Path(name))
        try:
            one_each = [1] * told.partitions
            if not consumers.wait(lambda all_: [len(s["owned"]) for s in all_] == one_each, 180):
                raise SystemExit("the consumers did not get a partition each")
            with nullcontext({}) if through is None else through(source, topic) as forwarded:
                time.sleep(2)
                wrote = write(told, scheme if through is None else "key", bootstrap, source, rate)
                finished = consumers.wait(
                    lambda all_: sum(s["processed"] for s in all_) >= wrote["sent"], _PATIENCE
                )
        finally:
            consumers.end()
        sent, began, per_consumer = consumers.times()
        counts = consumers.counts()
    finished = finished and len(sent) == wrote["sent"]
    return Observed(topic, wrote | forwarded, sent, began, per_consumer, counts, finished)


def new_topic(bootstrap: str, about: str, partitions: int) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"{about}-{os.getpid()}-{random.randrange(1 << 30)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(30)
    return topic


def measure(told: Run, scheme: str, bootstrap: str, rate: float) -> dict[str, Any]:
    """One scheme, one load, in figures."""
    return figures(told, scheme, rate, observe(told, scheme, bootstrap, rate))


def figures(told: Run, scheme: str, rate: float, seen: Observed) -> dict[str, Any]:
    at, delays = seen.sent - seen.wrote["began"], seen.began - seen.sent
    measured = delays[at >= told.warm_up]
    slots = (at // 5).astype(int)
    return {
        "grouping": scheme,
        **{what: seen.wrote[what] for what in ("sent", "late_seconds", "moves", "hot_keys_most")},
        "all_processed": seen.finished,
        "rate": rate,
        "busiest": max(seen.per_consumer) / told.seconds * told.service,
        "utilisation": rate * told.service / told.partitions,
        "mean_ms": 1e3 * float(measured.mean()),
        **{f"p{p}_ms": 1e3 * float(np.percentile(measured, p)) for p in (50, 90, 99)},
        "percentiles_ms": {str(p): 1e3 * float(np.percentile(measured, p)) for p in PERCENTILES},
        "timeline": [
            {
                "second": 5 * (slot + 1),
                **{
                    f"p{p}_ms": 1e3 * float(np.percentile(delays[slots == slot], p))
                    for p in (50, 90, 99)
                },
            }
            for slot in range(int(told.seconds // 5))
            if (slots == slot).any()
        ],
        "keys_handed_over": seen.counts["keys_sent"],
        "most_held": seen.counts["most_held"],
        "transactions_aborted": seen.counts["aborts"],
    }


def compare(told: Run, bootstrap: str, say: Callable[[str], object]) -> dict[str, Any]:
    """Both schemes under one load."""
    rate = told.saturation / (hottest_share(told) * told.service)
    rows = []
    for scheme in SCHEMES:
        rows.append(measure(told, scheme, bootstrap, rate))
        one = rows[-1]
        say(
            f"{scheme}: p50 {one['p50_ms']:.1f}, p90 {one['p90_ms']:.1f}, p99 {one['p99_ms']:.1f} ms"
        )
    kafka, smalops = rows
    return {
        **asdict(told),
        "rate": rate,
        "p99_lower_percent": 100 * (1 - smalops["p99_ms"] / kafka["p99_ms"]),
        "p50_lower_percent": 100 * (1 - smalops["p50_ms"] / kafka["p50_ms"]),
        "schemes": rows,
    }


SERVICES = (0.4, 0.7, 1.0)  #: of the processing time near saturation
HOT = tuple(("threshold", share) for share in (0.0003, 0.001, 0.01, 0.1)) + tuple(
    ("coverage", share) for share in (0.1, 0.5)
)  #: what makes a key hot


def sweeps(told: Run, bootstrap: str, say: Callable[[str], object]) -> dict[str, Any]:
    """Figures 8 and 9: one rate, other processing times; near saturation, other thresholds."""
    by_service = []
    for part in SERVICES:
        say(f"{1e3 * part * told.service:g} ms a message")
        slower = replace(told, service=part * told.service, saturation=part * told.saturation)
        by_service.append(compare(slower, bootstrap, say))
    kafka = by_service[-1]["schemes"][0]
    by_threshold = []
    for means, share in HOT:
        row = measure(replace(told, **{means: share}), "smalops", bootstrap, kafka["rate"])
        say(f"{means} {100 * share:g} %: p99 {row['p99_ms']:.1f} ms, {row['hot_keys_most']} hot")
        by_threshold.append({"means": means, "percent": 100 * share, **row})
    return {"by_service": by_service, "by_threshold": by_threshold, "hashed": kafka}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=Run.partitions)
    parser.add_argument("--service", type=float, default=Run.service, help="seconds a message")
    parser.add_argument("--saturation", type=float, default=Run.saturation)
    parser.add_argument("--seconds", type=float, default=Run.seconds, help="of the static load")
    parser.add_argument("--minutes", type=int, default=3, help="of the dynamic load; 0: none")
    parser.add_argument("--shift", type=int, default=10, help="keys shifted every minute")
    parser.add_argument("--seed", type=int, default=Run.seed)
    parser.add_argument("--sweeps", action="store_true", help="by processing time and threshold")
    parser.add_argument("--save", type=Path, help="write the JSON there, too")
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    parser.add_argument("--consume", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.consume:
        bootstrap, topic, number, folder = given.consume
        consume(Run(**json.loads(given.settings)), bootstrap, topic, int(number), Path(folder))
        return

    from evenflow.kafka.broker import Broker

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    common = {
        what: getattr(given, what) for what in ("partitions", "service", "saturation", "seed")
    }
    answer: dict[str, Any] = {
        "command": f"python -m evenflow_lab.benchmarks.smalops_broker {' '.join(sys.argv[1:])}".strip(),
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg()[0],
    }
    with Broker.start() as broker:
        static = Run(seconds=given.seconds, **common)
        if given.sweeps:
            answer |= sweeps(static, broker.bootstrap, say)
        else:
            answer["static"] = compare(static, broker.bootstrap, say)
        if given.minutes and not given.sweeps:
            moving = Run(seconds=60.0 * given.minutes, shift=given.shift, **common)
            answer["dynamic"] = compare(moving, broker.bootstrap, say)
    answer["load_average_after"] = os.getloadavg()[0]
    text = json.dumps(answer, indent=1)
    if given.save:
        given.save.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
