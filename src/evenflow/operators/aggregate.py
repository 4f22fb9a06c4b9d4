"""The protocol of aggregates: one column of the output, and the state that it needs."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import ClassVar, Self

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import one_array, present


class Aggregate:
    """One value per key. Frozen and picklable; `Aggregates` runs several.

    A new aggregate is one file: a frozen dataclass with a `name`, which the command line finds. It
    computes partial states from rows (`partial`) and merges them (`merge`), for all keys at once.

    Guarantee: nulls are skipped, NaN is the largest number and equal to itself, −0.0 equals 0.0, as
    in Spark. Rows may be split into parts and merged in any way; where an aggregate follows the order
    of rows and parts, as `first` does, it says so.
    """

    name: ClassVar[str]
    state_columns: ClassVar[tuple[str, ...]]  # the names of its state columns, for every input
    #: Whether its state stays right when the numbers that it reads become wider, as int to bigint.
    any_width: ClassVar[bool] = True
    #: Whether it takes fingerprints of its columns' values, which is compiled code.
    fingerprints: ClassVar[bool] = False

    def columns(self) -> tuple[str, ...]:
        """The input columns it reads."""
        raise NotImplementedError

    def definition(self) -> str:
        """What it computes, by which a checkpoint knows its state: its name and its fields.

        Example:
            >>> from evenflow.operators import top_k
            >>> top_k("user", 3).definition()
            "top_k(column='user', k=3)"
        """
        names: list[str] = [one.name for one in fields(self)] if is_dataclass(self) else []
        return f"{self.name}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def compared(self) -> tuple[str, ...]:
        """Those input columns whose values it compares with each other; all by default."""
        return self.columns()

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of its state, given the schema of the rows."""
        raise NotImplementedError

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The one column that `emit` returns, given the schema of the rows; the state by default."""
        return self.state_schema(rows)

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The state of each key, from these rows alone."""
        raise NotImplementedError

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """Merge any number of partial states per key into one. A state of nulls only adds nothing."""
        raise NotImplementedError

    def emit(self, state: pa.Table) -> pa.Array:
        """The result of each key; the first state column by default."""
        return one_array(state.column(0))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The aggregate from the text after the colon on the command line."""
        raise NotImplementedError


@dataclass(frozen=True)
class ColumnAggregate(Aggregate):
    """An aggregate of one column.

    Parameters:
        column: the input column.
    """

    column: str

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(
                f"{self.name} needs the name of a column, got {self.column!r}; "
                f'write {self.name}("column")'
            )

    def columns(self) -> tuple[str, ...]:
        """The input column."""
        return (self.column,)

    def values(self, table: pa.Table, groups: Groups) -> tuple[pa.Array, Groups]:
        """The non-null values of the column, and their groups."""
        return present(one_array(table.column(self.column)), groups)

    def __str__(self) -> str:
        return f"{self.name}({self.column!r})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The aggregate of the column of that name."""
        if not text:
            raise InputError(f"{cls.name!r} needs a column: write '{cls.name}:COLUMN'")
        return cls(text)
