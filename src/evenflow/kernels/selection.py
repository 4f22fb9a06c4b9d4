"""The least loaded worker: of two, of a set, of all.

Loads only grow, by one. For each of the 64 loads from the smallest up, `levels` keeps the set of
workers with at most that load, as bits, 64 workers per word: a message removes one bit from one set.
The least loaded workers of all are the lowest level; the least loaded of a set of candidates are its
intersection with the first level that it intersects. Both take a few nanoseconds, whatever the number
of workers.

`levels` is one flat array of 64 rows, each padded to a power of two of words; the set for load L is
row `L mod 64`. A "place" is a word of a level, numbered as if there were a row for every load: places
only grow as loads do, and the word is at the place modulo the length of `levels`.

`board` is an int64 array: [smallest load, cursor, whether a load has been above the levels, first
non-empty place]. Among all workers, ties go to the first one at or after the cursor, cyclically; a
scheme sets the cursor by source when it starts, so that sources do not all begin with worker 0.
"""

import numpy as np

from evenflow.kernels.jit import inlined, kernel, trailing_zeros

LEAST, CURSOR, OVERFLOWN, FIRST = range(4)
LEVELS = 64
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_WORD = np.uint64(6)
_BIT = np.uint64(63)


def words_for(n: int) -> int:
    """The number of words for a set of n workers: a power of two."""
    return 1 << ((n + 63) // 64 - 1).bit_length()


def new_board(loads: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(board, levels) for these loads, with the cursor on worker `first`."""
    board = np.array([0, first, 0, 0], np.int64)
    levels = np.zeros(LEVELS * words_for(len(loads)), np.uint64)
    look_at_all(loads, board, levels)
    return board, levels


@inlined
def add_to_set(bits, w):
    """Put worker `w` (uint64) into the set."""
    bits[w >> _WORD] |= _ONE << (w & _BIT)


@inlined
def is_in_set(bits, w):
    """Whether worker `w` (uint64) is in the set."""
    return (bits[w >> _WORD] >> (w & _BIT)) & _ONE != _NONE


@inlined
def _first_place(levels, load):
    """The place of the first word of the level of `load`."""
    return np.uint64(load) * (np.uint64(len(levels)) >> _WORD)


@inlined
def _word_at(levels, place):
    return place & np.uint64(len(levels) - 1)


@kernel
def look_at_all(loads, board, levels):
    """Rebuild board and levels from the loads."""
    least = loads[0]
    for w in range(1, len(loads)):
        least = min(least, loads[w])
    board[LEAST] = least
    board[OVERFLOWN] = 0
    levels[:] = _NONE
    for w in range(len(loads)):
        if loads[w] < least + LEVELS:
            place = _first_place(levels, loads[w]) + (np.uint64(w) >> _WORD)
            levels[_word_at(levels, place)] |= _ONE << (np.uint64(w) & _BIT)
        elif loads[w] > least + LEVELS:
            board[OVERFLOWN] = 1
    place, end = _first_place(levels, least + 1), _first_place(levels, least + LEVELS)
    while place < end:
        below = place - _first_place(levels, 1)
        levels[_word_at(levels, place)] |= levels[_word_at(levels, below)]
        place += _ONE
    board[FIRST] = _first_place(levels, least)


@kernel
def _raise_first(loads, board, levels):
    """Advance to the first non-empty place."""
    place, words = np.uint64(board[FIRST]), np.uint64(len(levels)) >> _WORD
    while levels[_word_at(levels, place)] == _NONE:
        place += _ONE
        if place & (words - _ONE) == _NONE:
            if board[OVERFLOWN]:
                look_at_all(loads, board, levels)
                return
            # The row below now stands for the load just above the levels: no worker has more.
            _fill(levels, _word_at(levels, place - words), len(loads))
            board[LEAST] += 1
    board[FIRST] = place


@inlined
def _fill(levels, first, n):
    """Put all n workers into the set whose words begin at `first`."""
    for k in range(n >> 6):
        levels[first + np.uint64(k)] = _ALL
    if n & 63:
        levels[first + np.uint64(n >> 6)] = _ALL >> np.uint64(-n & 63)


@inlined
def _leave(loads, board, levels, place, bit):
    """Remove a worker, the `bit` in the word at `place`, from the level that it has left."""
    left = levels[_word_at(levels, place)] ^ bit
    levels[_word_at(levels, place)] = left
    # Whether this is the first place is unpredictable: a check here would cost more than a few
    # unnecessary calls.
    if left == _NONE:
        _raise_first(loads, board, levels)


@inlined
def note_increment(loads, board, levels, w):
    """Update board and levels after the load of worker `w` (uint64) has grown by one."""
    before = loads[w] - 1
    if before < board[LEAST] + LEVELS:
        place = _first_place(levels, before) + (w >> _WORD)
        _leave(loads, board, levels, place, _ONE << (w & _BIT))
    else:
        board[OVERFLOWN] = 1


@inlined
def take_least_of_all(loads, board, levels):
    """Add one to the first worker at or after the cursor with the smallest load, and return it."""
    least, cursor = board[LEAST], np.uint64(board[CURSOR])
    first, words = _first_place(levels, least), np.uint64(len(levels)) >> _WORD
    k = cursor >> _WORD
    common = levels[_word_at(levels, first + k)] & (_ALL << (cursor & _BIT))
    while common == _NONE:
        k = (k + _ONE) & (words - _ONE)
        common = levels[_word_at(levels, first + k)]
    w = (k << _WORD) + np.uint64(trailing_zeros(common))
    # The worker's load is known to be the smallest, so it is not read: a message does not wait for the
    # load that the previous one has just stored.
    loads[w] = least + 1
    _leave(loads, board, levels, first + k, common & (~common + _ONE))
    board[CURSOR] = np.int64(w)
    return w


@kernel
def _take_above_levels(loads, board, bits):
    """The least loaded worker of a set with no member in the levels, by linear search."""
    best, best_load = _NONE, np.int64(0x7FFFFFFFFFFFFFFF)
    for k in range(len(bits)):
        left = bits[k]
        while left != _NONE:
            w = (np.uint64(k) << _WORD) + np.uint64(trailing_zeros(left))
            left &= left - _ONE
            if loads[w] < best_load:
                best, best_load = w, loads[w]
    loads[best] += 1
    board[OVERFLOWN] = 1
    return best


@inlined
def take_least_of_set(loads, board, levels, bits, place):
    """Add one to a worker of the set `bits` with the smallest load in the set; the first on a tie.

    The search begins at `place` (uint64) in the levels: 0, or where the last search in this set ended,
    since loads only grow. Returns the worker and the place where it was found.
    """
    within = np.uint64(len(bits) - 1)
    first = np.uint64(board[FIRST])
    end = (first & ~within) + np.uint64(len(levels))
    place = max(place, first)
    common = levels[_word_at(levels, place)] & bits[place & within]
    while (common == _NONE) & (place < end):
        place += _ONE
        common = levels[_word_at(levels, place)] & bits[place & within]
    if place >= end:
        return _take_above_levels(loads, board, bits), place
    w = ((place & within) << _WORD) + np.uint64(trailing_zeros(common))
    loads[w] += 1
    _leave(loads, board, levels, place, common & (~common + _ONE))
    return w, place


@inlined
def take_less_loaded(loads, a, b):
    """Add one to the less loaded of `a` and `b` (`a` on a tie) and return it.

    Both loads are written, one of them unchanged, so that the store addresses do not depend on the
    comparison: twice as fast as the obvious form, `take_less_loaded` in tests/naive.py.
    """
    b_is_less = (loads[b] - loads[a]) >> 63  # −1 or 0
    loads[a] += 1 + b_is_less
    loads[b] -= b_is_less
    return a ^ ((a ^ b) & np.uint64(b_is_less))


@kernel
def sort_descending(values):
    """Sort in place, largest first (Shellsort: no memory, no relevant worst case)."""
    gap = 1
    while gap < len(values) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(values)):
            value, j = values[i], i
            while j >= gap and values[j - gap] < value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3
