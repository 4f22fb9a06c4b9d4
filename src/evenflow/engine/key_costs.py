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
from evenflow.engine.pieces import row_bytes
from evenflow.planning.seen import Seen
from evenflow.planning.steady_costs import steady_costs
from evenflow.state.checkpoint import content_of
from evenflow.state.errors import explained
from evenflow.storage import Storage, together

_TIMED = b"timed"

I64 = npt.NDArray[np.int64]


class KeyCosts:
    """What each key of one task has cost in one batch.

    Parameters:
        timed: whether costs are seconds by the clock.
    """

    def __init__(self, timed: bool = False) -> None:
        self._timed = timed
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
        if self._timed:
            table = table.replace_schema_metadata({_TIMED: "yes"})
        content = pa.BufferOutputStream()
        with pa.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table)
        name = batch.staged(f"keys-{partition:05d}-{uuid4().hex}.arrow")
        with explained("write", batch.storage.where(name)):
            batch.storage.put(name, [memoryview(content.getvalue())])
        return name


def read_costs(storage: Storage, names: Iterable[str], past: Seen) -> Seen:
    """What all tasks of a batch have written, one row per key.

    Parameters:
        past: what is known of earlier batches, to tell from what the machine has disturbed.
    """
    parts, timed = [], False
    for content in together(storage, [partial(content_of, storage, name) for name in names]):
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        timed = timed or _TIMED in (table.schema.metadata or {})
        columns = (table.column(name).to_numpy() for name in ("key", "rows", "cost", "state"))
        parts.append(Seen.of(*columns))
    return steady_costs(parts, past) if timed else Seen.sum(parts)
