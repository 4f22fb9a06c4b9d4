"""What a keyed DataFrame offers beside operators: functions of groups, order, partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from evenflow.model import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from evenflow.grouping.protocol import GroupingScheme
    from evenflow.spark.keyed import Keyed


class GroupedFunctions:
    """The methods of `groupBy` that take a function."""

    def applyInPandas(
        self, func: Callable[..., Any], schema: StructType | pa.Schema | str
    ) -> DataFrame:
        """Call a function once per key, with all rows of the key as a pandas DataFrame, as
        `groupBy(…).applyInPandas` does.

        Guarantee: the result is PySpark's for the same function and schema, whatever the function
        returns for a key: many rows, one or none. Rows of a key are never apart. The keys are placed by
        how many rows they have, so that tasks end together; like `pivot` without values, this reads the
        key columns once, here, except under the scheme "key".

        Parameters:
            func: (rows) → result or (key, rows) → result; with type hints also
                (iterator of DataFrames) → iterator, as in PySpark.
            schema: of the result: "id long, mean double", a `StructType` or Arrow's.

        Example:
            >>> import pandas as pd
            >>> def total(key, rows):
            ...     return pd.DataFrame({"user": key, "total": [rows.amount.sum()]})
            >>> # ef.keyed(df, "user").applyInPandas(total, "user string, total double")
        """
        from evenflow.spark.grouped_functions import PANDAS, apply_to_groups

        return apply_to_groups(cast("Keyed", self), PANDAS, func, schema)

    def applyInArrow(
        self, func: Callable[..., Any], schema: StructType | pa.Schema | str
    ) -> DataFrame:
        """`applyInPandas` with Arrow tables, as `groupBy(…).applyInArrow`; the faster of the two.

        Parameters:
            func: (table) → table or (key, table) → table; with type hints also
                (iterator of record batches) → iterator.
            schema: of the result. Types must match exactly, as in PySpark.
        """
        from evenflow.spark.grouped_functions import ARROW, apply_to_groups

        return apply_to_groups(cast("Keyed", self), ARROW, func, schema)

    def orderBy(self, *cols: Column | str) -> Keyed:
        """Sort the rows of each key before a function or operator gets them.

        Guarantee: `applyInPandas`, `applyInArrow` and `apply` see the rows of a key in this order, in
        whatever order and from whichever partitions they come. Keys are not split.

        For batch DataFrames; a stream's rows come as they arrive, or `inOrder`.

        Parameters:
            cols: names or `Column`s, such as `F.desc("time")`.

        Example:
            ef.keyed(clicks, "user").orderBy("time").applyInPandas(sessions, schema)
        """
        keyed = cast("Keyed", self)
        if keyed.df.isStreaming:
            raise InputError(
                "orderBy is for batch DataFrames: of a stream's key, earlier rows may still come. The "
                "order of a Kafka topic is kept by inOrder()"
            )
        if not cols:
            raise InputError('orderBy takes at least one column, as in orderBy("time")')
        ordered = replace(keyed, order=tuple(cols))
        whole_keys_scheme(ordered)
        return ordered

    def repartition(self, numPartitions: int | None = None, split: bool = False) -> DataFrame:
        """The same rows in balanced partitions, for whatever follows: `mapInPandas`,
        `foreachPartition`, a write.

        Guarantee: the rows of a key are in one partition, unless keys may be split. Partitions have
        about as many rows as each other, as far as the largest key allows. It has exactly the
        columns of the DataFrame.

        Parameters:
            numPartitions: how many; None for as many as `balance` says, or as Spark has cores.
            split: whether a key with more rows than a partition's share is spread over as many
                partitions as it needs, while all others stay whole: for `write.partitionBy`, so that
                large values get several tasks and files, and small ones share a task. Under a scheme
                that splits keys (`balance("d-choices")`), the scheme decides.

        Example:
            ef.keyed(df, "day").repartition(16, split=True).write.partitionBy("day").parquet(path)
        """
        from evenflow.spark.repartitioning import repartitioned

        return repartitioned(cast("Keyed", self), numPartitions, split)

    def cogroup(self, other: Keyed) -> Cogrouped:
        """Pair the groups of two DataFrames by key, as `groupBy(…).cogroup(…)` does.

        The scheme and the partitions are those of this side.

        Parameters:
            other: the other side, with as many key columns of the same types.
        """
        if not isinstance(other, GroupedFunctions):
            raise InputError(
                f"cogroup takes another keyed DataFrame, got {other!r}; write "
                'keyed(a, "k").cogroup(keyed(b, "k"))'
            )
        return Cogrouped(cast("Keyed", self), other)


def whole_keys_scheme(keyed: Keyed) -> GroupingScheme:
    """A scheme that keeps the rows of a key together, because they are sorted."""
    from evenflow.grouping import make

    if keyed.scheme is not None and keyed.scheme.splits_keys:
        raise InputError(
            f"orderBy sorts the rows of a key, and {keyed.scheme.name!r} sends them to several "
            'partitions; balance with "table" or "key", or leave it to auto'
        )
    return make("table") if keyed.scheme is None else keyed.scheme


@dataclass(frozen=True)
class Cogrouped:
    """Two DataFrames by the same key."""

    left: Keyed
    right: Keyed

    def applyInPandas(
        self, func: Callable[..., Any], schema: StructType | pa.Schema | str
    ) -> DataFrame:
        """Call a function once per key with the rows of both sides; a side without rows is empty.

        Parameters:
            func: (left, right) → result or (key, left, right) → result, all of them pandas DataFrames.
            schema: of the result.
        """
        from evenflow.spark.grouped_functions import PANDAS, apply_to_cogroups

        return apply_to_cogroups(self.left, self.right, PANDAS, func, schema)

    def applyInArrow(
        self, func: Callable[..., Any], schema: StructType | pa.Schema | str
    ) -> DataFrame:
        """`applyInPandas` with Arrow tables."""
        from evenflow.spark.grouped_functions import ARROW, apply_to_cogroups

        return apply_to_cogroups(self.left, self.right, ARROW, func, schema)
