"""Which rows are duplicates, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.input_columns import column_type
from evenflow.operators.windows import check_time


@dataclass(frozen=True)
class Deduplication:
    """One row of each key counts; later ones are its duplicates.

    Parameters:
        keys: the key columns.
        output: all columns of a row, in their order.
        column: the event time, where there is a watermark: late rows are dropped, and if it is among
            the keys, a key is forgotten once the watermark has passed it.
        delay: how late a row may be, in event time.
        within: whether a key is forgotten once the watermark has passed the event time of its row by
            `delay`, so that a row counts again that comes later still.
    """

    keys: tuple[str, ...]
    output: tuple[str, ...]
    column: str | None = None
    delay: int = 0
    within: bool = False

    def __post_init__(self) -> None:
        if self.within and self.column is None:
            raise InputError("to forget keys by event time, a watermark is needed")
        missing = [name for name in self.keys if name not in self.output]
        if missing:
            raise InputError(
                f"the key column {missing[0]!r} is not among the columns of the output"
            )

    def columns(self) -> list[str]:
        """What it reads of a row besides the key."""
        return list(dict.fromkeys([*self.output, *([] if self.column is None else [self.column])]))

    def check(self, rows: pa.Schema) -> None:
        """Refuse an event time that is not a timestamp."""
        if self.column is not None:
            check_time(
                column_type(rows, self.column, "dropDuplicates"), self.column, "dropDuplicates"
            )

    def signature(self) -> dict[str, str | list[str] | bool | None]:
        """What must stay the same for state to remain valid: not the other columns, as in Spark."""
        return {
            "within": self.within,
            "time": self.column if self.within or self.column in self.keys else None,
        }
