"""TPC-H Q5 as a continuous query over a sliding window, made of a window join and a windowed sum.

    python examples/tpch_q5.py --scale 0.01

Orders and line items are streams; customers, suppliers, nations and regions are fixed tables. An order
meets its line items in a window join, which no scheme may split; the pairs get their nations from the
fixed tables by Spark's own join; and the revenue of each nation is summed up in sliding windows. The
tables are those of `tpchgen-cli`, with foreign keys drawn anew: Zipf-distributed (z = 0.8), and the hot
keys are others in every interval. At the end the result is compared with Spark's own batch query.

The paper of the routing tables (§V) runs this query on its cluster; there all joins are of streams.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import evenflow as ef

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

TABLES = ("customer", "orders", "lineitem", "supplier", "nation", "region")
MINUTE = 60_000_000
BEGIN = 1_704_067_200_000_000  # 2024-01-01, in microseconds since 1970
SKEW = 0.8
REGION = "ASIA"
WITHIN = "10 minutes"  # a line item comes at most so long after its order
DELAY = "5 minutes"
WINDOW = ("15 minutes", "5 minutes")
PAIRS = (
    "id long, left_ts timestamp, left_customer long, right_ts timestamp, right_supplier long, "
    "right_revenue decimal(20,4), batch int"
)


@dataclass(frozen=True)
class Streams:
    """Where the rows lie, a file an interval, and the fixed tables."""

    orders: Path
    items: Path
    fixed: Path


def make_streams(
    directory: Path, scale: float, intervals: int = 6, seed: int = 0, files: int = 1
) -> Streams:
    """TPC-H tables with skewed foreign keys and event times: `intervals` of ten minutes each, in so
    many files."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    fixed = directory / "tables"
    command = [program, "parquet", "-s", scale, "-T", ",".join(TABLES), "-o", fixed]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    tables = {name: pq.read_table(fixed / f"{name}.parquet") for name in TABLES}
    rng = np.random.default_rng(seed)
    streams = Streams(directory / "orders", directory / "items", fixed)
    streams.orders.mkdir()
    streams.items.mkdir()
    cuts = [
        np.linspace(0, tables[name].num_rows, intervals + 1).astype(int)
        for name in ("orders", "lineitem")
    ]
    for interval in range(intervals):
        begin = BEGIN + interval * 10 * MINUTE
        lots = [slice(cut[interval], cut[interval + 1]) for cut in cuts]
        ids = tables["orders"]["o_orderkey"].to_numpy()[lots[0]]
        placed = np.sort(begin + rng.integers(0, 10 * MINUTE, len(ids)))
        customers = tables["customer"]["c_custkey"].to_numpy()
        orders = {
            "id": ids,
            "ts": _times(placed),
            "customer": rng.permutation(customers)[zipf(rng, len(customers), len(ids))],
        }
        rows = tables["lineitem"].slice(lots[1].start, lots[1].stop - lots[1].start)
        suppliers = tables["supplier"]["s_suppkey"].to_numpy()
        chosen = rng.permutation(len(ids))[zipf(rng, len(ids), rows.num_rows)]
        shipped = placed[chosen] + rng.integers(0, 10 * MINUTE, rows.num_rows)
        order = np.argsort(shipped, kind="stable")
        items = {
            "order": ids[chosen][order],
            "ts": _times(shipped[order]),
            "supplier": rng.permutation(suppliers)[zipf(rng, len(suppliers), rows.num_rows)],
            "price": rows["l_extendedprice"],
            "discount": rows["l_discount"],
        }
        for folder, stream in ((streams.orders, orders), (streams.items, items)):
            table = pa.table(stream)
            ends = np.linspace(0, table.num_rows, files + 1).astype(int)
            for part in range(files):
                number = interval * files + part
                file = folder / f"{number:04d}.parquet"
                pq.write_table(table.slice(ends[part], ends[part + 1] - ends[part]), file)
                os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes the oldest file first
    return streams


def zipf(rng: np.random.Generator, keys: int, n: int) -> np.ndarray:
    """Ranks 0 … keys − 1, Zipf-distributed."""
    weights = np.arange(1, keys + 1) ** -SKEW
    return rng.choice(keys, n, p=weights / weights.sum())


def _times(moments: np.ndarray) -> pa.Array:
    return pa.array(moments).cast(pa.timestamp("us", "UTC"))


def with_revenue(items: DataFrame) -> DataFrame:
    """Line items with what they bring in."""
    return items.selectExpr(
        "order", "ts", "supplier", "CAST(price * (1 - discount) AS decimal(20,4)) AS revenue"
    )


def with_nation(spark: SparkSession, pairs: DataFrame, fixed: Path) -> DataFrame:
    """The pairs whose customer and supplier are of one nation of the region, with its name."""
    table = {name: spark.read.parquet(str(fixed / f"{name}.parquet")) for name in TABLES}
    nations = table["nation"].join(
        table["region"].where(f"r_name = '{REGION}'"), on=[_equal("n_regionkey", "r_regionkey")]
    )
    return (
        pairs.join(table["customer"], _equal("left_customer", "c_custkey"))
        .join(table["supplier"], _equal("right_supplier", "s_suppkey"))
        .where("c_nationkey = s_nationkey")
        .join(nations, _equal("s_nationkey", "n_nationkey"))
        .selectExpr("n_name AS nation", "right_ts AS ts", "right_revenue AS revenue")
    )


def _equal(a: str, b: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(a) == F.col(b)


def stream(spark: SparkSession, path: Path, schema: StructType | str, files: int) -> DataFrame:
    """So many files per micro-batch."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(path))


def orders_with_items(
    spark: SparkSession,
    streams: Streams,
    balanced: Callable[[ef.Keyed], ef.Keyed],
    where: Callable[[pa.Table], pa.Array] | None = None,
) -> ef.BalancedDataFrame:
    """Every order with its line items, in an interval join; one file of each stream per micro-batch."""
    schemas = (spark.read.parquet(str(p)).schema for p in (streams.orders, streams.items))
    orders, items = (
        stream(spark, path, schema, 1).withWatermark("ts", DELAY)
        for path, schema in zip((streams.orders, streams.items), schemas, strict=True)
    )
    return balanced(ef.keyed(orders, "id")).intervalJoin(
        ef.keyed(with_revenue(items), "order"), time="ts", within=WITHIN, where=where
    )


def revenue_by_nation(
    spark: SparkSession, pairs: Path, fixed: Path, partitions: int
) -> ef.BalancedDataFrame:
    """The revenue of every nation and window, from the output of the join."""
    found = stream(spark, pairs, PAIRS, 2 * partitions)
    return (
        ef.keyed(with_nation(spark, found, fixed), "nation")
        .withWatermark("ts", "20 minutes")
        .window("ts", *WINDOW)
        .balance("auto", partitions)
        .agg(revenue=ef.sum("revenue"))
    )


def run_continuously(
    spark: SparkSession, streams: Streams, directory: Path, partitions: int = 4
) -> pa.Table:
    """The query as two streaming queries, the second on the first one's output; the revenue of every
    nation and window, as it was last written."""
    pairs = orders_with_items(spark, streams, lambda keyed: keyed.balance("key", partitions))
    joined = (
        pairs.writeStream.option("checkpointLocation", directory / "join")
        .trigger(availableNow=True)
        .start(directory / "pairs")
    )
    joined.awaitTermination()
    newest: dict[tuple[str, str], dict[str, Any]] = {}

    def keep(rows: DataFrame, batch: int) -> None:
        for row in rows.toArrow().to_pylist():
            newest[row["nation"], str(row["window"])] = row

    revenue = (
        revenue_by_nation(spark, directory / "pairs", streams.fixed, partitions)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", directory / "revenue")
        .trigger(availableNow=True)
        .start()
    )
    revenue.awaitTermination()
    late = sum(m["late_rows"] for query in (joined, revenue) for m in query.metrics())
    if late:
        print(f"{late} rows came too late and were dropped", file=sys.stderr)
    return pa.Table.from_pylist(list(newest.values()))


def run_at_once(spark: SparkSession, streams: Streams) -> pa.Table:
    """The same by Spark's own batch query."""
    from pyspark.sql import functions as F

    orders = spark.read.parquet(str(streams.orders)).selectExpr(
        "id", "ts AS left_ts", "customer AS left_customer"
    )
    items = with_revenue(spark.read.parquet(str(streams.items))).selectExpr(
        "order", "ts AS right_ts", "supplier AS right_supplier", "revenue AS right_revenue"
    )
    pairs = orders.join(items, _equal("id", "order")).where(
        f"abs(unix_micros(left_ts) - unix_micros(right_ts)) <= {10 * MINUTE}"
    )
    rows = with_nation(spark, pairs, streams.fixed)
    windows = rows.groupBy("nation", F.window("ts", *WINDOW))
    return windows.agg(F.sum("revenue").alias("revenue")).toArrow()


def answers(table: pa.Table) -> list[tuple[str, str, Decimal]]:
    """(nation, end of the window, revenue), in order."""
    rows = table.to_pylist()
    return sorted((r["nation"], r["window"]["end"].isoformat()[:19], r["revenue"]) for r in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.01, help="TPC-H's scale factor")
    parser.add_argument("--intervals", type=int, default=6, help="of ten minutes each")
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    from evenflow.spark.session import local_session

    spark = local_session("local[*]", "TPC-H Q5", **{"spark.sql.session.timeZone": "UTC"})
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        streams = make_streams(directory, options.scale, options.intervals)
        found = answers(run_continuously(spark, streams, directory, options.partitions))
        expected = answers(run_at_once(spark, streams))
    for nation, end, revenue in found:
        print(f"{nation:<12} until {end}  {revenue:>18,}")
    print("the same as Spark's batch query:", "yes" if found == expected else "NO")
    return 0 if found == expected else 1


if __name__ == "__main__":
    sys.exit(main())
