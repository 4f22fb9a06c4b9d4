"""Input of a fleet's queries that comes and goes in bursts, and what must come out of it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow_lab.checking.checkout import example

Totals = Counter[int]  #: key → sum of its values


class Feed:
    """Adds files to the directories of all queries, in phases.

    Parameters:
        folder: in/ and out/ are made in it.
        phases: query → where in the period its bursts begin, from 0 to 1.
        period: seconds.
        low, high: rows per second outside of bursts and in them; a burst is a third of the period.
        step: seconds between two files of a query.
    """

    def __init__(
        self,
        folder: Path,
        phases: dict[str, float],
        period: float = 30.0,
        low: int = 10,
        high: int = 100,
        step: float = 1.0,
    ) -> None:
        self.folder, self.phases, self.period = folder, phases, period
        self.low, self.high, self.step = low, high, step
        self.sent: dict[str, Totals] = {name: Counter() for name in phases}
        self.rows = dict.fromkeys(phases, 0)
        self._files = 0
        self._random = np.random.default_rng(0)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        for name in phases:
            (folder / "in" / name).mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Go on in a thread of its own."""
        self._over.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more files."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def add(self, name: str, rows: int) -> None:
        """One file of a query."""
        keys = self._random.integers(0, 50, rows)
        values = self._random.integers(0, 1000, rows)
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            self.sent[name][key] += value
        self.rows[name] += rows
        self._files += 1
        path = self.folder / "in" / name / f"{self._files:07d}.parquet"
        hidden = path.with_name(f".{path.name}")
        pq.write_table(pa.table({"key": keys, "value": values}), hidden)
        os.rename(hidden, path)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(self.step):
            at = (time.monotonic() - began) / self.period
            for name, phase in self.phases.items():
                burst = (at - phase) % 1.0 < 1 / 3
                self.add(name, max(1, round((self.high if burst else self.low) * self.step)))

    def wrong(self, kinds: dict[str, str]) -> dict[str, str]:
        """Queries whose output is not what was sent, with the difference in words."""
        found = {}
        for name, kind in kinds.items():
            got = latest(self.folder / "out" / name) if kind == "counted" else self._doubled(name)
            if got != self.sent[name]:
                lost = sum((self.sent[name] - got).values())
                more = sum((got - self.sent[name]).values())
                found[name] = f"lost {lost}, too many {more}"
        return found

    def _doubled(self, name: str) -> Totals:
        got: Totals = Counter()
        for file in committed_files(self.folder / "out" / name):
            table = pq.read_table(file)
            for key, doubled in zip(
                *(table[c].to_pylist() for c in ("key", "doubled")), strict=True
            ):
                got[key] += doubled // 2
        return got


def latest(folder: Path) -> Totals:
    """The last total of every key that a query of evenflow has put out."""
    found: Totals = Counter()
    for directory in sorted(folder.glob("batch=*"), key=lambda one: int(one.name[6:])):
        for file in directory.glob("*.parquet"):
            table = pq.read_table(file, partitioning=None)
            for key, total in zip(*(table[c].to_pylist() for c in ("key", "total")), strict=True):
                found[key] = total
    return found


def committed_files(folder: Path) -> list[Path]:
    """The files that Spark's own file sink has committed, by its log."""
    log = folder / "_spark_metadata"
    if not log.exists():
        return []
    names = [path for path in log.iterdir() if not path.name.startswith(".")]
    compact = [path for path in names if path.name.endswith(".compact")]
    newest = max(compact, key=lambda path: int(path.name.split(".")[0]), default=None)
    least = -1 if newest is None else int(newest.name.split(".")[0])
    read = ([newest] if newest else []) + [
        path for path in names if path.name.isdigit() and int(path.name) > least
    ]
    files = []
    for path in read:
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry["action"] == "add":
                files.append(folder / Path(entry["path"].removeprefix("file://")).name)
    return files


def config(
    folder: Path, nodes: int, queries: dict[str, str], on: dict[str, str], **settings: Any
) -> Path:
    """A fleet.toml.

    Parameters:
        queries: name → function of examples/fleet/jobs.py.
        on: name → node.
        settings: of [fleet]; `service` and `trigger` are those of the queries.
    """
    work = {"service": settings.pop("service", 0.001), "every": settings.pop("trigger", "1 second")}
    lines = ["[fleet]", 'folder = "run"', f'path = ["{example("fleet")}"]']
    lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    for number in range(nodes):
        lines += [
            "[[nodes]]",
            f'name = "{"abcdefgh"[number]}"',
            'conf = { "spark.driver.memory" = "512m" }',
        ]
    for name, function in queries.items():
        values = {
            "source": str(folder / "in" / name),
            "output": str(folder / "out" / name),
            **work,
        }
        arguments = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
        lines += [
            "[[queries]]",
            f'name = "{name}"',
            f'function = "jobs:{function}"',
            f"arguments = {{ {arguments} }}",
            f'node = "{on[name]}"',
        ]
    path = folder / "fleet.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
