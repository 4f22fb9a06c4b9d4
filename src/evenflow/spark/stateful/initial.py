"""The initial state of a processor, on its way to the keys' owners: rows among those of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenflow.model import InputError
from evenflow.spark.columns import quoted
from evenflow.spark.names import INITIAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData

    from evenflow.spark.keyed import Keyed


def as_rows(
    df: DataFrame, keys: tuple[str, ...], initial: GroupedData | Keyed, what: str
) -> DataFrame:
    """The initial state with the keys under their own names, and its columns in one, a struct.

    Parameters:
        df: the DataFrame that the processor works on.
        keys: its key columns.
        initial: the initial state, grouped by as many columns.
        what: the method, for messages.
    """
    from pyspark.sql import functions as F

    grouped: Any = initial
    own: tuple[str, ...] | list[str]
    if hasattr(grouped, "keys") and hasattr(grouped, "df"):
        states, own = grouped.df, grouped.keys
    elif hasattr(grouped, "_df") and hasattr(grouped, "count"):
        states, own = grouped._df, grouped.count().columns[:-1]
    else:
        raise InputError(
            f"{what}: initialState is a grouped batch DataFrame, as in states.groupBy(…), got "
            f"{initial!r}"
        )
    if states.isStreaming:
        raise InputError(f"{what}: initialState is a batch DataFrame, and this one is a stream")
    kinds = [
        frame.select(*map(quoted, names)).dtypes for frame, names in ((df, keys), (states, own))
    ]
    if [kind for _, kind in kinds[0]] != [kind for _, kind in kinds[1]]:
        shown = [", ".join(f"{name} {kind}" for name, kind in some) for some in kinds]
        raise InputError(
            f"{what}: initialState is grouped by {shown[1]}, and the rows by {shown[0]}; group both by "
            "as many columns of the same types"
        )
    named = [states[quoted(a)].alias(b) for a, b in zip(own, keys, strict=True)]
    packed = F.struct(*(states[quoted(name)] for name in states.columns)).alias(INITIAL)
    made: DataFrame = states.select(*named, packed)
    return made


def with_initial(df: DataFrame, initial: DataFrame) -> DataFrame:
    """The DataFrame, with the column of the initial state."""
    from pyspark.sql import functions as F

    return df.withColumn(INITIAL, F.lit(None).cast(initial.schema[INITIAL].dataType))


def initial_rows(df: DataFrame, initial: DataFrame) -> DataFrame:
    """The initial state with the columns of the DataFrame, null but for the key.

    Parameters:
        df: as `with_initial` returns it.
        initial: as `as_rows` returns it.
    """
    from pyspark.sql import functions as F

    there = set(initial.columns)
    return initial.select(
        *(
            initial[quoted(field.name)]
            if field.name in there
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in df.schema.fields
        )
    )
