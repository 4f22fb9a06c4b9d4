"""The object of a segment: rows sorted by fingerprint, in blocks that are checked one by one.

    header        64 bytes: what this is
    fingerprints  8 bytes per row, sorted
    rows          one Arrow record batch per block: version, key and state columns
    schema        of these record batches
    index         of every block: first fingerprint, end of its rows, two checksums
    trailer       64 bytes: where the parts are, and the checksum of schema and index

Fingerprints lie apart from the rows, so that a key that is not there costs 8 bytes per row of a block.
Every byte between header and trailer belongs to exactly one checksum; the segment's own checksum is
that of schema, index and trailer (its footer), which hold all others. So opening a segment reads its
footer alone, in one request, and still notices if it is another one than the manifest names. A small
segment is read whole, at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.state.errors import DamagedState, damaged, explained
from evenflow.storage import Storage
from evenflow.storage.cache import forget

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
T = TypeVar("T")

HEADER = b"evenflow state segment, format 2\n".ljust(64, b"\0")
_TRAILER = struct.Struct("<8sQQQQQIIQ")  # magic, rows, block rows, three offsets, two crcs, spare
_MAGIC = b"EVFSEG 2"
_ALIGNMENT = 64  # Arrow's own: buffers are used where they lie, without a copy
_MOST_ROWS, _FEWEST_ROWS = 1024, 16
_BLOCK_BYTES = 16 << 10  # what one look-up has to check; small enough to be cheap
_LIKELY_FOOTER = 4 << 10  # to read at first where nobody says how long it is
_SMALL = 64 << 10  # bytes of a segment that is read whole: three requests cost more than its bytes


class _Index(NamedTuple):
    first: U64  # of every block: its lowest fingerprint
    ends: U64  # where its rows end; they begin where those of the block before end
    fingerprint_checksums: U32
    row_checksums: U32

    def to_bytes(self) -> bytes:
        return b"".join(np.ascontiguousarray(part).tobytes() for part in self)

    @classmethod
    def from_bytes(cls, content: bytes | memoryview, offset: int, blocks: int) -> _Index:
        words = np.frombuffer(content, np.uint64, 2 * blocks, offset)
        checksums = np.frombuffer(content, np.uint32, 2 * blocks, offset + 16 * blocks)
        return cls(words[:blocks], words[blocks:], checksums[:blocks], checksums[blocks:])


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)


def block_rows(rows: int, size: int) -> int:
    """Rows per block, a power of two, so that a block is near 16 KiB: fewer where states are large.

    Example:
        >>> block_rows(10**6, 40 * 10**6), block_rows(1000, 4 * 10**6)
        (256, 16)
    """
    wanted = _BLOCK_BYTES * rows // max(size, 1)
    return int(min(_MOST_ROWS, max(_FEWEST_ROWS, 1 << max(wanted, 1).bit_length() - 1)))


class Encoded:
    """The content of a segment, made part by part while it is written.

    Parameters:
        fingerprints: sorted.
        rows: the rows in the same order, without the fingerprints; each column in one chunk.

    `checksum`, `size` and `footer`, the size of schema, index and trailer, are known once `parts` is
    used up.
    """

    def __init__(self, fingerprints: U64, rows: pa.Table) -> None:
        self._fingerprints = fingerprints
        self._rows = rows
        self.checksum = 0
        self.size = 0
        self.footer = 0

    def parts(self) -> Iterator[bytes]:
        for part in self._parts():
            self.size += len(part)
            yield part

    def _parts(self) -> Iterator[bytes]:
        n, step = len(self._fingerprints), block_rows(self._rows.num_rows, self._rows.nbytes)
        starts = range(0, n, step)
        yield HEADER
        fingerprint_checksums = []
        for start in starts:
            part = self._fingerprints[start : start + step].tobytes()
            if start + step >= n:
                part = _padded(part)
            fingerprint_checksums.append(crc32(part))
            yield part
        row_offset = self.size
        row_checksums, ends = [], []
        for start in starts:
            (batch,) = self._rows.slice(start, step).combine_chunks().to_batches()
            part = _padded(batch.serialize().to_pybytes())
            row_checksums.append(crc32(part))
            ends.append(self.size + len(part))
            yield part
        schema_offset = self.size
        schema = _padded(self._rows.schema.serialize().to_pybytes())
        index = _Index(
            self._fingerprints[::step],
            np.array(ends, np.uint64),
            np.array(fingerprint_checksums, np.uint32),
            np.array(row_checksums, np.uint32),
        ).to_bytes()
        yield schema
        index_offset = self.size
        yield index
        checksum = crc32(index, crc32(schema))
        offsets = (n, step, row_offset, schema_offset, index_offset)
        trailer = _trailer(offsets, checksum)
        self.checksum = crc32(trailer, checksum)
        self.footer = len(schema) + len(index) + len(trailer)
        yield trailer


def _trailer(offsets: tuple[int, int, int, int, int], checksum: int) -> bytes:
    unchecked = _TRAILER.pack(_MAGIC, *offsets, checksum, 0, 0)
    return _TRAILER.pack(_MAGIC, *offsets, checksum, crc32(unchecked), 0)


@dataclass(frozen=True)
class Hits:
    """Rows that have the fingerprint asked for: `row[i]` of the segment answers `query[i]`."""

    query: I64
    row: I64


class Container:
    """A segment that is read. Reading checks what it touches and raises `DamagedState` if it is wrong.

    Blocks are read, not mapped: a file that is cut short or a disk that fails then raises an error,
    where a mapped page would kill the process; and in a fresh process faults cost more than copies.

    A cache is not trusted: what fails a check is dropped from it and read from the store once more.

    Parameters:
        storage: where the segment is.
        name: its name there.
        checksum: what the segment's own checksum must be; None: whatever it is.
        size: how many bytes it must have; None: ask the storage.
        footer: how many of them are its footer; None: find out.
        whole: whether to read all of it now.
    """

    def __init__(
        self,
        storage: Storage,
        name: str,
        checksum: int | None = None,
        size: int | None = None,
        footer: int | None = None,
        whole: bool = False,
    ) -> None:
        self._storage, self._name = storage, name
        self._content: memoryview | None = None  # all of it, where it was read at once
        self.where = storage.where(name)  #: for messages
        if size is None:
            with explained("read", self.where):
                size = storage.size(name)
        if size < len(HEADER) + _TRAILER.size:
            raise damaged(self.where, f"{size} bytes are too few for a segment")
        length, footer = size, _LIKELY_FOOTER if footer is None else footer
        self._trusted(lambda: self._open(length, footer, checksum, whole or length <= _SMALL))

    def _open(self, size: int, footer: int, checksum: int | None, whole: bool) -> None:
        if whole:
            (content,) = self._ranges([(0, size)], size)
            self._content = memoryview(content)
        start = max(size - max(footer, _TRAILER.size), 0)
        (content,) = self._ranges([(start, size)], size)
        if whole or checksum is None:  # else the checksum says what it is, for one request less
            (header,) = self._ranges([(0, len(HEADER))])
            if header != HEADER:
                raise damaged(self.where, "its header is not that of a segment")
        end = len(content) - _TRAILER.size
        trailer = content[end:]
        _, rows, step, row_offset, schema_offset, index_offset, own, _, _ = _TRAILER.unpack(trailer)
        if trailer != _trailer((rows, step, row_offset, schema_offset, index_offset), own):
            raise damaged(self.where, "its trailer does not match its checksum")
        body = size - _TRAILER.size
        if not len(HEADER) <= row_offset <= schema_offset <= index_offset <= body:
            raise damaged(self.where, "its parts are not in order")
        if (
            not 0 < step <= max(size, _MOST_ROWS)
            or rows > size
            or index_offset + 24 * -(-rows // step) != body
        ):
            raise damaged(self.where, "its index does not fit its rows")
        if schema_offset >= start:
            content = content[schema_offset - start : end]
        else:
            (content,) = self._ranges([(schema_offset, size - _TRAILER.size)])
        if crc32(content) != own:
            raise damaged(self.where, "its index does not match its checksum")
        self.checksum = crc32(trailer, own)
        if checksum is not None and self.checksum != checksum:
            raise damaged(self.where, "it is another segment than the one that was committed")
        self.rows, self._step, self.blocks = rows, step, -(-rows // step)
        try:
            self.schema = pa.ipc.read_schema(pa.py_buffer(content))
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.where, f"its schema cannot be read ({error})") from None
        self._index = _Index.from_bytes(content, index_offset - schema_offset, self.blocks)
        starts = len(HEADER) + 8 * step * np.arange(self.blocks)
        self._fingerprint_bounds = np.append(starts, row_offset)
        if (np.diff(self._fingerprint_bounds) < 0).any() or row_offset < len(HEADER) + 8 * rows:
            raise damaged(self.where, "its fingerprints do not fit its rows")
        ends = np.insert(self._index.ends, 0, row_offset)
        if (ends[1:] < ends[:-1]).any() or ends[-1] > schema_offset:
            raise damaged(self.where, "its blocks are not in order")
        self._row_bounds = ends.astype(np.int64)

    def _trusted(self, read: Callable[[], T]) -> T:
        """What `read` returns; where a cache gave it something damaged, what the store gives it."""
        try:
            return read()
        except DamagedState:
            if not forget(self._storage, self._name):
                raise
            self._content = None
            return read()

    # --- blocks ----------------------------------------------------------------------------------

    def _ranges(
        self, ranges: list[tuple[int, int]], size: int | None = None
    ) -> Sequence[bytes | memoryview]:
        """Parts of the segment, or an error: never less."""
        if self._content is not None:
            return [self._content[start:end] for start, end in ranges]
        with explained("read", self.where):
            contents = self._storage.read_ranges(self._name, ranges)
            for content, (start, end) in zip(contents, ranges, strict=True):
                if len(content) < end - start:
                    if size is not None and (length := self._storage.size(self._name)) != size:
                        raise damaged(self.where, f"it has {length} bytes instead of {size}")
                    raise damaged(self.where, f"it ends at byte {start + len(content)}")
        return contents

    def _checked(self, blocks: I64, bounds: I64, checksums: U32, what: str) -> Iterator[memoryview]:
        """The content of some blocks, in ascending order; neighbours are read as one range."""
        (ends,) = np.nonzero(np.append(np.diff(blocks) != 1, True))
        starts, stops = blocks[np.append(0, ends[:-1] + 1)], blocks[ends] + 1
        ranges = zip(bounds[starts].tolist(), bounds[stops].tolist(), strict=True)
        contents = self._ranges(list(ranges))
        runs = zip(starts.tolist(), stops.tolist(), contents, strict=True)
        for start, stop, content in runs:
            view, edges = memoryview(content), (bounds[start : stop + 1] - bounds[start]).tolist()
            for i, checksum in enumerate(checksums[start:stop].tolist()):
                block = view[edges[i] : edges[i + 1]]
                if crc32(block) != checksum:
                    raise damaged(
                        self.where, f"the {what} of block {start + i} do not match their checksum"
                    )
                yield block

    def _fingerprints_of(self, blocks: I64) -> U64:
        """The fingerprints of some blocks, one after another: sorted, as the blocks are."""
        if not len(blocks):
            return np.zeros(0, np.uint64)
        bounds, checksums = self._fingerprint_bounds, self._index.fingerprint_checksums
        content = self._trusted(
            lambda: b"".join(self._checked(blocks, bounds, checksums, "fingerprints"))
        )
        rows = len(blocks) * self._step
        if blocks[-1] + 1 == self.blocks:
            rows -= self.blocks * self._step - self.rows  # the last block is not full
        return np.frombuffer(content, np.uint64, rows)

    def _rows_of(self, blocks: I64) -> pa.Table:
        if not len(blocks):
            return self.schema.empty_table()
        bounds, checksums = self._row_bounds, self._index.row_checksums
        contents = self._trusted(lambda: list(self._checked(blocks, bounds, checksums, "rows")))
        read = pa.ipc.read_record_batch
        try:
            batches = [read(pa.py_buffer(content), self.schema) for content in contents]
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.where, f"its rows cannot be read ({error})") from None
        lengths = np.minimum(self._step, self.rows - blocks * self._step).tolist()
        if [batch.num_rows for batch in batches] != lengths:
            raise damaged(self.where, "its blocks have other rows than its footer says")
        return pa.Table.from_batches(batches, self.schema).combine_chunks()

    # --- reading ---------------------------------------------------------------------------------

    def find(self, fingerprints: U64) -> Hits:
        """All rows with these fingerprints; several where keys collide. Reads no rows."""
        query = np.argsort(fingerprints)  # in order, each search ends near the one before
        wanted = fingerprints[query]
        first = self._index.first
        last_block = np.searchsorted(first, wanted, "right") - 1
        lowest = np.searchsorted(last_block, 0)  # those before it are below all that is stored
        query, wanted, last_block = query[lowest:], wanted[lowest:], last_block[lowest:]
        # A run of equal fingerprints may begin at the end of the block before.
        first_block = np.maximum(np.searchsorted(first, wanted, "left") - 1, 0)
        begun = np.bincount(first_block, minlength=self.blocks + 1)
        begun -= np.bincount(last_block + 1, minlength=self.blocks + 1)
        (blocks,) = np.nonzero(np.cumsum(begun))
        stored = self._fingerprints_of(blocks)
        left = np.searchsorted(stored, wanted, "left")
        counts = np.searchsorted(stored, wanted, "right") - left
        ramp = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        place = np.repeat(left, counts) + ramp
        row = blocks[place // self._step] * self._step + place % self._step
        return Hits(np.repeat(query, counts), row)

    def between(self, low: int, high: int) -> tuple[U64, pa.Table]:
        """Fingerprints from `low` to `high`, both included, and their rows. Reads the blocks in which
        these lie, and no others."""
        bounds = np.array([low, high], np.uint64)
        first = max(int(np.searchsorted(self._index.first, bounds[0], "left")) - 1, 0)
        last = int(np.searchsorted(self._index.first, bounds[1], "right"))
        stored = self._fingerprints_of(np.arange(first, last))
        start = int(np.searchsorted(stored, bounds[0], "left"))
        stop = int(np.searchsorted(stored, bounds[1], "right"))
        rows = np.arange(start, stop) + first * self._step
        return stored[start:stop], self.take(rows)

    def take(self, rows: I64) -> pa.Table:
        """The rows of these numbers, in this order."""
        blocks, place = np.unique(rows // self._step, return_inverse=True)
        return self._rows_of(blocks).take(pa.array(place * self._step + rows % self._step))

    def fingerprints(self) -> U64:
        """All fingerprints, every one of them checked."""
        return self._fingerprints_of(np.arange(self.blocks))

    def index_fits(self, fingerprints: U64) -> bool:
        """Whether the index leads to the blocks in which these, all its fingerprints, lie."""
        return np.array_equal(self._index.first, fingerprints[:: self._step])

    def read(self) -> tuple[U64, pa.Table]:
        """All fingerprints and rows, every byte of them checked."""
        return self.fingerprints(), self._rows_of(np.arange(self.blocks))
