"""What a function is given: the rows of one group after the other, as pandas or Arrow has them.

Whole chunks of groups are converted at once and then sliced, because converting a few rows costs more
than most functions do with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from evenflow.operators.groups import I64
from evenflow.spark.conversion import Conversion

if TYPE_CHECKING:
    import pandas as pd


UNFIT = (ValueError, OverflowError, NotImplementedError, pa.ArrowException)
"""What Arrow, pandas and PySpark raise for a value that has no counterpart. Others are mistakes."""


class ArrowSlices:
    """The rows of each group as an Arrow table.

    Parameters:
        table: the rows, group by group.
        bounds: where each group begins and, at the next index, ends.
    """

    def __init__(self, table: pa.Table, bounds: I64) -> None:
        self._table, self._bounds = table, bounds.tolist()

    def __getitem__(self, group: int) -> pa.Table:
        start, end = self._bounds[group : group + 2]
        return self._table.slice(start, end - start)

    def batches(self, group: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a group, in batches of so many."""
        table = self[group].combine_chunks()
        if not table.num_columns:
            yield pa.record_batch([])
        yield from table.to_batches(max_chunksize=rows)


class PandasSlices:
    """The rows of each group as a DataFrame of its own.

    Guarantee: types are those that the group alone would have. A column of integers is one of floats
    only for groups that have a null in it, as in PySpark; so is one of lists, maps or structs of them.

    Parameters:
        table, bounds: as in `ArrowSlices`.
        conversion: the session's settings.
    """

    def __init__(self, table: pa.Table, bounds: I64, conversion: Conversion) -> None:
        self._table, self._conversion = table, conversion
        self._bounds = bounds
        holes = np.zeros(len(bounds) - 1, np.int64)
        found = 0
        for column in table.columns:
            for null in nulls_that_matter(column):
                before = np.concatenate([np.zeros(1, np.int64), np.cumsum(null)])
                has = before[bounds[1:]] > before[bounds[:-1]]
                # Too many such columns for bits share the last one; its groups are converted alone.
                holes |= has.astype(np.int64) << min(found, 62)
                found += 1
        self._pattern = holes.tolist()
        self._patterns = np.unique(holes).tolist()
        self._frames: dict[int, pd.DataFrame | None] = {}
        self._starts: dict[int, list[int]] = {}
        self._of = holes

    def __getitem__(self, group: int) -> pd.DataFrame:
        import pandas as pd

        pattern = self._pattern[group]
        if pattern not in self._frames:
            self._prepare(pattern)
        frame = self._frames[pattern]
        start, end = int(self._bounds[group]), int(self._bounds[group + 1])
        if frame is None:
            return self._frame(self._rows(start, end))
        first = self._starts[pattern][group]
        part = frame.iloc[first : first + end - start]
        part.index = pd.RangeIndex(end - start)
        # A slice like any other DataFrame: who assigns to it need not be warned of a larger one.
        part._is_copy = None
        return part

    def batches(self, group: int, rows: int) -> Iterator[pd.DataFrame]:
        """The rows of a group, in batches of so many, each with types of its own."""
        start, end = int(self._bounds[group]), int(self._bounds[group + 1])
        if end - start <= rows:
            yield self[group]
            return
        for first in range(start, end, rows):
            yield self._frame(self._rows(first, min(first + rows, end)))

    def _prepare(self, pattern: int) -> None:
        """Convert the rows of all groups that have nulls in the same columns."""
        sizes = np.diff(self._bounds)
        mine = self._of == pattern
        starts = np.cumsum(np.where(mine, sizes, 0)) - np.where(mine, sizes, 0)
        self._starts[pattern] = starts.tolist()
        table = self._table
        if not mine.all():
            table = table.filter(pa.array(np.repeat(mine, sizes)))
        try:
            self._frames[pattern] = self._frame(table) if not pattern >> 62 else None
        except UNFIT:
            # A value that pandas cannot hold: the group that has it is found when its turn comes.
            self._frames[pattern] = None

    def _rows(self, start: int, end: int) -> pa.Table:
        # A copy, because pyarrow converts a slice of maps by the nulls of the whole.
        return self._table.take(pa.array(np.arange(start, end)))

    def _frame(self, table: pa.Table) -> pd.DataFrame:
        import pandas as pd

        return pd.concat(self._conversion.to_series(table), axis=1)


def frame_of(batch: pa.RecordBatch, conversion: Conversion) -> pd.DataFrame:
    """One batch as a DataFrame."""
    bounds = np.array([0, batch.num_rows])
    return PandasSlices(pa.Table.from_batches([batch]), bounds, conversion)[0]


class ArrowKeys:
    """The keys of groups, as tuples of Arrow's scalars."""

    def __init__(self, keys: pa.Table) -> None:
        self._columns = [column.combine_chunks() for column in keys.columns]

    def __getitem__(self, group: int) -> tuple[pa.Scalar, ...]:
        return tuple(column[group] for column in self._columns)


class PandasKeys:
    """The keys of groups, as tuples of the values that a Series of the group would have."""

    def __init__(self, keys: pa.Table, conversion: Conversion) -> None:
        self._values = [_values(keys.select([i]), conversion) for i in range(keys.num_columns)]

    def __getitem__(self, group: int) -> tuple[Any, ...]:
        return tuple(values[group] for values in self._values)


def _values(column: pa.Table, conversion: Conversion) -> list[Any]:
    """The values of one column, each as it would be alone."""
    alike = np.zeros(column.num_rows, np.int64)
    for place, null in enumerate(nulls_that_matter(column.column(0))):
        alike |= null.astype(np.int64) << min(place, 62)
    values: list[Any] = [None] * column.num_rows
    for pattern in np.unique(alike).tolist():
        rows = np.flatnonzero(alike == pattern)
        found = conversion.to_series(column.take(pa.array(rows)))[0].array
        for i, row in enumerate(rows.tolist()):
            values[row] = found[i]
    return values


def nulls_that_matter(column: pa.Array | pa.ChunkedArray) -> list[npt.NDArray[np.bool_]]:
    """The rows with a null, for each integer or boolean in a column that has one, at any depth.

    pandas has another type for such values if one of them is null, also within lists, maps and structs.

    Example:
        >>> nulls_that_matter(pa.array([[1, 2], None, [None]]))[0].tolist()
        [False, False, True]
        >>> nulls_that_matter(pa.array(["a", None]))
        []
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if types.is_integer(kind) or types.is_boolean(kind):
        return [array.is_null().to_numpy(zero_copy_only=False)] if array.null_count else []
    if types.is_struct(kind):
        return [null for field in array.flatten() for null in nulls_that_matter(field)]
    if types.is_map(kind):
        pairs = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return nulls_that_matter(array.cast(pa.list_(pairs)))
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return []
    found = []
    for null in nulls_that_matter(array.flatten()):
        rows = np.zeros(len(array), np.bool_)
        rows[pc.list_parent_indices(array).to_numpy()[null]] = True
        found.append(rows)
    return found
