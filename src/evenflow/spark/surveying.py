"""A look at the keys before rows are routed, in Spark's own operators: no row visits Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.engine.auto import KeySurvey, is_open, survey_pays
from evenflow.engine.job import Job
from evenflow.engine.key_list import MOST, in_order
from evenflow.engine.routing import fingerprints_of
from evenflow.engine.survey import plan_for
from evenflow.model import KeyCounts, Plan
from evenflow.spark.execution import neutral_columns
from evenflow.spark.names import neutral

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLED = 8192  #: rows of a source partition that are all looked at; of more, ever fewer
_SEED = 1
_TASKS = 4  # that count the keys
_ROWS, _AT, _CHANCE = "rows", "at", "chance"
_ROW_NUMBER = (1 << 33) - 1  # the bits of Spark's increasing id that number the rows of a partition


def survey_plan(df: DataFrame, job: Job, plan: Plan, slots: int) -> Plan:
    """The plan, with a scheme and a routing table that fit how skewed the keys of the DataFrame are.

    A Spark job reads the key columns once, here, unless no keys could make that pay.

    Parameters:
        slots: how many tasks run at once.
    """
    slots = min(slots, plan.partitions)
    if is_open(job) and not survey_pays(job, slots):
        return plan.followed_by(
            reason=f"rows are worked on faster than routed: with {slots} tasks at once, no skew would "
            "be worth another scheme"
        )
    survey, listed = surveyed_keys(df, job)
    return plan_for(job, plan, survey, listed if job.work.in_key_order else None, slots)


def surveyed_keys(df: DataFrame, job: Job) -> tuple[KeySurvey, pa.Table | None]:
    """The most frequent keys, and all keys in order if they are few.

    Guarantee: exact where no source partition has more than `SAMPLED` rows. Of the others, row i is
    looked at with probability `SAMPLED` / i, and counts for i / `SAMPLED`: the counts are right on
    average, and the rows that are grouped and shuffled grow with the logarithm of all.

    A Spark job reads the key columns once.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    names = [neutral(i) for i in range(len(job.key))]
    at = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_NUMBER).cast("bigint")) + 1
    rows = neutral_columns(df, job.key).select(*names, at.alias(_AT), F.rand(_SEED).alias(_CHANCE))
    looked_at = rows.where(F.col(_CHANCE) * F.col(_AT) <= SAMPLED)
    # In batches of a stream, Spark would start a task for each of its shuffle partitions.
    looked_at = looked_at.repartition(_TASKS, *names)
    weight = F.greatest(F.lit(1.0), F.col(_AT) / F.lit(float(SAMPLED)))
    counted = looked_at.groupBy(*names).agg(F.round(F.sum(weight)).cast("bigint").alias(_ROWS))
    totals = Observation()
    counted = counted.observe(totals, F.sum(_ROWS).alias(_ROWS), F.count(F.lit(1)).alias("keys"))
    top = counted.orderBy(F.desc(_ROWS)).limit(MOST + 1).toArrow()
    counts = top.column(_ROWS).to_pylist()
    keys = top.drop_columns([_ROWS]).rename_columns(list(job.key)).combine_chunks()
    few = len(counts) <= MOST
    total, distinct = (
        (sum(counts), len(counts)) if few else (int(totals.get[_ROWS]), int(totals.get["keys"]))
    )
    batches = keys.to_batches()
    prints = fingerprints_of(batches[0], job.key).tolist() if batches else []
    hot = KeyCounts(dict(list(zip(prints, counts, strict=True))[:MOST]), total)
    return KeySurvey(hot, distinct), in_order(keys) if few and counts else None
