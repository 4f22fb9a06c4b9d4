"""XXH64 of many values at once, each with a seed of its own.

`running[i]` is the seed of row i on entry and its hash on return, so that columns are chained by
calling kernel after kernel on the same array. XXH64 of a number is that of its little-endian bytes.

Specification: xxHash fast digest algorithm, "XXH64 algorithm description"; the same function is
Spark's `xxhash64`, whose seeds are chained in the same way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import inlined, kernel
from evenflow.model import owners
from evenflow.model.owners import P1, P2, P3, P4, P5

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int32] | npt.NDArray[np.int64]

_0, _1, _2, _3, _4, _7, _8 = (np.uint64(i) for i in (0, 1, 2, 3, 4, 7, 8))
_11, _12, _16, _18, _23 = (np.uint64(i) for i in (11, 12, 16, 18, 23))
_24, _27, _29, _31, _32, _33, _64 = (np.uint64(i) for i in (24, 27, 29, 31, 32, 33, 64))


@inlined
def _read_4(data: U8, place: np.uint64) -> np.uint64:
    """The four bytes from `place` on as a little-endian number.

    Written as shifts, which is right on every machine and at every alignment; LLVM folds them into one
    unaligned load.
    """
    return (
        np.uint64(data[place])
        | np.uint64(data[place + _1]) << _8
        | np.uint64(data[place + _2]) << _16
        | np.uint64(data[place + _3]) << _24
    )


@inlined
def _read_8(data: U8, place: np.uint64) -> np.uint64:
    return _read_4(data, place) | _read_4(data, place + _4) << _32


@kernel
def _rotate(word: np.uint64, by: np.uint64) -> np.uint64:
    return (word << by) | (word >> (_64 - by))


@kernel
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * P2, _31) * P1


@kernel
def _take_lane(digest: np.uint64, lane: np.uint64) -> np.uint64:
    return (digest ^ _round(_0, lane)) * P1 + P4


@kernel
def _take_8(digest: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(digest ^ _round(_0, word), _27) * P1 + P4


@kernel
def _take_4(digest: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(digest ^ (word * P1), _23) * P2 + P3


@kernel
def _avalanche(digest: np.uint64) -> np.uint64:
    digest = (digest ^ (digest >> _33)) * P2
    digest = (digest ^ (digest >> _29)) * P3
    return digest ^ (digest >> _32)


hash_word = inlined(owners.hash_word)  #: of one number, compiled


@kernel
def hash_words(words: U64, running: U64) -> None:
    """Chain a column of 64-bit numbers into `running`."""
    for i in range(len(words)):
        running[i] = hash_word(words[i], running[i])


@kernel
def _hash_stripes(data: U8, place: np.uint64, end: np.uint64, seed: np.uint64) -> np.uint64:
    """The part of XXH64 that consumes 32 bytes at a time, in four parallel lanes."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    while place + _32 <= end:
        a = _round(a, _read_8(data, place))
        b = _round(b, _read_8(data, place + _8))
        c = _round(c, _read_8(data, place + _16))
        d = _round(d, _read_8(data, place + _24))
        place += _32
    digest = _rotate(a, _1) + _rotate(b, _7) + _rotate(c, _12) + _rotate(d, _18)
    return _take_lane(_take_lane(_take_lane(_take_lane(digest, a), b), c), d)


@kernel
def hash_bytes(data: U8, starts: Places, ends: Places, running: U64) -> None:
    """Chain a column of byte strings into `running`; row i is `data[starts[i]:ends[i]]`."""
    for i in range(len(starts)):
        place, end = np.uint64(starts[i]), np.uint64(ends[i])
        length = end - place
        if length < _32:
            digest = running[i] + P5 + length
        else:
            digest = _hash_stripes(data, place, end, running[i]) + length
            place = end - (length & _31)
        while place + _8 <= end:
            digest = _take_8(digest, _read_8(data, place))
            place += _8
        if place + _4 <= end:
            digest = _take_4(digest, _read_4(data, place))
            place += _4
        while place < end:
            digest = _rotate(digest ^ (np.uint64(data[place]) * P5), _11) * P1
            place += _1
        running[i] = _avalanche(digest)
