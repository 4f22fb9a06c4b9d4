"""Consumer processes, and what is done to them."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from evenflow_lab.benchmarks.ordering.settings import Run


class Consumers:
    """Consumer processes, `evenflow consume`, and what is done to them."""

    def __init__(
        self, settings: Run, bootstrap: str, topic: str, output: str, folder: Path
    ) -> None:
        self._settings, self._folder = settings, folder
        self._command = [sys.executable, "-m", "evenflow.cli", "consume", "--topic", topic]
        self._command += ["--bootstrap", bootstrap, "--group", "checked", "--output-topic", output]
        self._command += ["--session-timeout", "6s", "--buffer", str(settings.buffer), "--json"]
        self._command += ["--service-time", settings.service_time]
        if not settings.buffering:
            self._command += ["--no-buffering"]
        self.faults: dict[str, int] = {}
        self._started = 0
        self._frozen: dict[int, float] = {}
        self._slots: list[tuple[subprocess.Popen[bytes], str | None]] = []
        self._all: list[tuple[subprocess.Popen[bytes], Path]] = []
        for i in range(settings.consumers):
            self._slots.append(self._start(f"slot-{i}"))

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def harm(self, chance: random.Random) -> None:
        i = chance.randrange(len(self._slots))
        process, name = self._slots[i]
        if process.pid in self._frozen:
            return
        fault = chance.choice(self._settings.faults)
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
            process = subprocess.Popen(command, stdout=out)
        self._all.append((process, path))
        return process, name
