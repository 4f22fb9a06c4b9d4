"""D-Choices as its paper has it: d is computed again for every message of a hot key.

That would take microseconds per message. But d can only change once the hot keys' shares have changed
by some margin, or a key has joined or left the head. So `find_literally` finds for how many messages
the answer stands; until then it is the one that would be computed.
"""

from __future__ import annotations

import numpy as np

from evenflow.grouping.head import THETA, hot_from
from evenflow.grouping.optimal_choices import find_with_margin
from evenflow.grouping.worker_sets import take_of_row
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix
from evenflow.kernels.selection import note_increment, sort_descending, take_less_loaded
from evenflow.sketches.space_saving import SIZE, TOTAL, touch

_ROUNDING = 1e-9  #: far above the rounding errors of a constraint


@kernel
def find_literally(sketch, limits, hot, shares, n, epsilon):
    """(d, stands): d for the current head, and the number of messages at which it may be another one,
    unless a key becomes hot before. `hot` remembers who is."""
    counts, total = sketch.counts, sketch.numbers[TOTAL]
    needed = hot_from(total, limits)
    heads, fewest = 0, total
    for s in range(sketch.numbers[SIZE]):
        hot[s] = counts[s] >= needed
        if hot[s]:
            shares[heads] = counts[s] / total
            heads += 1
            fewest = min(fewest, counts[s])
    sort_descending(shares[:heads])
    d, margin = find_with_margin(shares[:heads], n, epsilon)
    # After k more messages no sum of shares has moved by more than k / (total + k).
    margin = min(max(margin - _ROUNDING, 0.0), 1.0)
    stands = total + np.int64(margin * total / (2.0 - margin))
    # A key leaves the head when it has not come for long enough.
    return d, min(stands, np.int64(fewest / limits[THETA]) - 1)


@kernel
def route_literally(
    ids, salt, loads, board, levels, sketch, limits, _verdicts,
    found, hot, shares, sets, fixed, epsilon, keys, out,
):  # fmt: skip
    """`found` holds d, and the number of messages up to which it stands."""
    n, seed, mask = np.uint64(len(ids)), salt[0], np.uint64(len(sets) - 1)
    for i in range(len(keys)):
        key = keys[i]
        slot, count = touch(sketch, key)
        total = sketch.numbers[TOTAL]
        if count < hot_from(total, limits):
            mixed = mix(key ^ seed)
            w = take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))
            note_increment(loads, board, levels, w)
        else:
            if fixed == 0 and (total > found[1] or not hot[slot]):
                found[0], found[1] = find_literally(sketch, limits, hot, shares, len(ids), epsilon)
            row = sets[np.uint64(slot) & mask]
            w = take_of_row(row, key, seed, n, found[0], False, loads, board, levels)
        out[i] = ids[w]
