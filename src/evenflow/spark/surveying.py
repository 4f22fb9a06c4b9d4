"""A look at the keys of a batch DataFrame before its rows are routed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.key_list import MOST, in_order
from evenflow.engine.routing import fingerprints_of
from evenflow.engine.survey import SURVEYED, Survey, hot_keys, plan_for
from evenflow.model import KeyCounts, Plan
from evenflow.spark.columns import spark_schema
from evenflow.spark.execution import neutral_columns, source_task
from evenflow.spark.names import neutral

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"


def survey_plan(df: DataFrame, job: Job, plan: Plan) -> Plan:
    """The plan, with a scheme and a routing table that fit how skewed the keys of the DataFrame are.

    A Spark job reads the key columns once, here.
    """
    if job.work.in_key_order:
        return plan_for(job, plan, *counted_keys(df, job))
    return plan_for(job, plan, hot_keys(_surveyed(df, job)))


def surveyed_keys(df: DataFrame, job: Job) -> KeyCounts:
    """The most frequent keys of the DataFrame; a Spark job reads the key columns once."""
    return hot_keys(_surveyed(df, job))


def _surveyed(df: DataFrame, job: Job) -> pa.Table:
    keys = neutral_columns(df, job.key)
    task = source_task(Survey(job.key), keys, job.key, job.key)
    return keys.mapInArrow(task, spark_schema(SURVEYED)).toArrow()


def counted_keys(df: DataFrame, job: Job) -> tuple[KeyCounts, pa.Table | None]:
    """The most frequent keys, and all keys in order if they are few.

    Spark counts them itself, so no row visits Python. Where whole rows are shuffled and sorted next, a
    shuffle of counts is little.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    names = [neutral(i) for i in range(len(job.key))]
    counted = neutral_columns(df, job.key).groupBy(*names).agg(F.count(F.lit(1)).alias(_ROWS))
    totals = Observation()
    counted = counted.observe(totals, F.sum(_ROWS).alias(_ROWS))
    top = counted.orderBy(F.desc(_ROWS)).limit(MOST + 1).toArrow()
    rows = top.column(_ROWS).to_pylist()
    keys = top.drop_columns([_ROWS]).rename_columns(list(job.key)).combine_chunks()
    few = len(rows) <= MOST
    total = sum(rows) if few else int(totals.get[_ROWS])
    batches = keys.to_batches()
    prints = fingerprints_of(batches[0], job.key).tolist() if batches else []
    hot = KeyCounts(dict(list(zip(prints, rows, strict=True))[:MOST]), total)
    return hot, in_order(keys) if few and rows else None
