"""A look at the keys of both sides of a join, in Spark's own operators: which are hot, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from evenflow.planning.join_grids import JoinKey, JoinPlan, plan_join
from evenflow.spark.salting import key_hash, second_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HASH, _SECOND, _RIGHT = "hash", "second", "right"
_LISTED = 1024  # keys whose counts reach the driver


class Sides(NamedTuple):
    """Both sides of a join.

    Parameters:
        frames: left and right.
        keys: the key columns of each.
        keeps: whether the rows of a side are in the result without a partner.
        makes_pairs: whether every pair of rows is in the result; False where a left row is in it once.
        splits: whether the rows of one key may be split, left and right.
    """

    frames: tuple[DataFrame, DataFrame]
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    keeps: tuple[bool, bool]
    makes_pairs: bool
    splits: tuple[bool, bool]


def survey_join(sides: Sides, partitions: int, seed: int) -> JoinPlan:
    """Grids for the hot keys of a join, by the counts of both sides.

    A Spark job reads the key columns of both sides once, here.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    left, right = (
        df.select(
            key_hash(df, keys).alias(_HASH),
            second_hash(df, keys).alias(_SECOND),
            F.lit(is_right).alias(_RIGHT),
        )
        for df, keys, is_right in zip(sides.frames, sides.keys, (False, True), strict=True)
    )
    counted = (
        left.unionAll(right)
        .where(F.col(_HASH).isNotNull() | _kept(sides))
        .groupBy(_HASH)
        .agg(
            F.count_if(~F.col(_RIGHT)).alias("left"),
            F.count_if(_RIGHT).alias("rights"),
            (F.min(_SECOND) == F.max(_SECOND)).alias("one_key"),
        )
    )
    both = F.col("left").cast("double") * F.col("rights").cast("double")
    pairs = both if sides.makes_pairs else F.col("left").cast("double")
    load = F.col("left") + F.col("rights") + F.col("pairs")
    counted = counted.select(
        "*", F.when(F.col(_HASH).isNull(), 0.0).otherwise(pairs).alias("pairs")
    )
    counted = counted.select("*", load.alias("load"))
    totals = Observation()
    counted = counted.observe(
        totals,
        F.sum("load").alias("load"),
        F.sum(F.when(F.col(_HASH).isNull(), F.col("load"))).alias("spread"),
    )
    top = counted.orderBy(F.desc("load"), _HASH).limit(_LISTED).collect()
    # Two keys of one hash, which is next to impossible: what holds for one may not hold for the other.
    hot = [
        JoinKey(row[_HASH], row["left"], row["rights"], row["pairs"])
        for row in top
        if row[_HASH] is not None and row["one_key"]
    ]
    if not top:
        return plan_join([], 0.0, partitions)
    found = totals.get
    return plan_join(
        hot,
        found["load"] or 0.0,
        partitions,
        spread=found["spread"] or 0.0,
        splits=sides.splits,
    )


def _kept(sides: Sides) -> Column:
    """Whether a row without a key is in the result."""
    from pyspark.sql import functions as F

    left, right = (F.lit(kept) for kept in sides.keeps)
    return F.when(F.col(_RIGHT), right).otherwise(left)
