"""The tasks of streaming batches in this process, with keys placed by hand: rows in, output out."""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.engine.batch import Batch
from evenflow.engine.event_time import Watermarks, event_time_after, event_time_metrics
from evenflow.engine.job import Job
from evenflow.engine.layout import FINGERPRINT, PARTITION
from evenflow.engine.program import segments_after
from evenflow.engine.reports import Reports
from evenflow.engine.routing import fingerprints_of
from evenflow.engine.work import OwnerTask, SplitTask
from evenflow.model.owners import Owners
from evenflow.state.expiry import unexpired
from evenflow.state.segments import Segment
from evenflow.storage import Storage


@dataclass
class LocalRun:
    """A query that runs batch by batch. What it keeps between two is what a manifest keeps."""

    job: Job
    storage: Storage
    segments: tuple[Segment, ...] = ()
    owners: dict[int, Owners] = field(default_factory=dict)
    event_time: dict = field(default_factory=dict)
    batches: int = 0
    epoch: int = -1

    def batch(self, rows, partitions=3, split=False, seed=0, tries=1, table=None):
        """One batch, maybe tried several times; its output and metrics. `table` has the owners of
        some keys."""
        place = Owners(partitions, seed, self._entries(table or {}, partitions))
        before, moves = self.owners.get(self.epoch), {}
        if before != place:
            if before is not None and replace(before, table={}) == replace(place, table={}):
                listed = np.array(sorted({*before.table, *place.table}), np.uint64)
                moving = listed[before(listed) != place(listed)]
                moves = {"arriving": tuple(moving.tolist()), "superseded": self.epoch}
            self.epoch += 1
        owners = {**self.owners, self.epoch: place}
        batch = Batch(
            self.batches,
            self.storage,
            self.storage,
            self.segments,
            owners,
            self.epoch,
            Watermarks.after(self.event_time),
            count_keys=not split,
            **moves,
        )
        for _ in range(tries):
            reports = Reports.read(self._tried(batch, rows, partitions, split))
        self.segments = unexpired(segments_after(batch, reports), batch.watermarks.closed)
        event_time = event_time_after(self.job, batch.watermarks, reports.work)
        self.event_time = json.loads(json.dumps(event_time))  # as a manifest would hand it on
        metrics = event_time_metrics(reports.work, reports.state, self.segments, self.event_time)
        live = {epoch for segment in self.segments for epoch in segment.epochs}
        self.owners = {e: p for e, p in owners.items() if e in live or e == self.epoch}
        self.batches += 1
        files = [r["output"]["file"] for r in reports.state if r["output"]]
        schema = self.job.output_schema()
        contents = [pa.BufferReader(self.storage.read(file)) for file in files]
        tables = [pq.read_table(content).cast(schema) for content in contents]
        return pa.concat_tables([schema.empty_table(), *tables]), metrics

    def _entries(self, table, partitions):
        keys = [key for key, owner in table.items() if owner < partitions]
        if not keys:
            return {}
        column = pa.record_batch({self.job.key[0]: pa.array(keys, self.job.rows.field(0).type)})
        prints = fingerprints_of(column, self.job.key).tolist()
        return {one: table[key] for one, key in zip(prints, keys, strict=True)}

    def _tried(self, batch, rows, partitions, split):
        prints = np.concatenate(
            [np.zeros(0, np.uint64), *(fingerprints_of(b, self.job.key) for b in rows.to_batches())]
        )
        rows = rows.add_column(0, FINGERPRINT, pa.array(prints.view(np.int64)))
        place = batch.owners[batch.epoch]
        reports = []
        if split:  # rows are dealt out in turn, so that a key is in every partition
            dealt = _cut(rows, np.arange(rows.num_rows) % partitions, partitions)
            task = SplitTask(self.job, place, batch)
            parts = [b for number, mine in enumerate(dealt) for b in task(number, iter(mine))]
            rows = pa.Table.from_batches(parts, self.job.parts_schema())
            names = [batch.report_of(number) for number in range(partitions)]
            reports = [self.storage.read(name).decode() for name in names]
            at, rows = rows.column(PARTITION).to_numpy(), rows.drop_columns([PARTITION])
        else:
            at = place(prints)
        task = OwnerTask(self.job, split, batch)
        for owner, mine in enumerate(_cut(rows, at, partitions)):
            (report,) = task(owner, iter(mine))
            reports.append(report.column(0)[0].as_py())
        return reports


def _cut(rows, at, partitions):
    """The rows of each partition, in small record batches."""
    return [
        rows.filter(pa.array(at == partition)).combine_chunks().to_batches(max_chunksize=7)
        for partition in range(partitions)
    ]
