"""What functions of groups returned: checked as by PySpark, and converted many groups at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.spark.conversion import Conversion
from evenflow.spark.group_slices import UNFIT

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.types import StructType

_ROWS = 1 << 16  # of a batch that is handed on
_RESULTS = 1 << 12

Failed = Callable[[int, Exception], Exception]


class WrongResult(InputError, TypeError):
    """A function returned something else than its schema says."""


class ArrowResults:
    """Tables that a function returned.

    Parameters:
        schema: that of the result.
        conversion: the session's settings.
    """

    def __init__(self, schema: StructType, conversion: Conversion) -> None:
        self._schema = pa.schema(list(conversion.arrow_type(schema)))
        self._by_name = conversion.by_name
        self._held: list[pa.Table] = []
        self._rows = 0

    @property
    def full(self) -> bool:
        """Whether so much is held that it should be taken."""
        return self._rows >= _ROWS or len(self._held) >= _RESULTS

    def add(self, group: int, result: Any, part: bool = False) -> None:
        """Hold a result, or refuse it.

        Parameters:
            group: the number of its group.
            part: whether it is one of several batches.
        """
        _check_type(result, pa.RecordBatch if part else pa.Table, "pyarrow", part)
        if not result.num_columns:
            return
        if not result.schema.equals(self._schema):
            result = self._matched(result)
        if result.num_rows:
            self._held.append(pa.Table.from_batches([result]) if part else result)
            self._rows += result.num_rows

    def take(self, failed: Failed) -> Iterator[pa.RecordBatch]:
        """What is held, in large batches."""
        held, self._held, self._rows = self._held, [], 0
        if held:
            table = pa.concat_tables(held).combine_chunks()
            yield from table.to_batches(max_chunksize=_ROWS)

    def _matched(self, result: Any) -> Any:
        names = _order(result.schema.names, self._schema.names, self._by_name)
        columns = [result.column(i) for i in names]
        wrong = [
            f"column '{field.name}' (expected {field.type}, actual {column.type})"
            for field, column in zip(self._schema, columns, strict=True)
            if column.type != field.type
        ]
        if wrong:
            if self._by_name:
                wrong.sort()
            raise WrongResult(
                "Column types of the returned data do not match specified schema. "
                f"Mismatch: {', '.join(wrong)}."
            )
        return type(result).from_arrays(columns, names=self._schema.names)


class _Held(NamedTuple):
    """A DataFrame that waits for its like; `arrays` is None where it has to be converted alone."""

    group: int
    frame: pd.DataFrame
    arrays: list[Any] | None


class PandasResults:
    """DataFrames that a function returned.

    Guarantee: each is converted as if it were alone. Those that follow each other and have the same
    columns of the same types are converted at once, which for such gives the same values.

    Parameters:
        schema: that of the result.
        conversion: the session's settings.
    """

    def __init__(self, schema: StructType, conversion: Conversion) -> None:
        self._schema, self._conversion = schema, conversion
        self._orders: dict[tuple[Any, ...], list[int]] = {}
        self._held: list[_Held] = []
        self._kinds: tuple[Any, ...] | None = None
        self._runs: list[list[_Held]] = []
        self._rows = self._results = 0

    @property
    def full(self) -> bool:
        """Whether so much is held that it should be taken."""
        return self._rows >= _ROWS or self._results >= _RESULTS

    def add(self, group: int, result: Any, part: bool = False) -> None:
        """Hold a result, or refuse it; parameters as in `ArrowResults`."""
        import pandas as pd

        _check_type(result, pd.DataFrame, "pandas", part)
        names = tuple(result.columns)
        if not names and result.empty:
            return
        order = self._orders.get(names)
        if order is None:
            order = self._orders[names] = self._order_of(names) if names else []
        arrays = kinds = None
        if order:
            # What `DataFrame.items` gives, without a Series for each column of each group.
            arrays = [result._get_column_array(i) for i in order]
            kinds = tuple(array.dtype for array in arrays)
        if kinds is None or kinds != self._kinds:
            self._held = []
            self._runs.append(self._held)
            self._kinds = kinds
        self._held.append(_Held(group, result, arrays))
        self._rows += len(result)
        self._results += 1

    def take(self, failed: Failed) -> Iterator[pa.RecordBatch]:
        """What is held, in large batches.

        Parameters:
            failed: makes the error of a group that cannot be converted.
        """
        runs, self._runs, self._kinds = self._runs, [], None
        self._rows = self._results = 0
        for run in runs:
            yield from self._converted(run, failed)

    def _converted(self, run: list[_Held], failed: Failed) -> Iterator[pa.RecordBatch]:
        unexplained = None
        if len(run) > 1 and run[0].arrays is not None:
            arrays = [one.arrays for one in run if one.arrays is not None]
            columns = [_joined(parts) for parts in zip(*arrays, strict=True)]
            try:
                yield self._conversion.from_series(columns, self._schema)
                return
            except MemoryError:
                raise
            except (TypeError, *UNFIT):  # by one of them, or only because a type has to be guessed
                pass
            except Exception as error:  # by one of them, or else by a mistake of ours
                unexplained = error
        for one in run:
            try:
                batch = self._conversion.from_frame(one.frame, self._schema)
            except MemoryError:
                raise
            except Exception as error:
                raise failed(one.group, error) from None
            yield batch
        if unexplained is not None:
            raise unexplained

    def _order_of(self, names: tuple[Any, ...]) -> list[int]:
        """Where the columns of the schema are; empty if each frame has to be looked at alone."""
        by_name = self._conversion.by_name and any(isinstance(name, str) for name in names)
        order = _order(names, self._schema.names, by_name)
        return order if len(set(names)) == len(names) else []


def _joined(parts: Sequence[Any]) -> pd.Series:
    """The arrays of one column of several groups."""
    import pandas as pd

    if all(isinstance(part, np.ndarray) for part in parts):
        return pd.Series(np.concatenate(parts))
    return pd.concat([pd.Series(part) for part in parts], ignore_index=True)


def _order(names: Sequence[Any], expected: Sequence[str], by_name: bool) -> list[int]:
    """Where the expected columns are among these."""
    if not by_name:
        if len(names) != len(expected):
            raise WrongResult(
                "Number of columns of the returned data doesn't match specified schema. "
                f"Expected: {len(expected)} Actual: {len(names)}"
            )
        return list(range(len(expected)))
    missing = sorted(set(expected) - set(names))
    extra = sorted(map(str, set(names) - set(expected)))
    if missing or extra:
        raise WrongResult(
            "Column names of the returned data do not match specified schema."
            + (f" Missing: {', '.join(missing)}." if missing else "")
            + (f" Unexpected: {', '.join(extra)}." if extra else "")
        )
    place = {name: i for i, name in reversed(list(enumerate(names)))}
    return [place[name] for name in expected]


def _check_type(result: Any, expected: type, package: str, part: bool) -> None:
    if not isinstance(result, expected):
        many = "iterator of " if part else ""
        raise WrongResult(
            f"Return type of the user-defined function should be {many}{package}."
            f"{expected.__name__}, but is {many}{type(result).__name__}."
        )
