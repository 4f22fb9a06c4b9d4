"""The tasks of streaming batches in this very process, without Spark: rows in, output out."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from evenflow.engine.event_time import Watermarks, event_time_after, event_time_metrics
from evenflow.engine.job import FINGERPRINT, WORKER, Job
from evenflow.engine.observing import Reports
from evenflow.engine.routing import fingerprints_of
from evenflow.engine.work import Store, filed_reports
from evenflow.engine.work_of_a_job import owner_work, split_work
from evenflow.model.owners import Owners
from evenflow.spark.control_loop import segments_after
from evenflow.state.expiry import unexpired
from evenflow.state.segments import Segment


@dataclass
class LocalRun:
    """A query that runs batch by batch. What it keeps between two is what a manifest keeps."""

    job: Job
    directory: Path
    segments: tuple[Segment, ...] = ()
    owners: dict[int, Owners] = field(default_factory=dict)
    event_time: dict = field(default_factory=dict)
    batches: int = 0
    epoch: int = -1

    def batch(self, rows, workers=3, split=False, seed=0, tries=1, table=None):
        """One batch, maybe tried several times; its output and metrics. `table` has the workers of
        some keys."""
        place = Owners(workers, seed, self._entries(table or {}, workers))
        before, moves = self.owners.get(self.epoch), {}
        if before != place:
            if before is not None and replace(before, table={}) == replace(place, table={}):
                listed = np.array(sorted({*before.table, *place.table}), np.uint64)
                moving = listed[before(listed) != place(listed)]
                moves = {"arriving": tuple(moving.tolist()), "superseded": self.epoch}
            self.epoch += 1
        owners = {**self.owners, self.epoch: place}
        staging = self.directory / "staging"
        staging.mkdir(exist_ok=True)
        store = Store(
            str(self.directory),
            self.segments,
            owners,
            self.epoch,
            self.batches,
            str(staging),
            Watermarks.after(self.event_time),
            count_keys=not split,
            **moves,
        )
        for _ in range(tries):
            reports = Reports.read(self._tried(store, rows, workers, split))
        self.segments = unexpired(segments_after(store, reports), store.watermarks.closed)
        event_time = event_time_after(self.job, store.watermarks, reports.work)
        self.event_time = json.loads(json.dumps(event_time))  # as a manifest would hand it on
        metrics = event_time_metrics(reports.work, reports.state, self.segments, self.event_time)
        live = {epoch for segment in self.segments for epoch in segment.epochs}
        self.owners = {e: p for e, p in owners.items() if e in live or e == self.epoch}
        self.batches += 1
        files = [r["output"]["file"] for r in reports.state if r["output"]]
        schema = self.job.output_schema()
        tables = [pq.read_table(staging / file).cast(schema) for file in files]
        return pa.concat_tables([schema.empty_table(), *tables]), metrics

    def _entries(self, table, workers):
        keys = [key for key, worker in table.items() if worker < workers]
        column = pa.record_batch({self.job.key[0]: pa.array(keys, self.job.rows.field(0).type)})
        prints = fingerprints_of(column, self.job.key).tolist()
        return {one: table[key] for one, key in zip(prints, keys, strict=True)}

    def _tried(self, store, rows, workers, split):
        prints = np.concatenate(
            [np.zeros(0, np.uint64), *(fingerprints_of(b, self.job.key) for b in rows.to_batches())]
        )
        rows = rows.add_column(0, FINGERPRINT, pa.array(prints.view(np.int64)))
        place = store.owners[store.epoch]
        told = []
        if split:  # rows are dealt out in turn, so that a key is on every worker
            dealt = _cut(rows, np.arange(rows.num_rows) % workers, workers)
            work = split_work(self.job, place, store)
            parts = [b for worker in range(workers) for b in _task(worker, work, dealt[worker])]
            rows = pa.Table.from_batches(parts, self.job.parts_schema())
            told = [file.read_text() for file in filed_reports(store, workers)]
            at, rows = rows.column(WORKER).to_numpy(), rows.drop_columns([WORKER])
        else:
            at = place(prints)
        work = owner_work(self.job, split, store)
        for owner, mine in enumerate(_cut(rows, at, workers)):
            (report,) = _task(owner, work, mine)
            told.append(report.column(0)[0].as_py())
        return told


def _cut(rows, at, workers):
    """The rows of each worker, in small record batches."""
    return [
        rows.filter(pa.array(at == worker)).combine_chunks().to_batches(max_chunksize=7)
        for worker in range(workers)
    ]


def _task(number, work, batches):
    """What a task of this number returns."""
    task = SimpleNamespace(partitionId=lambda: number)
    with patch.object(TaskContext, "get", lambda: task):
        return list(work(iter(batches)))
