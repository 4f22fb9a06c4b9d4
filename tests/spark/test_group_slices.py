"""Groups in pandas and back, without Spark: whose mistakes are named, and whose are not hidden."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenflow.spark.conversion import Conversion
from evenflow.spark.group_results import PandasResults
from evenflow.spark.group_slices import PandasKeys, PandasSlices

TABLE = pa.table({"n": [1, 2, 3, 4]})
BOUNDS = np.array([0, 2, 4])


@dataclass(frozen=True)
class Failing(Conversion):
    """Fails where there is a 4, or always."""

    error: ClassVar[Exception]
    always: ClassVar[bool] = False

    def to_series(self, table):
        if self.always or 4 in table.column("n").to_pylist():
            raise self.error
        return [table.column("n").to_pandas()]

    def from_series(self, columns, schema):
        raise self.error

    def from_frame(self, frame, schema):
        if self.always or 4 in frame["n"].tolist():
            raise self.error
        return pa.RecordBatch.from_pandas(frame)


def failing(with_error, fails_always=False):
    class Chosen(Failing):
        error = with_error
        always = fails_always

    return Chosen("UTC")


def slices(conversion):
    found = PandasSlices(TABLE, BOUNDS, conversion)
    return [found[0]["n"].tolist(), found[1]["n"].tolist()]


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("too early"), OverflowError(), UnicodeError(), pa.ArrowTypeError()]
)
def test_a_value_that_pandas_cannot_hold_fails_its_own_group_only(error):
    found = PandasSlices(TABLE, BOUNDS, failing(error))
    assert found[0]["n"].tolist() == [1, 2]
    with pytest.raises(type(error)):
        found[1]


@pytest.mark.parametrize("mistake", [AttributeError("gone"), KeyError("n"), AssertionError()])
def test_a_mistake_in_a_conversion_is_not_hidden(mistake):
    with pytest.raises(type(mistake)):
        slices(failing(mistake))


def taken(error, frames, always=False):
    from pyspark.sql.types import LongType, StructField, StructType

    results = PandasResults(StructType([StructField("n", LongType())]), failing(error, always))
    for group, numbers in enumerate(frames):
        results.add(group, pd.DataFrame({"n": numbers}))
    batches = results.take(lambda group, error: LookupError(f"group {group}"))
    return [batch.num_rows for batch in batches]


def test_results_that_cannot_be_converted_together_are_converted_alone():
    assert taken(pa.ArrowInvalid("guess"), [[1], [2, 3]]) == [1, 2]
    with pytest.raises(LookupError, match="group 1"):
        taken(AttributeError("no field"), [[1], [4]])


def test_what_fails_together_and_never_alone_is_a_mistake_and_not_hidden():
    with pytest.raises(AttributeError, match="gone"):
        taken(AttributeError("gone"), [[1], [2, 3]])


NESTED = {
    "list": pa.array([[1, 2], [None], None, [3]], pa.list_(pa.int32())),
    "large": pa.array([[[True]], [[None]], None, [[]]], pa.large_list(pa.list_(pa.bool_()))),
    "map": pa.array([[("a", 1)], [("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array(
        [{"a": 1, "b": True}, {"a": None, "b": False}, None, {"a": 4, "b": None}],
        pa.struct([("a", pa.int32()), ("b", pa.bool_())]),
    ),
    "whole": pa.array([1, None, 3, 4]),
    "word": pa.array(["a", None, "c", ""]),
}


class Alone(Conversion):
    """As pyarrow does by itself, and PySpark 4.1 with it."""

    def to_series(self, table):
        return [
            c.to_pandas().rename(n) for n, c in zip(table.column_names, table.columns, strict=True)
        ]


def described(value):
    return repr((type(value), getattr(value, "dtype", None), value))


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("slots", [[0, 1, 2, 3], [3, 0, 0, 2], [1, 3]])
def test_types_are_those_of_the_group_alone_at_any_depth(name, slots):
    table = pa.table({"n": NESTED[name]}).take(pa.array(slots))
    conversion = Alone("UTC")
    together = PandasSlices(table, np.arange(len(slots) + 1), conversion)
    keys = PandasKeys(table, conversion)
    for i in range(len(slots)):
        alone = conversion.to_series(table.take(pa.array([i])))[0]
        assert together[i]["n"].dtype == alone.dtype
        assert described(together[i]["n"].iloc[0]) == described(alone.iloc[0])
        assert described(keys[i][0]) == described(alone.array[0])
