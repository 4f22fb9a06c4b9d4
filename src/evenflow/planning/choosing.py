"""`auto`: the scheme that fits the operator and the keys."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenflow.model import KeyCounts

# A worker with a third more than its share is not worth a second shuffle.
TOLERATED = 1.3
# The current scheme stays until the load is clearly past the limit.
HYSTERESIS = 0.1


class Choice(NamedTuple):
    """A scheme, and the reason for it."""

    scheme: str
    reason: str


def choose(mergeable: bool, workers: int, hot: KeyCounts, current: str = "key") -> Choice:
    """The cheapest scheme that keeps the fullest worker near the average.

    Key grouping costs nothing extra, so it stays where hot keys do no harm: the fullest worker then has
    the hottest key and its share of the rest. Two choices suffice while no key exceeds two workers'
    shares (§II of "When two choices are not enough"); beyond that, hot keys get as many workers as they
    need.

    Parameters:
        mergeable: whether the operator can merge partial states of a key.
        workers: the number of workers.
        hot: the counts of the most frequent keys.
        current: the scheme in use; a change needs slightly more than a tie.

    Example:
        >>> choose(True, 10, KeyCounts({7: 400}, 1000)).scheme
        'd-choices'
        >>> choose(True, 10, KeyCounts({7: 4}, 1000)).scheme
        'key'
    """
    if workers == 1:
        return Choice("key", "one partition: nothing to balance")
    if not hot.total:
        return Choice(current, "nothing is known of the keys yet")
    counts = np.sort(np.array(list(hot.counts.values()), np.float64))[::-1]
    shares = counts / hot.total
    hottest = float(shares[0]) if len(shares) else 0.0
    # The fullest worker under key grouping: the hottest key, and an even part of the rest.
    fullest = workers * hottest + (1 - hottest)
    times = hottest * workers
    finding = (
        f"the hottest key has {hottest:.1%} of the rows, {times:.1f} times a partition's share"
    )
    if not mergeable:
        whole = "the operator has no merge, so keys cannot be split"
        return Choice("table", f"{finding}; {whole}, but moved")
    limit = TOLERATED * (1 + HYSTERESIS if current == "key" else 1 - HYSTERESIS)
    if fullest <= limit:
        return Choice("key", f"{finding}: key grouping is even enough, and the cheapest")
    two = 2.0 * (1 + HYSTERESIS if current == "partial-key" else 1 - HYSTERESIS)
    if times <= two:
        return Choice("partial-key", f"{finding}: two partitions per key are enough")
    return Choice("d-choices", f"{finding}: hot keys need more than two partitions")
