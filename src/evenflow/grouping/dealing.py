"""Many places (virtual workers, hash buckets) dealt to few workers in proportion."""

from __future__ import annotations

import numpy as np

from evenflow.grouping.protocol import I32, I64


def dealt(total: int, shares: np.ndarray, least: int = 1) -> I64:
    """Divide `total` places in proportion to `shares`, at least `least` each: largest remainders first.

    Example:
        >>> import numpy as np
        >>> dealt(10, np.array([0.5, 0.25, 0.25])).tolist()
        [5, 3, 2]
    """
    counts = np.maximum(np.floor(total * shares), least).astype(np.int64)
    while counts.sum() < total:
        counts[np.argmax(total * shares - counts)] += 1
    while counts.sum() > total and counts.max() > least:
        over = np.where(counts > least, counts - total * shares, -np.inf)
        counts[np.argmax(over)] -= 1
    return counts


def redeal(owners: I32, shares: dict[int, float], least: int = 1) -> None:
    """Assign every place in `owners` to a worker of `shares`, in proportion, changing few places.

    Places of workers that have left go to workers that have too few; then workers that have too many
    give up the rest.

    Example:
        >>> import numpy as np
        >>> owners = np.array([0, 0, 0, 1, 1, 1], np.int32)
        >>> redeal(owners, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
        >>> owners.tolist()
        [2, 0, 0, 2, 1, 1]
    """
    counts = dealt(len(owners), np.array(list(shares.values())), least)
    lacking = dict(zip(shares, counts.tolist(), strict=True))
    for owner in owners.tolist():
        if owner in lacking:
            lacking[owner] -= 1
    spare = []
    for place, owner in enumerate(owners.tolist()):
        if owner not in lacking:
            spare.append(place)
        elif lacking[owner] < 0:
            lacking[owner] += 1
            spare.append(place)
    due = [worker for worker, missing in lacking.items() for _ in range(missing)]
    owners[spare] = due
