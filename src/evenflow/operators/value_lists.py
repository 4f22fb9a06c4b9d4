"""State that is a list of values per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.operators.groups import I64, Groups
from evenflow.operators.value_order import codes


def flattened(lists: pa.Array, groups: Groups) -> tuple[pa.Array, Groups]:
    """All values of all lists, and the group of each. A null list has no values."""
    parents = pc.list_parent_indices(lists).to_numpy()
    return pc.list_flatten(lists), groups.where(parents)


def distinct_pairs(
    values: pa.Array, groups: Groups, weights: I64 | None = None
) -> tuple[pa.Array, I64, Groups]:
    """The distinct values of each group, group by group; how often each occurs; their groups.

    Parameters:
        values: without nulls.
        groups: the group of each value.
        weights: how often each value counts; 1 by default.

    Example:
        >>> values, counts, groups = distinct_pairs(
        ...     pa.array(["x", "y", "x", "x"]), Groups(np.array([0, 0, 0, 1]), 2))
        >>> values.to_pylist(), counts.tolist(), groups.group.tolist()
        (['x', 'y', 'x'], [2, 1, 1], [0, 0, 1])
    """
    numbers, distinct = codes(values)
    width = max(1, len(distinct))
    pair = groups.group * width + numbers
    order = None if weights is None else np.argsort(pair)
    pair = np.sort(pair) if order is None else pair[order]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    if weights is None:
        counts = np.diff(first, append=len(pair))
    else:
        counts = np.add.reduceat(weights[order], first) if len(first) else weights[:0]
    group, number = np.divmod(pair[first], width)
    return distinct.take(pa.array(number)), counts, Groups(group, groups.n)


def lists_of(values: pa.Array, groups: Groups, kind: pa.DataType | None = None) -> pa.Array:
    """One list per group, from values sorted by group; empty for a group without values.

    Parameters:
        kind: the type of the lists; None for `pa.list_` of the values' type.
    """
    return pa.ListArray.from_arrays(pa.array(groups.bounds, pa.int32()), values, kind)


def list_type(kind: pa.DataType) -> pa.DataType:
    """A list without nulls, as Spark collects values."""
    return pa.list_(pa.field("element", kind, nullable=False))
