"""Work: the one skeleton of what tasks do, whatever kind of work it is.

A task of a scheme that splits keys makes parts of states from its rows and hands them to the keys'
owners (`SplitTask`). An owner makes new states from old ones and what came in, writes them, and writes
the output (`OwnerTask`). What differs between plain keys, windows, joins and restored order is a
`Work`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.engine.batch import Batch
from evenflow.engine.job import Job
from evenflow.engine.layout import FINGERPRINT, PARTITION, REPORT, count_keys
from evenflow.engine.pieces import in_pieces
from evenflow.engine.task import Task
from evenflow.model.owners import Owners
from evenflow.state.errors import explained
from evenflow.storage import together
from evenflow.storage.requests import counting

_OUTPUT_ROWS = 1 << 16  # of one record batch


@dataclass
class Result:
    """What the rows of a task have become.

    Parameters:
        states: the new rows of state, with fingerprints and keys, without versions; None for none.
        output: the rows to put out, made while they are taken.
        keys: how many keys had rows.
        due: keys by the moment when to look at them, as `state.due_keys` keeps them.
        counts: further entries of the report, complete once `output` is used up.
    """

    states: pa.Table | None = None
    output: Iterable[pa.Table] = ()
    keys: int = 0
    due: pa.Table | None = None
    counts: dict[str, Any] = field(default_factory=dict)


class Work(ABC):
    """One kind of keyed work. It is configuration, frozen and picklable, and owns its state's layout.

    Guarantee: what it returns depends on the task's rows, the committed state and the batch's plan and
    watermarks alone.
    """

    mergeable: bool  #: whether parts of a key's state can be merged, so that keys may be split
    #: Whether its first own key column says when a row of state expires; where it has none, its first
    #: state column.
    expires: bool = False
    #: Whether a batch that touches a key writes all that is kept of it: older rows do not count.
    rewrites_keys: bool = False
    sources: int = 1  #: how many streams its rows come from, each with an event time of its own
    side: str | None = None  #: the column that tells the two sides apart, of work that pairs rows
    split_sides: tuple[bool, bool] = (False, False)  #: of which side a key's rows may be divided
    delay: int = 0  #: how long rows may be late, in microseconds of event time
    sorted_by_key: bool = False  #: whether rows of a batch DataFrame should come sorted by key
    in_key_order: bool = False  #: whether output is in the order of keys, where that costs nothing
    puts_out_keys: bool = True  #: whether the key columns come before its output's own
    #: Whether keys are looked at when their time has come, also without rows.
    has_due_keys: bool = False
    cannot_set_aside: str = "a row may have been paired before it fails"  #: if it sets none aside
    #: Whether a stream that has no more rows ends with a batch that closes what event time has passed.
    closes_without_rows: bool = False
    #: Whether time passes for it while nothing arrives, so that batches should begin nevertheless.
    in_processing_time: bool = False
    added: tuple[str, ...] = ()  #: columns of the rows that are not the user's own
    order: tuple[str, ...] | None = (
        None  #: of all columns of the output; None: the key's come first
    )

    @property
    def row_seconds(self) -> float | None:
        """What a row usually costs, in seconds; None where that is up to the user's own code."""
        return None

    @property
    def timed(self) -> bool:
        """Whether keys' costs are seconds by the clock."""
        return False

    @property
    def tracks_event_time(self) -> bool:
        """Whether its rows move a watermark."""
        return self.expires

    def due_moments(self, batch: Batch) -> tuple[int, int]:
        """The moments in milliseconds between which keys are due in a batch, both included."""
        raise NotImplementedError(f"{self.describe()} has no keys that fall due")

    @abstractmethod
    def describe(self) -> str:
        """What a message to the user calls it."""

    @abstractmethod
    def signature(self) -> dict[str, Any]:
        """What must stay the same when a query is started again from its checkpoint."""

    def carries_over(self, stored: Mapping[str, Any]) -> bool:
        """Whether it can go on with the state of a checkpoint that was made by an older version of it.

        Raises an `InputError` that says what to do, if only its state stands in the way.

        Parameters:
            stored: what the checkpoint says of the work (`Job.identity`).
        """
        return False

    def identity(self, rows: pa.Schema) -> dict[str, Any]:
        """What a checkpoint says of it, given the schema of the rows; its signature by default."""
        return self.signature()

    def resumed(
        self, stored: Mapping[str, Any], rows: pa.Schema, batch: int
    ) -> tuple[Work, dict[str, Any], tuple[str, ...]] | None:
        """The work, as it goes on with the state of a checkpoint that an older version of it has made;
        its new identity, and what has changed, one sentence each. None if that was another work.

        Parameters:
            stored, batch: as in `Job.resumed`.
            rows: the schema of the rows.
        """
        return (self, self.identity(rows), ()) if self.carries_over(stored) else None

    @abstractmethod
    def columns(self) -> Sequence[str] | None:
        """The input columns that it reads besides the key; None for all."""

    def fingerprinted(self) -> Sequence[str]:
        """The input columns of whose values its tasks take fingerprints, which is compiled code."""
        return ()

    def key_types(self) -> list[pa.DataType]:
        """The types of the key columns that it stores after the user's own."""
        return []

    @abstractmethod
    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The state columns of a row of state."""

    def part_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of a part of a state, on its way to the key's owner."""
        return self.state_schema(rows)

    @abstractmethod
    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The output columns after the key's."""

    def letter_columns(self, rows: pa.Schema) -> pa.Schema | None:
        """Further columns of rows that are set aside; None if it can set none aside."""
        return None

    @abstractmethod
    def run(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Result:
        """New states and output from what came in, and from the committed state."""

    def parts(self, task: Task, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """Parts of states from rows alone, one row per stored key; None if there are none."""
        raise NotImplementedError(f"{self.describe()} cannot be split")


@dataclass(frozen=True)
class SplitTask:
    """A task whose keys may have other tasks, too: parts of states, bound for the keys' owners.

    Its report goes into a file. Among the parts, its seconds would make them differ whenever Spark
    runs the task again, and Spark would take that for a mistake and run more of the batch again, or
    give up.
    """

    job: Job
    owners: Owners
    batch: Batch | None = None

    def __call__(
        self, partition: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        task = Task(self.job, self.batch, partition)
        table = self.job.work.parts(task, batches)
        if table is not None:
            fingerprints = table.column(FINGERPRINT).to_numpy().view(np.uint64)
            homes = pa.array(self.owners(fingerprints).astype(np.int32))
            parts = table.add_column(0, PARTITION, homes)
            for piece in in_pieces(parts, self.job.parts_schema()):
                yield from piece.combine_chunks().to_batches()
        if self.batch is not None:
            keys = count_keys(self.job, table)
            own: dict[str, Any] = (
                {"requests": {"writes": 1}} if self.batch.storage.concurrency > 1 else {}
            )
            own |= task.write_letters("rows")
            report = task.tally.report("work", partition, keys=keys, **task.times.report(), **own)
            name = self.batch.report_of(partition)
            with explained("write", self.batch.storage.where(name)), counting():
                self.batch.storage.put(name, [report.encode()])


@dataclass(frozen=True)
class OwnerTask:
    """A task that owns keys: new states from old ones and what came in.

    Parameters:
        job: the computation.
        split: True where parts of states come in, False where rows do.
        batch: the batch of a streaming query; None to begin with no state and return the output.
    """

    job: Job
    split: bool
    batch: Batch | None = None

    def __call__(
        self, partition: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        task = Task(self.job, self.batch, partition, self.split)
        if self.batch is None:
            for table in self.job.work.run(task, batches).output:
                yield from table.combine_chunks().to_batches(max_chunksize=_OUTPUT_ROWS)
            return
        with counting() as requests:
            result = self.job.work.run(task, batches)
            writes: list[Callable[[], dict[str, Any] | None]] = [
                partial(task.write_output, result.output),
                partial(task.write_state, result.states, result.due),
                partial(task.write_costs, result.states),
            ]
            output, written, costs = together(self.batch.storage, writes)
            letters = task.write_letters()  # once all output is made, which may fail for keys, too
        report = task.tally.report(
            "state",
            partition,
            keys=result.keys,
            split=self.split,
            output=output,
            **result.counts,
            **(written or {}),
            **(costs or {}),
            **letters,
            **({} if self.split else task.times.report()),
            **({"requests": requests.to_dict()} if self.batch.storage.concurrency > 1 else {}),
        )
        yield pa.record_batch([pa.array([report], pa.string())], names=[REPORT])
