"""The ring of consistent hashing: where workers and keys lie, and who comes next clockwise."""

from __future__ import annotations

import numpy as np

from evenflow.grouping.protocol import I32, U64
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import mix, salt
from evenflow.model import Workers


def hash_ring(workers: Workers, seed: np.uint64, points: int) -> tuple[U64, I32, I32]:
    """The points on the ring of 64-bit words, ascending; the worker number of each; and a guide from
    the top bits of a word to the first point that may follow it.

    A worker's places depend on its id alone, so a worker that joins or leaves takes or gives up only
    the keys before its places.
    """
    places = np.array([salt(int(seed), worker, p) for worker in workers.ids for p in range(points)])
    _mix_all(places)
    owners = np.repeat(np.arange(len(workers), dtype=np.int32), points)
    order = np.argsort(places, kind="stable")
    places, owners = places[order], owners[order]
    bits = max(1, (4 * len(places)).bit_length())
    starts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return places, owners, np.searchsorted(places, starts).astype(np.int32)


@kernel
def _mix_all(words):
    for i in range(len(words)):
        words[i] = mix(words[i])


@inlined
def guide_shift(guide):
    """How far a word is shifted to find its entry in the guide."""
    shift = np.uint64(64)
    length = len(guide)
    while length > 1:
        length >>= 1
        shift -= np.uint64(1)
    return shift


@inlined
def clockwise(places, guide, shift, where):
    """The first point at or after `where`; the first of all behind the last."""
    last = len(places)
    p = guide[where >> shift]
    while p < last and places[p] < where:
        p += 1
    return np.int32(0) if p == last else p
