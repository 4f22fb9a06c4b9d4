"""The most frequent values of a column: approximate, in bounded space."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.frequent_values import TopK, first_items
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import one_array, plain_type
from evenflow.operators.sketch_library import (
    damaged_sketch,
    datasketches,
    from_texts,
    join_each,
    merged,
    read_sketch,
    sketch_each,
    texts,
)
from evenflow.operators.value_lists import distinct_pairs


@dataclass(frozen=True)
class TopKSketch(TopK):
    """Estimates the k most frequent values of a column with a frequent-items sketch.

    Guarantee: Apache DataSketches frequent strings. A count is never too small, and too large by at
    most 3.5 / 2^lg_size of the key's values (0.35 % for the default); so every value more frequent
    than the k-th by more than that is in the list. Exact while a key has at most 0.75 · 2^lg_size
    distinct values. The result has the same form as that of `top_k`. Null is not a value.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.
        k: how many values, 1 or more; at most 0.75 · 2^lg_size.
        lg_size: log₂ of the number of values that a key's sketch may hold, 3 … 26.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a"] * 4, "user": ["y", "x", "z", "z"]})
        >>> on_table(Aggregates(top=TopKSketch("user", 2)), rows, "page").to_pylist()
        [{'page': 'a', 'top': [{'item': 'z', 'count': 2}, {'item': 'x', 'count': 1}]}]

    Paper: Anderson et al., "A high-performance algorithm for identifying frequent items in data
    streams", IMC 2017.
    """

    name: ClassVar[str] = "approx_top_k"
    state_columns: ClassVar[tuple[str, ...]] = ("sketch", "type_of")

    lg_size: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.lg_size, int) and 3 <= self.lg_size <= 26):
            raise InputError(
                f"{self}: lg_size must be a whole number of 3 … 26, got {self.lg_size!r}"
            )
        if self.k > 0.75 * 2**self.lg_size:
            raise InputError(
                f"{self}: k = {self.k} is too large for a sketch of 2^{self.lg_size} values; "
                "raise lg_size"
            )

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The sketch of strings, null without values; and a column of nulls whose type tells `emit`
        what the strings stand for."""
        kind = plain_type(rows, self.column, self)
        return pa.schema([("sketch", pa.binary()), ("type_of", kind)])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """A sketch of the rows of each key."""
        kind = self.state_schema(table.schema).field("type_of").type
        make = datasketches().frequent_strings_sketch
        values, counts, groups = distinct_pairs(*self.values(table, groups))
        items, weights = texts(values), counts.tolist()

        def sketch_of(start: int, end: int) -> bytes:
            sketch = make(self.lg_size)
            update = sketch.update
            for row in range(start, end):
                update(items[row], weights[row])
            return bytes(sketch.serialize())

        return _state(sketch_each(groups, sketch_of), kind)

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The sketches merged."""
        join = functools.partial(merged, datasketches().frequent_strings_sketch)
        sketches = join_each(states.column("sketch"), groups, join)
        return _state(sketches, states.schema.field("type_of").type)

    def emit(self, state: pa.Table) -> pa.Array:
        """The first k by estimated count and value."""
        library = datasketches()
        found: list[tuple[int, str, int]] = []
        for number, sketch in enumerate(one_array(state.column("sketch")).to_pylist()):
            if sketch is not None:
                items = read_sketch(library.frequent_strings_sketch, sketch)
                try:
                    rows = items.get_frequent_items(library.NO_FALSE_NEGATIVES)
                    counts = np.array([upper for _, _, _, upper in rows], np.int64).tolist()
                except (RuntimeError, ValueError, OverflowError) as error:
                    raise damaged_sketch(error) from None
                found += [(number, row[0], n) for row, n in zip(rows, counts, strict=True)]
        kind = state.schema.field("type_of").type
        group = np.array([number for number, _, _ in found], np.int64)
        totals = np.array([count for _, _, count in found], np.int64)
        values = from_texts([item for _, item, _ in found], kind)
        return first_items(values, totals, Groups(group, state.num_rows), self.k)


def _state(sketches: pa.Array, kind: pa.DataType) -> pa.Table:
    return pa.table({"sketch": sketches, "type_of": pa.nulls(len(sketches), kind)})
