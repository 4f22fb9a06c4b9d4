"""The most frequent values of a column: exact, by counting all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.groups import I64, Groups
from evenflow.operators.input_columns import one_array, plain_type
from evenflow.operators.value_lists import distinct_pairs, flattened, lists_of
from evenflow.operators.value_order import order_numbers


class CountedValues(ColumnAggregate):
    """What `top_k` and `mode` share: the state is every distinct value and how often it came."""

    state_columns: ClassVar[tuple[str, ...]] = ("values", "counts")

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The distinct values and how often each came, as two lists."""
        kind = plain_type(rows, self.column, self)
        return pa.schema([("values", pa.list_(kind)), ("counts", pa.list_(pa.int64()))])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The counts of the values of each key."""
        self.state_schema(table.schema)
        return _state(*distinct_pairs(*self.values(table, groups)))

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The counts of the parts, added up value by value."""
        values, of = flattened(one_array(states.column("values")), groups)
        counts, _ = flattened(one_array(states.column("counts")), groups)
        return _state(*distinct_pairs(values, of, counts.to_numpy()))

    def counted(self, state: pa.Table) -> tuple[pa.Array, I64, Groups]:
        """The distinct values of all keys, how often each came, and the key of each."""
        every = Groups(np.arange(state.num_rows), state.num_rows)
        values, of = flattened(one_array(state.column("values")), every)
        counts, _ = flattened(one_array(state.column("counts")), every)
        return values, counts.to_numpy(), of


@dataclass(frozen=True)
class TopK(CountedValues):
    """The k most frequent values of a column with their counts.

    Guarantee: exact. The result is a list of structs (item, count), highest count first, ties by
    smaller value; shorter than k if there are fewer values, empty if there are none. Null is not a
    value. The state of a key, and the time to update it, grow with its distinct values;
    `top_k(column, k, approximate=True)` bounds both.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.
        k: how many values, 1 or more.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a"] * 4, "user": ["y", "x", "z", "z"]})
        >>> on_table(Aggregates(top=TopK("user", 2)), rows, "page").to_pylist()
        [{'page': 'a', 'top': [{'item': 'z', 'count': 2}, {'item': 'x', 'count': 1}]}]
    """

    name: ClassVar[str] = "top_k"

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.k, int) and self.k >= 1):
            raise InputError(f"{self}: k must be a whole number of 1 or more, got {self.k!r}")

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A list of structs (item, count)."""
        return pa.schema([("top_k", items_type(plain_type(rows, self.column, self)))])

    def emit(self, state: pa.Table) -> pa.Array:
        """The first k by count and value."""
        return first_items(*self.counted(state), self.k)

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `COLUMN:3`."""
        column, _, number = text.rpartition(":")
        if not column or not number.isdecimal():
            raise InputError(
                f"'{cls.name}:{text}': expected a column and a number, as in '{cls.name}:user:3'"
            )
        return cls(column, int(number))


def items_type(kind: pa.DataType) -> pa.DataType:
    """The type of a list of items and their counts; the names are those of Spark's `approx_top_k`."""
    return pa.list_(pa.struct([("item", kind), ("count", pa.int64())]))


def first_items(values: pa.Array, counts: I64, groups: Groups, k: int) -> pa.Array:
    """The k values of each group with the highest counts; ties by smaller value.

    Parameters:
        values: distinct within a group, without nulls.
        counts: of each value.
        groups: of each value.
        k: how many.
    """
    kept = most_frequent(values, counts, groups, k)
    fields = [values.take(pa.array(kept, pa.int64())), pa.array(counts[kept], pa.int64())]
    items = pa.StructArray.from_arrays(fields, fields=list(items_type(values.type).value_type))
    return lists_of(items, groups.where(kept))


def most_frequent(values: pa.Array, counts: I64, groups: Groups, k: int) -> I64:
    """The places of the k values of each group with the highest counts, as in `first_items`."""
    order = np.lexsort((order_numbers(values), -counts, groups.group))
    group = groups.group[order]
    return order[np.arange(len(order)) - groups.starts[group] < k]


def _state(values: pa.Array, counts: I64, groups: Groups) -> pa.Table:
    return pa.table(
        {
            "values": lists_of(values, groups),
            "counts": lists_of(pa.array(counts, pa.int64()), groups),
        }
    )
