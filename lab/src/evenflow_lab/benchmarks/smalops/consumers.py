"""Who reads the load: one process per partition, which sleeps for every message."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from evenflow_lab.benchmarks.smalops.load import SENT, Run


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


def consume(settings: Run, bootstrap: str, topic: str, number: int, folder: Path) -> None:
    """One consumer process: until it is told to end."""
    from evenflow.kafka.consumer import ConsumerConfig, OrderedConsumer

    handler = Timed(settings.service)
    config = ConsumerConfig(
        bootstrap, topic, "timed", instance=f"c{number}", commit_interval=settings.commit_interval
    )
    consumer = OrderedConsumer(config, handler)
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    reported: list[int] = []
    reported_at = 0.0

    def tell() -> bool:
        nonlocal reported, reported_at
        if consumer.owned != reported or time.time() - reported_at > 1:
            reported, reported_at = consumer.owned, time.time()
            status = {"owned": reported, "processed": len(handler.sent)}
            unfinished = folder / f"status-{number}.tmp"
            unfinished.write_text(json.dumps(status))
            unfinished.replace(folder / f"status-{number}.json")
        return False

    consumer.run(until=tell)
    np.savez(folder / f"times-{number}.npz", sent=handler.sent, began=handler.began, owned=reported)
    (folder / f"counts-{number}.json").write_text(json.dumps(asdict(consumer.counts)))


class Consumers:
    """As many consumer processes as partitions."""

    def __init__(self, settings: Run, bootstrap: str, topic: str, folder: Path) -> None:
        self._folder, self._count = folder, settings.partitions
        command = [sys.executable, "-m", __name__, json.dumps(asdict(settings)), bootstrap, topic]
        self._processes = [
            subprocess.Popen([*command, str(i), str(folder)]) for i in range(settings.partitions)
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
        counts = [json.loads(path.read_text()) for path in paths]
        return {what: sum(one[what] for one in counts) for what in counts[0]}


if __name__ == "__main__":
    settings, where, what, which, into = sys.argv[1:]
    consume(Run(**json.loads(settings)), where, what, int(which), Path(into))
