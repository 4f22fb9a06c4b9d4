"""`applyInPandas`, `applyInArrow` and `cogroup`: a function per group, as PySpark has them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.placed import Placed
from evenflow.engine.plans import scheme_of
from evenflow.engine.routing import Route
from evenflow.model import InputError
from evenflow.spark.columns import arrow_schema, check_columns, quoted, spark_schema
from evenflow.spark.conversion import Conversion
from evenflow.spark.execution import InPartition, neutral_columns, shuffled, sorted_rows
from evenflow.spark.group_calls import SIDE, SIDES, GroupFunction, GroupTask
from evenflow.spark.jobs import batch_plan, build_job, default_partitions
from evenflow.spark.names import neutral

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from evenflow.spark.keyed import Keyed

PANDAS, ARROW = "applyInPandas", "applyInArrow"


def apply_to_groups(
    keyed: Keyed, verb: str, function: Callable[..., Any], schema: Any
) -> DataFrame:
    """The results of a function of the groups of one DataFrame.

    Parameters:
        verb: `PANDAS` or `ARROW`.
        schema: of the results.
    """
    check_batch(keyed, verb)
    kind, iterates = _kind_of(verb, function)
    checked = checked_schema(function, schema, kind)
    call = _call(keyed, verb, function, checked, iterates, least=1)
    values = _values(keyed, verb)
    names = tuple(dict.fromkeys([*keyed.keys, *values]))
    rows = grouped_rows(keyed, keyed.df, names, verb)
    seen = tuple(values.get(name, name) for name in names)
    keys = tuple(values.get(name, name) for name in keyed.keys)
    return _called(rows, seen, GroupTask(call, keys, tuple(values.values())))


def apply_to_cogroups(
    left: Keyed, right: Keyed, verb: str, function: Callable[..., Any], schema: Any
) -> DataFrame:
    """The results of a function of the groups of two DataFrames that have the same key."""
    for side in (left, right):
        if side.order:
            raise InputError("cogroup has no orderBy; sort the rows in the function")
        check_batch(side, f"cogroup(…).{verb}")
    if len(left.keys) != len(right.keys):
        from evenflow.spark.spark_errors import CogroupKeysDiffer

        raise CogroupKeysDiffer(
            "requirement failed: Cogroup keys must have same size: "
            f"{len(left.keys)} != {len(right.keys)}"
        )
    from pyspark.util import PythonEvalType

    pandas = verb == PANDAS
    kind = (
        PythonEvalType.SQL_COGROUPED_MAP_PANDAS_UDF
        if pandas
        else PythonEvalType.SQL_COGROUPED_MAP_ARROW_UDF
    )
    checked = checked_schema(function, schema, kind)
    call = _call(left, verb, function, checked, False, least=2)
    _check_same_types(left, right)
    keys = tuple(f"key{i}" for i in range(len(left.keys)))
    both = _side(left, right, 0, keys).union(_side(right, left, 1, keys))
    rows = grouped_rows(left, both, (*keys, SIDE, *SIDES), f"cogroup(…).{verb}", keys, (SIDE,))
    return _called(rows, (*keys, SIDE, *SIDES), GroupTask(call, keys, None))


def apply_udf(keyed: Keyed, function: Any) -> DataFrame:
    """`groupBy(…).apply`, which takes a function that `pandas_udf` has made.

    Parameters:
        function: anything that is not an operator.
    """
    from pyspark.sql import Column
    from pyspark.util import PythonEvalType

    kind = None if isinstance(function, Column) else getattr(function, "evalType", None)
    if kind != PythonEvalType.SQL_GROUPED_MAP_PANDAS_UDF:
        from evenflow.spark.spark_errors import NotAnOperator

        raise NotAnOperator(
            f"[INVALID_UDF_EVAL_TYPE] apply takes an evenflow.Operator, got {function!r}; inherit from "
            "it, wrap a function with evenflow.PerKey, or call applyInPandas(function, schema)"
        )
    warnings.warn("It is preferred to use 'applyInPandas' over 'apply'.", UserWarning, 3)
    return apply_to_groups(keyed, PANDAS, function.func, function.returnType)


def grouped_rows(
    keyed: Keyed,
    df: DataFrame,
    names: tuple[str, ...],
    verb: str,
    keys: tuple[str, ...] | None = None,
    then: Sequence[str] = (),
) -> DataFrame:
    """The rows under neutral names, those of a group together in one partition, in the order of keys.

    Parameters:
        names: the columns that are needed.
        verb: what is done with the groups, for messages.
        keys: the key columns, where they are not those of `keyed`.
        then: columns by which the rows of a group are sorted first.
    """
    from evenflow.spark.session import check_session

    check_session(df.sparkSession)
    keys = keyed.keys if keys is None else keys
    rows = neutral_columns(df, names)
    if keys:
        job = placing_job(keyed, df, keys, verb)
        plan = batch_plan(df, job)
        route = Route.under(plan, scheme_of(job, plan), keys, 0)
        rows = shuffled(rows, names, route, False, None)
    else:
        rows = rows.repartition(1)
    return sorted_rows(rows, names, (*keys, *then), keyed.order)


def placing_job(keyed: Keyed, df: DataFrame, keys: tuple[str, ...], verb: str) -> Job:
    """Which rows must meet, for planning where they do."""
    scheme = keyed.scheme
    if scheme is not None and scheme.splits_keys:
        raise InputError(
            f"{scheme.name!r} sends the rows of one key to several partitions, and {verb} needs all of "
            'them at once; balance with "table" or "key", or leave it to auto'
        )
    return build_job(
        arrow_schema(df.select(*map(quoted, keys))),
        keys,
        Placed(verb, in_key_order=True),
        scheme=scheme,
        partitions=keyed.partitions or default_partitions(df),
        seed=keyed.seed,
        replanning=keyed.replanning,
    )


def check_batch(keyed: Keyed, verb: str) -> None:
    """Refuse streams, and what does not go together with functions of groups."""
    if keyed.df.isStreaming:
        raise InputError(
            f"{verb} is for batch DataFrames, as in PySpark: a stream never has all rows of a key; "
            "use apply(ef.PerKey(…)), which keeps a state, or call it in foreachBatch"
        )
    if keyed.windows is not None or keyed.log is not None:
        raise InputError(
            f"{verb} cannot be combined with window(…), sessions or inOrder(…); a plain window can be "
            'a key: keyed(df, "page", F.window("time", "1 hour"))'
        )


def checked_schema(function: Callable[..., Any], schema: Any, kind: int) -> StructType:
    """The schema of a function's results, after PySpark's own checks of both.

    Parameters:
        schema: text, a `StructType` or Arrow's.
        kind: PySpark's number for this kind of function.
    """
    from pyspark.sql.pandas.functions import pandas_udf
    from pyspark.sql.types import DataType, StructType

    if isinstance(schema, pa.Schema):
        schema = spark_schema(schema)
    if isinstance(schema, str):
        schema = DataType.fromDDL(schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        checked = pandas_udf(function, returnType=schema, functionType=kind).returnType  # type: ignore
    assert isinstance(checked, StructType)
    return checked


def _kind_of(verb: str, function: Callable[..., Any]) -> tuple[int, bool]:
    """PySpark's number for a function of groups, and whether it takes iterators: its type hints say."""
    from pyspark.sql.pandas import typehints
    from pyspark.util import PythonEvalType as Kinds

    pandas = verb == PANDAS
    infer = (
        typehints.infer_group_pandas_eval_type_from_func
        if pandas
        else typehints.infer_group_arrow_eval_type_from_func
    )
    kind = None
    try:
        kind = infer(function)  # type: ignore[operator]
    except Exception as error:
        warnings.warn(f"Cannot infer the eval type from type hints: {error}", UserWarning, 4)
    if kind is None:
        kind = Kinds.SQL_GROUPED_MAP_PANDAS_UDF if pandas else Kinds.SQL_GROUPED_MAP_ARROW_UDF
    iterating = (Kinds.SQL_GROUPED_MAP_PANDAS_ITER_UDF, Kinds.SQL_GROUPED_MAP_ARROW_ITER_UDF)
    return int(kind), kind in iterating


def _call(
    keyed: Keyed,
    verb: str,
    function: Callable[..., Any],
    schema: StructType,
    iterates: bool,
    least: int,
) -> GroupFunction:
    takes = len(inspect.getfullargspec(function).args)
    conversion = Conversion.of(keyed.df.sparkSession)
    return GroupFunction(function, schema, verb == PANDAS, iterates, takes > least, conversion)


def _called(rows: DataFrame, names: tuple[str, ...], task: GroupTask) -> DataFrame:
    """The results of the task."""
    from pyspark.sql.types import StructField, StructType

    fields = task.call.schema.fields
    schema = StructType(
        [StructField(neutral(i), one.dataType, one.nullable) for i, one in enumerate(fields)]
    )
    result = rows.mapInArrow(InPartition(task, names), schema)
    return result.toDF(*task.call.schema.names)


def _values(keyed: Keyed, verb: str) -> dict[str, str]:
    """The columns that a function sees: as they are called now, and as it sees them."""
    now = keyed.df.columns[: len(keyed.values)]
    check_columns(keyed.df, now, verb)
    return dict(zip(now, keyed.values, strict=True))


def _side(keyed: Keyed, other: Keyed, number: int, keys: tuple[str, ...]) -> DataFrame:
    """One side of a cogroup: its keys, which side it is, its rows as a struct, none of the other."""
    from pyspark.sql import functions as F

    columns: list[Column] = [
        keyed.df[quoted(name)].alias(key) for name, key in zip(keyed.keys, keys, strict=True)
    ]
    rows = [_as_struct(keyed), F.lit(None).cast(_struct_type(other))]
    left, right = rows if number == 0 else reversed(rows)
    sides = (left.alias(SIDES[0]), right.alias(SIDES[1]))
    return keyed.df.select(*columns, F.lit(bool(number)).alias(SIDE), *sides)


def _as_struct(keyed: Keyed) -> Column:
    from pyspark.sql import functions as F

    values = _values(keyed, "cogroup")
    return F.struct(*(keyed.df[quoted(name)].alias(seen) for name, seen in values.items()))


def _struct_type(keyed: Keyed) -> StructType:
    from pyspark.sql.types import StructField, StructType

    kinds = {field.name: field.dataType for field in keyed.df.schema.fields}
    return StructType(
        [StructField(seen, kinds[name]) for name, seen in _values(keyed, "cogroup").items()]
    )


def _check_same_types(left: Keyed, right: Keyed) -> None:
    for one, two in zip(left.keys, right.keys, strict=True):
        ours, theirs = left.df.schema[one].dataType, right.df.schema[two].dataType
        if ours != theirs:
            raise InputError(
                f"cogroup: the key {one!r} is {ours.simpleString()} on the left, and {two!r} is "
                f"{theirs.simpleString()} on the right; cast one of them"
            )
