"""What each key has cost in a batch, on the way from the tasks to the controller."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.batch import Batch
from evenflow.engine.layout import FINGERPRINT
from evenflow.planning.seen import Seen
from evenflow.state.checkpoint import content_of
from evenflow.state.errors import explained
from evenflow.storage import Storage, together

I64 = npt.NDArray[np.int64]


class KeyCosts:
    """What each key of one task has cost in one batch."""

    def __init__(self) -> None:
        self._parts: list[Seen] = []

    def add(
        self, fingerprints: npt.NDArray[np.uint64], group: I64, costs: Any | None = None
    ) -> None:
        """Count one chunk: `group` has every row's key's number; `costs` a number for each key, its
        rows unless given."""
        n = len(fingerprints)
        rows = np.bincount(group, minlength=n).astype(np.float64)
        cost = rows if costs is None else np.asarray(costs, np.float64)
        self._parts.append(Seen.of(fingerprints, rows, cost, np.zeros(n)))

    def write(self, batch: Batch, partition: int, states: pa.Table | None) -> str | None:
        """Write them under a new name, which is returned; None where there was nothing to do."""
        if not self._parts or states is None:
            return None
        prints = states.column(FINGERPRINT).to_numpy().view(np.uint64)
        nothing = np.zeros(len(prints))
        sizes = Seen.of(prints, nothing, nothing, row_bytes(states).astype(np.float64))
        seen = Seen.sum([*self._parts, sizes])
        table = pa.table(
            {"key": seen.keys, "rows": seen.rows, "cost": seen.costs, "state": seen.state}
        )
        content = pa.BufferOutputStream()
        with pa.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table)
        name = batch.staged(f"keys-{partition:05d}-{uuid4().hex}.arrow")
        with explained("write", batch.storage.where(name)):
            batch.storage.put(name, [memoryview(content.getvalue())])
        return name


def read_costs(storage: Storage, names: Iterable[str]) -> Seen:
    """What all tasks of a batch have written, one row per key."""
    parts = []
    for content in together(storage, [partial(content_of, storage, name) for name in names]):
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        columns = (table.column(name).to_numpy() for name in ("key", "rows", "cost", "state"))
        parts.append(Seen.of(*columns))
    return Seen.sum(parts)


def row_bytes(table: pa.Table) -> I64:
    """The bytes of each row's values: what has to be sent when the row moves.

    Example:
        >>> row_bytes(pa.table({"n": [1, 2], "name": ["a", "abc"], "xs": [[1, 2], []]})).tolist()
        [25, 11]
    """
    total = np.zeros(table.num_rows, np.int64)
    for column in table.combine_chunks().columns:
        array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        total += _value_bytes(array)
    return total


def _value_bytes(array: pa.Array) -> I64:
    kind, n = array.type, len(array)
    if pa.types.is_struct(kind):
        return sum((_value_bytes(part) for part in array.flatten()), np.zeros(n, np.int64))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        inner = np.concatenate([[0], np.cumsum(_value_bytes(array.values))])
        offsets = array.offsets.to_numpy()
        sizes: I64 = inner[offsets[1:]] - inner[offsets[:-1]]
        return sizes
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if large or pa.types.is_string(kind) or pa.types.is_binary(kind):
        ends: Any = np.frombuffer(array.buffers()[1], np.int64 if large else np.int32) if n else []
        sizes = np.diff(ends[array.offset : array.offset + n + 1]).astype(np.int64)
        return np.asarray(sizes, np.int64)
    return np.full(n, max(kind.bit_width, 8) // 8, np.int64)
