"""Workers per key, on average: the price of splitting keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.kernels.hash_table import EMPTY, find, new_table
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import mix
from evenflow.metrics.roster import I32, I64
from evenflow.model import Workers

U64 = npt.NDArray[np.uint64]

_FIRST_CAPACITY = 4_096
_KEYS, _PAIRS = 0, 1
_ONE = np.uint64(1)


class ReplicationTracker:
    """Counts the distinct keys and the distinct (worker, key) pairs of a stream, exactly.

    Memory: at most 48 bytes per key and 32 bytes per pair (at least for 4 096 of each), for any length
    of the stream. A pair is a worker that holds state for a key, so `pairs / keys` is the memory that
    splitting costs, relative to key grouping.

    Parameters:
        workers: the roster, or the number of workers.

    Example:
        >>> tracker = ReplicationTracker(workers=3)
        >>> tracker.update(np.array([7, 7, 8, 7], np.uint64), np.array([0, 2, 1, 0], np.int32))
        >>> tracker.keys, tracker.pairs, tracker.replication
        (2, 3, 1.5)

    Paper: memory overhead in "When two choices are not enough", §IV-B.
    """

    def __init__(self, workers: Workers | int) -> None:
        self._workers = np.uint64(len(Workers.of(workers)))
        # A key is numbered in order of appearance; number × n + worker is the pair, in one word.
        self._key_words, self._key_numbers = new_table(_FIRST_CAPACITY)
        self._pair_words = np.zeros(2 * _FIRST_CAPACITY, np.uint64)
        self._counts = np.zeros(2, np.int64)

    def update(self, keys: U64, numbers: I32) -> None:
        """Take the next messages: the key and the worker number of each."""
        keys, numbers = np.ascontiguousarray(keys), np.ascontiguousarray(numbers, np.int32)
        done = 0
        while done < len(keys):
            done = _add(
                self._key_words,
                self._key_numbers,
                self._pair_words,
                self._counts,
                self._workers,
                keys,
                numbers,
                done,
            )
            self._grow_if_half_full()

    def _grow_if_half_full(self) -> None:
        if 2 * self.keys >= len(self._key_words):
            words, key_numbers = new_table(2 * self.keys)
            _move_keys(self._key_words, self._key_numbers, words, key_numbers)
            self._key_words, self._key_numbers = words, key_numbers
        if 2 * self.pairs >= len(self._pair_words):
            pair_words = np.zeros(2 * len(self._pair_words), np.uint64)
            _move_pairs(self._pair_words, pair_words)
            self._pair_words = pair_words

    @property
    def keys(self) -> int:
        """Distinct keys so far."""
        return int(self._counts[_KEYS])

    @property
    def pairs(self) -> int:
        """Distinct (worker, key) pairs so far."""
        return int(self._counts[_PAIRS])

    @property
    def replication(self) -> float:
        """Workers per key, on average; 1.0 if no key was split."""
        return self.pairs / self.keys if self.keys else 1.0


@kernel
def _place_of(pair_words: U64, word: np.uint64) -> np.uint64:
    """The place of `word`, or the free place (0) where it would go."""
    mask = np.uint64(len(pair_words) - 1)
    place = mix(word) & mask
    while pair_words[place] != np.uint64(0) and pair_words[place] != word:
        place = (place + _ONE) & mask
    return place


@kernel
def _add(
    key_words: U64,
    key_numbers: I32,
    pair_words: U64,
    counts: I64,
    n: np.uint64,
    keys: U64,
    workers: I32,
    start: int,
) -> int:
    """Count messages from `start` on; stops when a table is half full and returns the position."""
    n_keys, n_pairs = counts[_KEYS], counts[_PAIRS]
    most_keys, most_pairs = len(key_words) // 2, len(pair_words) // 2
    i = start
    while i < len(keys) and n_keys < most_keys and n_pairs < most_pairs:
        place = find(key_words, key_numbers, keys[i])
        number = key_numbers[place]
        if number == EMPTY:
            number = np.int32(n_keys)
            key_words[place] = keys[i]
            key_numbers[place] = number
            n_keys += 1
        # Words begin at 1, as 0 marks a free place.
        word = np.uint64(number) * n + np.uint64(workers[i]) + _ONE
        place = _place_of(pair_words, word)
        if pair_words[place] != word:
            pair_words[place] = word
            n_pairs += 1
        i += 1
    counts[_KEYS], counts[_PAIRS] = n_keys, n_pairs
    return i


@kernel
def _move_keys(key_words: U64, key_numbers: I32, new_words: U64, new_numbers: I32) -> None:
    for i in range(len(key_words)):
        if key_numbers[i] != EMPTY:
            place = find(new_words, new_numbers, key_words[i])
            new_words[place] = key_words[i]
            new_numbers[place] = key_numbers[i]


@kernel
def _move_pairs(pair_words: U64, new_words: U64) -> None:
    for i in range(len(pair_words)):
        if pair_words[i] != np.uint64(0):
            new_words[_place_of(new_words, pair_words[i])] = pair_words[i]
