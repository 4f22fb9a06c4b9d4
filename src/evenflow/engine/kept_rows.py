"""The rows of an interval join: new ones as they came in, and those that are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.engine.key_parts import Parts, parts_of
from evenflow.engine.layout import Keys, stored
from evenflow.engine.task import Task
from evenflow.model.split_keys import SplitKeys
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.interval_join import IntervalJoin
from evenflow.operators.pairing import every_pair
from evenflow.state.expiry import Expiry
from evenflow.state.whole_keys import rows_of_keys

ROWS_PER_BATCH = 32  #: bits for the number of a row among those of its owner in one batch
_NUMBER = "number"


class Kept(NamedTuple):
    """Rows that take part in the join.

    Where keys are split, each part of one is a key of its own.
    """

    rows: pa.Table  #: the state columns
    group: np.ndarray  #: row → number of its key
    moments: np.ndarray
    keys: Keys  #: the distinct keys, in the user's columns
    is_right: np.ndarray
    parts: Parts  #: of which key each key is which part
    pairable: np.ndarray  #: whether it may have a partner at all

    @classmethod
    def of_keys(cls, keys: Keys, split: SplitKeys) -> Kept:
        """No rows, of these keys."""
        none, nobody = np.zeros(0, np.int64), np.zeros(0, bool)
        parts = parts_of(split, keys.fingerprints)
        return cls(keys.columns.slice(0, 0), none, none, keys, nobody, parts, nobody)


def stored_partners(
    task: Task, join: IntervalJoin, kept: Kept
) -> Iterator[tuple[np.ndarray, pa.Table]]:
    """The stored rows of these keys that may still find a partner, with their keys' numbers."""
    every = np.arange(len(kept.keys))
    own = _stored(task, every, kept.keys)
    if own is not None:
        yield own.column(_NUMBER).to_numpy(), taken_of(task, own)
    # A part has copies of the rows that came since it exists. Older ones are in part 0.
    (later,) = np.nonzero(kept.parts.number > 0)
    if not len(later):
        return
    prints, columns = kept.parts.keys[later], kept.keys.columns.take(pa.array(later))
    group, first = group_rows([pa.array(prints.view(np.int64)), *columns.columns])
    whole = Keys(prints[first], columns.take(pa.array(first)))
    older = _stored(task, np.arange(len(first)), whole)
    if older is None:
        return
    source, nth = every_pair(older.column(_NUMBER).to_numpy(), group)
    number, older = later[nth], older.take(pa.array(source))
    serial = older.column(f"k{len(task.job.key) + 1}").to_numpy()
    taken = taken_of(task, older)
    copied = join.moments(taken)[2] != kept.parts.right[number]
    wanted = copied & (serial < kept.parts.born[number] << ROWS_PER_BATCH)
    yield number[wanted], taken.filter(pa.array(wanted))


def _stored(task: Task, numbers: np.ndarray, keys: Keys) -> pa.Table | None:
    """What is stored of some keys and has not expired, with their numbers."""
    batch, expires = task.batch, task.job.expires
    if batch is None or not batch.segments:
        return None
    assert expires is not None
    found = rows_of_keys(
        batch.storage, batch.segments, batch.owners, keys.fingerprints, keys.columns
    )
    if found is None:
        return None
    number, rows = found
    numbered = rows.append_column(_NUMBER, pa.array(numbers[number])).combine_chunks()
    return Expiry(expires, task.watermarks.late).alive(numbered)


def taken_of(task: Task, rows: pa.Table) -> pa.Table:
    """The state columns of stored rows."""
    names = task.job.state_schema().names
    return rows.select([stored(name) for name in names]).rename_columns(names)
