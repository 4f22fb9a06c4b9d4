"""A program as users write it, with every name of the public surface. mypy checks it; it is not run."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenflow as ef


class Largest(ef.Operator):
    """The largest value of each key."""

    def columns(self) -> list[str]:
        return ["ms"]

    def state_schema(self, rows: Any) -> Any:
        return pa.schema([("largest", pa.int64())])


def score(key: object, rows: dict[str, Any], state: dict[str, Any] | None) -> dict[str, Any]:
    return {"seen": len(rows["ms"]) + (state["seen"] if state else 0)}


def batch(clicks: DataFrame) -> list[str]:
    keyed = ef.keyed(clicks, "page", F.upper("country").alias("land"))
    keyed = ef.keyed(clicks, ["page", "country"])
    balanced: ef.Keyed = keyed.balance("auto", partitions=24, seed=7)
    balanced = keyed.balance("d-choices", epsilon=0.01)
    balanced = keyed.balance(ef.grouping.DChoices(epsilon=0.01))
    balanced = (
        keyed.balance(ef.grouping.make("greedy-d:d=3"), 8).balance("table").replan("mixed", 0.1)
    )
    result = balanced.agg(
        hits=ef.count(),
        ms=ef.mean("ms"),
        average=ef.avg(F.col("ms") / 1000),
        total=ef.sum("ms"),
        least=ef.min("ms"),
        most=ef.max("ms"),
        users=ef.distinct("user", approximate=True),
        spread=ef.quantiles("ms", [0.5, 0.99]),
        favourites=ef.top_k("page", 3),
    )
    result.where("hits > 3").write.parquet("hits")
    result.show()
    print(balanced.plan().reason, ef.__version__)
    windows: DataFrame = balanced.window(F.col("at"), "10 minutes", "5 minutes").agg(n=ef.count())
    own = balanced.apply(Largest()).select("page")
    per_key = balanced.apply(ef.PerKey(score, state={"seen": "int64"}, columns=["ms"]))
    joined = balanced.intervalJoin(keyed, time="at", within="1 minute", prefixes=("a_", "b_"))
    return [*windows.columns, *per_key.columns, *joined.columns, *own.columns]


def stream(spark: SparkSession, clicks: DataFrame) -> DataFrame:
    result: ef.BalancedDataFrame = (
        ef.keyed(clicks, "page")
        .withWatermark("at", "10 minutes")
        .window("at", "1 hour", startTime="15 minutes")
        .agg(hits=ef.count())
    )
    writer: ef.StreamWriter = result.writeStream.format("parquet").outputMode("append")
    query: ef.StreamingQuery = (
        writer.option("checkpointLocation", "ckpt")
        .options(keepVersions=3)
        .trigger(processingTime="5 seconds")
        .queryName("hits")
        .onBatch(lambda metrics: print(metrics["rows"]))
        .start("hits")
    )
    with query:
        query.scale(12)
        query.processAllAvailable()
        finished: bool = query.awaitTermination(10)
    if query.isActive and not finished:
        query.stop(timeout=30)
    failed = query.exception()
    if failed is not None:
        raise failed
    print(query.name, query.id, query.runId, query.status["message"], query.lastProgress)
    print([progress.batchId for progress in query.recentProgress])
    print(query.metrics()[-1]["max_over_average"], ef.read_metrics("ckpt")[0]["rows"])
    print(ef.read_output(spark, "hits").where("batch > 3").count())
    tables = result.writeStream.partitionBy("page").options(mergeSchema=True)
    with tables.toTable("lake.web.hits", "iceberg", checkpointLocation="ckpt") as table:
        table.processAllAvailable()
    rows = result.writeStream.foreach(print).option("checkpointLocation", "ckpt")
    rows.start(partitionBy=["page"]).stop()
    return query.metricsDF()


def ordered(messages: DataFrame, write: Any) -> ef.StreamingQuery:
    keyed = ef.keyed(messages, "key").inOrder()
    return keyed.apply(Largest()).writeStream.foreachBatch(write).start(checkpointLocation="c")


def check_own_scheme() -> None:
    ef.checks.run_grouping_checks(ef.grouping.KeyGrouping()).raise_if_failed()


def main(spark: SparkSession) -> None:
    try:
        batch(spark.read.parquet("clicks"))
    except ef.InputError as error:
        print(error)
    except ef.QueryFailed as error:
        print(error)
    except ef.EvenflowError as error:
        print(error)
