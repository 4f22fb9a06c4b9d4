"""What a user's function puts out, gathered over many keys and converted together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.processors import WrongOutput
from evenflow.spark.columns import arrow_types
from evenflow.spark.stateful.frames import FrameSettings, to_arrow

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.types import StructType


class FrameResults:
    """DataFrames of many keys. To convert each alone would take most of the time, so those of the same
    columns and types are put together before.

    Parameters:
        schema: what they must have.
        settings: Spark's.
    """

    def __init__(self, schema: StructType, settings: FrameSettings) -> None:
        self._schema, self._settings = schema, settings
        self._frames: list[tuple[pd.DataFrame, str, Any]] = []

    def add(self, made: Any, function: str, key: Any) -> None:
        """Take what a function gave for a key: any number of DataFrames."""
        import pandas as pd

        if made is None:
            return
        for frame in made:
            if not isinstance(frame, pd.DataFrame):
                raise TypeError(f"it must give pandas DataFrames, and gave {type(frame).__name__}")
            if len(frame):
                self._frames.append((frame, function, key))

    def take(self) -> Iterator[pa.Table]:
        """The rows since the last call."""
        import pandas as pd

        frames, self._frames = self._frames, []
        start = 0
        for stop in range(1, len(frames) + 1):
            if stop < len(frames) and _alike(frames[start][0], frames[stop][0]):
                continue
            some = [frame for frame, _, _ in frames[start:stop]]
            try:
                together = some[0] if len(some) == 1 else pd.concat(some, ignore_index=True)
                made = to_arrow(together, self._schema, self._settings)
            except Exception as error:
                self._blame(frames[start:stop], error)
            yield made
            start = stop

    def _blame(self, frames: list[tuple[pd.DataFrame, str, Any]], error: Exception) -> None:
        """Find out whose DataFrame cannot be converted."""
        for frame, function, key in frames:
            try:
                to_arrow(frame, self._schema, self._settings)
            except Exception as own:
                raise WrongOutput(function, key, own) from own
        raise WrongOutput(frames[0][1], frames[0][2], error) from error


def _alike(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether two DataFrames can be put together without a change of types."""
    if a is b:
        return True
    # `dtypes` would make a Series for each of many small DataFrames, which takes most of the time.
    types = [list(frame._mgr.get_dtypes()) for frame in (a, b)]
    return types[0] == types[1] and list(a.columns) == list(b.columns)


class RowResults:
    """`Row`s of many keys.

    Parameters:
        schema: what they must have.
    """

    def __init__(self, schema: StructType) -> None:
        self._schema = arrow_types(schema)
        self._rows: list[tuple[dict[str, Any], str, Any]] = []

    def add(self, made: Any, function: str, key: Any) -> None:
        """Take what a function gave for a key: any number of `Row`s."""
        from pyspark.sql import Row

        if made is None:
            return
        for row in made:
            if not isinstance(row, Row) or not hasattr(row, "__fields__"):
                raise TypeError(
                    f"it must give Rows with names, as in Row(id=1), and gave {type(row).__name__}"
                )
            self._rows.append((row.asDict(True), function, key))

    def take(self) -> Iterator[pa.Table]:
        """The rows since the last call."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        try:
            yield pa.Table.from_pylist([row for row, _, _ in rows], schema=self._schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            for row, function, key in rows:
                try:
                    pa.Table.from_pylist([row], schema=self._schema)
                except Exception as own:
                    raise WrongOutput(function, key, own) from own
            raise WrongOutput(rows[0][1], rows[0][2], error) from error
