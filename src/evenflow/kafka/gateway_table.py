"""The keys that have moved, as a hash table that Spark's compiled code reads.

A broadcast join would need a job of its own before each batch, and take longer per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_state import Route
from evenflow.kernels.fingerprints import fingerprint
from evenflow.kernels.perfect_hash import perfect_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Table:
    """Looks up whether a key is in the table, and its route.

    Parameters:
        seed: of the hash.
        places: slots of the table.
        buckets: of the hash.
        rows: one row of two arrays. Expressions read them through subqueries, so that Spark neither
            compiles their content into its code nor prints it with every plan.
    """

    seed: int
    places: int
    buckets: int
    rows: DataFrame

    @classmethod
    def of(cls, session: SparkSession, routes: Sequence[Route]) -> Table:
        """A table of routes with distinct fingerprints."""
        hashed = perfect_hash(fingerprint(pa.array([route.key for route in routes], pa.binary())))
        entries: list[dict[str, Any] | None] = [None] * hashed.places
        for route, place in zip(routes, hashed.place.tolist(), strict=True):
            entries[place] = {"key": route.key, "partition": route.partition, "set": route.set}
        entry = pa.struct({"key": pa.binary(), "partition": pa.int32(), "set": pa.int64()})
        arrays = pa.table(
            {
                "shifts": pa.array([hashed.shift], pa.list_(pa.int32())),
                "entries": pa.array([entries], pa.list_(entry)),
            }
        )
        rows = session.createDataFrame(arrays).selectExpr("shifts", f"cast(entries as {_ENTRIES})")
        return cls(hashed.seed, hashed.places, len(hashed.shift), rows)

    def found(self, rows: Selection) -> Selection:
        """Add a column `entry` with the `partition` and `set` of each `key`, null if the table does not
        have it. The rows have a column `fingerprint`."""
        columns = rows.columns
        bucket = f"int(shiftrightunsigned(word, {65 - self.buckets.bit_length()}))"
        shift = f"get((select shifts from {{table}}), {bucket})"
        last = f"{self.places - 1}L"
        stride = f"((shiftrightunsigned(word, 32) | 1L) & {last})"
        place = f"int(((word & {last}) + {shift} * {stride}) & {last})"
        entry = f"get((select entries from {{table}}), {place})"
        rows = rows.naming(table=self.rows)
        rows = rows.select(columns, word=f"xxhash64({self.seed}L, fingerprint)")
        rows = rows.select(columns, found=entry)
        return rows.select(columns, entry="if(found.key = key, found, null)")


_ENTRIES = "array<struct<key: string, partition: int, `set`: bigint>>"
