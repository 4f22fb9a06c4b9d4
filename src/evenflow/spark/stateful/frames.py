"""Rows and keys as pandas has them, and what comes back from a user's function, as in PySpark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from evenflow.spark.columns import arrow_types, spark_schema

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_UNLIMITED = 2**31 - 1


@dataclass(frozen=True)
class FrameSettings:
    """What Spark's settings say of DataFrames in functions.

    Parameters:
        zone: of timestamps.
        safe: whether numbers that lose something on their way to Arrow are errors.
        by_name: whether columns of a result are found by their names.
        whole_to_decimal: whether whole numbers may become decimals.
        most_rows, most_bytes: of one DataFrame.
    """

    zone: str = "UTC"
    safe: bool = False
    by_name: bool = True
    whole_to_decimal: bool = False
    most_rows: int = _UNLIMITED
    most_bytes: int = _UNLIMITED

    @classmethod
    def of(cls, spark: SparkSession) -> FrameSettings:
        """Those of a session."""

        def is_set(name: str, default: str) -> bool:
            return str(spark.conf.get(name, default)).lower() == "true"

        rows = int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", "10000") or 0)
        size = _bytes(spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch", "64MB") or "0")
        return cls(
            str(spark.conf.get("spark.sql.session.timeZone", "UTC")),
            is_set("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
            is_set("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true"),
            is_set("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled", "false"),
            rows if rows > 0 else _UNLIMITED,
            size if size > 0 else _UNLIMITED,
        )


def _bytes(text: str) -> int:
    """A size as Spark writes it.

    Example:
        >>> _bytes("64MB"), _bytes("2")
        (67108864, 2)
    """
    digits = text.strip().lower().rstrip("b")
    power = {"k": 10, "m": 20, "g": 30, "t": 40}.get(digits[-1:], 0)
    return int(digits.rstrip("kmgt")) << power


class GroupedFrames:
    """The rows of some keys, key by key as DataFrames.

    All rows are converted at once, which takes a few microseconds per key in place of hundreds. The
    types of a column are those that the rows of the key have alone: whole numbers stay whole where
    the key has no null.

    Parameters:
        rows: in the order of the keys.
        bounds: where the rows of each key begin, and where those of the last one end.
        settings: Spark's.
    """

    def __init__(self, rows: pa.Table, bounds: Sequence[int], settings: FrameSettings) -> None:
        import pandas as pd

        self._bounds, self._most = bounds, settings.most_rows
        if settings.most_bytes < _UNLIMITED and rows.num_rows:
            per_row = max(rows.nbytes / rows.num_rows, 1e-9)
            self._most = min(self._most, max(1, int(-(-settings.most_bytes // per_row))))
        self._holed: dict[str, list[Any]] = {}
        columns = {}
        for field in spark_schema(rows.schema).fields:
            column = rows.column(field.name)
            columns[field.name] = series = _widened(_series(column, field.dataType, settings.zone))
            if column.null_count and (
                types.is_integer(column.type) or types.is_boolean(column.type)
            ):
                self._holed[field.name] = column.to_pylist()
                columns[field.name] = series.astype(object)
        # A copy: few blocks are cut faster than many columns, and functions may write into them.
        self._frame = pd.DataFrame(columns, columns=rows.column_names, copy=True)

    def __call__(self, key: int) -> Iterator[pd.DataFrame]:
        """The rows of a key, in DataFrames of at most as many rows as the settings say."""
        import pandas as pd

        start, end = self._bounds[key], self._bounds[key + 1]
        while start < end:
            stop = min(start + self._most, end)
            frame = self._frame.iloc[start:stop]
            frame._is_copy = None  # its rows are nobody else's: nothing to warn of
            frame.index = pd.RangeIndex(stop - start)
            for name, values in self._holed.items():
                frame[name] = pd.Series(values[start:stop])
            yield frame
            start = stop


def key_values(columns: pa.Table, settings: FrameSettings, numpy: bool = False) -> list[Any]:
    """Keys as tuples of the values that pandas has.

    Parameters:
        numpy: whether numbers are NumPy's.
    """
    found = []
    for field in spark_schema(columns.schema).fields:
        column = columns.column(field.name)
        series = _series(
            column.fill_null(0) if types.is_integer(column.type) else column,
            field.dataType,
            settings.zone,
        )
        known = column.is_valid().to_pylist()
        values = series.to_numpy() if numpy and series.dtype.kind in "iufb" else series.tolist()
        found.append([v if there else None for v, there in zip(values, known, strict=True)])
    return list(zip(*found, strict=True))


def _series(column: pa.ChunkedArray, kind: DataType, zone: str) -> pd.Series:
    from pyspark.sql.pandas.types import _create_converter_to_pandas

    options = {"timezone": zone, "struct_in_pandas": "dict", "nullable": True}
    series = column.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=True)
    return _create_converter_to_pandas(kind, **options)(series)


def _widened(series: pd.Series) -> pd.Series:
    """Numbers with 64 bits: PySpark makes its DataFrames of plain Python values."""
    if series.dtype.kind == "i":
        return series.astype(np.int64, copy=False)
    return series.astype(np.float64, copy=False) if series.dtype.kind == "f" else series


def to_arrow(frame: pd.DataFrame, schema: StructType, settings: FrameSettings) -> pa.Table:
    """What a function returned, with the columns and types of its schema.

    Guarantee: columns are found by name, or by place where the DataFrame has no names, as PySpark
    finds them.
    """
    wanted = arrow_types(schema)
    if settings.by_name and any(isinstance(name, str) for name in frame.columns):
        missing = [name for name in schema.names if name not in frame.columns]
        if missing:
            raise ValueError(
                f"it returned no column {missing[0]!r}; the schema has {', '.join(schema.names)}, and "
                f"the DataFrame {', '.join(map(str, frame.columns)) or 'nothing'}"
            )
        frame = frame[schema.names]
    elif len(frame.columns) < len(schema.names) and len(frame.columns):
        raise ValueError(
            f"it returned {len(frame.columns)} columns, and the schema has {len(schema.names)}"
        )
    if not len(frame.columns):
        return pa.table([pa.nulls(len(frame), f.type) for f in wanted], schema=wanted)
    arrays = [
        _array(frame.iloc[:, i], spark.dataType, field, settings)
        for i, (spark, field) in enumerate(zip(schema.fields, wanted, strict=True))
    ]
    return pa.table(arrays, schema=wanted)


def _array(
    series: pd.Series, kind: DataType, field: pa.Field, settings: FrameSettings
) -> pa.Array | pa.ChunkedArray:
    import pandas as pd
    from pyspark.sql.pandas.types import _create_converter_from_pandas

    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.dtype.categories.dtype)
    options: dict[str, Any] = {"timezone": settings.zone, "error_on_duplicated_field_names": False}
    if "int_to_decimal_coercion_enabled" in signature(_create_converter_from_pandas).parameters:
        options["int_to_decimal_coercion_enabled"] = settings.whole_to_decimal
    had = series.dtype
    try:
        series = _create_converter_from_pandas(kind, **options)(series)
        mask = None if hasattr(series.array, "__arrow_array__") else series.isnull()
        convert: Callable[..., Any] = pa.Array.from_pandas
        try:
            made = convert(series, mask=mask, type=field.type, safe=settings.safe)
        except pa.ArrowInvalid:
            made = convert(series, mask=mask).cast(field.type, safe=settings.safe)
    except (pa.ArrowException, TypeError, ValueError) as error:
        words = " ".join(str(error).split())
        raise TypeError(
            f"Failed to convert the value of the column {field.name!r} with type {str(had)!r} to "
            f"{kind.simpleString()}: {words}"
        ) from error
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    if not field.nullable and made.null_count:
        raise ValueError(f"the column {field.name!r} cannot be null, and is")
    return made
