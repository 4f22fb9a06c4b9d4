"""Operators on local tables, for experiments, tests and examples. No Spark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from evenflow.operators.grouping_rows import group_rows, keys_at
from evenflow.operators.input_columns import column_type
from evenflow.operators.protocol import Operator, Rows
from evenflow.operators.windows import WINDOW, Window, times_of, window_column

_END = "__window_end"


def on_table(
    operator: Operator, table: pa.Table, key: str | Sequence[str], window: Window | None = None
) -> pa.Table:
    """The key columns and the operator's output, one row per key, in order of first appearance.

    With a window, one row per key and window: the column `window` follows the key.

    Example:
        >>> from evenflow.operators import Aggregates, count
        >>> rows = pa.table({"page": ["b", None, "b"]})
        >>> on_table(Aggregates(hits=count()), rows, "page").to_pylist()
        [{'page': 'b', 'hits': 2}, {'page': None, 'hits': 1}]
    """
    if window is not None:
        names = [key] if isinstance(key, str) else list(key)
        expanded = on_table(operator, in_windows(table, window), [*names, _END])
        ends = expanded.column(_END).to_numpy()
        column = window_column(ends, window.size, window.time_type(table.schema))
        return expanded.set_column(len(names), WINDOW, column)
    rows = rows_by_key(table, key)
    schema = operator.state_schema(table.schema)
    state = operator.update(rows, no_state(schema, rows.n_keys))
    output, kept = operator.emitted(rows.keys, state)
    keys = rows.keys if kept is None else rows.keys.take(pa.array(kept))
    return pa.table([*keys.columns, *output.columns], [*keys.column_names, *output.column_names])


def in_windows(table: pa.Table, window: Window) -> pa.Table:
    """Every row once per window that contains it, with the window's end; a row without event time is in
    no window."""
    times, known = times_of(table.column(window.column))
    rows = np.flatnonzero(known)
    place, ends = window.ends(times[rows])
    return table.take(pa.array(rows[place])).append_column(_END, pa.array(ends))


def rows_by_key(table: pa.Table, key: str | Sequence[str]) -> Rows:
    """The table with its distinct keys. Null is a key, NaN is one key, and so are −0.0 and 0.0."""
    names = [key] if isinstance(key, str) else list(key)
    for name in names:
        column_type(table.schema, name, "key")
    group, first = group_rows([table.column(name) for name in names])
    return Rows(table, group, keys_at(table.select(names), first))


def no_state(schema: pa.Schema, n: int) -> pa.Table:
    """The empty states of n keys."""
    return pa.table([pa.nulls(n, field.type) for field in schema], schema=schema)
