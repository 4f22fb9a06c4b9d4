"""Capacities that grow with the stream: what random-choices, bounded-hashing and consistent share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenflow.grouping.protocol import I32, I64, U64, Scheme
from evenflow.kernels.jit import inlined, kernel
from evenflow.model import InputError, Workers
from evenflow.model.validation import check_not_negative, check_positive

# What `progress` holds: messages sent, the number at which capacities are renewed, and how often
# they have been.
SENT, RENEW_AT, RENEWALS = range(3)


@dataclass(frozen=True)
class CapacityScheme(Scheme):
    """A scheme that lets no worker get more than (1 + ε) times its fair share.

    The capacity of worker w after m messages is ⌈(1 + ε) · m · share_w⌉, share_w its part of all
    weights. The papers renew capacities at every message. Here they stay for up to `patience`
    messages a worker, though not beyond half of the slack ε · m: they are then never above the
    papers' (the bound is the same), while keys settle down between renewals, on fewer workers, and
    routing is faster, for the price of a less even load from moment to moment (docs/decisions/0005).
    `patience=0` is the papers' rule to the letter.
    """

    epsilon: float = 0.01
    patience: float = 16.0

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.epsilon > 1e6:
            raise InputError(f"epsilon must be at most 1e6, got {self.epsilon}; no bound is left")
        check_not_negative("patience", self.patience)

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        shares = shares_of(workers)
        for m in {len(out) // 10, len(out) // 2, len(out)}:
            for w, share in zip(workers.ids, shares, strict=True):
                load, most = int((out[:m] == w).sum()), (1 + self.epsilon) * m * share + 1
                if load > most:
                    return f"worker {w} has {load} of the first {m} messages, above {most:.1f}"
        return None


def shares_of(workers: Workers) -> np.ndarray:
    """Each worker's part of all weights."""
    weights = np.array(workers.weights or np.ones(len(workers)), np.float64)
    return weights / weights.sum()


def new_progress() -> I64:
    """Nothing sent; capacities to be renewed at once."""
    return np.zeros(3, np.int64)


def spread_evenly(sent: int, shares: np.ndarray) -> tuple[I64, I64]:
    """(loads, progress) as if what was sent had gone to this roster in proportion to its shares.

    After a change of roster or weights, loads as they were would make newcomers look empty, and be
    flooded, and others full for as long as the stream has lasted.
    """
    loads = np.floor(sent * shares).astype(np.int64)
    progress = new_progress()
    progress[SENT] = loads.sum()
    return loads, progress


@kernel
def renew(epsilon, patience, shares, loads, room, progress):
    """Set each worker's room to what its capacity leaves it, and say when to do so again."""
    now = progress[SENT] + 1  # the message that is about to be placed counts
    factor = 1.0 + epsilon
    next_change = np.int64(0x7FFFFFFFFFFFFFFF)
    for w in range(len(room)):
        capacity = np.int64(np.ceil(factor * now * shares[w]))
        room[w] = capacity - loads[w]
        if shares[w] > 0.0:
            last = np.int64(capacity / (factor * shares[w]))
            # Rounded, the quotient may be one message short: renewed early, patience would be
            # granted a second time.
            if np.ceil(factor * (last + 1) * shares[w]) <= capacity:
                last += 1
            next_change = min(next_change, last)
    patient = np.int64(min(0.5 * epsilon * now, patience * len(room)))
    progress[RENEW_AT] = max(progress[SENT] + 1, max(next_change, progress[SENT] + patient))
    progress[RENEWALS] += 1


@inlined
def take_room(loads, room, progress, w):
    """Place one message on worker `w`."""
    room[w] -= 1
    loads[w] += 1
    progress[SENT] += 1
