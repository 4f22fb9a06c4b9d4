"""A message's place in its key's order, as two small headers for any log with partitions and headers.

`evenflow`, on every record, 34 bytes, numbers big-endian:

| bytes | content |
|---|---|
| 1 | version, 1 |
| 1 | kind: 0 a message, 1 a first marker, 2 a last marker |
| 8 | writer |
| 8 | epoch |
| 8 | sequence |
| 8 | message set: of the message, or the one a marker begins; 0 for none |

`evenflow-move`, on markers only, 13 bytes:

| bytes | content |
|---|---|
| 1 | version, 1 |
| 4 | the other partition: where the key goes (last), where it comes from (first) |
| 8 | the previous message set, 0 for none |
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import InputError

POSITION = "evenflow"  #: the header of every record
MOVE = "evenflow-move"  #: a second header, of markers only
VERSION = 1

MESSAGE, FIRST, LAST = range(3)  #: kinds of records in a log

LANE_BITS = 24  #: of a writer's number: which of its lanes a record belongs to
NO_SET = 0  #: of messages whose key is not tracked
NO_PARTITION = -1
MOVE_BITS = 20  #: of a set's number: which move of its epoch began it
MOST_MOVES = 2**MOVE_BITS - 1  #: in an epoch
LAST_EPOCH = 2 ** (64 - MOVE_BITS) - 1

Headers = list[tuple[str, bytes]]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]

_POSITION = struct.Struct(">BBQQQQ")
_MOVE = struct.Struct(">BiQ")
_POSITION_ROW = np.dtype(
    [
        ("version", "u1"),
        ("kind", "u1"),
        ("writer", ">u8"),
        ("epoch", ">u8"),
        ("sequence", ">u8"),
        ("set", ">u8"),
    ]
)
_MOVE_ROW = np.dtype([("version", "u1"), ("other", ">i4"), ("previous", ">u8")])
_HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Header(NamedTuple):
    """The headers of one record.

    Example:
        >>> unpack(pack(Header(MESSAGE, writer=7, epoch=3, sequence=41)))
        Header(kind=0, writer=7, epoch=3, sequence=41, set=0, other=-1, previous=0)
    """

    kind: int
    writer: int
    epoch: int
    sequence: int
    set: int = NO_SET
    other: int = NO_PARTITION
    previous: int = NO_SET


class HeaderColumns(NamedTuple):
    """The same for many records: one array per field. Records without headers have `known` False."""

    known: npt.NDArray[np.bool_]
    kind: npt.NDArray[np.uint8]
    writer: U64
    epoch: U64
    sequence: U64
    set: U64
    other: I32
    previous: U64


def set_number(epoch: int, move: int) -> int:
    """The message set that a move begins: `move` counts from 0 within its epoch.

    Guarantee: a later move, in the same or a later epoch, begins a set with a larger number, without
    any state per key.

    Example:
        >>> set_number(1, 0) > set_number(0, 5) > set_number(0, 4) > NO_SET
        True
    """
    if not 0 <= epoch <= LAST_EPOCH:
        raise InputError(f"an epoch must be between 0 and {LAST_EPOCH}, got {epoch}")
    if not 0 <= move < MOST_MOVES:
        raise InputError(
            f"an epoch has at most {MOST_MOVES} moves, got move {move}; begin a new epoch"
        )
    return (epoch << MOVE_BITS) + move + 1


def writer_of(number: int) -> int:
    """The writer that a number belongs to: numbers from 2²⁴ that differ in their last 24 bits only are
    lanes of one writer, which begins an epoch in no lane before it has ended the last one in all.

    Example:
        >>> writer_of((5 << 24) + 3) == writer_of(5 << 24), writer_of(1) == writer_of(2)
        (True, False)
    """
    return number >> LANE_BITS << LANE_BITS or number


def pack(header: Header) -> Headers:
    """The headers of one record, as names with bytes."""
    kind, writer, epoch, sequence, set_id, other, previous = header
    position = (POSITION, _POSITION.pack(VERSION, kind, writer, epoch, sequence, set_id))
    if kind == MESSAGE:
        return [position]
    return [position, (MOVE, _MOVE.pack(VERSION, other, previous))]


def unpack(headers: Sequence[tuple[str, bytes | None]] | None) -> Header | None:
    """Read the headers of one record; None for a record that evenflow did not write."""
    position = move = None
    for name, value in headers or ():
        if name == POSITION:
            position = value
        elif name == MOVE:
            move = value
    if position is None:
        return None
    kind, writer, epoch, sequence, set_id = _fields(POSITION, _POSITION, position)
    if kind == MESSAGE:
        return Header(MESSAGE, writer, epoch, sequence, set_id)
    if kind not in (FIRST, LAST):
        raise _unknown_kind(kind)
    other, previous = _fields(MOVE, _MOVE, move or b"")
    return Header(kind, writer, epoch, sequence, set_id, other, previous)


def _fields(name: str, layout: struct.Struct, value: bytes) -> tuple[int, ...]:
    if len(value) != layout.size:
        raise _wrong_size(name, value, layout.size)
    version, *fields = layout.unpack(value)
    if version != VERSION:
        raise _unknown_version(version)
    return tuple(fields)


def message_column(writer: int, epoch: int, sequence: U64, sets: U64 | None = None) -> pa.ListArray:
    """The headers of many messages of one epoch as an Arrow column, of the type that Spark's Kafka
    sink takes: `array<struct<key: string, value: binary>>`.

    Parameters:
        writer: the writer's number.
        epoch: the batch.
        sequence: the number of each message within its epoch and partition, after the markers.
        sets: the message set of each message, 0 if its key is not tracked.

    Example:
        >>> column = message_column(7, 3, np.arange(2, dtype=np.uint64))
        >>> unpack([(header["key"], header["value"]) for header in column[1].as_py()]).sequence
        1
    """
    rows = _position_rows(np.uint8(MESSAGE), writer, epoch, np.asarray(sequence, np.uint64), sets)
    return pa.ListArray.from_arrays(
        np.arange(len(rows) + 1, dtype=np.int32), _structs([POSITION], [rows])
    ).cast(_HEADER_TYPE)


def marker_column(
    kind: npt.NDArray[np.uint8],
    writer: int,
    epoch: int,
    sequence: U64,
    sets: U64,
    other: I32,
    previous: U64,
) -> pa.ListArray:
    """The headers of many markers of one epoch, of the same type as `message_column`."""
    rows = _position_rows(kind, writer, epoch, np.asarray(sequence, np.uint64), sets)
    moves = np.empty(len(rows), _MOVE_ROW)
    moves["version"], moves["other"], moves["previous"] = VERSION, other, previous
    return pa.ListArray.from_arrays(
        np.arange(len(rows) + 1, dtype=np.int32) * 2, _structs([POSITION, MOVE], [rows, moves])
    ).cast(_HEADER_TYPE)


def unpack_column(headers: pa.ListArray | pa.ChunkedArray) -> HeaderColumns:
    """Read the headers of many records: `unpack` for an Arrow column."""
    if isinstance(headers, pa.ChunkedArray):
        headers = headers.combine_chunks()
    n = len(headers)
    parents = pc.list_parent_indices(headers).to_numpy(zero_copy_only=False)
    flat = headers.flatten()
    names, values = flat.field("key"), flat.field("value")
    at, rows = _rows_named(POSITION, names, values, parents, _POSITION_ROW)
    known = np.zeros(n, np.bool_)
    known[at] = True
    columns = HeaderColumns(
        known=known,
        kind=np.zeros(n, np.uint8),
        writer=np.zeros(n, np.uint64),
        epoch=np.zeros(n, np.uint64),
        sequence=np.zeros(n, np.uint64),
        set=np.zeros(n, np.uint64),
        other=np.full(n, NO_PARTITION, np.int32),
        previous=np.zeros(n, np.uint64),
    )
    for name in ("kind", "writer", "epoch", "sequence", "set"):
        getattr(columns, name)[at] = rows[name]
    wrong = rows["kind"] > LAST
    if wrong.any():
        raise _unknown_kind(int(rows["kind"][wrong][0]))
    marked, moves = _rows_named(MOVE, names, values, parents, _MOVE_ROW)
    if (columns.kind != MESSAGE).sum() > len(marked):
        raise _wrong_size(MOVE, b"", _MOVE.size)
    columns.other[marked] = moves["other"]
    columns.previous[marked] = moves["previous"]
    return columns


def _position_rows(
    kind: np.uint8 | npt.NDArray[np.uint8], writer: int, epoch: int, sequence: U64, sets: U64 | None
) -> np.ndarray:
    rows = np.empty(len(sequence), _POSITION_ROW)
    rows["version"], rows["kind"] = VERSION, kind
    rows["writer"], rows["epoch"], rows["sequence"] = writer, epoch, sequence
    rows["set"] = NO_SET if sets is None else sets
    return rows


def _structs(names: list[str], rows: list[np.ndarray]) -> pa.StructArray:
    """The header structs of all records, record by record."""
    n, per_record = len(rows[0]), len(names)
    which = pa.array(np.tile(np.arange(per_record, dtype=np.int8), n))
    keys = pa.DictionaryArray.from_arrays(which, pa.array(names)).cast(pa.string())
    size = sum(part.dtype.itemsize for part in rows)
    data = np.empty((n, size), np.uint8)
    ends = np.empty((n, per_record), np.int32)
    start = 0
    for i, part in enumerate(rows):
        stop = start + part.dtype.itemsize
        data[:, start:stop] = part.view(np.uint8).reshape(n, part.dtype.itemsize)
        ends[:, i] = np.arange(n, dtype=np.int32) * size + stop
        start = stop
    offsets = np.concatenate((np.zeros(1, np.int32), ends.reshape(-1)))
    values = pa.Array.from_buffers(
        pa.binary(), n * per_record, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return pa.StructArray.from_arrays([keys, values], ["key", "value"])


def _rows_named(
    name: str, names: pa.Array, values: pa.Array, parents: np.ndarray, row: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """The records with a header of this name, and its content; the last one counts, as in `unpack`."""
    chosen = pc.fill_null(pc.equal(names, name), False).to_numpy(zero_copy_only=False)
    at = parents[chosen]
    found = values.filter(pa.array(chosen)).cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(found), 0).to_numpy(zero_copy_only=False)
    if (lengths != row.itemsize).any():
        wrong = found[int(np.argmax(lengths != row.itemsize))].as_py() or b""
        raise _wrong_size(name, wrong, row.itemsize)
    offsets = np.frombuffer(found.buffers()[1] or bytes(4), np.int32)
    start = int(offsets[found.offset])
    rows = np.frombuffer(found.buffers()[2] or b"", row, count=len(found), offset=start)
    if (rows["version"] != VERSION).any():
        raise _unknown_version(int(rows["version"][rows["version"] != VERSION][0]))
    return at, rows


def _unknown_kind(kind: int) -> InputError:
    return InputError(f"the header {POSITION!r} has the kind {kind}; the kinds are 0, 1 and 2")


def _wrong_size(name: str, value: bytes, size: int) -> InputError:
    return InputError(
        f"the header {name!r} of a record has {len(value)} bytes instead of {size}; another program "
        "writes headers with this name"
    )


def _unknown_version(version: int) -> InputError:
    return InputError(
        f"a record has evenflow headers of version {version}, but this evenflow reads version "
        f"{VERSION}; use the evenflow that wrote them, or a newer one"
    )
