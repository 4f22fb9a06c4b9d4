"""How many workers a hot key needs: FindOptimalChoices, and for how long its answer stands."""

from __future__ import annotations

import numpy as np

from evenflow.kernels.jit import inlined, kernel


def find_optimal_choices(hot_shares: np.ndarray, n: int, epsilon: float = 1e-4) -> int:
    """The smallest d that satisfies Proposition 4.1 for these hot keys' shares of the stream.

    Starts from ⌈p₁·n⌉ and grows until the constraint of every prefix of the head holds; n where none
    below n does (the caller then uses all workers).

    Example:
        >>> import numpy as np
        >>> find_optimal_choices(np.array([0.3]), n=50)
        28

    Paper: FindOptimalChoices, "When two choices are not enough", §IV-A, equations 3 and 10.
    """
    shares = np.sort(np.asarray(hot_shares, np.float64))[::-1]
    return int(find_with_margin(np.ascontiguousarray(shares), n, epsilon)[0])


@inlined
def _spare(h, prefix, head, n, d, epsilon):
    """By how much equation 3 holds for the prefix of the h hottest keys, which have `prefix` of the
    stream; below 0, by how much it fails. The sign is exact; the size may be an under-estimate."""
    filled = 1.0 - np.exp(h * d * np.log1p(-1.0 / n))  # b_h / n
    room = filled * (1.0 + n * epsilon) - prefix - filled * filled * (1.0 - head)
    others = head - prefix
    # filled ** d lies in [0, 1] and is expensive: it is computed only where it decides.
    if room < 0.0:
        return room
    return room - others if others <= room else room - filled**d * others


@kernel
def find_with_margin(shares, n, epsilon):
    """(d, margin) for shares in descending order, all positive.

    No prefix of the shares can change so little that d changes: `margin` bounds how far the constraints
    are from turning, where the sums of all prefixes and of the whole head each move by half of it.
    """
    if len(shares) == 0:
        return min(2, n), 0.0
    head = min(shares.sum(), 1.0)
    scale = head / shares.sum()  # estimated shares may add up to more than 1
    least = scale * shares[0] * n
    d = max(2, int(np.ceil(least)))
    # The first d to be tried is another one as soon as p₁·n passes a whole number.
    margin = (d - least) / n
    if d > 2:
        margin = min(margin, (least - (d - 1)) / n)
    margin *= 2.0
    while d < n:
        # These two are the tight ones (§IV-A): most values of d fail one of them.
        spare = _spare(1, scale * shares[0], head, n, d, epsilon)
        if spare >= 0.0:
            kept = spare
            spare = _spare(len(shares), head, head, n, d, epsilon)
            if spare >= 0.0:
                kept = min(kept, spare)
                prefix = 0.0
                h = 0
                while h < len(shares):
                    prefix += scale * shares[h]
                    h += 1
                    spare = _spare(h, prefix, head, n, d, epsilon)
                    if spare < 0.0:
                        break
                    kept = min(kept, spare)
                else:
                    return d, min(margin, kept)
        margin = min(margin, -spare)
        d += 1
    return n, margin
