"""The keys of a real stream: columns of a Parquet, CSV or JSON lines file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenflow.model import InputError
from evenflow.model.file_formats import (
    HEAD,
    SUFFIXES,
    format_of,
    is_compressed,
    not_what_it_says,
)
from evenflow.simulator.workloads.protocol import U64, called

_BLOCK = 1 << 24  #: bytes of text parsed at a time


@dataclass(frozen=True)
class StoredKeys:
    """The key columns of something that is stored: where it is, which columns, and how many rows.

    Parameters:
        path: where the rows are. In a declaration: `input`.
        columns: the columns that make up the key. In a declaration: `key`.
        limit: maximum number of rows to read; None for all. In a declaration: `messages`.
    """

    name: ClassVar[str]

    path: Path = field(metadata=called("input"))
    columns: tuple[str, ...] = field(metadata=called("key"))
    limit: int | None = field(default=None, metadata=called("messages"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.limit is not None and self.limit < 1:
            raise InputError(f"the number of messages must be at least 1, got {self.limit}")

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "input": str(self.path),
            "key": list(self.columns),
            "drift": None,
            "stand_in": False,
        }


@dataclass(frozen=True)
class KeyFile(StoredKeys):
    """The key columns of a file, as fingerprints, in the order of its rows.

    The file's suffix says what it is: .parquet, .csv, .json, .jsonl or .ndjson; the last four may
    be compressed (.csv.gz). JSON means one object per line. A CSV key is its text: 7 and 07 differ.
    A row without the key has the key null, an ordinary key.

    Guarantee: a file that is missing, empty or of another format than its name says, and a missing
    column, are errors of the constructor; damage further on is an error when it is reached.

    Parameters:
        path: the file. In a declaration: `input`.
        columns: the columns that make up the key; several are one compound key. In a declaration:
            `key`.
        limit: maximum number of rows to read; None for all. In a declaration: `messages`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name) / "clicks.csv"
        >>> _ = path.write_text("page,user\\nhome,1\\nhelp,2\\nhome,3\\n")
        >>> [keys] = KeyFile(path, ("page",)).chunks(1_000)
        >>> bool(keys[0] == keys[2] != keys[1])
        True
        >>> folder.cleanup()
    """

    name: ClassVar[str] = "file"

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | Path):
            raise InputError(f"the name of a file is expected, got {self.path!r}")
        super().__post_init__()
        columns = (self.columns,) if isinstance(self.columns, str) else self.columns
        if not isinstance(columns, list | tuple) or not all(isinstance(c, str) for c in columns):
            raise InputError(f"{self._name}: key columns are given by name, got {columns!r}")
        object.__setattr__(self, "columns", tuple(columns))
        if not self.columns:
            raise InputError(f"{self._name}: no key column was given; name at least one")
        self._check_readable()
        with explained(self.path):
            names = self._schema().names
        for column in self.columns:
            if self.columns.count(column) > 1:
                raise InputError(f"the key column {column!r} was given twice; once is enough")
            if names.count(column) > 1:
                raise InputError(
                    f"{self._name} has {names.count(column)} columns called {column!r}; rename one"
                )
            if column not in names:
                near = difflib.get_close_matches(column, names, 1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise InputError(
                    f"{self._name} has no column {column!r}; {hint}its columns are {_listed(names)}"
                )

    def chunks(self, size: int) -> Iterator[U64]:
        from evenflow.kernels.fingerprints import fingerprint

        left = self.limit
        with explained(self.path):
            for batch in self.batches(size):
                keys = fingerprint(batch.column(0) if batch.num_columns == 1 else batch)
                keys = keys if left is None else keys[:left]
                for start in range(0, len(keys), size):
                    yield np.ascontiguousarray(keys[start : start + size])
                if left is not None:
                    left -= len(keys)
                    if left == 0:
                        return

    def length(self) -> int | None:
        if self._format != "Parquet":
            return self.limit
        import pyarrow.parquet as pq

        with explained(self.path):
            rows = int(pq.read_metadata(self.path).num_rows)
        return rows if self.limit is None else min(rows, self.limit)

    @property
    def _name(self) -> str:
        return repr(str(self.path))

    @property
    def _format(self) -> str | None:
        return format_of(self.path)

    def _check_readable(self) -> None:
        if not self.path.exists():
            raise InputError(f"there is no file {self._name}")
        if not self.path.is_file():
            kind = "a directory" if self.path.is_dir() else "not an ordinary file"
            raise InputError(f"{self._name} is {kind}; give one file ({SUFFIXES})")
        if self._format is None:
            raise InputError(
                f"{self._name}: the name must end in one of {SUFFIXES} "
                "(text formats also with .gz), which gives the format"
            )
        with explained(self.path):
            head = self._head()
        if not head:
            raise InputError(f"{self._name} is empty; {self._format} rows are expected")
        actual = not_what_it_says(self._format, head)
        if actual is not None:
            raise InputError(
                f"{self._name} is not {self._format}, as its name says: it looks like {actual}; "
                "rename or convert it"
            )

    def _head(self) -> bytes:
        with self._stream() as stream:
            return bytes(stream.read(HEAD))

    def _stream(self) -> Any:
        """The bytes of the file, decompressed."""
        import pyarrow as pa

        return pa.input_stream(
            str(self.path), compression="gzip" if is_compressed(self.path) else None
        )

    def _schema(self) -> Any:
        """The columns of the file; for text formats those of the first block."""
        if self._format == "Parquet":
            import pyarrow.parquet as pq

            return pq.read_schema(self.path)
        with self._text_reader() as reader:
            return reader.schema

    def _text_reader(self, schema: Any = None) -> Any:
        """Opens a text format; with a `schema`, only its columns are converted."""
        if self._format == "CSV":
            from pyarrow import csv

            return csv.open_csv(
                self._stream(),
                read_options=csv.ReadOptions(block_size=_BLOCK),
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=schema, include_columns=None if schema is None else schema.names
                ),
            )
        from pyarrow import json

        return json.open_json(
            self._stream(),
            read_options=json.ReadOptions(block_size=_BLOCK),
            parse_options=json.ParseOptions(
                explicit_schema=schema,
                unexpected_field_behavior="infer" if schema is None else "ignore",
            ),
        )

    def _key_schema(self) -> Any:
        """The types of a text format's key columns, so that later blocks cannot differ."""
        import pyarrow as pa

        if self._format == "CSV":
            # Bytes, not text: a file in another encoding than UTF-8 still has keys.
            return pa.schema([(name, pa.binary()) for name in self.columns])
        # A string that looks like a time in the first block may be any string later.
        found = self._schema()
        kinds = [found.field(name).type for name in self.columns]
        kinds = [pa.string() if pa.types.is_timestamp(kind) else kind for kind in kinds]
        return pa.schema(list(zip(self.columns, kinds, strict=True)))

    def batches(self, size: int) -> Iterator[Any]:
        """Record batches of the key columns, none of them empty; a file without rows is an error."""
        empty = True
        if self._format == "Parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=size, columns=list(self.columns)):
                    empty = False
                    yield batch.select(list(self.columns))
        else:
            with self._text_reader(self._key_schema()) as reader:
                for batch in reader:
                    if batch.num_rows:
                        empty = False
                        yield batch.select(list(self.columns))
        if empty:
            raise InputError(f"{self._name} has columns but no rows")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the reader's error into one line about the file."""
    import pyarrow as pa

    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        kind = format_of(path)
        reason = " ".join(str(error).split())
        reason = reason if len(reason) <= 200 else reason[:199] + "…"
        if isinstance(error, PermissionError):
            raise InputError(f"{str(path)!r} cannot be read: permission denied") from None
        advice = "; one object per line is expected" if kind == "JSON" else ""
        raise InputError(f"{str(path)!r} cannot be read as {kind}{advice}: {reason}") from None


def _listed(names: list[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
