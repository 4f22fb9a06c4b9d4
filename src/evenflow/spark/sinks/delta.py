"""The format "delta": a Delta table, each batch in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evenflow.engine.output import Output
from evenflow.spark.sinks.frames import frame_writer
from evenflow.spark.sinks.protocol import InCheckpoint, Target
from evenflow.spark.sinks.tables import check_format, needs_place, prepare_table


@dataclass(frozen=True)
class DeltaSink(InCheckpoint):
    """Appends the output of each batch to a Delta table.

    Guarantee: every batch is in the table exactly once. A write carries the query's id and the batch's
    number (Delta's `txnAppId` and `txnVersion`), which Delta keeps in the table's log: a batch that
    the table has is skipped, also if two drivers write it at the same moment.

    Parameters:
        path: of the table, unless it has a name.
        table: its name in a catalog, unless it has a path.
        options: of Delta's writer.
        partition_by: columns.
    """

    name: ClassVar[str] = "delta"
    temporary: ClassVar[bool] = False
    path: str | None = None
    table: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Target) -> DeltaSink:
        check_format(target)
        needs_place(target)
        prepare_table(target)
        return cls(target.spark_path, target.table, dict(target.options), target.partition_by)

    def deliver(self, output: Output, session: Any) -> None:
        options = {**self.options, "txnAppId": output.query, "txnVersion": str(output.batch)}
        writer = frame_writer(output, session, self.name, options, self.partition_by)
        if self.table is not None:
            writer.saveAsTable(self.table)
        else:
            writer.save(self.path)
