"""Open addressing: 64-bit key → slot number, in two plain arrays.

`table_keys` and `table_slots` have the same power-of-two length, at least four times the number of
keys; a slot of `EMPTY` marks a free place. Linear probing; a deletion shifts its followers back, so
there are no tombstones, and a long-lived table does not slow down.
"""

import numpy as np

from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import mix

EMPTY = -1
_ONE = np.uint64(1)


def table_length(capacity: int) -> int:
    """The length of a table for `capacity` keys: the power of two that leaves three quarters free.

    Half would do, but fewer keys would then be in their first place, and each miss costs a mispredicted
    branch.
    """
    return 1 << (4 * max(capacity, 1) - 1).bit_length()


def new_table(capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """An empty (table_keys, table_slots) for `capacity` keys."""
    length = table_length(capacity)
    return np.zeros(length, np.uint64), np.full(length, EMPTY, np.int32)


@inlined
def find(table_keys, table_slots, key):
    """The place of `key`, or the free place where it would go; `table_slots` shows which."""
    return find_hashed(table_keys, table_slots, key, mix(key))


@inlined
def find_hashed(table_keys, table_slots, key, word):
    """Like `find`, with a hash of the key that the caller already has. Use one hash per table; `remove`
    works only for tables that `find` fills.

    The key is compared first, because most lookups succeed. A free place may hold an equal old key:
    then that is the place where it would go.
    """
    mask = np.uint64(len(table_keys) - 1)
    place = word & mask
    while table_keys[place] != key and table_slots[place] != EMPTY:
        place = (place + _ONE) & mask
    return place


@kernel
def remove(table_keys, table_slots, key):
    """Remove `key`, if it is present."""
    mask = np.uint64(len(table_keys) - 1)
    hole = find(table_keys, table_slots, key)
    if table_slots[hole] == EMPTY:
        return
    place = hole
    while True:
        place = (place + _ONE) & mask
        if table_slots[place] == EMPTY:
            break
        home = mix(table_keys[place]) & mask
        # Only an entry whose home is not between the hole and itself may fill the hole.
        if ((place - home) & mask) >= ((place - hole) & mask):
            table_keys[hole] = table_keys[place]
            table_slots[hole] = table_slots[place]
            hole = place
    table_slots[hole] = EMPTY
