"""The files that a job reads: found, and their format known, before Spark reads them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evenflow.model import InputError
from evenflow.model.file_formats import HEAD, SUFFIXES, format_of, is_compressed, not_what_it_says
from evenflow.spark.locations import is_local
from evenflow.storage import PosixStorage, Storage, local_path, storage_at

_MOST_LOOKED_AT = 1000  # files whose first bytes are read before Spark reads them all
_FEW = 8  # of them, where each is a request to a store


@dataclass(frozen=True)
class InputFiles:
    """What was found.

    Parameters:
        kind: Parquet, CSV or JSON.
        is_directory: whether files can be added to it.
    """

    kind: str
    is_directory: bool


def input_files(address: str, at: Callable[[str], Storage] = storage_at) -> InputFiles:
    """The format of a file, or of all files of a directory; refused where the content differs.

    Parameters:
        address: a path or the URI of a store.
        at: gives the storage at an address that is not a path.
    """
    storage, names, is_directory = _found(address, at)
    if not names:
        raise InputError(
            f"--input {address!r} has no files of rows; put some there ({SUFFIXES}; text also .gz)"
        )
    kinds: dict[str, str] = {}
    for name in names:
        kind = format_of(PurePosixPath(name))
        if kind is None:
            raise InputError(
                f"{storage.where(name)!r}: the name must end in one of {SUFFIXES} (the text formats "
                "also with .gz), so that it is known how to read it"
            )
        kinds.setdefault(kind, PurePosixPath(name).name)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise InputError(
            f"--input {address!r} has {one} ({first}) and {other} ({second}) files; keep one format "
            "to a directory"
        )
    (kind,) = kinds
    for name in names[: _MOST_LOOKED_AT if storage.concurrency == 1 else _FEW]:
        _check_head(storage, name, kind)
    return InputFiles(kind, is_directory)


def _found(address: str, at: Callable[[str], Storage]) -> tuple[Storage, list[str], bool]:
    """A storage, the names in it of all files of rows, and whether the address is a directory."""
    nothing = InputError(f"--input {address!r}: there is no such file or directory")
    if is_local(address):
        path = local_path(address)
        if path.is_dir():
            return PosixStorage(str(path)), sorted(_local_names(path)), True
        if not path.exists():
            raise nothing
        return PosixStorage(str(path.parent)), [path.name], False
    try:
        storage = at(address)
        if names := storage.list(""):
            return storage, _data_names(names), True
        parent, _, name = address.rstrip("/").rpartition("/")
        storage = at(parent)
        storage.size(name)
    except FileNotFoundError:
        raise nothing from None
    except OSError as error:
        raise InputError(f"--input {address!r} cannot be read: {error.strerror or error}") from None
    return storage, [name], False


def _data_names(names: Sequence[str]) -> list[str]:
    """The files of rows among all names; Spark leaves empty objects that stand for directories."""
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    return [name for name in names if name not in folders and _is_data(name)]


def _local_names(directory: Path, before: str = "") -> Iterator[str]:
    for entry in os.scandir(directory):
        name = f"{before}{entry.name}"
        if entry.is_dir():
            if _is_data(f"{entry.name}/x"):
                yield from _local_names(Path(entry.path), f"{name}/")
        elif _is_data(entry.name):
            yield name


def _is_data(name: str) -> bool:
    """Whether Spark would read it: not hidden, in the directory itself or in those of partitions."""
    *folders, file = name.split("/")
    hidden = any(part.startswith(("_", ".")) for part in (*folders, file))
    return bool(file) and not hidden and all("=" in folder for folder in folders)


def _check_head(storage: Storage, name: str, kind: str) -> None:
    where = storage.where(name)
    try:
        (head,) = storage.read_ranges(name, [(0, HEAD)])
        if is_compressed(PurePosixPath(name)) and head:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD)
    except PermissionError:
        raise InputError(f"{where!r} cannot be read: permission denied") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{where!r} cannot be read: {error}") from None
    if not head:
        raise InputError(f"{where!r} is empty; it should hold {kind} rows")
    actual = not_what_it_says(kind, head)
    if actual is not None:
        raise InputError(
            f"{where!r} is not {kind}, as its name says: it looks like {actual}; rename or convert it"
        )
