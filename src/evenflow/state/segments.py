"""Segments: immutable, sorted, checked objects of keyed state, and how they are read together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model import InputError, shapes
from evenflow.state.container import I64, U64, Container, Encoded
from evenflow.state.errors import explained
from evenflow.storage import Storage

FINGERPRINT = "__fingerprint"  #: int64, the bits of the key's fingerprint
VERSION = "__version"  #: int64, the batch that wrote the row

SEGMENTS = "segments/"  #: where they are in a checkpoint's storage

_NAME = re.compile(r"segments/\d+-(\d+)-[0-9a-f]+\.seg(\..*)?")

OwnerFunction = Callable[[U64], npt.NDArray[np.int32]]  #: fingerprints → owners, as `Owners` is


@dataclass(frozen=True)
class Segment:
    """What a manifest says of a segment.

    Parameters:
        file: its name among the segments.
        owner: the worker whose rows it holds.
        epochs: those in which its rows were given to that owner; several after a compaction.
        rows, bytes: its size.
        checksum: of all of it (see `container`).
        lowest_batch, highest_batch: the range of its rows' versions.
        expires: when its first and its last row expire, for state that does (see `expiry`).
        footer: how many bytes at its end one has to read to open it; 0: not known.
    """

    file: str
    owner: int
    epochs: tuple[int, ...]
    rows: int
    bytes: int
    checksum: int
    lowest_batch: int
    highest_batch: int
    expires: tuple[int, int] | None = None
    footer: int = 0

    @property
    def name(self) -> str:
        """Its name in the checkpoint's storage."""
        return SEGMENTS + self.file

    def to_json(self) -> dict[str, Any]:
        plain = {**asdict(self), "epochs": list(self.epochs)}
        expires = plain.pop("expires")
        return plain if expires is None else {**plain, "expires": list(expires)}

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Segment:
        unknown = set(description) - {one.name for one in fields(cls)}
        wrong = SEGMENT_SHAPE(description, "it") or (
            f"{min(unknown)} is unknown" if unknown else None
        )
        if wrong or len(description.get("expires", (0, 0))) != 2:
            raise InputError(
                f"this is not a segment: {wrong or 'it expires neither once nor never'}; read this "
                "checkpoint with the version of evenflow that wrote it"
            )
        lists = {
            name: tuple(description[name]) for name in ("epochs", "expires") if name in description
        }
        return cls(**{**description, **lists})


_COUNT = shapes.whole(0)
SEGMENT_SHAPE = shapes.fields(
    {
        "file": shapes.text,
        "owner": _COUNT,
        "epochs": shapes.a_list(_COUNT),
        "rows": _COUNT,
        "bytes": _COUNT,
        "checksum": _COUNT,
        "lowest_batch": _COUNT,
        "highest_batch": _COUNT,
    },
    {"expires": shapes.a_list(shapes.whole()), "footer": _COUNT},
)  #: of `Segment.to_json`


def batch_of(name: str) -> int | None:
    """The batch that wrote a segment, or an unfinished one; None for any other name.

    Example:
        >>> batch_of("segments/00003-0000000041-0f9a.seg"), batch_of("segments/notes.txt")
        (41, None)
    """
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def key_columns(names: Sequence[str]) -> list[str]:
    """The key columns of a state table: k0, k1, … as they follow fingerprint and version.

    Example:
        >>> key_columns(["__fingerprint", "__version", "k0", "k1", "hits"])
        ['k0', 'k1']
    """
    columns = [name for name in names if name not in (FINGERPRINT, VERSION)]
    keys: list[str] = []
    while len(keys) < len(columns) and columns[len(keys)] == f"k{len(keys)}":
        keys.append(columns[len(keys)])
    return keys


def own_key_columns(names: Sequence[str]) -> list[str]:
    """The columns w0, w1, … that tell the rows of one key and version apart, where it has several.

    Example:
        >>> own_key_columns(["__fingerprint", "__version", "k0", "w0", "w1", "s_hits"])
        ['w0', 'w1']
    """
    left = state_columns(names)
    own: list[str] = []
    while len(own) < len(left) and left[len(own)] == f"w{len(own)}":
        own.append(left[len(own)])
    return own


def state_columns(names: Sequence[str]) -> list[str]:
    """The columns of a state table after fingerprint, version and key."""
    keys = key_columns(names)
    return [name for name in names if name not in (FINGERPRINT, VERSION, *keys)]


# --- writing -------------------------------------------------------------------------------------


def write_segment(
    storage: Storage,
    table: pa.Table,
    owner: int,
    epochs: Iterable[int],
    expires: str | None = None,
) -> Segment:
    """Write rows of state as a new segment.

    Guarantee: the segment is whole and durable when this returns; its name is new, so a task that is
    run again never meets its former self; until a manifest names it, it does not count.

    Parameters:
        storage: the checkpoint's.
        table: columns `__fingerprint`, `__version`, the key as `k0`, `k1`, …, then the state, none
            of whose columns is named like a further key. Rows in any order.
        owner: the worker that writes.
        epochs: those in which it was given these keys.
        expires: the column that says when a row expires, if there is one.

    Example:
        >>> from evenflow.storage import MemoryStorage
        >>> rows = pa.table({"__fingerprint": [7, -1], "__version": [4, 5], "k0": ["a", "b"],
        ...                  "hits": [1, 2]})
        >>> segment = write_segment(MemoryStorage(), rows, owner=3, epochs=[0])
        >>> segment.rows, segment.lowest_batch, segment.highest_batch, segment.file[:17]
        (2, 4, 5, '00003-0000000005-')
    """
    table = _in_order(checked(table))
    encoded = Encoded(fingerprints_in(table), table.drop_columns([FINGERPRINT]))
    batches = _range(numbers_of(table, VERSION)) or (0, 0)
    last = None if expires is None else _range(numbers_of(table, expires))
    return put_segment(storage, encoded, table.num_rows, owner, epochs, batches, last)


def put_segment(
    storage: Storage,
    encoded: Encoded,
    rows: int,
    owner: int,
    epochs: Iterable[int],
    batches: tuple[int, int],
    expires: tuple[int, int] | None,
) -> Segment:
    """Write the content of a segment under a new name. Parameters are those of `Segment`."""
    file = f"{owner:05d}-{batches[1]:010d}-{uuid4().hex}.seg"
    with explained("write", storage.where(SEGMENTS + file)):
        storage.put(SEGMENTS + file, encoded.parts())
    return Segment(
        file=file,
        owner=owner,
        epochs=tuple(sorted(set(epochs))),
        rows=rows,
        bytes=encoded.size,
        checksum=encoded.checksum,
        lowest_batch=batches[0],
        highest_batch=batches[1],
        expires=expires,
        footer=encoded.footer,
    )


def _range(numbers: I64) -> tuple[int, int] | None:
    return (int(numbers.min()), int(numbers.max())) if len(numbers) else None


def checked(table: pa.Table) -> pa.Table:
    """`table` with its columns in the order of the format, each in one chunk."""
    for name in (FINGERPRINT, VERSION):
        if name not in table.column_names:
            raise InputError(f"a state table needs the column {name}; got {table.column_names}")
        if table.column(name).type != pa.int64() or table.column(name).null_count:
            raise InputError(f"the column {name} must be int64 without nulls")
    if len(set(table.column_names)) < table.num_columns:
        raise InputError(f"two columns of a state table share a name: {table.column_names}")
    keys = key_columns(table.column_names)
    if not keys:
        raise InputError(f"a state table needs key columns k0, k1, …; got {table.column_names}")
    names = [FINGERPRINT, VERSION, *keys, *state_columns(table.column_names)]
    for field in table.schema:
        if pa.types.is_dictionary(field.type):
            raise InputError(
                f"the column {field.name} is dictionary-encoded; cast it to {field.type.value_type}"
            )
    return _plain(table.select(names)).combine_chunks()


def _plain(table: pa.Table) -> pa.Table:
    """Without metadata and with every column nullable, so that all segments have one schema."""
    return table.cast(pa.schema([pa.field(field.name, field.type) for field in table.schema]))


def _in_order(table: pa.Table) -> pa.Table:
    fingerprints = fingerprints_in(table)
    if np.all(fingerprints[:-1] <= fingerprints[1:]):
        return table
    return table.take(pa.array(np.argsort(fingerprints, kind="stable")))


def numbers_of(table: pa.Table, column: str) -> I64:
    numbers: I64 = table.column(column).to_numpy()
    return numbers


def fingerprints_in(table: pa.Table) -> U64:
    return numbers_of(table, FINGERPRINT).view(np.uint64)


# --- reading -------------------------------------------------------------------------------------


def open_segment(storage: Storage, segment: Segment, whole: bool = False) -> Container:
    """Open a segment, and make sure that it is the one that was committed.

    Parameters:
        storage: the checkpoint's.
        segment: which.
        whole: whether to read all of it now, in one request.
    """
    footer = segment.footer or None
    return Container(storage, segment.name, segment.checksum, segment.bytes, footer, whole)


def read_segment(storage: Storage, segment: Segment) -> pa.Table:
    """All rows of a segment, sorted by fingerprint, every byte of it checked."""
    fingerprints, rows = open_segment(storage, segment, whole=True).read()
    return rows.add_column(0, FINGERPRINT, pa.array(fingerprints.view(np.int64)))
