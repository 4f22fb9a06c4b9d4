"""A Parquet, CSV or JSON lines file that a command reads as a whole and checks row by row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.file_formats import format_of, is_compressed

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowsFile:
    """The columns that a command needs; an error about a value names its row.

    Parameters:
        path: the file.
        table: its columns, as Arrow has them.
    """

    path: Path
    table: Any

    @classmethod
    def read(
        cls, path: Path, name: str, others: tuple[str, ...], optional: tuple[str, ...], purpose: str
    ) -> RowsFile:
        """Reads a file that has at least one row.

        Parameters:
            path: Parquet, CSV or JSON lines.
            name: the column whose values are read as text: in text files 7 and 07 differ.
            others: further required columns.
            optional: columns that may be missing.
            purpose: the verb for the error about a file without rows: "plan".
        """
        from evenflow.simulator.workloads.files import KeyFile, explained

        KeyFile(path, (name, *others))  # refuses what cannot be read, and names missing columns
        with explained(path):
            file = cls(path, _read(path, name, (name, *others, *optional)))
        if not file.table.num_rows:
            raise InputError(
                f"{str(path)!r} has columns but no rows: there is nothing to {purpose}"
            )
        return file

    def __contains__(self, name: str) -> bool:
        return name in self.table.column_names

    def refusal(self, row: int, reason: str) -> InputError:
        """The error for a row, numbered from 0."""
        return InputError(f"{str(self.path)!r}, row {row + 1}: {reason}")

    def refuse_where(
        self, wrong: Booleans, name: str, expected: str, given: F64, hint: str = ""
    ) -> None:
        """Raise for the first wrong row."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            row = int(rows[0])
            raise self.refusal(row, f"{name} must be {expected}, got {given[row]:g}{hint}")

    def refuse_nulls(self, *names: str) -> None:
        """Raise for the first null in one of these columns, if the file has them."""
        for name in names:
            if name in self and self.table.column(name).null_count:
                row = int(np.flatnonzero(self.table.column(name).is_null().to_numpy())[0])
                raise self.refusal(row, f"{name} is null; every row needs a value")

    def numbers(self, name: str) -> F64:
        """A column of numbers; null is NaN."""
        import pyarrow as pa

        column = self.table.column(name)
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
        if not any(is_kind(column.type) for is_kind in kinds):
            raise InputError(f"{str(self.path)!r}: {name} must be numbers, got {column.type}")
        # A copy: Arrow's memory is read-only, for which kernels would be compiled again.
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    def amounts(self, name: str) -> F64:
        """A column of numbers, none of them negative or infinite."""
        amounts = self.numbers(name)
        wrong = ~(np.isfinite(amounts) & (amounts >= 0))
        self.refuse_where(wrong, name, "finite and not negative", amounts)
        return amounts

    def texts(self, name: str, rows: I64) -> list[str]:
        """The values of these rows as text."""
        return value_texts(self.table.column(name), rows)


def value_texts(values: Any, rows: I64) -> list[str]:
    """Values as text: strings unchanged, binary as 0x…, structs as JSON, others as Arrow casts them.

    Example:
        >>> import numpy as np, pyarrow as pa
        >>> value_texts(pa.chunked_array([[3, 14]]), np.array([1]))
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


def _read(path: Path, name: str, columns: tuple[str, ...]) -> Any:
    import pyarrow as pa

    kind = format_of(path)
    if kind == "Parquet":
        import pyarrow.parquet as pq

        there = pq.read_schema(path).names
        return pq.read_table(path, columns=[c for c in columns if c in there])

    def stream() -> Any:
        return pa.input_stream(str(path), compression="gzip" if is_compressed(path) else None)

    if kind == "CSV":
        from pyarrow import csv

        return csv.read_csv(
            stream(),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types={name: pa.string()}),
        )
    from pyarrow import json as json_lines

    table = json_lines.read_json(stream())
    if pa.types.is_timestamp(table.schema.field(name).type):
        # Keep a string that looks like a time as it is.
        options = json_lines.ParseOptions(explicit_schema=pa.schema([(name, pa.string())]))
        table = json_lines.read_json(stream(), parse_options=options)
    return table
