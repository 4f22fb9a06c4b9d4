"""Spark's 32-bit Murmur3 of many values at once, each with a seed of its own.

As in `xxh64`, `running[i]` is the seed of row i on entry and its hash on return. Byte strings
follow Spark's own tail rule (`Murmur3_x86_32.hashUnsafeBytes`): each byte after the last whole word
is sign-extended and mixed as a word by itself. The published Murmur3 gathers these bytes into one
word, so its hashes differ from Spark's wherever a length is no multiple of four.
"""

from __future__ import annotations

import numpy as np

from evenflow.kernels.bytes_reading import read_u32
from evenflow.kernels.jit import kernel
from evenflow.kernels.xxh64 import U8, U32, U64, Places

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_ADDEND = np.uint32(0xE6546B64)
_FINAL_1 = np.uint32(0x85EBCA6B)
_FINAL_2 = np.uint32(0xC2B2AE35)
_5, _13, _15, _16, _32 = (np.uint32(i) for i in (5, 13, 15, 16, 32))
_BYTES_OF_HALF_WORD, _BYTES_OF_WORD = np.uint32(4), np.uint32(8)
_1, _4, _UPPER_HALF = np.uint64(1), np.uint64(4), np.uint64(32)

# Numba widens the product or sum of two uint32 to 64 bits, hence the np.uint32(…) around each.


@kernel
def _rotate(word: np.uint32, by: np.uint32) -> np.uint32:
    return np.uint32((word << by) | (word >> (_32 - by)))


@kernel
def _take(digest: np.uint32, word: np.uint32) -> np.uint32:
    word = np.uint32(_rotate(np.uint32(word * _C1), _15) * _C2)
    return np.uint32(_rotate(np.uint32(digest ^ word), _13) * _5 + _ADDEND)


@kernel
def _finish(digest: np.uint32, length: np.uint32) -> np.uint32:
    digest = np.uint32(digest ^ length)
    digest = np.uint32((digest ^ (digest >> _16)) * _FINAL_1)
    digest = np.uint32((digest ^ (digest >> _13)) * _FINAL_2)
    return np.uint32(digest ^ (digest >> _16))


@kernel
def hash_half_words(words: U32, running: U32) -> None:
    """Chain a column of 32-bit numbers into `running`."""
    for i in range(len(words)):
        running[i] = _finish(_take(running[i], words[i]), _BYTES_OF_HALF_WORD)


@kernel
def hash_words(words: U64, running: U32) -> None:
    """Chain a column of 64-bit numbers into `running`."""
    for i in range(len(words)):
        digest = _take(running[i], np.uint32(words[i]))
        digest = _take(digest, np.uint32(words[i] >> _UPPER_HALF))
        running[i] = _finish(digest, _BYTES_OF_WORD)


@kernel
def hash_bytes(data: U8, starts: Places, ends: Places, running: U32) -> None:
    """Chain a column of byte strings into `running`; row i is `data[starts[i]:ends[i]]`."""
    for i in range(len(starts)):
        place, end = np.uint64(starts[i]), np.uint64(ends[i])
        length = np.uint32(end - place)
        digest = running[i]
        while place + _4 <= end:
            digest = _take(digest, np.uint32(read_u32(data, place)))
            place += _4
        while place < end:
            digest = _take(digest, np.uint32(np.int8(data[place])))
            place += _1
        running[i] = _finish(digest, length)
