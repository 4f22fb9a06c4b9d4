"""Between Arrow and pandas, as the installed PySpark converts for its own functions of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_PANDAS = "spark.sql.execution.pandas."
_PYTHON = "spark.sql.execution.pythonUDF.pandas."
_ARROW = "spark.sql.execution.arrow."


@dataclass(frozen=True)
class Conversion:
    """How values are converted: the session's settings, as PySpark's own grouped functions read them.

    Parameters:
        timezone: in which pandas sees timestamps.
        by_name: whether columns of results are matched by their names, where these are strings.
        safe: whether values that do not fit the schema are an error.
        extension_integers: whether pandas gets integers in its own nullable types.
        integers_as_decimals: whether integers may be returned for decimals.
        large: whether strings and binary values are in Arrow's large types.
        rows, size: of a batch that an iterator is given, at most; 0 or less for any number.
    """

    timezone: str
    by_name: bool = True
    safe: bool = False
    extension_integers: bool = False
    integers_as_decimals: bool = False
    large: bool = False
    rows: int = 10_000
    size: int = (1 << 31) - 1

    @classmethod
    def of(cls, spark: SparkSession) -> Conversion:
        def switch(name: str, default: bool = False) -> bool:
            return str(spark.conf.get(name, str(default))).lower() == "true"

        def number(name: str, default: int) -> int:
            text = str(spark.conf.get(name, str(default)) or default).lower().removesuffix("b")
            return int(text) if text.lstrip("-").isdigit() else default

        return cls(
            timezone=str(spark.conf.get("spark.sql.session.timeZone")),
            by_name=switch(
                "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", True
            ),
            safe=switch(_PANDAS + "convertToArrowArraySafely"),
            extension_integers=switch(_PYTHON + "preferIntExtensionDtype"),
            integers_as_decimals=switch(_PYTHON + "intToDecimalCoercionEnabled"),
            large=switch(_ARROW + "useLargeVarTypes"),
            rows=number(_ARROW + "maxRecordsPerBatch", cls.rows),
            size=number(_ARROW + "maxBytesPerBatch", cls.size),
        )

    def to_series(self, table: pa.Table) -> list[pd.Series]:
        """The columns as pandas has them."""
        try:
            from pyspark.sql.conversion import ArrowBatchTransformer
        except ImportError:  # Spark 4.1
            convert = self._serializer().arrow_to_pandas
            return [
                convert(column, i).rename(name)
                for i, (name, column) in enumerate(
                    zip(table.column_names, table.columns, strict=True)
                )
            ]
        series: list[pd.Series] = ArrowBatchTransformer.to_pandas(
            table, timezone=self.timezone, prefer_int_ext_dtype=self.extension_integers
        )
        return series

    def from_frame(self, frame: pd.DataFrame, schema: StructType) -> pa.RecordBatch:
        """A result, cast where its types are not those of the schema."""
        try:
            from pyspark.sql.conversion import PandasToArrowConversion
        except ImportError:  # Spark 4.1
            kind = self.arrow_type(schema)
            array = self._serializer()._create_struct_array(frame, kind, schema)
            return pa.RecordBatch.from_arrays(array.flatten(), names=schema.names)
        return PandasToArrowConversion.convert(frame, schema, **self._options(), arrow_cast=True)

    def from_series(self, columns: Sequence[pd.Series], schema: StructType) -> pa.RecordBatch:
        """Columns of the schema's types; an error where a type would have to be guessed first."""
        try:
            from pyspark.sql.conversion import PandasToArrowConversion
        except ImportError:  # Spark 4.1
            create = self._serializer()._create_array
            arrays = [
                create(column, kind.type, field.dataType)
                for column, kind, field in zip(
                    columns, self.arrow_type(schema), schema.fields, strict=True
                )
            ]
            return pa.RecordBatch.from_arrays(arrays, names=schema.names)
        return PandasToArrowConversion.convert(list(columns), schema, **self._options())

    def arrow_type(self, schema: StructType) -> pa.StructType:
        """The schema as Arrow has it."""
        from inspect import signature

        from pyspark.sql.pandas.types import to_arrow_type

        options: dict[str, Any] = {"prefers_large_types": self.large}
        if "timezone" in signature(to_arrow_type).parameters:
            options["timezone"] = "UTC"
        return to_arrow_type(schema, **options)

    def _options(self) -> dict[str, Any]:
        return {
            "timezone": self.timezone,
            "safecheck": self.safe,
            "prefers_large_types": self.large,
            "assign_cols_by_name": self.by_name,
            "int_to_decimal_coercion_enabled": self.integers_as_decimals,
        }

    def _serializer(self) -> Any:
        """What converts in Spark 4.1."""
        from pyspark.sql.pandas import serializers

        return serializers.GroupPandasUDFSerializer(  # type: ignore[attr-defined]
            self.timezone, self.safe, self.by_name, self.integers_as_decimals
        )
