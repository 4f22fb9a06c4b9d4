"""What is known of a Spark application: its stages, tasks and plans."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.diagnosis.plans import Node, Shuffle, nodes_of, shuffles_into

F64 = npt.NDArray[np.float64]

#: Figures of a task, in this order; times in seconds.
COLUMNS = (
    "launched", "seconds", "run_seconds", "gc_seconds", "start_seconds", "input_rows", "input_bytes",
    "shuffle_rows", "shuffle_bytes", "spilled_memory", "spilled_disk", "output_rows", "executor",
    "partition",
)  # fmt: skip
_STARTS = ("time to start Python workers", "time to initialize Python workers")
_SQL = "org.apache.spark.sql.execution.ui.SparkListener"


@dataclass(frozen=True)
class Stage:
    """One attempt of a stage.

    Parameters:
        stage, attempt: its numbers.
        name: what Spark calls it.
        planned: how many tasks it was to have.
        tasks: figure → one value per task that succeeded, in order of launch.
        executors: names of the executors, which `tasks["executor"]` numbers.
        hosts: of these executors.
        shuffles: the hash and range shuffles that it read from.
        operators: what users call the operators that ran in it.
        fullest: accumulator → update by the task with the most rows.
        failed: tasks that failed or were killed.
    """

    stage: int
    attempt: int
    name: str
    planned: int
    tasks: Mapping[str, F64]
    executors: tuple[str, ...]
    hosts: tuple[str, ...]
    shuffles: tuple[Shuffle, ...] = ()
    operators: tuple[str, ...] = ()
    fullest: Mapping[int, int] = field(default_factory=dict)
    failed: int = 0

    def __len__(self) -> int:
        return len(self.tasks["seconds"])

    @property
    def rows(self) -> F64:
        """Rows that each task read."""
        return self.tasks["input_rows"] + self.tasks["shuffle_rows"]

    @property
    def bytes(self) -> F64:
        """Bytes that each task read."""
        return self.tasks["input_bytes"] + self.tasks["shuffle_bytes"]


@dataclass(frozen=True)
class Application:
    """A Spark application as far as its log goes.

    Parameters:
        source: where this was read.
        name, version: of the application and of Spark; empty if not known.
        stages: those with tasks, in order of their numbers.
        settings: Spark's settings, those of SQL above all.
        notes: what a reader must know: that the log breaks off, for instance.
    """

    source: str
    name: str
    version: str
    stages: tuple[Stage, ...]
    settings: Mapping[str, str]
    notes: tuple[str, ...] = ()


class _Tasks:
    """The tasks of one stage attempt, as they come."""

    def __init__(self, name: str = "", planned: int = 0) -> None:
        self.name, self.planned, self.failed = name, planned, 0
        self.columns = {column: array("d") for column in COLUMNS}
        self.counted: set[int] = set()
        self.most = -1.0
        self.fullest: dict[int, int] = {}


class Recorder:
    """Takes the events of a log one by one."""

    def __init__(self) -> None:
        self.events, self.ended = 0, False
        self._name = self._version = ""
        self._settings: dict[str, str] = {}
        self._stages: dict[tuple[int, int], _Tasks] = {}
        self._plans: dict[int, tuple[Node, ...]] = {}
        self._running: dict[int, tuple[int, float]] = {}
        self._now = 0.0
        self._executors: dict[str, int] = {}
        self._hosts: list[str] = []

    def take(self, event: Mapping[str, Any]) -> None:
        """One event; those of an unknown kind are passed over."""
        kind = event["Event"]
        self.events += 1
        if kind == "SparkListenerTaskEnd":
            self._task(event)
        elif kind == "SparkListenerTaskStart":
            info = event["Task Info"]
            launched = info["Launch Time"] / 1000
            self._now = max(self._now, launched)
            self._running[int(info["Task ID"])] = (int(event["Stage ID"]), launched)
        elif kind in ("SparkListenerStageSubmitted", "SparkListenerStageCompleted"):
            self._stage(event["Stage Info"])
        elif kind in (f"{_SQL}SQLExecutionStart", f"{_SQL}SQLAdaptiveExecutionUpdate"):
            self._plans[int(event["executionId"])] = nodes_of(event["sparkPlanInfo"])
        elif kind == "SparkListenerLogStart":
            self._version = str(event.get("Spark Version") or "")
        elif kind == "SparkListenerApplicationStart":
            self._name = str(event.get("App Name") or "")
        elif kind == "SparkListenerEnvironmentUpdate":
            self._settings.update(event.get("Spark Properties") or {})
        elif kind == "SparkListenerApplicationEnd":
            self.ended = True

    def _stage(self, info: Mapping[str, Any]) -> None:
        tasks = self._tasks(info["Stage ID"], info.get("Stage Attempt ID", 0))
        tasks.name = str(info.get("Stage Name") or tasks.name)
        tasks.planned = int(info.get("Number of Tasks") or tasks.planned)

    def _tasks(self, stage: int, attempt: int) -> _Tasks:
        return self._stages.setdefault((int(stage), int(attempt)), _Tasks())

    def _task(self, event: Mapping[str, Any]) -> None:
        tasks = self._tasks(event["Stage ID"], event.get("Stage Attempt ID", 0))
        info, metrics = event["Task Info"], event.get("Task Metrics")
        self._running.pop(int(info.get("Task ID", -1)), None)
        self._now = max(self._now, info.get("Finish Time", 0) / 1000)
        if info.get("Failed") or info.get("Killed") or not metrics:
            tasks.failed += 1
            return
        launched, finished = info["Launch Time"] / 1000, info["Finish Time"] / 1000
        read = metrics.get("Input Metrics") or {}
        shuffle = metrics.get("Shuffle Read Metrics") or {}
        output = metrics.get("Output Metrics") or {}
        counters = info.get("Accumulables") or ()
        executor = self._executor(str(info.get("Executor ID")), str(info.get("Host")))
        figures = (
            launched,
            max(0.0, finished - launched),
            metrics.get("Executor Run Time", 0) / 1000,
            metrics.get("JVM GC Time", 0) / 1000,
            sum(_whole(one.get("Update")) for one in counters if one.get("Name") in _STARTS) / 1000,
            read.get("Records Read", 0),
            read.get("Bytes Read", 0),
            shuffle.get("Total Records Read", 0),
            shuffle.get("Local Bytes Read", 0) + shuffle.get("Remote Bytes Read", 0),
            metrics.get("Memory Bytes Spilled", 0),
            metrics.get("Disk Bytes Spilled", 0),
            output.get("Records Written", 0),
            executor,
            # Spark before 3.3 has no partition, but a task's index is the same for most stages.
            info.get("Partition ID", info.get("Index", 0)),
        )
        for column, value in zip(COLUMNS, figures, strict=True):
            tasks.columns[column].append(value)
        counted = {
            int(one["ID"]): one.get("Update") for one in counters if one.get("Metadata") == "sql"
        }
        tasks.counted.update(counted)
        rows = tasks.columns["input_rows"][-1] + tasks.columns["shuffle_rows"][-1]
        if rows > tasks.most:
            tasks.most = rows
            tasks.fullest = {key: _whole(update) for key, update in counted.items()}

    def _executor(self, name: str, host: str) -> int:
        if name not in self._executors:
            self._executors[name] = len(self._hosts)
            self._hosts.append(host)
        return self._executors[name]

    def application(self, source: str, notes: tuple[str, ...]) -> Application:
        """What the events so far add up to."""
        notes = (*notes, *self._unfinished())
        stages = tuple(
            self._finished(stage, attempt, tasks)
            for (stage, attempt), tasks in sorted(self._stages.items())
            if len(tasks.columns["seconds"])
        )
        return Application(source, self._name, self._version, stages, self._settings, notes)

    def _unfinished(self) -> Iterator[str]:
        """Stages with tasks that were still running: of a log that breaks off, these are often the
        stragglers."""
        by_stage: dict[int, list[float]] = {}
        for stage, launched in self._running.values():
            by_stage.setdefault(stage, []).append(self._now - launched)
        for stage, seconds in sorted(by_stage.items()):
            word = "task was" if len(seconds) == 1 else "tasks were"
            yield (
                f"stage {stage}: {len(seconds):,} {word} still running, for up to {max(seconds):.1f} "
                "s, and not counted"
            )

    def _finished(self, stage: int, attempt: int, tasks: _Tasks) -> Stage:
        counted = frozenset(tasks.counted)
        plans = [
            plan
            for plan in self._plans.values()
            if any(not counted.isdisjoint(node.metrics.values()) for node in plan)
        ]
        shuffles = tuple(one for plan in plans for one in shuffles_into(plan, counted))
        operators = [
            node.word
            for plan in plans
            for node in reversed(plan)
            if node.word is not None and not counted.isdisjoint(node.metrics.values())
        ]
        return Stage(
            stage,
            attempt,
            tasks.name,
            max(tasks.planned, len(tasks.columns["seconds"])),
            in_order_of_launch({name: np.array(column) for name, column in tasks.columns.items()}),
            tuple(self._executors),
            tuple(self._hosts),
            shuffles,
            tuple(dict.fromkeys(operators)),
            tasks.fullest,
            tasks.failed,
        )


def in_order_of_launch(columns: Mapping[str, F64]) -> dict[str, F64]:
    """The same tasks, sorted by the time of their launch."""
    order = np.argsort(columns["launched"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _whole(update: Any) -> int:
    try:
        return int(update)
    except (TypeError, ValueError):
        return 0
