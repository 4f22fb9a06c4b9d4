"""Bytes of event logs as Spark's codecs leave them: recognised by their first bytes, never by name."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenflow.model import InputError

_PIECE = 1 << 18  #: decompressed bytes that are held at a time
_FINE = 1 << 9  #: near the end of a stream that breaks off
_LONGEST_BLOCK = 1 << 26  #: a longer one is damage, not data

_LZ4_MAGIC, _LZ4_HEAD, _LZ4_STORED = b"LZ4Block", struct.Struct("<8sBiiI"), 0x10
_SNAPPY_MAGIC, _SNAPPY_HEAD = b"\x82SNAPPY\x00", 16
_NAMES = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip", b"BZh": "bz2"}
_LZF = b"ZV"


class TruncatedLog(Exception):
    """The stream breaks off in the middle."""


def pieces(path: Path) -> Iterator[bytes]:
    """The decompressed bytes of a file, a piece at a time.

    Guarantee: memory does not grow with the file. A stream that breaks off gives what is readable
    and then raises `TruncatedLog`.

    Spark's zstd, lz4 and snappy, gzip, bzip2 and plain text are read; Spark's lzf is not.

    Parameters:
        path: the file.
    """
    with path.open("rb") as file:
        head = file.read(8)
    for magic, name in _NAMES.items():
        if head.startswith(magic):
            return _from_arrow(path, name)
    if head == _LZ4_MAGIC:
        return _lz4_blocks(path)
    if head == _SNAPPY_MAGIC:
        return _snappy_blocks(path)
    if head.startswith(_LZF):
        raise InputError(
            f"{str(path)!r} is compressed with lzf, which is not supported; set "
            "spark.eventLog.compression.codec to zstd, lz4 or snappy"
        )
    return _plain(path)


def _plain(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _from_arrow(path: Path, name: str) -> Iterator[bytes]:
    import pyarrow as pa

    done = 0
    try:
        with pa.input_stream(str(path), compression=name) as stream:
            while piece := stream.read(_PIECE):
                done += len(piece)
                yield piece
        return
    except OSError:
        pass
    # Arrow drops what it has when a stream breaks off, so the rest is read again in small steps.
    try:
        with pa.input_stream(str(path), compression=name) as stream:
            while done:
                done -= len(stream.read(min(done, _PIECE)))
            while piece := stream.read(_FINE):
                yield piece
    except OSError:
        raise TruncatedLog from None


def _lz4_blocks(path: Path) -> Iterator[bytes]:
    """Blocks of lz4-java's LZ4BlockOutputStream."""
    import pyarrow as pa

    codec = pa.Codec("lz4_raw")
    with path.open("rb") as file:
        while head := file.read(_LZ4_HEAD.size):
            if len(head) < _LZ4_HEAD.size:
                raise TruncatedLog
            magic, token, packed, size, _ = _LZ4_HEAD.unpack(head)
            if magic != _LZ4_MAGIC or not 0 <= max(packed, size) < _LONGEST_BLOCK:
                raise TruncatedLog
            block = _exactly(file, packed)
            if size:
                stored = token & 0xF0 == _LZ4_STORED
                yield block if stored else _unpacked(codec, block, size)


def _snappy_blocks(path: Path) -> Iterator[bytes]:
    """Blocks of snappy-java's SnappyOutputStream."""
    import pyarrow as pa

    codec = pa.Codec("snappy")
    with path.open("rb") as file:
        file.read(_SNAPPY_HEAD)
        while head := file.read(4):
            if head == _SNAPPY_MAGIC[:4]:  # streams that were joined
                _exactly(file, _SNAPPY_HEAD - 4)
                continue
            size = int.from_bytes(head, "big") if len(head) == 4 else _LONGEST_BLOCK
            if size >= _LONGEST_BLOCK:
                raise TruncatedLog
            block = _exactly(file, size)
            yield _unpacked(codec, block, _varint(block))


def _exactly(file: Any, size: int) -> bytes:
    block: bytes = file.read(size)
    if len(block) < size:
        raise TruncatedLog
    return block


def _unpacked(codec: Any, block: bytes, size: int) -> bytes:
    if size >= _LONGEST_BLOCK:
        raise TruncatedLog
    try:
        return bytes(codec.decompress(block, size))
    except (OSError, ValueError):
        raise TruncatedLog from None


def _varint(block: bytes) -> int:
    """The length that a block of snappy begins with."""
    value = 0
    for place, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value
    return _LONGEST_BLOCK
