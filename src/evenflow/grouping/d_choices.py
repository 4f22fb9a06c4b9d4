"""D-Choices: hot keys get just as many workers as they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.head import (
    BLOCK,
    MEMORY,
    TAIL,
    THETA,
    HeadScheme,
    HeadState,
    needed_at,
    steady_run,
)
from evenflow.grouping.literal_choices import route_literally
from evenflow.grouping.optimal_choices import find_with_margin
from evenflow.grouping.protocol import I32, I64, U64
from evenflow.grouping.worker_sets import new_sets, take_of_row
from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix
from evenflow.kernels.selection import (
    LEAST,
    look_at_all,
    note_increment,
    sort_descending,
    take_less_loaded,
)
from evenflow.model import Feedback, InputError, Workers
from evenflow.model.validation import check_positive, check_truth, check_whole
from evenflow.sketches.space_saving import (
    AGE_AT,
    HALF_LIFE,
    SEEN,
    SIZE,
    TOTAL,
    touch,
    touch_steadily,
)

# The entries of `plan`: the current d; when it was last computed, with the aged total and the time of
# the next ageing at that moment; when it is due again, and the current, shortest and longest interval
# between computations; how much lag is forgiven; a d fixed by the user, or 0.
(
    CHOICES, FOUND_AT, TOTAL_THEN, AGE_AT_THEN, DUE, INTERVAL, SHORTEST, LONGEST, FORGIVE, FIXED,
) = range(10)  # fmt: skip


class State(NamedTuple):
    base: HeadState
    plan: I64
    hot: np.ndarray  #: per counter: whether its key was hot when d was last computed
    counts_then: I64  #: per counter: its count when d was last computed
    shares: np.ndarray  #: scratch space for the hot keys' shares
    sets: U64  #: a cache: the sets of hot keys' workers, each in the row of its key's slot


@dataclass(frozen=True)
class DChoices(HeadScheme):
    """Sends hot keys to the least loaded of d workers, d as small as balance allows; others of two.

    d is the smallest number that satisfies the paper's Proposition 4.1 for the hot keys' frequencies
    as SpaceSaving estimates them. It is recomputed every few messages and whenever a key becomes hot;
    where it reaches n, hot keys go to the least loaded of all workers, as under w-choices.

    Guarantee: a key seen fewer than `sightings / 2` times is on at most two workers. The proposition
    is a necessary condition for an imbalance of ε per source, so the imbalance is near s·ε for s
    sources, not always below it.

    Parameters:
        epsilon: the target imbalance, as a share of the stream.
        choices: a fixed d for hot keys, for experiments; None computes it.
        theta: the smallest share of a hot key; None for 1/(5n).
        distinct: d different workers for a hot key, instead of d hash functions of which some collide.
        sightings: the number of recent messages that makes a key with share θ hot.
        counters: SpaceSaving counters per possible hot key.
        literal: the paper's form: shares are those of all messages so far, from the first on, and d is
            computed for every message of a hot key; `sightings` and its guarantee do not apply.

    Resizing: other keys move as under partial key grouping; workers that stay
    keep their loads, and hot keys stay hot.

    Example:
        >>> import numpy as np
        >>> scheme, out = DChoices(), np.empty(10_000, np.int32)
        >>> third = np.where(np.arange(10_000) % 3, np.arange(10_000), 42).astype(np.uint64)
        >>> scheme.route(scheme.start(100), third, out)
        >>> 33 < len(set(out[::3].tolist())) < 66
        True

    Paper: D-C in "When two choices are not enough", Algorithm 1 and §IV-A. Our additions are ageing,
    `sightings`, and how d follows a change of the head (docs/decisions/0004 and 0080).
    """

    name: ClassVar[str] = "d-choices"
    symbol: ClassVar[str] = "D-C"

    epsilon: float = 1e-4
    choices: int | None = None
    distinct: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truth("distinct", self.distinct)
        if self.distinct and self.literal:
            raise InputError(
                "literal d-choices has hash functions that collide; leave distinct out"
            )
        check_positive("epsilon", self.epsilon)
        if self.choices is not None:
            check_whole("choices", self.choices, least=1)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        return self._with_plan(super().start(workers, seed, source))

    def _with_plan(self, base: HeadState) -> State:
        counters = len(base.sketch.keys)
        n, theta, memory = len(base.ids), base.limits[THETA], base.limits[MEMORY]
        seen, total, age_at = (int(base.sketch.numbers[i]) for i in (SEEN, TOTAL, AGE_AT))
        longest, shortest = ceil(memory / 3), ceil(1 / theta)
        due = 0 if self.literal else seen
        forgive, fixed = ceil(longest / (15 * n)), min(self.choices or 0, n)
        plan = [fixed or min(2, n), seen, total, age_at, due]
        plan += [shortest, shortest, longest, forgive, fixed]
        return State(
            base,
            plan=np.array(plan, np.int64),
            hot=np.zeros(counters, np.bool_),
            counts_then=base.sketch.counts.copy(),
            shares=np.zeros(counters, np.float64),
            sets=new_sets(n),
        )

    def route(self, state: State, keys: U64, out: I32) -> None:
        if self.literal:
            base, plan, hot, _, shares, sets = state
            found, fixed = plan[[CHOICES, DUE]], plan[FIXED]
            route_literally(*base, found, hot, shares, sets, fixed, self.epsilon, keys, out)
            plan[[CHOICES, DUE]] = found
        else:
            _route(*state.base, *state[1:], self.epsilon, self.distinct, keys, out)

    def observe(self, state: State, feedback: Feedback) -> None:
        super().observe(state, feedback)
        if feedback.hot is not None and feedback.hot.counts:
            for old, new in zip(state[1:], self._with_plan(state.base)[1:], strict=True):
                old[:] = new  # d is recomputed at the next hot message

    def resize(self, state: State, workers: Workers | int) -> State:
        if self.roster(workers).ids == tuple(state.base.ids.tolist()):
            return state
        return self._with_plan(super().resize(state.base, workers))

    def describe(self, state: State) -> dict[str, Any]:
        return {"d": int(state.plan[CHOICES]), **super().describe(state)}


@inlined
def _share(count, total, lately, span):
    """A hot key's current share of the stream: the long-run share, unless the messages since d was last
    computed show, by two standard deviations, that it has grown or shrunk."""
    doubt = 2.0 * np.sqrt(lately + 1.0)
    long_run = count / total
    return min(max(long_run, (lately - doubt) / span), (lately + doubt + 2.0) / span)


@kernel
def _forgive(loads, board, levels, slack):
    """Raise every load that lags more than `slack` behind the average to that limit.

    A worker that few hot keys can reach lags further behind all the time. Once a change of d or of the
    hot keys brings it within reach, it would be the least loaded worker for minutes, and be flooded.
    """
    lowest = np.int64(loads.sum() // len(loads)) - slack
    if board[LEAST] < lowest:
        for w in range(len(loads)):
            loads[w] = max(loads[w], lowest)
        look_at_all(loads, board, levels)


@kernel
def _find_now(sketch, limits, plan, hot, counts_then, shares, n, epsilon):
    """Compute d for the current head, and remember which keys belong to it."""
    counts, numbers = sketch.counts, sketch.numbers
    size, total, seen = numbers[SIZE], numbers[TOTAL], numbers[SEEN]
    needed = needed_at(total, limits)
    # Counts from before an ageing are halved on both sides.
    aged = min((numbers[AGE_AT] - plan[AGE_AT_THEN]) // numbers[HALF_LIFE], 62)
    span = max(total - (plan[TOTAL_THEN] >> aged), 1)
    for s in range(size):
        hot[s] = counts[s] >= needed
    heads = 0
    for s in range(size):
        if hot[s]:
            lately = max(counts[s] - (counts_then[s] >> aged), 0)
            shares[heads] = _share(counts[s], total, lately, span)
            heads += 1
    for s in range(size):
        counts_then[s] = counts[s]
    sort_descending(shares[:heads])
    if plan[FIXED] == 0:
        d, _ = find_with_margin(shares[:heads], n, epsilon)
        # One choice too many does no harm. Oscillating by one, as estimates waver, would: each time d
        # goes up, a worker that hot keys could not reach for a while would be flooded.
        if d != plan[CHOICES] - 1 or d <= 2:
            plan[CHOICES] = d
    plan[FOUND_AT], plan[TOTAL_THEN], plan[AGE_AT_THEN] = seen, total, numbers[AGE_AT]
    plan[DUE] = seen + plan[INTERVAL]
    plan[INTERVAL] = min(2 * plan[INTERVAL], plan[LONGEST])


@inlined
def _news(plan, hot, slot, count, needed):
    """Whether the message makes d due earlier.

    A key that passes 2θ and was not hot before is news: d is recomputed soon, and again while the
    newcomer's share becomes clear. A key that merely wavers around θ is not.
    """
    if count == 2 * needed and not hot[slot]:
        plan[INTERVAL] = plan[SHORTEST]
        plan[DUE] = min(plan[DUE], plan[FOUND_AT] + plan[SHORTEST])
        return True
    return False


@kernel
def _judge(sketch, limits, plan, hot, keys, verdicts):
    """Count a block of messages; the verdict on each is the slot of its key if hot, else TAIL.

    Stops after a message that requires d to be recomputed. Returns how many messages were judged, and
    whether the last one requires that.
    """
    numbers = sketch.numbers
    i = 0
    while i < len(keys):
        # Almost all messages come in runs in which the smallest count of a hot key stays the same,
        # nothing is aged and d is not due.
        needed, run = steady_run(sketch, limits)
        end = min(i + min(run, plan[DUE] - 1 - numbers[SEEN]), len(keys))
        if end <= i:
            slot, count = touch(sketch, keys[i])
            needed = needed_at(numbers[TOTAL], limits)
            verdicts[i] = slot if count >= needed else TAIL
            i += 1
            _news(plan, hot, slot, count, needed)
            if count >= needed and numbers[SEEN] >= plan[DUE]:
                return i, True
            continue
        uncounted = 0
        while i < end:
            slot, count, uncounted = touch_steadily(sketch, keys[i], uncounted)
            verdicts[i] = slot if count >= needed else TAIL
            i += 1
            if _news(plan, hot, slot, count, needed):
                break
        numbers[SEEN] += uncounted
        numbers[TOTAL] += uncounted
        if numbers[SEEN] >= plan[DUE]:
            return i, True
    return len(keys), False


@kernel
def _route(
    ids, salt, loads, board, levels, sketch, limits, verdicts,
    plan, hot, counts_then, shares, sets, epsilon, distinct, keys, out,
):  # fmt: skip
    n, seed, mask = np.uint64(len(ids)), salt[0], np.uint64(len(sets) - 1)
    start = 0
    while start < len(keys):
        block, block_out = keys[start : start + BLOCK], out[start : start + BLOCK]
        judged, must_find = _judge(sketch, limits, plan, hot, block, verdicts)
        d = plan[CHOICES]
        for i in range(judged):
            if verdicts[i] == TAIL:
                mixed = mix(block[i] ^ seed)
                w = take_less_loaded(loads, high_choice(mixed, n), low_choice(mixed, n))
                note_increment(loads, board, levels, w)
            else:
                row = sets[np.uint64(verdicts[i]) & mask]
                w = take_of_row(row, block[i], seed, n, d, distinct, loads, board, levels)
            block_out[i] = ids[w]
        if must_find:
            _find_now(sketch, limits, plan, hot, counts_then, shares, len(ids), epsilon)
            if plan[CHOICES] > 2:  # two choices even out lags by themselves
                _forgive(loads, board, levels, plan[FORGIVE])
        start += judged
