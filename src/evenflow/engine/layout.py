"""The columns that travel beside the user's own, and how keys and states lie side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.engine.pieces import roomy
from evenflow.operators.grouping_rows import group_rows
from evenflow.state.segments import FINGERPRINT

if TYPE_CHECKING:
    from evenflow.engine.job import Job

PARTITION = "__evenflow_partition"
REPORT = "__evenflow_report"
RESERVED = (PARTITION, FINGERPRINT, REPORT)  #: names that no column of the user's may have

__all__ = ["FINGERPRINT", "PARTITION", "REPORT", "RESERVED", "Keys", "as_stored", "from_stored"]


class Keys(NamedTuple):
    """Distinct keys: fingerprints, and the stored key columns k0, k1, …"""

    fingerprints: np.ndarray  #: uint64
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.fingerprints)


def stored(name: str) -> str:
    """The name of a state column in parts and segments, which no key column has."""
    return f"s_{name}"


def as_stored(keys: Keys, states: pa.Table) -> pa.Table:
    """Keys and states side by side, as they are kept: in types with room for more than 2 GiB."""
    table = pa.table(
        {
            FINGERPRINT: pa.array(keys.fingerprints.view(np.int64)),
            **dict(zip(keys.columns.column_names, keys.columns.columns, strict=True)),
            **{stored(name): states.column(name) for name in states.column_names},
        }
    )
    return table.cast(roomy(table.schema))


def from_stored(job: Job, table: pa.Table) -> tuple[Keys, pa.Table]:
    """The inverse of `as_stored`, in the same types."""
    state = job.state_schema()
    fingerprints = table.column(FINGERPRINT).to_numpy().view(np.uint64)
    states = table.select([stored(name) for name in state.names]).rename_columns(state.names)
    keys = Keys(fingerprints, table.select(job.key_schema().names))
    return keys, states.cast(roomy(state))


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with nulls allowed: a key without state has nothing else."""
    return pa.schema([field.with_nullable(True) for field in schema])


def latest_of(job: Job, before: pa.Table | None, after: pa.Table) -> pa.Table:
    """One row per key: that of `after` where there is one."""
    if before is None:
        return after
    both = pa.concat_tables([after, before.cast(after.schema)])
    _, first = group_rows([both.column(name) for name in job.key_schema().names])
    return both.take(pa.array(first))


def overlaid(job: Job, keys: Keys, states: pa.Table, table: pa.Table) -> pa.Table:
    """`states`, but those in `table` for the keys that it has: an earlier chunk of this batch."""
    known, newer = from_stored(job, table)
    both = pa.concat_tables([known.columns, keys.columns.cast(known.columns.schema)])
    group, first = group_rows(both.columns)
    at = first[group[len(known) :]]
    place = np.where(at < len(known), at, len(known) + np.arange(len(keys)))
    return pa.concat_tables([newer.cast(states.schema), states]).take(pa.array(place))


def of_other_keys(rows: pa.Table, others: pa.Table | None, keys: list[str]) -> pa.Table:
    """The rows of keys that are not among others.

    Parameters:
        keys: the columns that tell keys apart.
    """
    if others is None or not others.num_rows:
        return rows
    both = [others.select(keys), rows.select(keys).cast(others.select(keys).schema)]
    number, _ = group_rows(pa.concat_tables(both).columns)
    known = np.isin(number[others.num_rows :], number[: others.num_rows])
    return rows.filter(pa.array(~known))


def count_keys(job: Job, table: pa.Table | None) -> int:
    """How many of the user's keys are in a table of stored rows."""
    if table is None or not job.work.key_types():
        return 0 if table is None else int(table.num_rows)
    return len(np.unique(table.column(FINGERPRINT).to_numpy()))
