"""The head of the key distribution: what d-choices, w-choices and round-robin-head share."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from evenflow.grouping.protocol import (
    I32,
    I64,
    U64,
    Scheme,
    carried_loads,
    choices_of,
    most_workers_of_a_key,
    worker_ids,
)
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import salt
from evenflow.kernels.selection import CURSOR, new_board
from evenflow.model import Feedback, KeyCounts, Workers
from evenflow.model.validation import check_positive, check_share, check_truth, check_whole
from evenflow.sketches.space_saving import AGE_AT, SEEN, SIZE, TOTAL, SpaceSaving, touch
from evenflow.sketches.space_saving import State as Sketch

THETA, MEMORY = 0, 1

# Messages go through the sketch and then to the workers one block at a time: each loop then fits the
# processor's prediction and reordering, and both together take half the time of a single loop.
# Decisions do not depend on the block size, because the sketch does not look at loads.
BLOCK = 512
TAIL = -1  # the verdict on a key that is not hot; a hot key's verdict is its slot in the sketch


class Limits(NamedTuple):
    """What makes a key hot, for n workers."""

    theta: float
    half_life: int | None
    capacity: int


class HeadState(NamedTuple):
    ids: I32
    salt: U64
    loads: I64
    board: I64
    levels: U64
    sketch: Sketch
    limits: np.ndarray  #: θ, and the smallest number of messages it applies to, or 0
    verdicts: I32  #: scratch space: the verdicts on a block of messages


@dataclass(frozen=True)
class HeadScheme(Scheme):
    """A scheme that handles hot keys (the head) separately and all others like partial key grouping.

    A key is hot while its SpaceSaving count is at least θ of the recent stream. Counts are halved
    every `sightings / θ` messages, so "recent" means one to two times that many messages: a key must
    have been seen about `sightings` times to be hot, and stops being hot soon after its messages stop.
    In the literal form a key is hot while its count is at least θ of all messages so far, from the
    first message on.

    Parameters:
        theta: the smallest share of a hot key; None for 1/(5n).
        sightings: the number of recent messages that makes a key with share θ hot. Fewer messages
            follow drift faster; with more, fewer keys near θ become hot by chance.
        counters: SpaceSaving counters per possible hot key: `counters / θ` in total.
        literal: the paper's form, with none of our additions: see docs/decisions/0080.
    """

    theta: float | None = None
    sightings: float = 20.0
    counters: int = 4
    literal: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_share("theta", self.theta)
        check_positive("sightings", self.sightings)
        check_whole("counters", self.counters, least=2)
        check_truth("literal", self.literal)

    def limits(self, n: int) -> Limits:
        """θ, the half-life and the size of the sketch for n workers."""
        theta = 1 / (5 * n) if self.theta is None else self.theta
        half_life = None if self.literal else ceil(self.sightings / theta)
        return Limits(theta, half_life, ceil(self.counters / theta))

    def _counter(self, n: int) -> SpaceSaving:
        limits = self.limits(n)
        return SpaceSaving(limits.capacity, limits.half_life)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> Any:
        roster = self.roster(workers)
        loads, sketch = np.zeros(len(roster), np.int64), self._counter(len(roster)).start()
        return self._state(roster, np.array([salt(seed)]), loads, int(salt(seed, source)), sketch)

    def resize(self, state: Any, workers: Workers | int) -> Any:
        """Workers that stay keep their loads; the sketch keeps its counts when its size changes."""
        roster = self.roster(workers)
        loads, sketch = carried_loads(state.ids, state.loads, roster), state.sketch
        if self.limits(len(roster)).theta != state.limits[THETA]:
            sketch = self._counter(len(roster)).merge([sketch])
        return self._state(roster, state.salt, loads, int(state.board[CURSOR]), sketch)

    def _state(
        self, roster: Workers, seed_salt: U64, loads: I64, cursor: int, sketch: Sketch
    ) -> HeadState:
        limits, n = self.limits(len(roster)), len(roster)
        board, levels = new_board(loads, first=cursor % n)
        return HeadState(
            ids=worker_ids(roster),
            salt=seed_salt,
            loads=loads,
            board=board,
            levels=levels,
            sketch=sketch,
            limits=np.array([limits.theta, limits.half_life or 0], np.float64),
            verdicts=np.zeros(BLOCK, np.int32),
        )

    def candidates(self, state: Any, key: int) -> I32:
        base: HeadState = getattr(state, "base", state)
        return base.ids if self._may_be_hot(base, key) else choices_of(key, base.salt, base.ids, 2)

    def observe(self, state: Any, feedback: Feedback) -> None:
        """Start from the hot keys that all sources have counted, instead of from nothing."""
        if feedback.hot is not None and feedback.hot.counts:
            base: HeadState = getattr(state, "base", state)
            n = len(base.ids)
            recent = recent_counts(feedback.hot, self.limits(n).half_life)
            for old, new in zip(base.sketch, self._counter(n).from_counts(*recent), strict=True):
                old[:] = new

    def _may_be_hot(self, state: HeadState, key: int) -> bool:
        """Whether the next message would find its key hot if the key is `key`."""
        numbers = state.sketch.numbers
        counted = SpaceSaving().bounds(state.sketch, np.array([key], np.uint64))[1][0]
        total = numbers[TOTAL]
        if numbers[SEEN] == numbers[AGE_AT]:  # counts will be halved first
            counted, total = (counted + 1) >> 1, (total + 1) >> 1
        return bool(counted + 1 >= hot_from(total + 1, state.limits))

    def describe(self, state: Any) -> dict[str, Any]:
        """The number of hot keys, and their share of the stream."""
        base: HeadState = getattr(state, "base", state)
        counts = base.sketch.counts[: base.sketch.numbers[SIZE]]
        total = base.sketch.numbers[TOTAL]
        hot = counts[counts >= base.limits[THETA] * max(total, base.limits[MEMORY])]
        return {"hot_keys": len(hot), "hot_share": float(hot.sum() / max(total, 1))}

    def check_guarantee(self, workers: Workers, keys: U64, out: I32) -> str | None:
        if self.literal:
            return None  # at the beginning every key is hot
        inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)[1:]
        rare = counts[inverse] < self.sightings / 2
        spread = most_workers_of_a_key(keys[rare], out[rare])
        return f"a rare key is on {spread} workers" if spread > 2 else None


def recent_counts(hot: KeyCounts, most: int | None) -> tuple[U64, I64, int]:
    """Keys, counts and total, scaled down to at most `most` messages; None for no limit."""
    keys = np.array(list(hot.counts), np.uint64)
    counts = np.array(list(hot.counts.values()), np.int64)
    scale = 1.0 if most is None else min(1.0, most / max(hot.total, 1))
    return keys, np.floor(counts * scale).astype(np.int64), int(hot.total * scale)


@inlined
def hot_from(total, limits):
    """The smallest count of a hot key, not rounded: θ of the recent stream."""
    return limits[THETA] * max(np.float64(total), limits[MEMORY])


@inlined
def needed_at(total, limits):
    """The smallest count of a hot key when the recent stream is `total` messages."""
    return np.int64(np.ceil(hot_from(total, limits)))


@inlined
def steady_run(sketch, limits):
    """The smallest count of a hot key at the next message, and for how many messages it holds."""
    numbers = sketch.numbers
    total = numbers[TOTAL]
    needed = needed_at(total + 1, limits)
    last = np.int64(needed / limits[THETA])
    while needed_at(last, limits) > needed:
        last -= 1
    while needed_at(last + 1, limits) <= needed:
        last += 1
    return needed, min(last - total, numbers[AGE_AT] - numbers[SEEN])


@kernel
def judge(sketch, limits, keys, verdicts):
    """Count a block of messages; the verdict on each is the slot of its key if hot, else TAIL."""
    for i in range(len(keys)):
        slot, count = touch(sketch, keys[i])
        verdicts[i] = slot if count >= hot_from(sketch.numbers[TOTAL], limits) else TAIL
