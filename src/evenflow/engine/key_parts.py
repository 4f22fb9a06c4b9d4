"""Rows of split keys on their way to the parts of their keys, and parts as what they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model.split_keys import SplitKeys

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

# Odd, so that the parts of a key have different fingerprints.
_STEP = np.uint64(0x9E3779B97F4A7C15)


def part_of(fingerprints: U64, parts: I64) -> U64:
    """The fingerprint under which a part of a key is placed and stored.

    Guarantee: part 0 has the key's own fingerprint, and no two parts of a key have the same.

    Example:
        >>> part_of(np.array([7, 7], np.uint64), np.array([0, 1])).tolist()
        [7, 11400714819323198492]
    """
    return fingerprints + parts.astype(np.uint64) * _STEP


class Parts(NamedTuple):
    """What fingerprints stand for.

    Parameters:
        keys: the fingerprints of the whole keys.
        number: of the part; 0 for keys that are not split.
        born: the first batch of the part.
        right: whether the key's right side is split.
    """

    keys: U64
    number: I64
    born: I64
    right: npt.NDArray[np.bool_]


def spread(
    split: SplitKeys, fingerprints: U64, is_right: npt.NDArray[np.bool_], turns: I64
) -> tuple[U64, I64]:
    """Each row once per part that it goes to: the parts' fingerprints, and the rows' numbers.

    Guarantee: two rows of a key that are on different sides meet in exactly one part.

    Parameters:
        split: which keys are split, and how.
        fingerprints: of the rows' keys.
        is_right: on which side each row is.
        turns: for each entry, in the order of fingerprints, which part is next; the rows that are
            split take turns. They are counted here.

    Example:
        >>> from evenflow.model.split_keys import Split
        >>> split = SplitKeys({7: Split(False, ((2, 5),))})
        >>> parts, sources = spread(
        ...     split, np.array([7, 7, 8], np.uint64), np.array([False, True, True]), np.array([1]))
        >>> sources.tolist(), (parts == np.array([7, 7, 7, 8])).tolist()
        ([0, 1, 1, 2], [False, True, False, True])
    """
    listed = np.array(sorted(split.entries), np.uint64)
    parts = np.array([split.entries[int(one)].parts for one in listed], np.int64)
    right = np.array([split.entries[int(one)].right for one in listed], bool)
    at = np.minimum(np.searchsorted(listed, fingerprints), len(listed) - 1)
    hit = listed[at] == fingerprints
    of = np.where(hit, parts[at], 1)
    single = is_right == right[at]
    copies = np.where(hit & ~single, of, 1)
    sources = np.repeat(np.arange(len(fingerprints)), copies)
    nth = np.arange(len(sources)) - np.repeat(np.cumsum(copies) - copies, copies)
    (dealt,) = np.nonzero(hit & single)
    order = dealt[np.argsort(at[dealt], kind="stable")]
    counts = np.bincount(at[dealt], minlength=len(listed))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    in_turn = np.zeros(len(fingerprints), np.int64)
    in_turn[order] = (turns[at[order]] + rank) % of[order]
    turns += counts
    number = np.where((hit & single)[sources], in_turn[sources], nth)
    return part_of(fingerprints[sources], number), sources


def parts_of(split: SplitKeys, fingerprints: U64) -> Parts:
    """What these fingerprints stand for."""
    found = Parts(
        fingerprints.copy(),
        np.zeros(len(fingerprints), np.int64),
        np.zeros(len(fingerprints), np.int64),
        np.zeros(len(fingerprints), bool),
    )
    if not split.entries or not len(fingerprints):
        return found
    rows = [
        (key, number, born, how.right)
        for key, how in split.entries.items()
        for number, born in enumerate(how.born())
    ]
    keys, number, born, right = (list(column) for column in zip(*rows, strict=True))
    prints = part_of(np.array(keys, np.uint64), np.array(number))
    order = np.argsort(prints)
    at = order[np.minimum(np.searchsorted(prints[order], fingerprints), len(order) - 1)]
    hit = prints[at] == fingerprints
    found.keys[hit] = np.array(keys, np.uint64)[at[hit]]
    found.number[hit] = np.array(number)[at[hit]]
    found.born[hit] = np.array(born)[at[hit]]
    found.right[hit] = np.array(right)[at[hit]]
    return found
