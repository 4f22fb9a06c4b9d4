"""Dead letters: rows that an operator fails for, set aside with their error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.engine.failures import FunctionFailed, error_text
from evenflow.model import InputError
from evenflow.state.errors import explained
from evenflow.storage import Storage

if TYPE_CHECKING:
    from evenflow.engine.job import Job
    from evenflow.engine.output import Sink

TOTAL = "dead_letters_total"  #: among the metrics: how many rows the query has set aside so far
LIMIT = 1000  #: rows that a query may set aside unless told otherwise


@dataclass(frozen=True)
class DeadLetters:
    """Where the rows that an operator fails for are set aside, and how many may be.

    Parameters:
        sink: where they go, batch by batch, before the batch is committed.
        limit: how many rows may be set aside since the query began; one more stops it.
    """

    sink: Sink
    limit: int = LIMIT


class LetterBox(NamedTuple):
    """What a task needs to set rows aside.

    Parameters:
        storage: where the files are written.
        left: how many rows may still be set aside.
        limit: how many in all.
    """

    storage: Storage
    left: int
    limit: int


def letter_schema(job: Job) -> pa.Schema:
    """The columns of a dead letter: where it comes from and why, and the row that it was.

    Where a merge or an `emit` failed there is no row, but the state that it failed for.
    """
    own = job.work.letter_columns(job.rows)
    if own is None:
        raise InputError(
            f"deadLetterPath: {job.work.describe()} cannot set rows aside, because "
            f"{job.work.cannot_set_aside}; leave the option out"
        )
    rows = [field.with_nullable(True) for field in job.rows]
    return pa.schema(
        [
            ("key", pa.string()),
            ("partition", pa.int32()),
            ("function", pa.string()),
            ("error", pa.string()),
            ("record", pa.struct(rows)),
            *own,
        ]
    )


class Letters:
    """The dead letters of one task.

    Parameters:
        job: the computation.
        box: where they go, and how many may be set aside.
        partition: of the task.
    """

    def __init__(self, job: Job, box: LetterBox, partition: int) -> None:
        self._box, self._partition = box, partition
        self._schema = letter_schema(job)
        self._tables: list[pa.Table] = []
        self.rows = 0
        self._first = ""

    def check(self, more: int, function: str, key: str, error: Exception) -> None:
        """Refuse to set aside more rows than may be.

        Parameters:
            more: how many are to be set aside besides those that are.
            function, key, error: of one of them.
        """
        if self.rows + more > self._box.left:
            raise limit_reached(
                self._box.limit, f"{function} failed for the key {key}: {error_text(error)}"
            )

    def add(
        self,
        function: str,
        keys: Sequence[str],
        errors: Sequence[Exception],
        **columns: pa.Table | pa.Array,
    ) -> None:
        """Set rows aside.

        Parameters:
            function: that failed, by its name.
            keys: of each, as text.
            errors: of each.
            columns: `record`, the rows, `state` and what else the schema has; those left out are null.
        """
        self.check(len(keys), function, keys[0], errors[0])
        texts = [error_text(error) for error in errors]
        n = len(keys)
        known: dict[str, Any] = {
            "key": pa.array(keys, pa.string()),
            "partition": pa.array([self._partition] * n, pa.int32()),
            "function": pa.array([function] * n, pa.string()),
            "error": pa.array(texts, pa.string()),
            **columns,
        }
        made = [
            _as(known[field.name], field.type) if field.name in known else pa.nulls(n, field.type)
            for field in self._schema
        ]
        self._tables.append(pa.table(made, schema=self._schema))
        self.rows += n
        self._first = self._first or f"{function} failed for the key {keys[0]}: {texts[0]}"

    def write(self, name: str) -> dict[str, Any] | None:
        """Write them; what the report says of them, None if there are none.

        Parameters:
            name: of the file up to its last part, which is another for every try.
        """
        if not self._tables:
            return None
        content = pa.BufferOutputStream()
        pq.write_table(pa.concat_tables(self._tables), content)
        file = f"{name}-{uuid4().hex}.parquet"
        with explained("write", self._box.storage.where(file)):
            self._box.storage.put(file, [memoryview(content.getvalue())])
        return {"file": file, "rows": self.rows, "first": self._first}


def limit_reached(limit: int, first: str) -> FunctionFailed:
    """The error for more dead letters than a query may have.

    Parameters:
        limit: how many it may have.
        first: what happened to one of those that are too many.
    """
    return FunctionFailed(
        f"more rows have failed than deadLetterLimit allows, {limit:,} since the query began; now "
        f"{first}; look at the rows that were set aside, then correct the function, or raise the limit"
    )


def _as(column: pa.Table | pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of letters; of a table, its rows as structs, with nulls for columns that it lacks."""
    if not isinstance(column, pa.Table):
        return column.cast(kind)
    there = set(column.column_names)
    parts = [
        column.column(field.name).combine_chunks().cast(field.type)
        if field.name in there
        else pa.nulls(column.num_rows, field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind))
