"""What Spark's own displays show of a query: its listeners and its pages.

Spark hands a listener what a streaming plan has observed of its rows; what a batch has come to is
known only after its tasks, too late for that, and is in `query.metrics()`. A page shows the description
of a job, which says how the batch is balanced, and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING

from evenflow.model import Plan
from evenflow.spark.columns import is_connect, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OBSERVATION = "evenflow"  #: its name among the observed metrics of a query's progress
_DESCRIPTION = "spark.job.description"
_LONGEST = 200  # letters of a plan


def observed(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """A streaming DataFrame whose queries report to Spark's listeners, in every batch's progress, how
    many `rows` it had, how many distinct `keys` about (5 %), and how many rows with `null_keys`.

    No job is added: the rows are counted while they are read.

    Parameters:
        keys: the key columns.
    """
    from pyspark.sql import functions as F

    columns = [F.col(quoted(name)) for name in keys]
    is_null = columns[0].isNull()
    for column in columns[1:]:
        is_null = is_null | column.isNull()
    return df.observe(
        OBSERVATION,
        F.count(F.lit(1)).alias("rows"),
        F.approx_count_distinct(F.xxhash64(*columns)).alias("keys"),
        F.count_if(is_null).alias("null_keys"),
    )


@contextmanager
def described(spark: SparkSession, plan: Plan) -> Iterator[None]:
    """Add a batch's plan to the description that Spark's pages show of the jobs within.

    Spark's own description of a streaming job has the name of the query and the number of the batch.
    On Spark Connect, jobs have no description that a client could set.
    """
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, "\n".join(filter(None, (before, plan_text(plan)))))
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def plan_text(plan: Plan) -> str:
    """A plan as Spark's pages show it, in one line.

    Example:
        >>> plan_text(Plan("d-choices", 24, reason="the hottest key has 31 % of the rows"))
        'balanced by d-choices over 24 partitions: the hottest key has 31 % of the rows'
    """
    text = f"balanced by {plan.scheme} over {plan.partitions} partitions"
    text += f": {plan.reason}" if plan.reason else ""
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
