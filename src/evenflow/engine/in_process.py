"""The engine in one process: the same tasks, loop and state as on Spark, without Spark.

The simulator replans with it, and tests inject a fault at every step of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.auto import KeySurvey
from evenflow.engine.dead_letters import DeadLetters
from evenflow.engine.job import Job
from evenflow.engine.layout import PARTITION, REPORT
from evenflow.engine.loop import GRACE, Loop, Metrics
from evenflow.engine.output import Sink, Tables
from evenflow.engine.program import KeyedProgram, Stages
from evenflow.engine.resuming import resumed
from evenflow.engine.survey import survey_of
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.leftovers import drop_uncommitted
from evenflow.state.source import Source
from evenflow.storage import Storage

_ROWS = 1 << 14  # of a record batch


@dataclass(frozen=True)
class InProcess:
    """Runs the tasks of a batch one after the other in this process.

    Guarantee: the output and state that Spark's tasks have for the same rows in the same order.

    Parameters:
        sources: how many source tasks share the rows; each takes a stretch of neighbouring ones.
    """

    sources: int = 2

    def run(self, rows: pa.Table, stages: Stages) -> list[str]:
        answers = [batch.column(REPORT).to_pylist() for batch in self._answers(rows, stages)]
        return [report for batch in answers for report in batch]

    def survey(self, rows: pa.Table, job: Job) -> KeySurvey | None:
        return survey_of(rows, job.key)

    def session(self, rows: Any) -> None:
        return None

    def output(self, rows: pa.Table, stages: Stages) -> pa.Table:
        """The output of a batch DataFrame's rows."""
        answers = list(self._answers(rows, stages))
        return pa.Table.from_batches(answers, stages.job.output_schema())

    def _answers(self, rows: pa.Table, stages: Stages) -> Iterator[pa.RecordBatch]:
        wanted = rows.select(stages.job.rows.names)
        step = max(1, -(-wanted.num_rows // self.sources))
        routed: list[pa.RecordBatch] = []
        for source in range(self.sources):
            batches = wanted.slice(source * step, step).to_batches(max_chunksize=_ROWS)
            routed += stages.route(source, iter(batches))
        shuffled = _shuffled(routed, stages.route.partitions)
        if stages.split is not None:
            parts: list[pa.RecordBatch] = []
            for partition, batches in enumerate(shuffled):
                parts += stages.split(partition, iter(batches))
            shuffled = _shuffled(parts, stages.plan.partitions)
        for partition, batches in enumerate(shuffled):
            yield from stages.own(partition, iter(batches))


def _shuffled(batches: list[pa.RecordBatch], partitions: int) -> list[list[pa.RecordBatch]]:
    """The rows of each partition, without its number."""
    if not batches:
        return [[] for _ in range(partitions)]
    table = pa.Table.from_batches(batches).combine_chunks()
    at = table.column(PARTITION).to_numpy()
    order = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[order], np.arange(partitions + 1)).tolist()
    rows = table.drop_columns([PARTITION]).take(pa.array(order))
    return [
        rows.slice(start, end - start).to_batches(max_chunksize=_ROWS)
        for start, end in pairwise(bounds)
    ]


def run_stream(
    job: Job,
    storage: Storage,
    batches: Iterable[pa.Table],
    sink: Sink | None = None,
    *,
    first: int = 0,
    sources: int = 2,
    dead_letters: DeadLetters | None = None,
    grace: float = GRACE,
    moments: Callable[[int], int] | None = None,
    close: bool = False,
) -> Iterator[Metrics]:
    """Run a stream in this process, from where its checkpoint stands; the metrics of each batch.

    Batches that are committed already are passed over, as a restarted query does.

    Parameters:
        job: the computation.
        storage: of the checkpoint.
        batches: the rows of one batch after the other.
        sink: where output goes; None to keep it nowhere.
        first: the number of the first batch.
        sources: how many source tasks share the rows of a batch.
        dead_letters: for rows that the operator fails for; None to stop at the first of them.
        grace: seconds that garbage stays.
        moments: when each batch begins, in milliseconds; None for sources that do not say.
        close: whether a last batch without rows puts out what event time has passed by then.

    Example:
        >>> from evenflow.engine.keyed_states import KeyedStates
        >>> from evenflow.grouping import make
        >>> from evenflow.operators import Aggregates, count
        >>> from evenflow.storage.memory import MemoryStorage
        >>> rows = pa.table({"page": ["a", "b", "a"]})
        >>> work = KeyedStates(Aggregates(hits=count()))
        >>> job = Job(("page",), rows.schema, work, make("w-choices"), partitions=4)
        >>> sink = Tables()
        >>> [m["rows"] for m in run_stream(job, MemoryStorage(), [rows, rows], sink)]
        [3, 3]
        >>> sorted(sink.latest("page").to_pylist(), key=str)
        [{'page': 'a', 'hits': 4}, {'page': 'b', 'hits': 2}]
    """

    def source_of(batch: int) -> Source:
        if moments is None:
            return Source()
        began = json.dumps({"batchTimestampMs": moments(batch)})
        return Source("", f"v1\n{began}\n{batch}")

    checkpoint = Checkpoint.open(storage, job.identity())
    lease = checkpoint.acquire()
    try:
        job = resumed(job, checkpoint)
        program = KeyedProgram(job, sink or Tables(), InProcess(sources), dead_letters=dead_letters)
        drop_uncommitted(checkpoint)
        done: list[Metrics] = []
        loop = Loop(program, checkpoint, done.append, source_of=source_of, grace=grace)
        for number, rows in enumerate(batches, first):
            loop(rows, number)
            yield from done
            done.clear()
        if close:
            loop.close(job.rows.empty_table())
            yield from done
        lease.release()
    finally:
        lease.abandon()  # whatever has happened, the next driver in this process need not wait
