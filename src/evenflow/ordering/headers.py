"""What a message says about its place in its key's order: two small headers, for any log that has
partitions and headers.

`evenflow`, on every record, 34 bytes, numbers big-endian:

| bytes | what |
|---|---|
| 1 | version, 1 |
| 1 | kind: 0 a message, 1 the first of a message set, 2 the last |
| 8 | writer |
| 8 | epoch |
| 8 | sequence |
| 8 | message set: of the message, or the one that a marker begins; 0 for none |

`evenflow-move`, on markers only, 13 bytes:

| bytes | what |
|---|---|
| 1 | version, 1 |
| 4 | the other side, a partition: where the key goes (last), where it comes from (first) |
| 8 | the message set before, 0 for none |
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

POSITION = "evenflow"  #: the header that every record has
MOVE = "evenflow-move"  #: the header that markers have beside it
VERSION = 1

MESSAGE, FIRST, LAST = range(3)  #: kinds of records in a log

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
    """What the headers of one record say.

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
    """The same for many records: one array a field. Records without headers have `known` False."""

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

    Guarantee: a later move, in the same epoch or in a later one, begins a set with a larger number,
    and nothing need be remembered of a key for that.

    Example:
        >>> set_number(1, 0) > set_number(0, 5) > set_number(0, 4) > NO_SET
        True
    """
    if not 0 <= epoch <= LAST_EPOCH:
        raise InputError(f"an epoch lies between 0 and {LAST_EPOCH}, got {epoch}")
    if not 0 <= move < MOST_MOVES:
        raise InputError(
            f"an epoch has at most {MOST_MOVES} moves, got move {move}: begin a new epoch"
        )
    return (epoch << MOVE_BITS) + move + 1


def epoch_of(set_id: int) -> int:
    """The epoch whose move began a message set."""
    return (set_id - 1) >> MOVE_BITS


def pack(header: Header) -> Headers:
    """The headers of one record, as a log's client wants them: names with bytes."""
    kind, writer, epoch, sequence, set_id, other, previous = header
    position = (POSITION, _POSITION.pack(VERSION, kind, writer, epoch, sequence, set_id))
    if kind == MESSAGE:
        return [position]
    return [position, (MOVE, _MOVE.pack(VERSION, other, previous))]


def unpack(headers: Sequence[tuple[str, bytes | None]] | None) -> Header | None:
    """What the headers of one record say; None for a record that evenflow did not write."""
    position = move = None
    for name, value in headers or ():
        if name == POSITION:
            position = value
        elif name == MOVE:
            move = value
    if position is None:
        return None
    try:
        version, kind, writer, epoch, sequence, set_id = _POSITION.unpack(position)
    except struct.error:
        raise InputError(_misshapen(POSITION, position, _POSITION.size)) from None
    if version != VERSION:
        raise InputError(_unknown_version(version))
    if kind == MESSAGE:
        return Header(MESSAGE, writer, epoch, sequence, set_id)
    if kind not in (FIRST, LAST):
        raise InputError(f"the header {POSITION!r} names the kind {kind}; there are 0, 1 and 2")
    try:
        version, other, previous = _MOVE.unpack(move or b"")
    except struct.error:
        raise InputError(_misshapen(MOVE, move or b"", _MOVE.size)) from None
    if version != VERSION:
        raise InputError(_unknown_version(version))
    return Header(kind, writer, epoch, sequence, set_id, other, previous)


def message_column(writer: int, epoch: int, sequence: U64, sets: U64 | None = None) -> pa.ListArray:
    """The headers of many messages of one epoch as an Arrow column, of the type that Spark's Kafka
    sink wants: `array<struct<key: string, value: binary>>`.

    Parameters:
        writer: who writes.
        epoch: the batch.
        sequence: number of each message within its epoch and partition, after the markers.
        sets: the message set of each message, 0 for messages of keys that are not tracked.

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
    """The headers of many markers of one epoch, of the same type as those of messages."""
    rows = _position_rows(kind, writer, epoch, np.asarray(sequence, np.uint64), sets)
    moves = np.empty(len(rows), _MOVE_ROW)
    moves["version"], moves["other"], moves["previous"] = VERSION, other, previous
    return pa.ListArray.from_arrays(
        np.arange(len(rows) + 1, dtype=np.int32) * 2, _structs([POSITION, MOVE], [rows, moves])
    ).cast(_HEADER_TYPE)


def unpack_column(headers: pa.ListArray | pa.ChunkedArray) -> HeaderColumns:
    """What the headers of many records say: the twin of `unpack` for an Arrow column."""
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
        kind = int(rows["kind"][wrong][0])
        raise InputError(f"the header {POSITION!r} names the kind {kind}; there are 0, 1 and 2")
    marked, moves = _rows_named(MOVE, names, values, parents, _MOVE_ROW)
    if (columns.kind != MESSAGE).sum() > len(marked):
        raise InputError(_misshapen(MOVE, b"", _MOVE.size))
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
    """Header structs of all records, one record after the other."""
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
    """Where a header of this name is, and what it holds; the last one counts, as in `unpack`."""
    chosen = pc.equal(names, name).to_numpy(zero_copy_only=False)
    at = parents[chosen]
    found = values.filter(pa.array(chosen)).cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(found), 0).to_numpy(zero_copy_only=False)
    if (lengths != row.itemsize).any():
        wrong = found[int(np.argmax(lengths != row.itemsize))].as_py() or b""
        raise InputError(_misshapen(name, wrong, row.itemsize))
    offsets = np.frombuffer(found.buffers()[1] or bytes(4), np.int32)
    start = int(offsets[found.offset])
    rows = np.frombuffer(found.buffers()[2] or b"", row, count=len(found), offset=start)
    if (rows["version"] != VERSION).any():
        raise InputError(_unknown_version(int(rows["version"][rows["version"] != VERSION][0])))
    return at, rows


def _misshapen(name: str, value: bytes, size: int) -> str:
    return (
        f"the header {name!r} of a record has {len(value)} bytes and should have {size}: something "
        "else writes headers of that name"
    )


def _unknown_version(version: int) -> str:
    return (
        f"a record's evenflow headers are of version {version}, and this evenflow reads version "
        f"{VERSION}: use the evenflow that wrote them, or a newer one"
    )
