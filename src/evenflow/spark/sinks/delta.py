"""The format "delta": a Delta table, each batch in one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from evenflow.engine.output import Output
from evenflow.spark.columns import quoted, quoted_table
from evenflow.spark.sinks.frames import frame_writer
from evenflow.spark.sinks.protocol import InCheckpoint, Target, another_history
from evenflow.spark.sinks.tables import check_format, needs_place, prepare_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METADATA = "userMetadata"  # of a commit, an option of Delta's writer
_SUBSTITUTE = "spark.sql.variable.substitute"
_COMMITS = 1000  # of the table's history, in which the query's newest batch is looked for


@dataclass(frozen=True)
class DeltaSink(InCheckpoint):
    """Appends the output of each batch to a Delta table.

    Guarantee: every batch is in the table exactly once. A write carries the query's id and the batch's
    number (Delta's `txnAppId` and `txnVersion`), which Delta keeps in the table's log: a batch that
    the table has is skipped, also if two drivers write it at the same moment. Before its first batch, a
    driver looks into the table's history: if that has this batch made of other rows, or a later one,
    the checkpoint was restored from a backup, and the query is refused. It cannot tell where you give
    the option `userMetadata` yourself.

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
    looked: list[str] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def of(cls, target: Target) -> DeltaSink:
        check_format(target)
        needs_place(target)
        prepare_table(target)
        return cls(target.spark_path, target.table, dict(target.options), target.partition_by)

    def deliver(self, output: Output, session: Any) -> None:
        options = {**self.options, "txnAppId": output.query, "txnVersion": str(output.batch)}
        if _METADATA.lower() not in map(str.lower, self.options):
            if not self.looked:
                self._check_history(output, session)
                self.looked.append(output.query)
            mark = {"query": output.query, "batch": output.batch, "origin": output.origin}
            options[_METADATA] = json.dumps({"evenflow": mark})
        writer = frame_writer(output, session, self.name, options, self.partition_by)
        if self.table is not None:
            writer.saveAsTable(self.table)
        else:
            writer.save(self.path)

    def _check_history(self, output: Output, session: SparkSession) -> None:
        place = quoted_table(self.table) if self.table else f"delta.{quoted(str(self.path))}"
        for mark in _marks(session, place):
            if mark["query"] == output.query:
                same = (mark["batch"], mark["origin"]) == (output.batch, output.origin)
                if mark["batch"] >= output.batch and not same:
                    raise another_history(str(self.table or self.path), output.batch)
                return


def _marks(session: SparkSession, place: str) -> list[dict[str, Any]]:
    """Which batches the newest commits of a table have brought, newest first; none without a table."""
    from pyspark.errors import AnalysisException

    before = session.conf.get(_SUBSTITUTE, "true") or "true"
    session.conf.set(_SUBSTITUTE, "false")  # a name is a name, whatever it looks like
    try:
        history = session.sql(f"DESCRIBE HISTORY {place} LIMIT {_COMMITS}")
        texts = [row[_METADATA] for row in history.select(_METADATA).collect()]
    except AnalysisException:
        return []  # there is no table yet
    finally:
        session.conf.set(_SUBSTITUTE, before)
    return [json.loads(text)["evenflow"] for text in texts if text and '"evenflow"' in text]
