"""Capacities that grow with the stream, shared by random-choices, bounded-hashing and consistent."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evenflow.grouping.protocol import I32, I64, U64, Scheme
from evenflow.kernels.jit import inlined, kernel
from evenflow.model import InputError, Workers
from evenflow.model.validation import check_not_negative, check_positive, check_truth

# The entries of `progress`: messages sent, the number at which capacities are renewed, and how many
# renewals there were.
SENT, RENEW_AT, RENEWALS = range(3)

Capacities = tuple[I32, U64, I64, I64, np.ndarray, I64]  #: ids, salt, loads, room, shares, progress


@dataclass(frozen=True)
class CapacityScheme(Scheme):
    """A scheme that lets no worker get more than (1 + ε) times its fair share.

    The capacity of worker w after m messages is ⌈(1 + ε) · m · share_w⌉, share_w its part of all
    weights. The papers renew capacities at every message. Here they stay for up to `patience`
    messages per worker, but no longer than half of the slack ε · m: they never exceed the papers', so
    the bound is the same. Between renewals keys settle on fewer workers and routing is faster, at the
    price of a less even load from moment to moment (docs/decisions/0005). `literal` is the papers' rule
    to the letter, whatever `patience` says.
    """

    epsilon: float = 0.01
    patience: float = 16.0
    literal: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if self.epsilon > 1e6:
            raise InputError(f"epsilon must be at most 1e6, got {self.epsilon}; no bound is left")
        check_not_negative("patience", self.patience)
        check_truth("literal", self.literal)

    def lag(self) -> float:
        """Messages per worker, on average, by which capacities may lag behind the papers'."""
        return 0.0 if self.literal else self.patience

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


def capacities(ids: I32, salt: np.uint64, shares: np.ndarray, sent: int = 0) -> Capacities:
    """The first six fields of a state that has sent `sent` messages in proportion to the shares.

    After a change of roster or weights, the old loads would make newcomers look empty, and flood them,
    and others look full for as long as the stream has lasted.
    """
    loads = np.floor(sent * shares).astype(np.int64)
    progress = np.array([loads.sum(), 0, 0], np.int64)  # capacities are renewed at once
    return ids, np.array([salt]), loads, np.zeros_like(loads), shares, progress


@kernel
def renew(epsilon, patience, shares, loads, room, progress):
    """Set each worker's room to what is left of its capacity, and set the time of the next renewal."""
    now = progress[SENT] + 1  # the message that is about to be placed counts
    factor = 1.0 + epsilon
    next_change = np.int64(0x7FFFFFFFFFFFFFFF)
    for w in range(len(room)):
        capacity = np.int64(np.ceil(factor * now * shares[w]))
        room[w] = capacity - loads[w]
        if shares[w] > 0.0:
            last = np.int64(capacity / (factor * shares[w]))
            # The rounded quotient may be one message short: an early renewal would grant patience
            # twice.
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
