"""The protocol of aggregates: one column of the output, and the state that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import one_array, present


class Aggregate:
    """One number, or one value, of each key. Frozen, picklable; `Aggregates` runs several.

    A new aggregate is one file: a frozen dataclass with a `name`, which the command line finds. It
    says what the rows of a part amount to (`partial`) and how parts are put together (`merge`), for
    all keys at once.

    Guarantee: nulls are skipped, NaN is the largest number and equal to itself, −0.0 equals 0.0, as
    in Spark. Parts may be cut and merged in any way.
    """

    name: ClassVar[str]
    state_columns: ClassVar[tuple[str, ...]]  # the names of its state columns, for every input

    def columns(self) -> tuple[str, ...]:
        """The input columns it reads."""
        raise NotImplementedError

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of its state, given the schema of the rows."""
        raise NotImplementedError

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """One column: what `emit` returns, given the schema of the rows."""
        raise NotImplementedError

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The state of each key, from these rows alone."""
        raise NotImplementedError

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """One state a key, of any number of parts. A state that is null throughout adds nothing."""
        raise NotImplementedError

    def emit(self, state: pa.Table) -> pa.Array:
        """The result of each key."""
        raise NotImplementedError

    @classmethod
    def parse(cls, text: str) -> Self:
        """The aggregate from what stands behind the colon on the command line."""
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
        """The values of the column that are not null, and their groups."""
        return present(one_array(table.column(self.column)), groups)

    def __str__(self) -> str:
        return f"{self.name}({self.column!r})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The aggregate of the column of that name."""
        if not text:
            raise InputError(f"{cls.name!r} needs a column: write '{cls.name}:COLUMN'")
        return cls(text)
