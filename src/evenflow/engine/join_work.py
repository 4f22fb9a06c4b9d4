"""Work of a window join: new rows meet each other and the rows that are kept, and are kept themselves.

State is a log: one stored row for every row that may still find a partner. A batch appends to it, reads
what there is of the keys that it touches, and changes nothing; rows vanish when the watermark has
passed the last moment at which a partner could come.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.engine.event_time import Seen, Watermarks
from evenflow.engine.job import FINGERPRINT, REPORT, Job, stored
from evenflow.engine.rows import Keys
from evenflow.engine.statistics import KeyTally
from evenflow.engine.tally import Tally
from evenflow.engine.windowed_work import write_lasting
from evenflow.engine.work import (
    Store,
    arrived_states,
    counted_keys,
    key_tally,
    partition,
    with_arrived,
    write_output,
)
from evenflow.operators import WindowJoin
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.window_join import joinable
from evenflow.state.expiry import Expiry
from evenflow.state.segments import VERSION
from evenflow.state.whole_keys import rows_of_keys

_ROWS_A_BATCH = 32  # bits for the number of a row among those of its owner in one batch


class Kept(NamedTuple):
    """Rows that take part in the join."""

    rows: pa.Table  #: the operator's state columns
    group: np.ndarray  #: row → number of its key
    moments: np.ndarray
    keys: Keys  #: the distinct keys, in the user's columns


@dataclass(frozen=True)
class JoinWork:
    """A `mapInArrow` function of an owner of keys: the pairs that its new rows make.

    Parameters:
        job: the computation, whose operator is a `WindowJoin`.
        store: the state; None to begin with none and to return the pairs themselves.
    """

    job: Job
    store: Store | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        owner, tally, seen = partition(), Tally(), Seen(self._join.sources)
        counted = key_tally(self.store)
        kept = self._arrived(tally, seen, list(batches))
        pairs = iter(()) if kept is None else self._pairs(tally, kept, counted)
        if self.store is None:
            for table in pairs:
                yield from table.combine_chunks().to_batches(max_chunksize=1 << 16)
            return
        output = write_output(self.store, owner, pairs)
        stored_at = time.perf_counter()
        new = None if kept is None else self._as_stored(self.store, kept)
        arrived = arrived_states(self.store, owner, tally, new)
        written = write_lasting(self.job, self.store, owner, with_arrived(new, arrived))
        written |= counted_keys(counted, self.store, owner, new)
        report = tally.report(
            stage="state",
            worker=owner,
            keys=0 if kept is None else len(kept.keys),
            pairs=0 if output is None else output["rows"],
            split=False,
            write_seconds=time.perf_counter() - stored_at,
            output=output,
            **written,
            **seen.report(),
        )
        yield pa.record_batch([pa.array([report], pa.string())], names=[REPORT])

    @property
    def _join(self) -> WindowJoin:
        assert isinstance(self.job.operator, WindowJoin)
        return self.job.operator

    @property
    def _marks(self) -> Watermarks:
        return Watermarks() if self.store is None else self.store.watermarks

    def _arrived(self, tally: Tally, seen: Seen, batches: list[pa.RecordBatch]) -> Kept | None:
        """The rows that came in, without those that can have no partner; None if there are none."""
        batches = [batch for batch in batches if batch.num_rows]
        if not batches:
            return None
        table = pa.Table.from_batches(batches)
        rows = table.select(self.job.rows.names).cast(self.job.rows)
        group, first = group_rows([rows.column(name) for name in self.job.key])
        fingerprints = np.zeros(len(first), np.uint64)
        if FINGERPRINT in table.column_names:
            fingerprints = table.column(FINGERPRINT).to_numpy()[first].view(np.uint64)
        keys = Keys(fingerprints, rows.select(list(self.job.key)).take(pa.array(first)))
        tally.add(keys, group)
        moments, known, is_right = self._join.moments(rows)
        seen.unknown += int(len(known) - known.sum())
        for source in range(self._join.sources):
            seen.add(moments[known & (is_right == bool(source))], source)
        kept = known & joinable(rows, self.job.key)
        if self._marks.late is not None:
            late = moments <= self._marks.late
            seen.late += int((kept & late).sum())
            kept &= ~late
        if not kept.any():
            return None
        rows = rows.select(self.job.state_schema().names).filter(pa.array(kept))
        return Kept(rows, group[kept], moments[kept], keys)

    def _pairs(self, tally: Tally, kept: Kept, counted: KeyTally | None) -> Iterator[pa.Table]:
        """The pairs of new rows with each other and with those of the state, block by block."""
        schema = self.job.output_schema()
        rows, group = [kept.rows], [kept.group]
        for number, old in self._old(kept.keys):
            rows.append(old.cast(kept.rows.schema))
            group.append(number)
        together = np.concatenate(group)
        # A key costs the rows that are read for it, and the pairs that they make.
        costs = np.bincount(together, minlength=len(kept.keys)).astype(np.float64)
        fresh = np.arange(len(together)) < len(kept.group)
        found = self._join.pairs(
            kept.keys.columns, pa.concat_tables(rows).combine_chunks(), together, fresh, costs
        )
        while True:
            with tally.updating():
                pairs = next(found, None)
            if pairs is None:
                if counted is not None:
                    counted.add(kept.keys.fingerprints, kept.group, costs)
                return
            yield pairs.cast(schema)

    def _old(self, keys: Keys) -> Iterator[tuple[np.ndarray, pa.Table]]:
        if self.store is None or not self.store.segments:
            return
        store, names = self.store, self.job.state_schema().names
        assert self.job.expires is not None
        found = rows_of_keys(
            store.directory, store.segments, store.owners, keys.fingerprints, keys.columns
        )
        if found is not None:
            number, rows = found
            numbered = rows.append_column("number", pa.array(number)).combine_chunks()
            alive = Expiry(self.job.expires, self._marks.late).alive(numbered)
            taken = alive.select([stored(name) for name in names]).rename_columns(names)
            yield alive.column("number").to_numpy(), taken

    def _as_stored(self, store: Store, kept: Kept) -> pa.Table:
        """The rows as they are kept: each with the last moment at which a partner may come, and with
        a number, so that rows that are equal are two rows still."""
        n = len(kept.group)
        chosen = pa.array(kept.group)
        own = kept.keys.columns.take(chosen).columns
        serial = (store.batch << _ROWS_A_BATCH) + np.arange(n)
        columns = [*own, pa.array(kept.moments + self._join.within), pa.array(serial)]
        return pa.table(
            {
                FINGERPRINT: pa.array(kept.keys.fingerprints[kept.group].view(np.int64)),
                VERSION: pa.array(np.full(n, store.batch, np.int64)),
                **dict(zip(self.job.key_schema().names, columns, strict=True)),
                **{stored(name): kept.rows.column(name) for name in kept.rows.column_names},
            }
        ).combine_chunks()
