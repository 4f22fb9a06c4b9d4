"""Order under fire: `python -m evenflow_lab.benchmarks.ordering`.

A plain process writes a million messages of ten thousand keys to a real broker and moves keys at
random every few milliseconds; now and then it writes the last records of a partition again. Real
consumer processes read them, are killed with SIGKILL and started again, leave and join, or are frozen
for so long that the group goes on without them. Then a checker that knows nothing of evenflow looks for
messages lost, processed twice or out of order. `--no-buffering` shows that it sees a consumer that does
not wait; `--broker-kills` kills the broker, too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4] / "tests"))

from order_checker import Anomalies, check

ROOT = Path(__file__).parents[4]
_STALLED = 90.0  # seconds without a new output, after which the run is over
_FAULTS = ("kill", "kill and rename", "leave", "freeze")


@dataclass(frozen=True)
class Run:
    """What is run. `seconds_between_faults` of 0: none."""

    messages: int = 1_000_000
    keys: int = 10_000
    partitions: int = 8
    consumers: int = 3
    rate: float = 15_000.0
    seconds_between_moves: float = 0.003
    seconds_between_faults: float = 10.0
    replays: int = 50
    buffer: int = 20_000
    service_time: str = "0ms"
    buffering: bool = True
    broker_kills: int = 0
    faults: tuple[str, ...] = _FAULTS
    most_faults: int = 1_000_000
    seed: int = 0


def run(told: Run, broker: Any, say: Any = print) -> dict[str, Any]:
    """Runs it on a broker of `evenflow.kafka.broker`; gives the figures."""
    name = f"order-{told.seed}-{os.getpid()}-{random.randrange(1 << 30)}"
    output = f"{name}-output"
    _create(broker.bootstrap, {name: told.partitions, output: 4})
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        consumers = Consumers(told, broker.bootstrap, name, output, Path(folder))
        writer = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "evenflow_lab.benchmarks.ordering",
                    "--write",
                    broker.bootstrap,
                    name,
                ),
                *("--settings", json.dumps(asdict(told)), "--told", f"{folder}/sent.json"),
            ],
            cwd=ROOT,
        )
        try:
            sent = _watch(told, broker, writer, consumers, output, Path(folder), say)
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
            for name, value in asdict(told).items()
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
    told: Run,
    broker: Any,
    writer: subprocess.Popen[bytes],
    consumers: Consumers,
    output: str,
    folder: Path,
    say: Any,
) -> dict[str, Any]:
    """Looks on, and does harm, until all outputs are there; what was sent."""
    chance = random.Random(told.seed)
    outputs = Outputs(broker.bootstrap, output)
    seen = 0
    sent: dict[str, Any] | None = None
    last = last_told = time.monotonic()
    harm = _pause(chance, told.seconds_between_faults, last)
    kills = [told.messages * (i + 1) // (told.broker_kills + 1) for i in range(told.broker_kills)]
    while sent is None or seen < sum(sent["keys"].values()):
        new = outputs.poll()
        seen += len(new)
        now = time.monotonic()
        if new:
            last = now
        if now - last > _STALLED:
            say(f"nothing came for {_STALLED:.0f} s: giving up at {seen} outputs")
            break
        if now - last_told > 10:
            last_told = now
            say(f"{seen} outputs; faults {consumers.faults}")
        if kills and seen >= kills[0]:
            kills.pop(0)
            say("killing the broker")
            broker.kill()
            broker.restart()
            consumers.count("broker killed")
            last = time.monotonic()
        if now >= harm and sum(consumers.faults.values()) < told.most_faults:
            consumers.harm(chance)
            harm = _pause(chance, told.seconds_between_faults, now)
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


class Consumers:
    """Consumer processes, `evenflow consume`, and what is done to them."""

    def __init__(self, told: Run, bootstrap: str, topic: str, output: str, folder: Path) -> None:
        self._told, self._folder = told, folder
        self._command = [sys.executable, "-m", "evenflow.cli", "consume", "--topic", topic]
        self._command += ["--bootstrap", bootstrap, "--group", "checked", "--output-topic", output]
        self._command += ["--session-timeout", "6s", "--buffer", str(told.buffer), "--json"]
        self._command += ["--service-time", told.service_time]
        if not told.buffering:
            self._command += ["--no-buffering"]
        self.faults: dict[str, int] = {}
        self._started = 0
        self._frozen: dict[int, float] = {}
        self._slots: list[tuple[subprocess.Popen[bytes], str | None]] = []
        self._all: list[tuple[subprocess.Popen[bytes], Path]] = []
        for i in range(told.consumers):
            self._slots.append(self._start(f"slot-{i}"))

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def harm(self, chance: random.Random) -> None:
        i = chance.randrange(len(self._slots))
        process, name = self._slots[i]
        if process.pid in self._frozen:
            return
        fault = chance.choice(self._told.faults)
        self.count(fault)
        if fault == "freeze":
            process.send_signal(signal.SIGSTOP)
            self._frozen[process.pid] = time.monotonic() + chance.choice([1.0, 9.0])
            return
        if fault == "leave":
            process.send_signal(signal.SIGTERM)
            process.wait()
        else:
            process.kill()
            process.wait()
        # A process without a name is a new member: the group must find out that the old one is dead.
        self._slots[i] = self._start(name if fault == "kill" else None)

    def revive(self, now: float) -> None:
        for i, (process, name) in enumerate(self._slots):
            if self._frozen.get(process.pid, float("inf")) <= now:
                del self._frozen[process.pid]
                process.send_signal(signal.SIGCONT)
            if process.poll() is not None:
                self.count(f"ended with code {process.returncode}")
                self._slots[i] = self._start(name)

    def end(self) -> None:
        for process, _ in self._slots:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        for process, _ in self._slots:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                self.count("did not stop")
                process.kill()
                process.wait()

    def counts(self) -> dict[str, float]:
        """Sums over those that could still tell; the largest of what is a largest."""
        sums: dict[str, float] = {}
        for _, path in self._all:
            text = path.read_text()
            for name, value in (json.loads(text) if text.strip() else {}).items():
                if isinstance(value, int):
                    both = (sums.get(name, 0), value)
                    sums[name] = max(both) if name == "most_held" else sum(both)
        return {**sums, "started": self._started}

    def _start(self, name: str | None) -> tuple[subprocess.Popen[bytes], str | None]:
        self._started += 1
        path = self._folder / f"consumer-{self._started}.json"
        command = self._command + ([] if name is None else ["--instance", name])
        with open(path, "wb") as out:
            process = subprocess.Popen(command, stdout=out, cwd=ROOT)
        self._all.append((process, path))
        return process, name


class Outputs:
    """The committed records of the output topic, as (key, number of the message, count)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._settings = {"bootstrap.servers": bootstrap}
        self._topic = topic
        self._consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{topic}-checker",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            }
        )
        self._partitions = list(self._consumer.list_topics(topic, 30).topics[topic].partitions)
        self._read_to = dict.fromkeys(self._partitions, 0)
        self._consumer.assign(
            [TopicPartition(topic, p, OFFSET_BEGINNING) for p in self._partitions]
        )

    def poll(self) -> list[tuple[bytes, int, int]]:
        from confluent_kafka import KafkaError

        rows = []
        for message in self._consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                count, number = message.value().split()
                rows.append((message.key(), int(number), int(count)))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read_to[message.partition()] = message.offset()
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise RuntimeError(f"the checker lost its place: {error.str()}")
        return rows

    def to_the_end(self) -> list[tuple[bytes, int, int]] | None:
        """Everything to where the topic ends now, transactions that nobody has ended included; None
        if there are some."""
        from evenflow.kafka.consumer_topics import end_offsets

        ends = end_offsets(self._settings, self._topic, self._partitions)
        rows: list[tuple[bytes, int, int]] = []
        silent_since = time.monotonic()
        while any(self._read_to[p] < end for p, end in ends.items()):
            new = self.poll()
            rows += new
            if new:
                silent_since = time.monotonic()
            if time.monotonic() - silent_since > 3:
                return None
        self._consumer.close()
        return rows


def all_outputs(bootstrap: str, topic: str) -> list[tuple[bytes, int, int]]:
    """Every committed output, read anew when all is over: what was seen on the way does not count."""
    deadline = time.monotonic() + _STALLED
    while time.monotonic() < deadline:
        rows = Outputs(bootstrap, topic).to_the_end()
        if rows is not None:
            return rows
    raise RuntimeError("the outputs could not be read to their end")


def _create(bootstrap: str, topics: dict[str, int]) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(t, n, 1) for t, n in topics.items()]).values():
        made.result(30)


def write(bootstrap: str, topic: str, told: Run, path: Path) -> None:
    """The writer's process."""
    from confluent_kafka import Producer

    from evenflow.ordering import Writer

    chance = random.Random(told.seed + 1)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "delivery.timeout.ms": 300_000,
        }
    )
    writer = Writer(1, told.partitions, home=lambda key: int(key) % told.partitions)
    sent = dict.fromkeys((b"%d" % key for key in range(told.keys)), 0)
    recent: list[list[Any]] = [[] for _ in range(told.partitions)]
    replay_at = {chance.randrange(told.messages) for _ in range(told.replays)}
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
    for i in range(told.messages):
        key = i if i < told.keys else int(told.keys * chance.random() ** 3)
        name = b"%d" % key
        now = time.monotonic()
        if now >= next_move:
            next_move = now + chance.expovariate(1 / told.seconds_between_moves)
            hot = b"%d" % int(told.keys * chance.random() ** 4)
            markers = writer.move(hot, chance.randrange(told.partitions))
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
            ahead = i / told.rate - (time.monotonic() - start)
            if ahead > 0.001:
                time.sleep(ahead)
    left = producer.flush(300)
    if left or failed:
        raise SystemExit(f"{left} records were not delivered, {failed[:3]}")
    keys = {key.decode(): count for key, count in sent.items() if count}
    path.write_text(json.dumps({"keys": keys, "moves": moves, "replayed": replayed}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=Run.messages)
    parser.add_argument("--keys", type=int, default=Run.keys)
    parser.add_argument("--partitions", type=int, default=Run.partitions)
    parser.add_argument("--consumers", type=int, default=Run.consumers)
    parser.add_argument("--rate", type=float, default=Run.rate, help="messages a second")
    parser.add_argument("--buffer", type=int, default=Run.buffer)
    parser.add_argument("--faults-every", type=float, default=Run.seconds_between_faults)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--broker-kills", type=int, default=0)
    parser.add_argument("--no-buffering", action="store_true")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    parser.add_argument("--told", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(*given.write, Run(**json.loads(given.settings)), Path(given.told))
        return
    from evenflow.kafka.broker import Broker

    told = Run(
        messages=given.messages,
        keys=given.keys,
        partitions=given.partitions,
        consumers=given.consumers,
        rate=given.rate,
        buffer=given.buffer,
        seconds_between_faults=given.faults_every,
        seed=given.seed,
        broker_kills=given.broker_kills,
        buffering=not given.no_buffering,
    )
    with Broker.start() as broker:
        figures = run(told, broker, lambda line: print(line, file=sys.stderr))
    print(json.dumps(figures, indent=2))
    sys.exit(figures["any_anomaly"] == told.buffering)


if __name__ == "__main__":
    main()
