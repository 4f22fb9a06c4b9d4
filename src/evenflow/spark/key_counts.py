"""How often the keys of a DataFrame occur, counted by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from evenflow.model import InputError
from evenflow.spark.columns import quoted, with_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Frame: TypeAlias = DataFrame  # for callers that do not import pyspark
    KeyColumn: TypeAlias = Column | str


def is_dataframe(given: object) -> bool:
    """Whether this is a DataFrame of Spark, classic or Connect."""
    return hasattr(given, "sparkSession") and hasattr(given, "isStreaming")


def key_counts(
    df: DataFrame, keys: Sequence[Column | str], most: int
) -> tuple[tuple[str, ...], pa.Table, int, int]:
    """The key columns, a table of the most frequent keys with their `rows`, all rows, and all keys.

    One Spark job: a `groupBy(keys).count()`.

    Parameters:
        df: a batch DataFrame.
        keys: as `groupBy` takes them.
        most: how many keys the table has at most.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    if df.isStreaming:
        raise InputError(
            "diagnose takes a batch DataFrame; of a running query, give the checkpoint location"
        )
    df, names = with_keys(df, keys)
    count = "__evenflow_rows"
    grouped = df.groupBy(*(quoted(name) for name in names)).agg(F.count(F.lit(1)).alias(count))
    seen = Observation()
    observed = grouped.observe(seen, F.count(F.lit(1)).alias("keys"), F.sum(count).alias("rows"))
    top: Any = observed.orderBy(F.desc(count)).limit(most).toArrow()
    totals = seen.get
    return names, top, int(totals["rows"] or 0), int(totals["keys"])
