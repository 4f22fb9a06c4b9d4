"""What was seen of each key, from a file with columns key, cost, state_bytes, worker, hash_worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError, Workers
from evenflow.model.file_formats import format_of, is_compressed

if TYPE_CHECKING:
    from evenflow.planning.protocol import F64, I32, U64, Statistics

REQUIRED = ("key", "cost", "state_bytes", "worker")
HOME = "hash_worker"
_MOST_WORKERS = 2**31 - 1


@dataclass(frozen=True)
class StatisticsFile:
    """Statistics, and the keys themselves.

    Parameters:
        statistics: one row a key, in the order of the file.
        values: the column of keys.
        hashed: whether homes are this package's hash, because the file has none.
    """

    statistics: Statistics
    values: Any
    hashed: bool

    def texts(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The keys of these rows as text."""
        return key_texts(self.values, rows)


def read_statistics(
    path: Path, workers: Workers, seed: int = 0, leaving: bool = False
) -> StatisticsFile:
    """Reads and checks a file; refuses, with the row, what cannot be a key's statistics.

    Parameters:
        path: Parquet, CSV or JSON lines.
        workers: those that keys can be given to, with their weights.
        seed: of the hash, where the file has no `hash_worker`.
        leaving: whether keys may be on further workers now, which are about to leave.
    """
    from evenflow.kernels.fingerprints import fingerprint
    from evenflow.planning.protocol import Statistics
    from evenflow.simulator.workloads import KeyFile

    KeyFile(path, REQUIRED)  # refuses what cannot be read, and names columns that are not there
    with explained(path):
        table = _read(path)
    if not table.num_rows:
        raise InputError(f"{str(path)!r} has columns but no rows: there is nothing to plan")
    _refuse_nulls(path, table)
    values = table.column("key")
    keys = fingerprint(values)
    _refuse_twice(path, keys, values)
    most = _MOST_WORKERS if leaving else len(workers)
    worker = _workers(path, table, "worker", most)
    hashed = HOME not in table.column_names
    home = _homes(keys, workers, seed) if hashed else _workers(path, table, HOME, len(workers))
    costs, state = (_amounts(path, table, name) for name in ("cost", "state_bytes"))
    return StatisticsFile(Statistics(keys, costs, state, worker, home), values, hashed)


def key_texts(values: Any, rows: npt.NDArray[np.int64]) -> list[str]:
    """Keys as text: strings as they are, binary as 0x…, structs as JSON, all else as Arrow writes it.

    Example:
        >>> import numpy as np, pyarrow as pa
        >>> key_texts(pa.chunked_array([[3, 14]]), np.array([1]))
        ['14']
    """
    import pyarrow as pa

    chosen = values.take(pa.array(rows, pa.int64()))
    if pa.types.is_dictionary(chosen.type):
        chosen = chosen.cast(chosen.type.value_type)
    if pa.types.is_struct(chosen.type):
        return [json.dumps(value, ensure_ascii=False, default=str) for value in chosen.to_pylist()]
    if "binary" in str(chosen.type):
        return ["0x" + value.hex() for value in chosen.to_pylist()]
    texts: list[str] = chosen.cast(pa.string()).to_pylist()
    return texts


def _read(path: Path) -> Any:
    """The columns that are needed, as a table."""
    import pyarrow as pa

    kind = format_of(path)
    if kind == "Parquet":
        import pyarrow.parquet as pq

        there = pq.read_schema(path).names
        return pq.read_table(path, columns=[c for c in (*REQUIRED, HOME) if c in there])

    def stream() -> Any:
        return pa.input_stream(str(path), compression="gzip" if is_compressed(path) else None)

    if kind == "CSV":
        from pyarrow import csv

        return csv.read_csv(
            stream(),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            # A key of a CSV file is its text: 7 and 07 differ.
            convert_options=csv.ConvertOptions(column_types={"key": pa.string()}),
        )
    from pyarrow import json as json_lines

    table = json_lines.read_json(stream())
    if pa.types.is_timestamp(table.schema.field("key").type):
        # A text that looks like a time is still the text that it is.
        schema = pa.schema([("key", pa.string())])
        options = json_lines.ParseOptions(explicit_schema=schema)
        table = json_lines.read_json(stream(), parse_options=options)
    return table


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the reader's complaint about a file into one line about that file."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        reason = " ".join(str(error).split())
        reason = reason if len(reason) <= 200 else reason[:199] + "…"
        raise InputError(f"{str(path)!r} cannot be read as {format_of(path)}: {reason}") from None


def _refuse(path: Path, row: int, reason: str) -> InputError:
    return InputError(f"{str(path)!r}, row {row + 1}: {reason}")


def _refuse_nulls(path: Path, table: Any) -> None:
    for name in (*REQUIRED, HOME):
        if name in table.column_names and table.column(name).null_count:
            row = int(np.flatnonzero(table.column(name).is_null().to_numpy())[0])
            raise _refuse(path, row, f"{name} is null; every row needs a value there")


def _refuse_twice(path: Path, keys: U64, values: Any) -> None:
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(again):
        second = int(order[again + 1].min())
        first = int(np.flatnonzero(keys == keys[second])[0])
        [text] = key_texts(values, np.array([second]))
        raise _refuse(
            path,
            second,
            f"the key {text!r} stands in row {first + 1} already; add up the rows of a key first",
        )


def _numbers(path: Path, table: Any, name: str) -> F64:
    import pyarrow as pa

    column = table.column(name)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(is_kind(column.type) for is_kind in kinds):
        raise InputError(f"{str(path)!r}: {name} must be numbers, got {column.type}")
    # A copy: Arrow's own memory is read-only, for which kernels would be compiled once more.
    return np.array(column.cast(pa.float64(), safe=False).to_numpy())


def _amounts(path: Path, table: Any, name: str) -> F64:
    amounts = _numbers(path, table, name)
    wrong = np.flatnonzero(~(np.isfinite(amounts) & (amounts >= 0)))
    if len(wrong):
        given = amounts[wrong[0]]
        raise _refuse(path, int(wrong[0]), f"{name} must be finite and not negative, got {given:g}")
    return amounts


def _workers(path: Path, table: Any, name: str, most: int) -> I32:
    numbers = _numbers(path, table, name)
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < most) & (numbers == np.floor(numbers))))
    if len(wrong):
        given = numbers[wrong[0]]
        leaves = name == "worker" and given >= most and given == np.floor(given)
        hint = "; if workers are leaving, say --leaving" if leaves else ""
        raise _refuse(
            path,
            int(wrong[0]),
            f"{name} must be the number of a worker, 0 to {most - 1}, got {given:g}{hint}",
        )
    return numbers.astype(np.int32)


def _homes(keys: U64, workers: Workers, seed: int) -> I32:
    """Where the hash of table routing puts the keys: the scheme that a plan's table is for."""
    from evenflow.grouping.table import TableRouting

    scheme, homes = TableRouting(), np.empty(len(keys), np.int32)
    scheme.route(scheme.start(workers, seed), keys, homes)
    return homes
