"""Arrow batches of a task as rows of keys, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.engine.job import FINGERPRINT, Job, stored
from evenflow.operators import Rows
from evenflow.operators.grouping_rows import group_rows

CHUNK = 1 << 20  #: rows that a worker holds at a time


class Keys(NamedTuple):
    """Distinct keys: fingerprints, and the key columns k0, k1, …"""

    fingerprints: np.ndarray  #: uint64
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.fingerprints)


def chunks(batches: Iterator[pa.RecordBatch], most: int = CHUNK) -> Iterator[pa.Table]:
    """The batches, put together to tables of about `most` rows; none that is empty."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= most:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def keyed_rows(job: Job, table: pa.Table) -> tuple[Keys, Rows]:
    """The distinct keys of a routed table, and its rows by key, as the operator wants them."""
    rows = table.select(job.rows.names).cast(job.rows)
    group, first = group_rows([rows.column(name) for name in job.key])
    keys = rows.select(list(job.key)).take(pa.array(first))
    # Rows whose states are neither handed on nor stored come without fingerprints.
    fingerprints = np.zeros(len(first), np.uint64)
    if FINGERPRINT in table.column_names:
        fingerprints = table.column(FINGERPRINT).to_numpy()[first].view(np.uint64)
    named = keys.rename_columns(job.key_schema().names)
    return Keys(fingerprints, named), Rows(rows, group, keys)


def as_stored(keys: Keys, states: pa.Table) -> pa.Table:
    """Keys and states side by side, as they are handed on and stored."""
    return pa.table(
        {
            FINGERPRINT: pa.array(keys.fingerprints.view(np.int64)),
            **dict(zip(keys.columns.column_names, keys.columns.columns, strict=True)),
            **{stored(name): states.column(name) for name in states.column_names},
        }
    )


def from_stored(job: Job, table: pa.Table) -> tuple[Keys, pa.Table]:
    """What `as_stored` has put side by side."""
    key_names, state = job.key_schema().names, job.state_schema()
    fingerprints = table.column(FINGERPRINT).to_numpy().view(np.uint64)
    states = table.select([stored(name) for name in state.names]).rename_columns(state.names)
    return Keys(fingerprints, table.select(key_names)), states.cast(nullable(state))


def merged(job: Job, parts: pa.Table) -> pa.Table:
    """One stored row a key, of tables in which a key may have several parts."""
    keys, states = from_stored(job, parts)
    group, first = group_rows(keys.columns.columns)
    if len(first) == len(group):
        return parts
    distinct = Keys(keys.fingerprints[first], keys.columns.take(pa.array(first)))
    return as_stored(distinct, job.operator.merge_groups(states, group, len(first)))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema, with nulls allowed: a key that nothing is known of has nothing else."""
    return pa.schema([field.with_nullable(True) for field in schema])
