"""`partitions="auto"`: how many partitions a streaming query needs, from what its tasks can really do.

A pure function: what is known of earlier batches goes in and comes out, and nothing else counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from evenflow.model import InputError, shapes
from evenflow.model.discovery import build
from evenflow.model.plan import AUTO
from evenflow.model.validation import (
    MOST_PARTITIONS,
    check_not_negative,
    check_partitions,
    check_positive,
    check_whole,
)


@dataclass(frozen=True)
class Scaling:
    """When a streaming query gets more or fewer partitions, and within which limits.

    Guarantee: the number stays within the limits, and at most one change is made in `cooldown` batches.
    While the load does not change, no change is followed by its opposite: more partitions come only if
    the busiest one works more than `high` of the time, they are chosen so that it works `target` of it,
    and fewer come only if for `patience` seconds the busiest would not have worked more than `target`.

    Parameters:
        least: the smallest number of partitions.
        most: the largest; None for as many as the query begins with, which is as many as Spark has
            cores.
        target: the share of the time that the busiest partition should work.
        high: above this share there are too few partitions.
        margin: fewer only if at least this share of the partitions can go.
        window: how many batches are judged together, so that chance moves nothing.
        cooldown: how many batches a change is given to show what it does.
        patience: seconds for which fewer partitions must have been enough before some go.
        catch_up: seconds in which rows that wait at the source should be processed, where their
            number is known.
        shrinks: whether there may be fewer.

    Example:
        >>> scaling_of("auto:least=2,most=64")
        Scaling(least=2, most=64, target=0.7, high=0.85, margin=0.25, window=3, cooldown=2, \
patience=30.0, catch_up=60.0, shrinks=True)
    """

    least: int = 1
    most: int | None = None
    target: float = 0.7
    high: float = 0.85
    margin: float = 0.25
    window: int = 3
    cooldown: int = 2
    patience: float = 30.0
    catch_up: float = 60.0
    shrinks: bool = True

    def __post_init__(self) -> None:
        check_partitions(self.least)
        if self.most is not None:
            check_partitions(self.most)
            if self.most < self.least:
                raise InputError(f"most={self.most} partitions are fewer than least={self.least}")
        if not 0 < self.target < self.high <= 1:
            raise InputError(
                f"target and high must be 0 < target < high ≤ 1, got {self.target} and {self.high}"
            )
        if not 0 < self.margin < 1:
            raise InputError(f"the margin must lie in (0, 1), got {self.margin}")
        check_whole("window", self.window, least=1)
        check_whole("cooldown", self.cooldown, least=1)
        check_not_negative("patience", self.patience)
        check_positive("catch_up", self.catch_up)

    def starting_with(self, partitions: int) -> Scaling:
        """With the largest number known: as many as the query begins with, if nothing else is said."""
        if self.most is not None:
            return self
        return replace(self, most=max(partitions, self.least))

    def within(self, partitions: int) -> int:
        """The number nearest to this one that the limits allow."""
        return max(self.least, partitions if self.most is None else min(partitions, self.most))


def scaling_of(text: str) -> Scaling:
    """The policy in a text: `auto`, or `auto:least=2,most=64`, with the fields of `Scaling`."""
    found: Scaling = build("way to choose the number of partitions", {AUTO: Scaling}, text, {})
    return found


_EVER = 1_000_000  # batches without a change: there has been none


class Interval(NamedTuple):
    """What one batch has shown.

    Parameters:
        rows: that arrived since the batch before it began.
        seconds: since the batch before it began.
        busy: seconds that all partitions together have worked.
        fullest: seconds that the busiest partition has worked.
        waiting: rows that the source held back; 0 where that is not known.
        hottest: the share of the rows that one partition must have, because they are of one key.
    """

    rows: int
    seconds: float
    busy: float
    fullest: float
    waiting: int = 0
    hottest: float = 0.0

    def load(self, catch_up: float) -> float:
        """The share of the time that the busiest partition must work, to keep up and to catch up."""
        extra = self.fullest / self.rows * self.waiting / catch_up if self.rows else 0.0
        return self.fullest / self.seconds + extra


@dataclass(frozen=True)
class ScalingMemory:
    """What is known of the batches since the last change, and what the last step up was to gain.

    Guarantee: `from_json(to_json())` is the same again.

    Parameters:
        seen: the last batches, at most as many as are judged together.
        quiet: for how many batches the number of partitions has not changed.
        before: before the last step up, how many partitions there were, and the seconds of the busiest
            one per row of all.
        calm: for how many seconds fewer partitions would have been enough, and how many at most.
    """

    seen: tuple[Interval, ...] = ()
    quiet: int = _EVER
    before: tuple[int, float] | None = None
    calm: tuple[float, int] = (0.0, 0)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        before = None if self.before is None else list(self.before)
        return {
            "seen": [list(one) for one in self.seen],
            "quiet": self.quiet,
            "before": before,
            "calm": list(self.calm),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ScalingMemory:
        """From the result of `to_json`; from nothing, nothing is known."""
        if not plain:
            return cls()
        if wrong := _SHAPE(plain, "it"):
            raise InputError(
                f"this is not what is known of past batches ({wrong}); read this checkpoint with the "
                "version of evenflow that wrote it"
            )
        before = plain["before"]
        return cls(
            tuple(Interval(*one) for one in plain["seen"]),
            plain["quiet"],
            None if before is None else (int(before[0]), float(before[1])),
            (float(plain["calm"][0]), int(plain["calm"][1])),
        )


def _numbers(*bounds: tuple[float, float]) -> shapes.Check:
    """A list of as many numbers, each within its bounds."""
    checks = [shapes.number(*bound) for bound in bounds]

    def check(value: Any, what: str) -> str | None:
        if type(value) is not list or len(value) != len(checks):
            return f"{what} is not a list of {len(checks)} numbers"
        found = zip(checks, value, strict=True)
        return next((wrong for one, number in found if (wrong := one(number, what))), None)

    return check


_MANY, _INSTANT = 1e12, 1e-3  # rows or seconds at most; seconds between two batches at least
_SHAPE = shapes.fields(
    {
        "seen": shapes.a_list(
            _numbers((0, _MANY), (_INSTANT, _MANY), (0, _MANY), (0, _MANY), (0, _MANY), (0, 1))
        ),
        "quiet": shapes.whole(0),
        "before": shapes.or_none(_numbers((1, MOST_PARTITIONS), (0, _MANY))),
        "calm": _numbers((0, _MANY), (0, MOST_PARTITIONS)),
    }
)


class ScalingDecision(NamedTuple):
    """The number of partitions from the next batch on.

    Parameters:
        partitions: how many.
        reason: why, in words.
        load: the share of the time that the busiest partition needs to work; None where unknown.
        arriving: rows per second that arrive.
        true_rate: rows per second that a partition processes while it works.
    """

    partitions: int
    reason: str
    load: float | None = None
    arriving: float | None = None
    true_rate: float | None = None


def decide_partitions(
    policy: Scaling, memory: ScalingMemory, partitions: int, now: Interval | None
) -> tuple[ScalingDecision, ScalingMemory]:
    """How many partitions the next batch should have, and what is to be remembered.

    The step is as large as the measured rates say, not one partition at a time, so one step or two are
    enough however far the load jumps. More partitions are not asked for where they cannot help: beyond
    the number at which the hottest key alone fills a partition, and after a step that has gained less
    than half of what it should have, as where tasks share processors.

    Parameters:
        policy: the limits.
        memory: what is known of earlier batches.
        partitions: as many as the batch had.
        now: what the batch has shown; None if that says nothing, as the first after a start, which has
            all rows of the time before.

    Example:
        >>> busy = Interval(rows=30_000, seconds=10, busy=38.0, fullest=9.5)
        >>> policy, memory = Scaling(most=16), ScalingMemory()
        >>> for _ in range(2):
        ...     decision, memory = decide_partitions(policy, memory, 4, busy)
        >>> decision.partitions, round(decision.true_rate)
        (6, 789)

    Paper: true processing rates are those of DS2 (Kalavri et al., "Three steps is all you need", OSDI
    2018, §3.2): rows per second of useful work, not of wall-clock time. Limits, hysteresis, catching up
    and the two reasons to stop are ours.
    """
    allowed = policy.within(partitions)
    if allowed != partitions:
        reason = f"{allowed} partitions instead of {partitions}: the limits are {_limits(policy)}"
        return ScalingDecision(allowed, reason), ScalingMemory(quiet=0)
    if now is None or now.seconds <= 0:
        return ScalingDecision(partitions, "this batch says nothing of the load"), memory
    memory = replace(memory, seen=(*memory.seen, now)[-policy.window :], quiet=memory.quiet + 1)
    memory = replace(memory, calm=_calm(policy, memory, partitions))
    wanted, why = _wanted(policy, memory, partitions)
    decision = ScalingDecision(
        partitions=wanted,
        reason=f"{_finding(memory.seen, policy)}{why}",
        load=_load(memory.seen, policy),
        arriving=now.rows / now.seconds,
        true_rate=now.rows / now.busy if now.busy > 0 else None,
    )
    if wanted == partitions:
        return decision, memory
    before = (partitions, _per_row(memory.seen)) if wanted > partitions else None
    return decision, ScalingMemory(quiet=0, before=before)


def _wanted(policy: Scaling, memory: ScalingMemory, partitions: int) -> tuple[int, str]:
    """How many partitions the next batch should have, and the second half of the reason."""
    seen = memory.seen
    load, last = _load(seen, policy), seen[-1].load(policy.catch_up)
    overloaded = last > 1 or (len(seen) > 1 and load > policy.high)
    if overloaded:
        if memory.quiet < policy.cooldown:
            return partitions, "; the last change is too young to judge"
        need = math.ceil(partitions * max(load, last if last > 1 else 0.0) / policy.target)
        return _limited_growth(policy, memory, partitions, need)
    seconds, need = memory.calm
    if not need:
        return partitions, f"; {partitions} partitions are right"
    if not policy.shrinks or any(one.waiting > one.rows for one in seen):
        return partitions, f"; {need} would do, but rows are waiting"
    if seconds < policy.patience or len(seen) < policy.window or memory.quiet < policy.cooldown:
        return partitions, f"; {need} would do, if it stays like this"
    return need, f"; {need} partitions instead of {partitions} are enough"


def _calm(policy: Scaling, memory: ScalingMemory, partitions: int) -> tuple[float, int]:
    """For how many seconds fewer partitions would have been enough, and how many at most.

    The highest load of that time counts, and that of the last batches together: to have too many
    partitions for a while does no harm.
    """
    now, (seconds, most) = memory.seen[-1], memory.calm
    load = max(now.load(policy.catch_up), _load(memory.seen, policy))
    need = max(math.ceil(partitions * load / policy.target), most, policy.least)
    if need > partitions * (1 - policy.margin):
        return 0.0, 0
    # One batch alone is no proof: the first after a long pause says little of what comes now.
    return seconds + min(now.seconds, policy.patience / 2), need


def _limited_growth(
    policy: Scaling, memory: ScalingMemory, partitions: int, need: int
) -> tuple[int, str]:
    """As many of the partitions that are needed as can help and are allowed."""
    hottest = max(one.hottest for one in memory.seen)
    useful = math.ceil(1 / hottest) if hottest > 0 else need
    if partitions >= useful < need:
        return partitions, f"; its hottest key has {hottest:.1%} of the rows, more would not help"
    if memory.before is not None and memory.quiet < _TRY_AGAIN * policy.window:
        fewer, cost = memory.before
        gained, due = cost / max(_per_row(memory.seen), 1e-300), partitions / fewer
        if gained < 1 + (due - 1) / 2:
            return partitions, (
                f"; {partitions} partitions do {gained:.2f} times the work of {fewer}, so more would "
                "not help: their tasks share processors, or a few keys decide"
            )
    wanted = policy.within(min(need, useful))
    if wanted == partitions:
        return partitions, f"; {need} are needed, and the limits are {_limits(policy)}"
    limited = "" if wanted == need else f" ({need} are needed)"
    return wanted, f"; {wanted} partitions instead of {partitions}{limited}"


_TRY_AGAIN = 10  # windows after a step that has gained little: machines may have come since


def _load(seen: Sequence[Interval], policy: Scaling) -> float:
    seconds = math.fsum(one.seconds for one in seen)
    return math.fsum(one.load(policy.catch_up) * one.seconds for one in seen) / seconds


def _per_row(seen: Sequence[Interval]) -> float:
    """Seconds of the busiest partition per row of all."""
    rows = sum(one.rows for one in seen)
    return math.fsum(one.fullest for one in seen) / rows if rows else 0.0


def _finding(seen: Sequence[Interval], policy: Scaling) -> str:
    rows, busy = sum(one.rows for one in seen), math.fsum(one.busy for one in seen)
    rate = f"{rows / busy:,.0f} rows per second of work" if busy > 0 else "no work"
    waiting = f", and {seen[-1].waiting:,} wait" if seen[-1].waiting else ""
    arriving = rows / math.fsum(one.seconds for one in seen)
    return (
        f"the busiest partition has to work {_load(seen, policy):.0%} of the time: {arriving:,.0f} "
        f"rows per second arrive{waiting}, a partition does {rate}"
    )


def _limits(policy: Scaling) -> str:
    return f"{policy.least} to {'any' if policy.most is None else policy.most}"
