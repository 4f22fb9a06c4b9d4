"""The columns of a DataFrame: names and `Column`s as arguments, and what Arrow calls their types."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators import Aggregates, NaiveBayes, Operator
from evenflow.operators.computed_columns import ComputedColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def quoted(name: str) -> str:
    """A column's name as Spark's expressions write it, whatever characters it has.

    Example:
        >>> quoted("a.b")
        '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def check_columns(df: DataFrame, names: Iterable[str], what: str) -> None:
    """Refuse a name that no column has, or that several columns have.

    Parameters:
        what: the name of the argument or method, for messages.
    """
    for name in names:
        if name not in df.columns:
            near = difflib.get_close_matches(name, df.columns, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(df.columns)}"
            raise InputError(f"{what}: there is no column {name!r}; {hint}")
        if df.columns.count(name) > 1:
            raise InputError(f"{what}: there are several columns {name!r}; rename all but one")


def quoted_table(name: str) -> str:
    """The name of a table, such as `catalog.database.table`, for Spark's SQL: nothing but a name.

    Example:
        >>> print(quoted_table("lake.`my db`.hits"), quoted_table("a; DROP TABLE b"))
        `lake`.`my db`.`hits` `a; DROP TABLE b`
    """
    parts = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", name)
    return ".".join(quoted(ticked.replace("``", "`") or plain) for ticked, plain in parts)


def with_column(df: DataFrame, column: Column | str, what: str) -> tuple[DataFrame, str]:
    """The DataFrame with this column, and the column's name.

    Guarantee: a `Column` gets the name that Spark gives it in a select. One that is just an existing
    column is not added again.

    Parameters:
        column: a name, or a `Column` that is computed from the DataFrame's own.
        what: the name of the argument or method, for messages.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column

    if isinstance(column, str):
        if df.columns.count(column) == 1:
            return df, column
        column = _by_name(df, column, what)
    if not isinstance(column, Column):
        raise InputError(f"{what} takes the name of a column or a Column, got {column!r}")
    try:
        computed = df.select(column)
        names = computed.columns
    except AnalysisException as error:
        raise InputError(f"{what}: {_first_line(error)}") from error
    if len(names) != 1:
        raise InputError(f"{what}: {column} is not one column; name the columns one by one")
    same = [own for own in df.columns if own.lower() == names[0].lower()]
    if not same:
        return df.select("*", column.alias(names[0])), names[0]
    if len(same) == 1 and computed.sameSemantics(df.select(quoted(same[0]))):
        return _spelled(df, same[0], names[0]), names[0]
    raise InputError(
        f"{what}: {column} would be called {names[0]!r}, as another column is; give it a name of its "
        f'own with .alias("…")'
    )


def _by_name(df: DataFrame, name: str, what: str) -> Column:
    """What Spark takes a name for that is not literally a column's: one in other case, a field of a
    struct, a name in backticks."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    column = F.col(name)
    if name in df.columns or name == "*":
        check_columns(df, [name], what)
    try:
        df.select(column).schema  # noqa: B018 - Connect analyses no earlier
    except AnalysisException:
        check_columns(df, [name], what)
        raise
    return column


def _spelled(df: DataFrame, name: str, wanted: str) -> DataFrame:
    """The DataFrame with a column as Spark names it when it is asked for in another case."""
    if name == wanted:
        return df
    return df.select(*(df[quoted(own)].alias(wanted if own == name else own) for own in df.columns))


def with_keys(df: DataFrame, keys: Sequence[Any]) -> tuple[DataFrame, tuple[str, ...]]:
    """The DataFrame with its key columns, and their names.

    Parameters:
        keys: names or `Column`s; or one list of them.
    """
    if len(keys) == 1 and isinstance(keys[0], list | tuple):
        keys = keys[0]
    names: list[str] = []
    for key in keys:
        df, name = with_column(df, key, "keyed")
        if name in names:
            raise InputError(f"keyed: the column {name!r} is given twice; once is enough")
        names.append(name)
    check_collations(df, names, "keyed")
    return df, tuple(names)


def check_collations(df: DataFrame, names: Iterable[str], what: str) -> None:
    """Refuse strings that Spark compares by a collation, also within structs: Arrow has no collations,
    so evenflow would compare them byte by byte.

    Parameters:
        names: of columns whose values are compared.
        what: the name of the argument or method, for messages.
    """
    kinds = {field.name: field.dataType for field in df.schema.fields}
    for name in names:
        collation = _collation(kinds[name])
        if collation is not None:
            raise InputError(
                f"{what}: the column {name!r} has strings of the collation {collation}, which evenflow "
                'would compare byte by byte; give it F.collate(…, "UTF8_BINARY").alias("…"), of '
                "F.lower(…) or F.rtrim(…) where case or trailing spaces do not count"
            )


def compared_columns(operator: Operator) -> list[str]:
    """The columns whose values an operator of ours compares. What other operators do with the values
    is their own affair."""
    if isinstance(operator, NaiveBayes):
        return list(operator.columns())
    if not isinstance(operator, Aggregates):
        return []
    return [column for _, a in operator for column in a.compared()]


def _collation(kind: DataType) -> str | None:
    """The collation of the strings of a type, at any depth, if it is not the plain one."""
    found = getattr(kind, "collation", None)
    if found is not None:
        return None if found == "UTF8_BINARY" else str(found)
    parts = [field.dataType for field in getattr(kind, "fields", [])]
    parts += [
        getattr(kind, name)
        for name in ("elementType", "keyType", "valueType")
        if hasattr(kind, name)
    ]
    return next((one for one in map(_collation, parts) if one is not None), None)


def with_computed(
    df: DataFrame, names: Iterable[str], what: str, keys: Sequence[str] = ()
) -> DataFrame:
    """The DataFrame with the columns that an operator reads, also those it computes.

    Guarantee: a column that exists is never replaced. A name is resolved as Spark does; the column is
    then called by it.

    Parameters:
        names: of columns; those of `ComputedColumn`s are added.
        keys: the key columns, which keep their names.
    """
    plain = dict.fromkeys(names)
    for name in plain:
        if name in df.columns:
            continue
        if isinstance(name, ComputedColumn):
            # Its text is its name, so that two aggregates of one expression share a column.
            df = with_column(df, name.expression.alias(str(name)), what)[0]
            continue
        column = _by_name(df, name, what)
        same = [own for own in df.columns if own.lower() == name.lower()]
        if not same:
            df = df.select("*", column.alias(name))
        elif same[0] in plain or same[0] in keys:
            raise InputError(
                f"{what}: {name!r} and {same[0]!r} are one column; write its name in one way"
            )
        else:
            df = _spelled(df, same[0], name)
    check_columns(df, plain, what)
    return df


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The schema, as Arrow has it. Timestamps are moments, whatever zone a session shows them in."""
    return arrow_types(df.schema)


def arrow_types(schema: StructType) -> pa.Schema:
    """A schema of Spark's, as Arrow has it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # Spark 4.1, for which it is always UTC


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema, as Spark has it. Timestamps without a zone are `TimestampNTZType`.

    Example:
        >>> spark_schema(pa.schema({"at": pa.timestamp("us")})).simpleString()
        'struct<at:timestamp_ntz>'
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)  # not the default in Spark 4.1


def is_connect(of: DataFrame | SparkSession) -> bool:
    """Whether it is, or belongs to, a Spark Connect session."""
    return type(of).__module__.startswith("pyspark.sql.connect")


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
