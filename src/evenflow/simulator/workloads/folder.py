"""The keys of a directory of files, as Spark writes and reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from evenflow.model import InputError
from evenflow.model.file_formats import SUFFIXES, format_of
from evenflow.simulator.workloads.files import KeyFile, StoredKeys
from evenflow.simulator.workloads.protocol import U64, Workload


@dataclass(frozen=True)
class KeyFolder(StoredKeys):
    """The key columns of all files of a directory, one file after the other, by name.

    Hidden files and folders are left out, as Spark does: names that begin with . or _. All files have
    one format; a CSV file that has no rows is passed over.

    Parameters:
        path: the directory. In a declaration: `input`.
        columns: the columns that make up the key. In a declaration: `key`.
        limit: maximum number of rows to read; None for all. In a declaration: `messages`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> for name, page in (("b.csv", "help"), ("a.csv", "home"), ("_SUCCESS", "")):
        ...     _ = (Path(folder.name) / name).write_text(f"page\\n{page}\\n")
        >>> sum(len(keys) for keys in KeyFolder(Path(folder.name), ("page",)).chunks(1_000))
        2
        >>> folder.cleanup()
    """

    name: ClassVar[str] = "folder"

    def __post_init__(self) -> None:
        super().__post_init__()
        files = self.files()
        if not files:
            raise InputError(
                f"{str(self.path)!r} has no files of rows; put some there ({SUFFIXES}; text also .gz)"
            )
        kinds = {format_of(one.path): one.path.name for one in files}
        if len(kinds) > 1:
            (one, first), (other, second) = list(kinds.items())[:2]
            raise InputError(
                f"{str(self.path)!r} has {one} ({first}) and {other} ({second}) files; keep one format "
                "to a directory"
            )

    def files(self) -> list[KeyFile]:
        """The files with rows, in order."""
        found = []
        for path in sorted(self.path.rglob("*")):
            parts = path.relative_to(self.path).parts
            hidden = any(part.startswith((".", "_")) for part in parts)
            if not hidden and path.is_file() and path.stat().st_size:
                found.append(KeyFile(path, self.columns))
        return found

    def chunks(self, size: int) -> Iterator[U64]:
        left = self.limit
        held: list[U64] = []
        # Chunks are full, also across files: a batch of a simulation does not end where a file does.
        for file in self.files():
            for keys in file.chunks(size):
                if left is not None:
                    keys = keys[:left]
                    left -= len(keys)
                held.append(keys)
                if sum(map(len, held)) >= size:
                    whole = np.concatenate(held)
                    yield whole[:size]
                    held = [whole[size:]]
                if left == 0:
                    break
            if left == 0:
                break
        if sum(map(len, held)):
            yield np.concatenate(held)

    def length(self) -> int | None:
        lengths = [file.length() for file in self.files()]
        if any(one is None for one in lengths):
            return self.limit
        rows = sum(one for one in lengths if one is not None)
        return rows if self.limit is None else min(rows, self.limit)


def keys_at(path: Path, columns: tuple[str, ...], limit: int | None = None) -> Workload:
    """The keys of a file, or of all files of a directory."""
    kind = KeyFolder if Path(path).is_dir() else KeyFile
    return kind(path, columns, limit)
