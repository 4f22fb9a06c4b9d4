"""The rows of a batch on their way to Kafka: partition and headers, by Spark's own expressions.

No row visits Python. The bytes are those of `evenflow.ordering.headers`; tests compare them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evenflow.engine.job import quoted
from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_state import KeyMove
from evenflow.kafka.gateway_table import Table, mixed
from evenflow.model.owners import salt
from evenflow.ordering import MESSAGE, batch_markers
from evenflow.ordering.headers import POSITION, VERSION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LANE_BITS = 24  #: of a writer's number: which source within the gateway
MARKERS = 0  #: the lane of markers
SORTED = 1  #: the lane of rows that the gateway has sorted

_LEVEL_1 = (
    0x5EED  #: sets the hash that chooses the gateway apart from the one that chooses partitions
)
_FROM_ZERO = -365884300664092260  # makes Spark's xxhash64, which begins with 42, begin with 0
_NO_KEY = -5196783011329398166  # the fingerprint of null
# Whether a header is of an earlier gateway or consumer.
_OURS = f"one.key = '{POSITION}' or startswith(one.key, '{POSITION}-')"
_ROW_OF_TASK = (1 << 33) - 1  # the part of `monotonically_increasing_id` that counts a task's rows


@dataclass(frozen=True)
class Rows:
    """What of a DataFrame is to be sent, and in which order.

    Parameters:
        key, value: columns, of text or bytes.
        order: columns by which a key's rows are ordered.
        headers: a column of headers to send along, as Spark's Kafka source has it; None for none.
        in_order: the rows come in that order as they are. The first of the two order columns is then a
            small number that names a source, each read by one task from front to back; the second is
            a number that grows. So it is with a Kafka topic's `partition` and `offset`.
    """

    key: str = "key"
    value: str = "value"
    order: tuple[str, ...] = ()
    headers: str | None = None
    in_order: bool = False

    def selected(self, df: DataFrame) -> DataFrame:
        """Only what is needed, under names of our own."""
        from pyspark.sql import functions as F

        def column(name: str) -> Column:
            return df[quoted(name)]

        chosen = [
            _bytes(column(self.key)).alias("key"),
            _bytes(column(self.value)).alias("value"),
        ]
        if self.headers is not None:
            # Here, because `filter` keeps Spark from compiling all that stands beside it into one loop;
            # as text, because Python would name `one` anew in every query, and the code with it.
            theirs = f"filter({quoted(self.headers)}, one -> not ({_OURS}))"
            chosen.append(F.expr(theirs).alias("headers"))
        if self.in_order:
            lane, sequence = self.order
            chosen.append((column(lane).cast("bigint") + F.lit(SORTED + 1)).alias("lane"))
            number = column(sequence).cast("bigint")
            chosen.append(number.alias("sequence"))
            # By chance, for samples. Of `rand`, a stream's every batch has another one, in new code.
            chosen.append(F.xxhash64(number).alias("chance"))
        else:
            chosen += [column(name).alias(f"order{i}") for i, name in enumerate(self.order)]
        return df.select(*chosen)


def _bytes(column: Column) -> Column:
    """Text or bytes, as Spark's text, which may be any bytes: what Spark reads of a row as bytes it
    copies, and text it does not."""
    return column.cast("binary").cast("string")


def own_rows(rows: Selection, gateways: int, index: int, seed: int) -> Selection:
    """The rows whose keys this gateway owns: level 1 routing, by another hash."""
    if gateways == 1:
        return rows
    return rows.where(f"{_home(_FINGERPRINT, gateways, seed ^ _LEVEL_1)} = {index}")


def placed(rows: Selection, table: Table | None, partitions: int, seed: int) -> Selection:
    """The rows with `partition` and `set`: by the table where it has the key, else by hash.

    Rows without a key have no order, and go to all partitions in turn.
    """
    columns = rows.columns
    anywhere = "sequence" if "sequence" in columns else "xxhash64(value)"
    partition, number = _home("fingerprint", partitions, seed), "0L"
    rows = rows.select(columns, fingerprint=_FINGERPRINT)
    if table is not None:
        rows = table.found(rows)
        partition = f"coalesce(entry.partition, {partition})"
        number = f"coalesce(entry.`set`, {number})"
    partition = f"if(key is null, int(pmod({anywhere}, {partitions})), {partition})"
    return rows.select(columns, partition=partition, set=number)


# The fingerprint of the column `key`: the number of `kernels.fingerprints`, as everywhere.
_FINGERPRINT = f"if(key is null, {_NO_KEY}L, xxhash64({_FROM_ZERO}L, key))"


def _home(fingerprint: str, partitions: int, seed: int) -> str:
    """The partition of a key by hash: that of the scheme `key`, as everywhere.

    Written for arithmetic that wraps around (`Selection`): what `native_routing` has for sessions in
    Spark's ANSI mode is a hundred times as long, and is analysed anew in every batch.
    """
    upper = f"shiftrightunsigned({mixed(fingerprint, int(salt(seed)))}, 32) * {partitions}L"
    return f"int(shiftrightunsigned({upper}, 32))"


def in_sequence(rows: DataFrame, partitions: int, orders: int) -> DataFrame:
    """Placed rows, brought to one task a partition and sorted, with their numbers as `sequence`.

    The order is total, so that a batch that is run again has every row at its place again: rows that
    `order` does not tell apart are sorted by their content.
    """
    from pyspark.sql import functions as F

    by = [f"order{i}" for i in range(orders)]
    rows = rows.repartitionById(partitions, F.col("partition"))
    rows = rows.sortWithinPartitions(*by, "key", "value")
    number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_OF_TASK))
    return rows.withColumn("sequence", number).withColumn("lane", F.lit(SORTED).cast("bigint"))


def with_headers(rows: Selection, writer: int, epoch: int) -> Selection:
    """What Spark's sink is given: key, value, partition, headers; and the column `counted`, if any."""
    # Bytes, and not numbers, which would be compiled in: so all gateways share their code.
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
    return rows.select(["key", "value", "partition", *counted], headers=own)


def marker_rows(
    session: SparkSession, moves: Sequence[KeyMove], writer: int, epoch: int, partitions: int
) -> DataFrame:
    """The markers of a batch's moves, in the order in which one task must write them."""
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
    """The number that records of one source of a gateway carry as their writer.

    Example:
        >>> lane_of(3, 2) - lane_of(3, 1)
        1
    """
    return (writer << LANE_BITS) + lane


__all__ = [
    "LANE_BITS",
    "Rows",
    "in_sequence",
    "lane_of",
    "marker_rows",
    "own_rows",
    "placed",
    "with_headers",
]
