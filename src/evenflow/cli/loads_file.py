"""Load series of operators: columns operator, time, load, and perhaps node and movable."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenflow.cli.statistics_file import explained, key_texts
from evenflow.model import InputError
from evenflow.model.file_formats import format_of, is_compressed

if TYPE_CHECKING:
    from evenflow.placement.protocol import Observed

REQUIRED = ("operator", "time", "load")
NODE, MOVABLE = "node", "movable"
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LoadsFile:
    """What was seen of the operators, and their names.

    Parameters:
        observed: one row an operator, in the order in which they first stand in the file.
        names: the operators.
        has_nodes: whether the file says where operators are.
    """

    observed: Observed
    names: list[str]
    has_nodes: bool


def read_loads(path: Path, samples: int | None = None) -> LoadsFile:
    """Reads and checks a file in long form: one row for each operator and time.

    Parameters:
        path: Parquet, CSV or JSON lines.
        samples: the last so many times are used; all, if not given.
    """
    from evenflow.placement.protocol import NOWHERE, Observed
    from evenflow.simulator.workloads import KeyFile

    KeyFile(path, REQUIRED)  # refuses what cannot be read, and names columns that are not there
    with explained(path):
        table = _read(path)
    if not table.num_rows:
        raise InputError(f"{str(path)!r} has columns but no rows: there is nothing to place")
    _refuse_nulls(path, table)
    operator, first = _numbered(table.column("operator"))
    names = key_texts(table.column("operator"), first)
    time = _ordered(table.column("time"))
    loads = _loads(path, table)
    series = _series(path, names, table, operator, time, loads)
    if samples is not None:
        if samples > series.shape[1]:
            raise InputError(f"--samples {samples}: {str(path)!r} has only {series.shape[1]} times")
        series = np.ascontiguousarray(series[:, -samples:])
    latest = np.lexsort((time, operator))[np.cumsum(np.bincount(operator)) - 1]
    node: npt.NDArray[Any] = np.full(len(names), NOWHERE)
    has_nodes = NODE in table.column_names
    if has_nodes:
        node = _nodes(path, table)[latest]
    movable = np.ones(len(names), np.bool_)
    if MOVABLE in table.column_names:
        movable = _movable(path, table)[latest]
        stuck = np.flatnonzero(~movable & (node < 0))
        if len(stuck):
            raise InputError(
                f"{str(path)!r}: the operator {names[stuck[0]]!r} is not movable, so the file must "
                "say on which node it is"
            )
    return LoadsFile(Observed.of(series, node, movable), names, has_nodes)


def _read(path: Path) -> Any:
    import pyarrow as pa

    kind = format_of(path)
    if kind == "Parquet":
        import pyarrow.parquet as pq

        there = pq.read_schema(path).names
        wanted = [c for c in (*REQUIRED, NODE, MOVABLE) if c in there]
        return pq.read_table(path, columns=wanted)

    def stream() -> Any:
        return pa.input_stream(str(path), compression="gzip" if is_compressed(path) else None)

    if kind == "CSV":
        from pyarrow import csv

        options = csv.ConvertOptions(column_types={"operator": pa.string()})
        return csv.read_csv(stream(), convert_options=options)
    from pyarrow import json as json_lines

    return json_lines.read_json(stream())


def _refuse(path: Path, row: int, reason: str) -> InputError:
    return InputError(f"{str(path)!r}, row {row + 1}: {reason}")


def _refuse_nulls(path: Path, table: Any) -> None:
    # A null node is an operator that is nowhere yet.
    for name in (*REQUIRED, MOVABLE):
        if name in table.column_names and table.column(name).null_count:
            row = int(np.flatnonzero(table.column(name).is_null().to_numpy())[0])
            raise _refuse(path, row, f"{name} is null; every row needs a value there")


def _numbered(column: Any) -> tuple[I64, I64]:
    """The values numbered in the order in which they first come, and the row of each first."""
    import pyarrow.compute as pc

    # Arrow lists unique values in the order in which they come.
    numbers = np.array(pc.index_in(column, value_set=pc.unique(column)).to_numpy(), np.int64)
    _, first = np.unique(numbers, return_index=True)
    return numbers, first


def _ordered(column: Any) -> I64:
    """The values numbered in ascending order."""
    import pyarrow.compute as pc

    values = pc.unique(column)
    order = values.take(pc.array_sort_indices(values))
    return np.array(pc.index_in(column, value_set=order).to_numpy(), np.int64)


def _numbers(path: Path, table: Any, name: str) -> npt.NDArray[np.float64]:
    import pyarrow as pa

    column = table.column(name)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise InputError(f"{str(path)!r}: {name} must be numbers, got {column.type}")
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _loads(path: Path, table: Any) -> npt.NDArray[np.float64]:
    loads = _numbers(path, table, "load")
    wrong = np.flatnonzero(~(np.isfinite(loads) & (loads >= 0)))
    if len(wrong):
        given = loads[wrong[0]]
        raise _refuse(path, int(wrong[0]), f"load must be finite and not negative, got {given:g}")
    return loads


def _nodes(path: Path, table: Any) -> npt.NDArray[np.int64]:
    import pyarrow.compute as pc

    missing = pc.is_null(table.column(NODE)).to_numpy()
    numbers = np.where(missing, -1.0, _numbers(path, table, NODE))
    wrong = np.flatnonzero(~((numbers >= -1) & (numbers == np.floor(numbers))))
    if len(wrong):
        given = numbers[wrong[0]]
        raise _refuse(
            path, int(wrong[0]), f"node must be the number of a node from 0, or null, got {given:g}"
        )
    return numbers.astype(np.int64)


def _movable(path: Path, table: Any) -> npt.NDArray[np.bool_]:
    import pyarrow as pa

    column = table.column(MOVABLE)
    if not pa.types.is_boolean(column.type):
        raise InputError(f"{str(path)!r}: movable must be true or false, got {column.type}")
    return np.array(column.to_numpy(zero_copy_only=False), np.bool_)


def _series(
    path: Path,
    names: list[str],
    table: Any,
    operator: I64,
    time: I64,
    loads: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Operators by times; every one must be there once."""
    times = int(time.max()) + 1
    cell = operator * times + time
    order = np.argsort(cell, kind="stable")
    again = np.flatnonzero(cell[order][1:] == cell[order][:-1])
    if len(again):
        row = int(order[again + 1].min())
        raise _refuse(
            path,
            row,
            f"the operator {names[operator[row]]!r} has a load at time "
            f"{table.column('time')[row].as_py()} already",
        )
    if len(cell) < len(names) * times:
        missing = int(np.setdiff1d(np.arange(len(names) * times), cell)[0])
        at = int(np.flatnonzero(time == missing % times)[0])
        raise InputError(
            f"{str(path)!r}: the operator {names[missing // times]!r} has no load at time "
            f"{table.column('time')[at].as_py()}; every operator needs one at every time (0 if it "
            "was idle)"
        )
    series = np.empty(len(cell))
    series[cell] = loads
    return series.reshape(len(names), times)
