"""A program as users write it, with every name of the public surface. mypy checks it; it is not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import LongType, StructType

import evenflow as ef


class Largest(ef.Operator):
    """The largest value of each key."""

    def columns(self) -> list[str]:
        return ["ms"]

    def state_schema(self, rows: Any) -> Any:
        return pa.schema([("largest", pa.int64())])


def score(key: object, rows: dict[str, Any], state: dict[str, Any] | None) -> dict[str, Any]:
    return {"seen": len(rows["ms"]) + (state["seen"] if state else 0)}


def of_group(key: tuple[Any, ...], rows: Any) -> Any:
    return rows


def groups(clicks: DataFrame) -> DataFrame:
    keyed = ef.keyed(clicks, "page").orderBy(F.desc("at"))
    scored: DataFrame = keyed.applyInPandas(of_group, "page string, ms int")
    scored = keyed.applyInArrow(of_group, pa.schema([("page", pa.string())]))
    scored = (
        ef.keyed(clicks, "page")
        .cogroup(ef.keyed(scored, "page"))
        .applyInPandas(lambda left, right: left, clicks.schema)
    )
    return ef.keyed(scored, "page").repartition(8, split=True)


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
        everyone=ef.collect_list("user"),
        someone=ef.collect_set(F.lower("user")),
        about=ef.approx_count_distinct("user", rsd=0.01),
        exactly=ef.count_distinct("user"),
        camel=ef.countDistinct("user"),
        half=ef.percentile_approx("ms", 0.5),
        tails=ef.approx_percentile("ms", [0.01, 0.99], accuracy=100),
        opening=ef.first("user", ignorenulls=True),
        closing=ef.last("user"),
        slowest=ef.max_by(F.struct("user", "ms"), "ms"),
        fastest=ef.min_by("user", F.col("ms")),
        deviation=ef.stddev("ms"),
        deviation_again=ef.stddev_samp("ms"),
        deviation_short=ef.std("ms"),
        deviation_of_all=ef.stddev_pop("ms"),
        squared=ef.variance("ms"),
        squared_again=ef.var_samp("ms"),
        squared_of_all=ef.var_pop("ms"),
        slow=ef.count_if(F.col("ms") > 100),
        all_slow=ef.bool_and(F.col("ms") > 100),
        any_slow=ef.bool_or(F.col("ms") > 100),
        all_slow_too=ef.every(F.col("ms") > 100),
        any_slow_too=ef.some(F.col("ms") > 100),
        regular=ef.mode("user", deterministic=True),
    )
    result.where("hits > 3").write.parquet("hits")
    result.show()
    print(balanced.plan().reason, ef.__version__)
    print(
        ef.diagnose(clicks, "page", F.col("user"), partitions=8).answer,
        ef.diagnose("log").to_dict(),
    )
    windows: DataFrame = balanced.window(F.col("at"), "10 minutes", "5 minutes").agg(n=ef.count())
    sessions = balanced.sessionWindow("at", "30 minutes").agg(n=ef.count())
    sessions = keyed.sessionWindow("at", F.col("gap")).agg(n=ef.count())
    sessions = ef.keyed(clicks, "page", F.session_window("at", "1 hour")).agg(n=ef.count())
    once: ef.BalancedDataFrame = balanced.dropDuplicates()
    once.select(*sessions.columns).show()
    own = balanced.apply(Largest()).select("page")
    per_key = balanced.apply(ef.PerKey(score, state={"seen": "int64"}, columns=["ms"]))
    joined = balanced.intervalJoin(keyed, time="at", within="1 minute", prefixes=("a_", "b_"))
    joined = balanced.intervalJoin(keyed, time="at", within="1 minute", how="left")
    plain: DataFrame = keyed.join(clicks, ["page", "country"], "left_anti").join(clicks, "page")
    plain = keyed.join(ef.keyed(clicks, "url", "land"), how="full")
    return [*windows.columns, *per_key.columns, *joined.columns, *own.columns, *plain.columns]


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
    print(ef.read_state(spark, "ckpt", batch=3).where("_batch > 1").count())
    print(ef.read_latest(spark, "hits", "page", F.col("window")).where("hits > 3").count())
    once = ef.keyed(clicks, "id").withWatermark("at", "1 hour").dropDuplicatesWithinWatermark()
    once.writeStream.option("rowsPerFile", 100_000).start("once", checkpointLocation="other").stop()
    tables = result.writeStream.partitionBy("page").options(mergeSchema=True)
    with tables.toTable("lake.web.hits", "iceberg", checkpointLocation="ckpt") as table:
        table.processAllAvailable()
    rows = result.writeStream.foreach(print).option("checkpointLocation", "ckpt")
    rows.start(partitionBy=["page"]).stop()
    return query.metricsDF()


def ordered(messages: DataFrame, write: Any) -> ef.StreamingQuery:
    keyed = ef.keyed(messages, "key").inOrder()
    return keyed.apply(Largest()).writeStream.foreachBatch(write).start(checkpointLocation="c")


class Visits(StatefulProcessor):
    """Counts the rows of a key, and forgets it after a minute."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "n bigint", ttlDurationMs=60_000)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:
        known = self.seen.get()
        total = (known[0] if known else 0) + len(list(rows))
        self.seen.update((total,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 60_000)
        yield Row(page=key[0], n=total)

    def close(self) -> None:
        pass


def count_visits(key: Any, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
    state.update((sum(map(len, frames)),))
    yield from ()


def stateful(clicks: DataFrame, states: DataFrame) -> list[str]:
    keyed = ef.keyed(clicks, "page")
    rows = keyed.transformWithState(
        Visits(), "page string, n bigint", "update", "processingTime", states.groupBy("page")
    )
    frames = keyed.transformWithStateInPandas(
        statefulProcessor=Visits(),
        outputStructType=StructType().add("n", LongType()),
        outputMode="append",
        timeMode="eventTime",
        initialState=ef.keyed(states, "page"),
        eventTimeColumnName="",
    )
    counted = keyed.applyInPandasWithState(
        count_visits, "n bigint", "n bigint", "update", GroupStateTimeout.NoTimeout
    )
    counted.writeStream.format("noop").start(checkpointLocation="ckpt").stop()
    return [*rows.columns, *frames.columns]


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
