"""Every other format that Spark has a batch writer for: `orc`, `json`, `csv`, `jdbc`, …"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenflow.engine.output import Output
from evenflow.model import InputError
from evenflow.spark.columns import quoted
from evenflow.spark.sinks.frames import frame_writer, output_frame
from evenflow.spark.sinks.protocol import InCheckpoint, Target
from evenflow.spark.sinks.tables import check_format, prepare_table

_LOG = logging.getLogger("evenflow.query")


@dataclass(frozen=True)
class SparkFormat(InCheckpoint):
    """Appends the output of each batch with `df.write.format(…).mode("append")`.

    Guarantee: every row at least once. A batch whose driver dies between delivery and commit is
    appended again.

    Parameters:
        format: Spark's name for it.
        path: where to, for formats that write files.
        table: the name of a table in a catalog, in place of a path.
        options: of the format's writer.
        partition_by: columns.
    """

    format: str
    path: str | None = None
    table: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Target) -> SparkFormat:
        check_format(target)
        prepare_table(target)
        if target.table is not None:
            _check_names(target, target.table)
        warn_at_least_once(target)
        return cls(
            target.format,
            target.spark_path,
            target.table,
            dict(target.options),
            target.partition_by,
        )

    def deliver(self, output: Output, session: Any) -> None:
        if self.table is None:
            options, columns = self.options, self.partition_by
            frame_writer(output, session, self.format, options, columns).save(self.path)
        else:
            # By position: of a table, Spark knows format and partitions, and wants them last.
            names = [quoted(name) for name in session.table(self.table).columns]
            rows = output_frame(output, session).select(*names)
            rows.write.options(**self.options).insertInto(self.table)


def warn_at_least_once(target: Target) -> None:
    """Say once, at the start, that rows may come twice."""
    _LOG.warning(
        "%s: format %r gets every row at least once: a batch whose driver dies before the commit is "
        "written again; delta, iceberg and parquet files get it exactly once",
        target.name or target.table or target.path or "query",
        target.format,
    )


def _check_names(target: Target, table: str) -> None:
    there = [name.lower() for name in target.spark.table(table).columns]
    given = [name.lower() for name in target.schema.names]
    if sorted(there) != sorted(given):
        raise InputError(
            f"toTable({table!r}): the table has the columns {', '.join(there)}, and the output has "
            f"{', '.join(given)}; give another table, or write to this one in foreachBatch"
        )
