"""A program without an engine: a sum per key, in one segment. All that surrounds a batch is real."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.engine.loop import Outcome, Steps
from evenflow.engine.output import Output
from evenflow.model.owners import Owners
from evenflow.model.plan import Plan
from evenflow.spark.sinks.parquet import ParquetSink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.journal import fixed_plan
from evenflow.state.manifest import Manifest
from evenflow.state.segments import FINGERPRINT, VERSION, Segment, read_segment, write_segment
from evenflow.state.source import Source
from evenflow_lab.checking.simulation.spark_habits import Tasks
from evenflow_lab.checking.simulation.world import World

IDENTITY: dict[str, Any] = {"key": {"k": "string"}}
_SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("total", pa.int64())])


class Ledger:
    """Counts rows and sums values per key, with the fewest files that a batch can have."""

    name: ClassVar[None] = None

    def __init__(self, world: World, sink: ParquetSink, tasks: Tasks) -> None:
        self._world, self._sink, self._tasks = world, sink, tasks

    def run(
        self,
        checkpoint: Checkpoint,
        last: Manifest | None,
        rows: Any,
        batch: int,
        steps: Steps,
        source: Source,
    ) -> Outcome:
        storage, staging = checkpoint.storage, self._sink.staging(checkpoint.storage)
        plan = fixed_plan(storage, batch, Plan("key", 1))

        def work() -> tuple[Segment, str]:
            known = {} if last is None else known_in(checkpoint, last)
            touched = {}
            for key, _, value in rows:
                n, total = known.get(key, (0, 0))
                known[key] = touched[key] = (n + 1, total + value)
            name = f"staging/{batch:010d}-00000-{self._world.uuid4().hex}.parquet"
            content = json.dumps([(key, *known[key]) for key in touched]).encode()
            staging.put(name, [content])
            return write_segment(storage, _table(known, batch), 0, [0]), name

        segment, name = self._tasks.run(work)
        self._sink.deliver(
            Output(batch, staging, [name], _SCHEMA, checkpoint.query, source.origin(batch)), None
        )
        manifest = Manifest(
            batch=batch,
            plan=plan.to_dict(),
            owners={0: Owners(1).to_json()},
            segments=[segment],
            output=({"file": name, "rows": 1},),
            metrics=_metrics(batch, len(rows)),
        )
        return Outcome(manifest, [(staging, name)])


def known_in(checkpoint: Checkpoint, manifest: Manifest) -> dict[Any, tuple[int, int]]:
    """Key → (rows, sum) in the segments of a manifest."""
    known = {}
    for segment in manifest.segments:
        table = read_segment(checkpoint.storage, segment)
        columns = (table.column(name).to_pylist() for name in ("k0", "n", "total"))
        known.update({key: (n, total) for key, n, total in zip(*columns, strict=True)})
    return known


def _table(known: dict[Any, tuple[int, int]], batch: int) -> pa.Table:
    # Fingerprints of no meaning: nobody looks keys up here.
    return pa.table(
        {
            FINGERPRINT: pa.array(range(len(known)), pa.int64()),
            VERSION: pa.array([batch] * len(known), pa.int64()),
            "k0": pa.array(list(known), pa.string()),
            "n": pa.array([n for n, _ in known.values()], pa.int64()),
            "total": pa.array([total for _, total in known.values()], pa.int64()),
        }
    )


def _metrics(batch: int, rows: int) -> dict[str, Any]:
    return {"batch": batch, "rows": rows, "scheme": "key", "max_over_average": 1.0}
