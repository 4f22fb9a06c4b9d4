"""The file of a segment: rows sorted by fingerprint, in blocks that are checked one by one.

    header        64 bytes: what this is
    fingerprints  8 bytes a row, sorted
    rows          one Arrow record batch a block: version, key and state columns
    schema        of these record batches
    index         of every block: first fingerprint, end of its rows, two checksums
    trailer       64 bytes: where the parts are, and the checksum of schema and index

Fingerprints lie apart from the rows, so that a key that is not there costs 8 bytes a row of one block.
Every byte between header and trailer belongs to exactly one checksum; the segment's own checksum is
that of schema, index and trailer, which hold all others. So opening a segment reads its end alone and
still notices if the file is another one than the manifest names.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.state.errors import damaged, explained

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

HEADER = b"evenflow state segment, format 1\n".ljust(64, b"\0")
_TRAILER = struct.Struct("<8sQQQQQIIQ")  # magic, rows, block rows, three offsets, two crcs, spare
_MAGIC = b"EVFSEG 1"
_ALIGNMENT = 64  # Arrow's own: buffers are used where they lie, without a copy
_MOST_ROWS, _FEWEST_ROWS = 1024, 16
_BLOCK_BYTES = 16 << 10  # what one look-up has to check; small enough to be cheap
_AT_ONCE = 1024  # neighbouring blocks are read together, but not a whole large file


class _Index(NamedTuple):
    first: U64  # of every block: its lowest fingerprint
    ends: U64  # where its rows end in the file; they begin where those of the block before end
    fingerprint_checksums: U32
    row_checksums: U32

    def to_bytes(self) -> bytes:
        return b"".join(np.ascontiguousarray(part).tobytes() for part in self)

    @classmethod
    def from_bytes(cls, content: bytes, offset: int, blocks: int) -> _Index:
        words = np.frombuffer(content, np.uint64, 2 * blocks, offset)
        checksums = np.frombuffer(content, np.uint32, 2 * blocks, offset + 16 * blocks)
        return cls(words[:blocks], words[blocks:], checksums[:blocks], checksums[blocks:])


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)


def block_rows(rows: int, size: int) -> int:
    """Rows a block, a power of two, so that a block is near 16 KiB: fewer where states are large.

    Example:
        >>> block_rows(10**6, 40 * 10**6), block_rows(1000, 4 * 10**6)
        (256, 16)
    """
    wanted = _BLOCK_BYTES * rows // max(size, 1)
    return int(min(_MOST_ROWS, max(_FEWEST_ROWS, 1 << max(wanted, 1).bit_length() - 1)))


class Encoded:
    """The content of a segment file, made part by part while it is written.

    Parameters:
        fingerprints: sorted.
        rows: the rows in the same order, without the fingerprints; each column in one chunk.

    `checksum` and `size` are known once `parts` is used up.
    """

    def __init__(self, fingerprints: U64, rows: pa.Table) -> None:
        self._fingerprints = fingerprints
        self._rows = rows
        self.checksum = 0
        self.size = 0

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
    """An open segment file. Reading checks what it touches and raises `DamagedState` if it is wrong.

    Blocks are read, not mapped: a file that is cut short or a disk that fails then raises an error,
    where a mapped page would kill the process; and in a fresh process faults cost more than copies.

    Parameters:
        path: the file.
        checksum: what the segment's own checksum must be; None: whatever it is.
        size: how long the file must be.
    """

    def __init__(self, path: Path, checksum: int | None = None, size: int | None = None) -> None:
        self.path = path
        with explained("open", path):
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by __exit__)
        try:
            self._read_end(checksum, size)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_end(self, checksum: int | None, size: int | None) -> None:
        with explained("read", self.path):
            length = os.fstat(self._file.fileno()).st_size
        if size is not None and length != size:
            raise damaged(self.path, f"it has {length} bytes instead of {size}")
        if length < len(HEADER) + _TRAILER.size:
            raise damaged(self.path, f"{length} bytes are too few for a segment")
        if self._bytes(0, len(HEADER)) != HEADER:
            raise damaged(self.path, "its header is not that of a segment")
        end = length - _TRAILER.size
        trailer = self._bytes(end, length)
        _, rows, step, row_offset, schema_offset, index_offset, own, _, _ = _TRAILER.unpack(trailer)
        if trailer != _trailer((rows, step, row_offset, schema_offset, index_offset), own):
            raise damaged(self.path, "its trailer does not match its checksum")
        content = self._bytes(schema_offset, end)
        if crc32(content) != own:
            raise damaged(self.path, "its index does not match its checksum")
        self.checksum = crc32(trailer, own)
        if checksum is not None and self.checksum != checksum:
            raise damaged(self.path, "it is another segment than the one that was committed")
        self.rows, self._step, self.blocks = rows, step, -(-rows // step)
        self.schema = pa.ipc.read_schema(pa.py_buffer(content))
        self._index = _Index.from_bytes(content, index_offset - schema_offset, self.blocks)
        starts = len(HEADER) + 8 * step * np.arange(self.blocks)
        self._fingerprint_bounds = np.append(starts, row_offset)
        self._row_bounds = np.insert(self._index.ends.astype(np.int64), 0, row_offset)

    # --- blocks ----------------------------------------------------------------------------------

    def _bytes(self, start: int, end: int) -> bytes:
        """A part of the file, or an error: never less."""
        content = b""
        try:
            while len(content) < end - start:
                at = start + len(content)
                part = os.pread(self._file.fileno(), end - at, at)
                if not part:
                    raise damaged(self.path, f"it ends at byte {at}")
                content = content + part if content else part
        except OSError:
            with explained("read", self.path):
                raise
        return content

    def _checked(self, blocks: I64, bounds: I64, checksums: U32, what: str) -> Iterator[memoryview]:
        """The content of some blocks, in ascending order; neighbours are read at once."""
        together = (np.diff(blocks) == 1) & (np.arange(1, len(blocks)) % _AT_ONCE != 0)
        (ends,) = np.nonzero(~np.append(together, False))
        first = 0
        for end in (ends + 1).tolist():
            start, stop = int(blocks[first]), int(blocks[end - 1]) + 1
            edges, wanted = bounds[start : stop + 1].tolist(), checksums[start:stop].tolist()
            content = memoryview(self._bytes(edges[0], edges[-1]))
            for i, checksum in enumerate(wanted):
                block = content[edges[i] - edges[0] : edges[i + 1] - edges[0]]
                if crc32(block) != checksum:
                    raise damaged(
                        self.path, f"the {what} of block {start + i} do not match their checksum"
                    )
                yield block
            first = end

    def _fingerprints_of(self, blocks: I64) -> U64:
        """The fingerprints of some blocks, one after another: sorted, as the blocks are."""
        if not len(blocks):
            return np.zeros(0, np.uint64)
        bounds, checksums = self._fingerprint_bounds, self._index.fingerprint_checksums
        content = b"".join(self._checked(blocks, bounds, checksums, "fingerprints"))
        rows = len(blocks) * self._step
        if blocks[-1] + 1 == self.blocks:
            rows -= self.blocks * self._step - self.rows  # the last block is not full
        return np.frombuffer(content, np.uint64, rows)

    def _rows_of(self, blocks: I64) -> pa.Table:
        if not len(blocks):
            return self.schema.empty_table()
        contents = self._checked(blocks, self._row_bounds, self._index.row_checksums, "rows")
        read = pa.ipc.read_record_batch
        batches = [read(pa.py_buffer(content), self.schema) for content in contents]
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
