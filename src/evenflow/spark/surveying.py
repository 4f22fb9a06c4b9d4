"""A look at the keys of a batch DataFrame before its rows are routed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.survey import SURVEYED, Survey, hot_keys, listed_keys, plan_for
from evenflow.model import KeyCounts, Plan
from evenflow.spark.columns import spark_schema
from evenflow.spark.execution import InPartition, neutral_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def survey_plan(df: DataFrame, job: Job, plan: Plan) -> Plan:
    """The plan, with a scheme and a routing table that fit how skewed the keys of the DataFrame are.

    A Spark job reads the key columns once, here.
    """
    found = _surveyed(df, job)
    return plan_for(job, plan, hot_keys(found), listed_keys(found))


def surveyed_keys(df: DataFrame, job: Job) -> KeyCounts:
    """The most frequent keys of the DataFrame; a Spark job reads the key columns once."""
    return hot_keys(_surveyed(df, job))


def _surveyed(df: DataFrame, job: Job) -> pa.Table:
    survey = InPartition(Survey(job.key, lists=job.work.in_key_order), job.key)
    keys = neutral_columns(df, job.key)
    return keys.mapInArrow(survey, spark_schema(SURVEYED)).toArrow()
