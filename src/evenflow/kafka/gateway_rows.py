"""Partition and headers of a batch's rows, computed by Spark's own expressions.

No row passes through Python. The bytes are those of `evenflow.ordering.headers`; tests compare them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_size import checked_value
from evenflow.kafka.gateway_state import KeyMove
from evenflow.kafka.gateway_table import Table
from evenflow.ordering import MESSAGE, batch_markers
from evenflow.ordering.headers import LANE_BITS, POSITION, VERSION
from evenflow.spark.columns import quoted
from evenflow.spark.native_routing import fingerprint_column, owner_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MARKERS = 0  #: the lane of markers
SORTED = 1  #: the lane of rows that the gateway sorts

# Makes the hash that chooses the gateway independent of the one that chooses partitions.
_LEVEL_1 = 0x5EED
# Whether a header was written by an earlier gateway or consumer.
_OURS = f"one.key = '{POSITION}' or startswith(one.key, '{POSITION}-')"
_ROW_OF_TASK = (1 << 33) - 1  # the part of `monotonically_increasing_id` that counts a task's rows


@dataclass(frozen=True)
class Rows:
    """Which columns of a DataFrame to send, and in which order.

    Parameters:
        key, value: columns of strings or bytes.
        order: columns by which a key's rows are ordered.
        headers: a column of headers to forward, as Spark's Kafka source has it; None for none.
        in_order: the rows already arrive in that order. The first of the two order columns is then the
            small number of a source, which one task reads from front to back; the second is an
            increasing number. A Kafka topic's `partition` and `offset` are such columns.
    """

    key: str = "key"
    value: str = "value"
    order: tuple[str, ...] = ()
    headers: str | None = None
    in_order: bool = False

    def selected(self, df: DataFrame) -> DataFrame:
        """The needed columns under our own names, and the fingerprints of the keys."""
        from pyspark.sql import functions as F

        def column(name: str) -> Column:
            return df[quoted(name)]

        key = _bytes(column(self.key))
        chosen = [
            key.alias("key"),
            _bytes(column(self.value)).alias("value"),
            fingerprint_column(key).alias("fingerprint"),
        ]
        if self.headers is not None:
            chosen.append(column(self.headers).alias("headers"))
        if self.in_order:
            lane, sequence = self.order
            chosen.append((column(lane).cast("bigint") + F.lit(SORTED + 1)).alias("lane"))
            number = column(sequence).cast("bigint")
            chosen.append(number.alias("sequence"))
            # Random bits for sampling. `rand` gets a new seed, and so new code, in every batch.
            chosen.append(F.xxhash64(number).alias("chance"))
        else:
            chosen += [column(name).alias(f"order{i}") for i, name in enumerate(self.order)]
        rows = df.select(*chosen)
        if self.headers is not None:
            # In a step of its own, because Spark does not compile `filter` and what stands beside it
            # into one loop; as text, because Python would rename `one`, and the code, in every query.
            rows = rows.withColumn("headers", F.expr(f"filter(headers, one -> not ({_OURS}))"))
        return rows


def _bytes(column: Column) -> Column:
    """Strings or bytes as a Spark string, which may hold any bytes: Spark copies a row's bytes when it
    reads them, but not its strings."""
    return column.cast("binary").cast("string")


def own_rows(rows: Selection, gateways: int, index: int, seed: int) -> Selection:
    """The rows whose keys this gateway owns, by a hash with another seed."""
    if gateways == 1:
        return rows
    return rows.where(f"{owner_sql('fingerprint', gateways, seed ^ _LEVEL_1)} = {index}")


def placed(rows: Selection, table: Table | None, partitions: int, seed: int) -> Selection:
    """Add `partition` and `set`: from the table if it has the key, else by hash.

    Rows without a key have no order, and are spread over all partitions.
    """
    columns = [name for name in rows.columns if name != "fingerprint"]
    anywhere = "sequence" if "sequence" in columns else "xxhash64(value)"
    partition, number = owner_sql("fingerprint", partitions, seed), "0L"
    if table is not None:
        rows = table.found(rows)
        partition = f"coalesce(entry.partition, {partition})"
        number = f"coalesce(entry.`set`, {number})"
    partition = f"if(key is null, int(pmod({anywhere}, {partitions})), {partition})"
    return rows.select(columns, partition=partition, set=number)


def in_sequence(rows: DataFrame, partitions: int, orders: int) -> DataFrame:
    """Shuffle placed rows to one task per partition, sort them, and number them as `sequence`.

    The order is total, so that a batch that is rerun has every row at the same position: rows that
    `order` does not distinguish are sorted by content.
    """
    from pyspark.sql import functions as F

    by = [f"order{i}" for i in range(orders)]
    rows = rows.repartitionById(partitions, F.col("partition"))
    rows = rows.sortWithinPartitions(*by, "key", "value")
    number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_OF_TASK))
    return rows.withColumn("sequence", number).withColumn("lane", F.lit(SORTED).cast("bigint"))


def with_headers(rows: Selection, writer: int, epoch: int, limit: int | None = None) -> Selection:
    """The columns for Spark's sink: key, value, partition, headers; and `counted`, if there is one.

    A record above the limit, in bytes, ends its task before any later one of its lane is sent.
    """
    # Bytes rather than numbers, which would be compiled in: so all gateways share their code.
    sender = bytes([VERSION, MESSAGE]) + writer.to_bytes(8 - LANE_BITS // 8, "big")
    lane = f"substring(binary(lane), {9 - LANE_BITS // 8}, {LANE_BITS // 8})"
    during = struct.pack(">Q", epoch)
    # A number cast to bytes is big-endian.
    position = (
        f"concat(X'{sender.hex()}', {lane}, X'{during.hex()}', binary(sequence), binary(`set`))"
    )
    own = f"array(struct('{POSITION}' as key, {position} as value))"
    if "headers" in rows.columns:
        own = f"if(headers is null, {own}, concat(headers, {own}))"
    counted = [name for name in rows.columns if name == "counted"]
    value = "value" if limit is None else checked_value(limit, "headers" in rows.columns)
    return rows.select(["key", "partition", *counted], value=value, headers=own)


def marker_rows(
    session: SparkSession, moves: Sequence[KeyMove], writer: int, epoch: int, partitions: int
) -> DataFrame:
    """The markers of a batch's moves, in one task, in the order to write them."""
    from pyspark.sql import functions as F

    both = batch_markers(
        lane_of(writer, MARKERS),
        epoch,
        np.array([move.source for move in moves], np.int32),
        np.array([move.target for move in moves], np.int32),
        np.array([move.previous for move in moves], np.uint64),
        partitions,
    )
    n = len(both.partition)
    keys = pa.array([move.key for move in moves], pa.binary())
    table = pa.table(
        {
            "i": pa.array(range(n), pa.int32()),
            "key": keys.take(pa.array(both.move)),
            "partition": pa.array(both.partition),
            "headers": both.headers,
        }
    )
    rows = session.createDataFrame(table).coalesce(1).sortWithinPartitions("i")
    return rows.select("key", F.lit(None).cast("binary").alias("value"), "partition", "headers")


def lane_of(writer: int, lane: int) -> int:
    """The writer number of records from one source of a gateway.

    Example:
        >>> lane_of(3, 2) - lane_of(3, 1)
        1
    """
    return (writer << LANE_BITS) + lane
