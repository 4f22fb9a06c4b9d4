"""A look at the keys of a batch DataFrame before its rows are routed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.engine.job import Job
from evenflow.engine.survey import SURVEYED, Survey, hot_keys, plan_for
from evenflow.model import Plan
from evenflow.spark.columns import spark_schema
from evenflow.spark.execution import InPartition, neutral_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def survey_plan(df: DataFrame, job: Job, plan: Plan) -> Plan:
    """The plan, with a scheme and a routing table that fit how skewed the keys of the DataFrame are.

    A Spark job reads the key columns once, here.
    """
    survey = InPartition(Survey(job.key), job.key)
    keys = neutral_columns(df, job.key)
    found = keys.mapInArrow(survey, spark_schema(SURVEYED)).toArrow()
    return plan_for(job, plan, hot_keys(found))
