"""Spark as a model: its log of batches, tasks that run again or twice, shuffles without an order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from evenflow.engine.auto import KeySurvey
from evenflow.engine.job import Job
from evenflow.engine.layout import PARTITION, REPORT
from evenflow.engine.program import Stages
from evenflow.engine.survey import survey_of
from evenflow.model.errors import EvenflowError
from evenflow.spark.progress_log import PROGRESS
from evenflow_lab.checking.simulation.store import SimulatedStorage
from evenflow_lab.checking.simulation.world import Died, World

T = TypeVar("T")
_TRIES = 4  # of a task
_SOURCES = 2


class LogTaken(Exception):
    """Another query has written this batch to Spark's log: this one stops, as Spark's does."""


class TaskFailed(Exception):
    """A task has failed as often as Spark tries."""


class Tasks:
    """Runs tasks as Spark does: again after an error, sometimes twice, maybe longer than the driver.

    Parameters:
        world: whose turn it is.
        orphans: whether a task that has begun is finished although the driver is dead.
    """

    def __init__(self, world: World, orphans: bool) -> None:
        self._world, self._orphans = world, orphans
        self.habits: list[str] = []  #: of the next tasks

    def run(self, task: Callable[[], T]) -> T:
        """The result of one of the attempts that were finished."""
        actor = self._world.current
        for left in reversed(range(_TRIES)):
            habit = self.habits.pop() if self.habits else None
            try:
                if actor is not None:
                    actor.finishing += self._orphans
                result = task()
                if habit is not None:
                    self._world.happened[habit] += 1
                if habit == "task failure":
                    raise TaskFailed("after all of its effects")
                if habit is not None:
                    again = task()
                    # Of two copies either may be the one that counts; of a retry, the last.
                    result = again if habit == "task retry" or self._half() else result
            except (OSError, EvenflowError):
                if not left:
                    raise
                continue
            finally:
                if actor is not None:
                    actor.finishing = 0
            if actor is not None and actor.dead:
                raise Died("the driver of a task")
            return result
        raise AssertionError("unreachable")

    def shuffled(self, items: list[T]) -> list[T]:
        """In another order: a shuffle has none."""
        self._world.chance.shuffle(items)
        return items

    def _half(self) -> bool:
        return self._world.chance.random() < 0.5


class OnTasks:
    """An `Executor` whose tasks have Spark's habits."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def session(self, rows: Any) -> None:
        return None

    def survey(self, rows: pa.Table, job: Job) -> KeySurvey | None:
        return survey_of(rows, job.key)

    def run(self, rows: pa.Table, stages: Stages) -> list[str]:
        wanted = rows.select(stages.job.rows.names)
        step = max(1, -(-wanted.num_rows // _SOURCES))
        routed: list[pa.RecordBatch] = []
        for source in range(_SOURCES):
            batches = wanted.slice(source * step, step).to_batches()
            routed += self._run(stages.route, source, batches)
        partitions = self._shuffle(routed, stages.route.partitions)
        if stages.split is not None:
            split, parts = stages.split, []
            for number, batches in enumerate(partitions):
                parts += self._run(split, number, batches)
            partitions = self._shuffle(parts, stages.plan.partitions)
        reports: list[str] = []
        for number, batches in enumerate(partitions):
            made = self._run(stages.own, number, batches)
            reports += [report for batch in made for report in batch.column(REPORT).to_pylist()]
        return reports

    def _run(self, task: Callable[[int, Iterator[Any]], Any], number: int, rows: list[Any]) -> Any:
        return self._tasks.run(lambda: list(task(number, iter(rows))))

    def _shuffle(self, batches: list[pa.RecordBatch], partitions: int) -> list[list[Any]]:
        found: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
        for batch in batches:
            at = batch.column(0).to_numpy()
            assert batch.schema.names[0] == PARTITION
            rows = pa.Table.from_batches([batch]).drop_columns([PARTITION])
            for partition in np.unique(at).tolist():
                found[partition] += rows.filter(pa.array(at == partition)).to_batches()
        return [self._tasks.shuffled(mine) for mine in found]


class StreamExecution:
    """Which rows are which batch: Spark's offset log and commit log, as a restarted query reads them.

    What it writes is atomic and not synced: a loss of power takes the last files.

    Parameters:
        world: whose turn it is.
        storage: of the checkpoint location.
        available: how many rows there are.
        sizes: how many rows a batch has at least and at most.
    """

    def __init__(
        self, world: World, storage: SimulatedStorage, available: int, sizes: tuple[int, int]
    ) -> None:
        self._log = SimulatedStorage(storage.store, storage.under(PROGRESS).folder, synced=False)
        self._world, self._available, self._sizes = world, available, sizes
        self._chance = random.Random(world.names.random())

    def run(self, run_batch: Callable[[int, int, int], None]) -> None:
        """Until all available rows are done: `run_batch(batch, start, end)`."""
        if not self._log.list("metadata"):
            self._log.create("metadata", json.dumps({"id": self._world.uuid4().hex}).encode())
        for batch, start, end in self._batches():
            run_batch(batch, start, end)
            self._log.create(f"commits/{batch}", b"{}")

    def _batches(self) -> Iterator[tuple[int, int, int]]:
        offsets, commits = self._numbers("offsets/"), self._numbers("commits/")
        last = max(offsets, default=-1)
        if last >= 0 and last not in commits:
            yield (last, *self._planned(last))
        end = 0 if last < 0 else self._planned(last)[1]
        while end < self._available:
            start, end = end, min(self._available, end + self._chance.randint(*self._sizes))
            last += 1
            began = json.dumps({"batchTimestampMs": round(self._world.time() * 1000)})
            entry = f"v1\n{began}\n{json.dumps({'start': start, 'end': end})}"
            if not self._log.create(f"offsets/{last}", entry.encode()):
                raise LogTaken(f"offsets/{last}")
            yield last, start, end

    def _numbers(self, log: str) -> set[int]:
        return {int(name.removeprefix(log)) for name in self._log.list(log)}

    def _planned(self, batch: int) -> tuple[int, int]:
        return rows_in(self._log.read(f"offsets/{batch}").decode())


def rows_in(entry: str) -> tuple[int, int]:
    """The first row of a batch and the one after its last, by the log's entry."""
    found = json.loads(entry.splitlines()[-1])
    return found["start"], found["end"]
