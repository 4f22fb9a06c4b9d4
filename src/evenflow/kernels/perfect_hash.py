"""A table without collisions: every key is found at the first probe.

Hash and displace: keys fall into small buckets, and every bucket has a shift that sends its keys to
free places, larger buckets first (Belazzougui, Botelho, Dietzfelbinger, "Hash, displace, and compress",
§2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.model import InputError
from evenflow.model.owners import owner_words

U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]

SMALLEST = 256  #: places of a table
PER_BUCKET = 4  #: places for each bucket

_TRIES = 64


class PerfectHash(NamedTuple):
    """The places of the keys of one table.

    The place of a key is `(word + shift[word >> (64 − log₂ buckets)] · (word >> 32 | 1)) mod places`,
    with the word of `owner_words(key, seed)`; buckets and places are powers of two.
    """

    seed: int
    shift: I32
    place: I32  #: of each key

    @property
    def places(self) -> int:
        return len(self.shift) * PER_BUCKET


def perfect_hash(keys: U64) -> PerfectHash:
    """Build a table for distinct keys.

    Guarantee: no two keys share a place, at least half of the places are free, and the same keys give
    the same table.

    Example:
        >>> found = perfect_hash(np.arange(1000, dtype=np.uint64))
        >>> found.places, len(set(found.place.tolist()))
        (2048, 1000)
    """
    places = max(SMALLEST, 1 << (2 * len(keys) - 1).bit_length())
    buckets = places // PER_BUCKET
    shift, place = np.zeros(buckets, np.int32), np.zeros(len(keys), np.int32)
    for seed in range(_TRIES):
        word = owner_words(keys, seed)
        bucket = (word >> np.uint64(65 - buckets.bit_length())).astype(np.int64)
        sizes = np.bincount(bucket, minlength=buckets)
        order = np.lexsort((bucket, -sizes[bucket]))
        if _filled(word[order], bucket[order], np.zeros(places, np.bool_), shift, place, order):
            return PerfectHash(seed, shift, place)
    raise InputError("a perfect hash needs distinct keys")


@kernel
def _filled(word, bucket, taken, shift, place, order):
    """Find all shifts; keys come by bucket, large buckets first. False if a bucket fits nowhere."""
    mask = np.uint64(len(taken) - 1)
    begin = 0
    while begin < len(word):
        end = begin + 1
        while end < len(word) and bucket[end] == bucket[begin]:
            end += 1
        found = False
        for d in range(len(taken)):
            fits = begin
            while fits < end:
                at = (
                    word[fits] + np.uint64(d) * (word[fits] >> np.uint64(32) | np.uint64(1))
                ) & mask
                if taken[at]:
                    break
                taken[at] = True
                place[order[fits]] = at
                fits += 1
            if fits == end:
                shift[bucket[begin]] = d
                found = True
                break
            for i in range(begin, fits):
                taken[place[order[i]]] = False
        if not found:
            return False
        begin = end
    return True
