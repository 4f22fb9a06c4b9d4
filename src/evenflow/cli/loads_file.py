"""Load series of operators: columns operator, time, load, and optionally node and movable."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenflow.cli.rows_file import F64, I64, Booleans, RowsFile
from evenflow.model import InputError

if TYPE_CHECKING:
    from evenflow.placement.protocol import Observed

NODE, MOVABLE = "node", "movable"


@dataclass(frozen=True)
class LoadsFile:
    """The observed loads of operators, and their names.

    Parameters:
        observed: one row per operator, in order of first appearance.
        names: the operators.
        has_nodes: whether the file says where operators are.
    """

    observed: Observed
    names: list[str]
    has_nodes: bool


def read_loads(path: Path, samples: int | None = None) -> LoadsFile:
    """Reads and checks a file in long form: one row per operator and time.

    Parameters:
        path: Parquet, CSV or JSON lines.
        samples: use only this many of the latest times; all if not given.
    """
    from evenflow.placement.protocol import NOWHERE, Observed

    file = RowsFile.read(path, "operator", ("time", "load"), (NODE, MOVABLE), "place")
    file.refuse_nulls("operator", "time", "load", MOVABLE)  # a null node: nowhere yet
    operator, first = _numbered(file.table.column("operator"))
    names = file.texts("operator", first)
    time = _ordered(file.table.column("time"))
    series = _series(file, names, operator, time)
    if samples is not None:
        if samples > series.shape[1]:
            raise InputError(f"--samples {samples}: {str(path)!r} has only {series.shape[1]} times")
        series = np.ascontiguousarray(series[:, -samples:])
    latest = np.lexsort((time, operator))[np.cumsum(np.bincount(operator)) - 1]
    node = _nodes(file)[latest] if NODE in file else np.full(len(names), NOWHERE)
    movable = _movable(file)[latest] if MOVABLE in file else np.ones(len(names), np.bool_)
    stuck = np.flatnonzero(~movable & (node < 0))
    if len(stuck):
        raise InputError(
            f"{str(path)!r}: the operator {names[stuck[0]]!r} is not movable, so the file must "
            "name its node"
        )
    return LoadsFile(Observed.of(series, node, movable), names, NODE in file)


def _numbered(column: Any) -> tuple[I64, I64]:
    """Numbers for the values in order of first appearance, and the first row of each."""
    import pyarrow.compute as pc

    # Arrow lists unique values in order of appearance.
    numbers = np.array(pc.index_in(column, value_set=pc.unique(column)).to_numpy(), np.int64)
    _, first = np.unique(numbers, return_index=True)
    return numbers, first


def _ordered(column: Any) -> I64:
    """Numbers for the values in ascending order."""
    import pyarrow.compute as pc

    values = pc.unique(column)
    order = values.take(pc.array_sort_indices(values))
    return np.array(pc.index_in(column, value_set=order).to_numpy(), np.int64)


def _nodes(file: RowsFile) -> I64:
    missing = file.table.column(NODE).is_null().to_numpy()
    numbers = np.where(missing, -1.0, file.numbers(NODE))
    wrong = ~((numbers >= -1) & (numbers == np.floor(numbers)))
    file.refuse_where(wrong, NODE, "the number of a node from 0, or null", numbers)
    return numbers.astype(np.int64)


def _movable(file: RowsFile) -> Booleans:
    import pyarrow as pa

    column = file.table.column(MOVABLE)
    if not pa.types.is_boolean(column.type):
        raise InputError(f"{str(file.path)!r}: movable must be true or false, got {column.type}")
    return np.array(column.to_numpy(zero_copy_only=False), np.bool_)


def _series(file: RowsFile, names: list[str], operator: I64, time: I64) -> F64:
    """Operators × times; each pair must occur exactly once."""
    loads = file.amounts("load")
    times = int(time.max()) + 1
    cell = operator * times + time
    order = np.argsort(cell, kind="stable")
    again = np.flatnonzero(cell[order][1:] == cell[order][:-1])
    at = file.table.column("time")
    if len(again):
        row = int(order[again + 1].min())
        who = f"the operator {names[operator[row]]!r}"
        raise file.refusal(row, f"{who} has a load at time {at[row].as_py()} already")
    if len(cell) < len(names) * times:
        missing = int(np.setdiff1d(np.arange(len(names) * times), cell)[0])
        when = at[int(np.flatnonzero(time == missing % times)[0])].as_py()
        raise InputError(
            f"{str(file.path)!r}: the operator {names[missing // times]!r} has no load at time "
            f"{when}; every operator needs one at every time (0 if it was idle)"
        )
    series = np.empty(len(cell))
    series[cell] = loads
    return series.reshape(len(names), times)
