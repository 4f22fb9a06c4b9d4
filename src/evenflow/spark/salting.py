"""Rows of one side of a join, each in the cells that its key's grid has for it, by Spark's own
expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evenflow.planning.join_grids import Grid
from evenflow.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

CELL = "__evenflow_cell"  #: the partition of a row; part of the join's condition
_CELLS, _HASH, _GRID, _PART = (f"__evenflow_{name}" for name in ("cells", "hash", "grid", "part"))
_WITHOUT_HASH = ("map", "variant", "geometry", "geography")


def key_hash(df: DataFrame, keys: Sequence[str]) -> Column:
    """64 bits per key; null where a key column is null, which matches nothing.

    Guarantee: keys that Spark's joins take for equal have the same: −0.0 and 0.0, NaN and NaN.
    """
    from pyspark.sql import functions as F

    columns = [df[quoted(name)] for name in keys]
    return F.when(_all_there(columns), F.xxhash64(*columns))


def second_hash(df: DataFrame, keys: Sequence[str]) -> Column:
    """64 further bits, which tell keys apart that have the same `key_hash`."""
    from pyspark.sql import functions as F

    return F.xxhash64(F.lit("second"), *(df[quoted(name)] for name in keys))


def joinable_rows(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows whose key is not null."""
    return df.where(_all_there([df[quoted(name)] for name in keys]))


def placed(
    df: DataFrame,
    keys: Sequence[str],
    grids: Mapping[int, Grid],
    partitions: int,
    seed: int,
    keep_nulls: bool,
    flag: str | None,
) -> DataFrame:
    """The rows, each in its cells' partitions, with the partition in the column `CELL`.

    A row of a key with a grid goes to all cells of one row of it: which one, its salt says. Others go
    by the key's hash; rows without a key, by their salt.

    Guarantee: where a row goes depends on its values and on the number of its input partition, not on
    the order of rows, so a task that Spark runs again sends every row where it went before.

    Parameters:
        df: the rows of one side.
        keys: its key columns.
        grids: hash of a key → its grid, as this side sees it.
        partitions, seed: of the join.
        keep_nulls: whether rows with a null key are in the result.
        flag: a further column, true where a row was copied to several cells and false elsewhere; None
            for none.
    """
    from pyspark.sql import functions as F

    rows = df if keep_nulls else joinable_rows(df, keys)
    rows = rows.select("*", key_hash(rows, keys).alias(_HASH))
    rows = rows.select("*", F.expr(_lookup(grids)).alias(_GRID))
    splits = keep_nulls or any(grid.rows > 1 for grid in grids.values())
    part = _salt(df, rows, partitions, seed) if splits else F.lit(0)
    rows = rows.select("*", part.cast("int").alias(_PART))
    by_hash = F.pmod(F.xxhash64(F.lit(seed).cast("bigint"), F.col(_HASH)), F.lit(partitions))
    cells = (
        F.when(F.col(_HASH).isNull(), F.array(F.col(_PART)))
        .when(F.col(_GRID).isNull(), F.array(by_hash.cast("int")))
        .otherwise(F.expr(f"slice({_GRID}.cells, {_PART} * {_GRID}.copies + 1, {_GRID}.copies)"))
    )
    if any(grid.columns > 1 for grid in grids.values()):
        rows = rows.select("*", cells.alias(_CELLS))
        rows = rows.select("*", F.explode(_CELLS).alias(CELL)).drop(_CELLS)
    else:
        rows = rows.select("*", cells[0].alias(CELL))
    if flag is not None:
        rows = rows.select("*", F.expr(f"coalesce({_GRID}.copies > 1, false)").alias(flag))
    return rows.drop(_HASH, _GRID, _PART).repartitionById(partitions, CELL)


def _salt(df: DataFrame, rows: DataFrame, partitions: int, seed: int) -> Column:
    """In which part of its grid a row is.

    Rows of equal values have the same hash; the number of their input partition spreads them, too.
    """
    from pyspark.sql import functions as F

    own = F.expr(f"CASE WHEN {_HASH} IS NULL THEN {partitions} ELSE coalesce({_GRID}.parts, 1) END")
    hashed = [
        df[quoted(field.name)]
        for field in df.schema.fields
        if df.columns.count(field.name) == 1 and _has_hash(field.dataType)
    ]
    content = F.pmod(F.xxhash64(F.lit(seed).cast("bigint"), *hashed), own)
    return F.when(own > 1, F.pmod(content + F.spark_partition_id(), own)).otherwise(0)


def _has_hash(kind: DataType) -> bool:
    """Whether Spark's hash functions take values of this type."""
    text = kind.simpleString()
    return not any(f"{name}" in text for name in _WITHOUT_HASH)


def _lookup(grids: Mapping[int, Grid]) -> str:
    """The grid of a row's key, if it has one, as SQL: one text is parsed much faster than thousands of
    literals are sent one by one."""
    kind = "struct<parts: int, copies: int, cells: array<int>>"
    if not grids:
        return f"CAST(NULL AS {kind})"
    keys = ", ".join(f"{key}L" for key in grids)
    values = ", ".join(
        f"{key}L, named_struct('parts', {grid.rows}, 'copies', {grid.columns}, "
        f"'cells', array({', '.join(map(str, grid.partitions))}))"
        for key, grid in grids.items()
    )
    # Spark looks into a map one entry after the other, and into a list of literals by hash.
    return f"CASE WHEN {_HASH} IN ({keys}) THEN map({values})[{_HASH}] END"


def _all_there(columns: Sequence[Column]) -> Column:
    there = columns[0].isNotNull()
    for column in columns[1:]:
        there = there & column.isNotNull()
    return there
