"""The figures of a stage: how uneven its tasks were, and what that cost."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.diagnosis.application import Application, Stage
from evenflow.diagnosis.plans import Shuffle
from evenflow.diagnosis.rules import LIMITS

F64 = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

_SEED_OF_SPARKS_HASH = 42  # the hash of null: nothing has been mixed into the seed


@dataclass(frozen=True)
class StageFigures:
    """What was measured of a stage, and what follows from it.

    Parameters:
        stage: the stage.
        slots: tasks that ran at once, at most.
        began, ended: from the launch of its first task to the end of its last, in seconds since 1970.
        median_seconds, longest_seconds: of its tasks.
        lost_seconds: wall time lost waiting for stragglers: how much longer its tasks take than tasks
            that all have the average length.
        lost_to_slowness: the same, beside tasks that all have the median length: for causes that make
            work longer, not only uneven.
        time_score, rows_score, bytes_score: skew from 0 to 100, as Flink's: the mean distance from the
            average, in per cent of the average.
        rows_ratio, bytes_ratio: of the longest task, as a multiple of the median.
        rows_known: whether rows or bytes were counted at all.
        from_files: whether it read files, not a shuffle.
        gc_share: garbage collection, as a share of the time of its tasks.
        spilled_bytes: written to disk because memory was short.
        read_bytes: read by all of its tasks.
        shuffle: the one from which its fullest task has most rows.
        slow_executor: on which the longest task ran, if that executor is slow in general.
        starting: whether the longest task is that long because Python and Java started with it.
        null_partition: whether the longest task is the one that has all null keys.
    """

    stage: Stage
    slots: int
    began: float
    ended: float
    median_seconds: float
    longest_seconds: float
    lost_seconds: float
    lost_to_slowness: float
    time_score: float
    rows_score: float
    bytes_score: float
    rows_ratio: float
    bytes_ratio: float
    rows_known: bool
    from_files: bool
    gc_share: float
    spilled_bytes: float
    read_bytes: float
    shuffle: Shuffle | None
    slow_executor: int | None
    starting: bool
    null_partition: bool

    @property
    def wall_seconds(self) -> float:
        return self.ended - self.began

    @property
    def time_ratio(self) -> float:
        """The longest task, as a multiple of the median."""
        return self.longest_seconds / max(self.median_seconds, 1e-3)

    @property
    def explained(self) -> float:
        """How much of the longest task's extra time its extra data explain: 1 is all of it."""
        more = max(self.rows_ratio, self.bytes_ratio)
        return float(np.log(max(more, 1.0)) / np.log(max(self.time_ratio, 1.0 + 1e-9)))


def figures_of(application: Application) -> list[StageFigures]:
    """The figures of all stages of an application."""
    first = _first_ends(application)
    slow = slow_executors(application)
    return [
        _measured(stage, its_slow, _is_first(stage, first))
        for stage, its_slow in zip(application.stages, slow, strict=True)
    ]


def _first_ends(application: Application) -> dict[int, float]:
    """When the first task of each executor ended."""
    first: dict[int, float] = {}
    for stage in application.stages:
        ends = stage.tasks["launched"] + stage.tasks["seconds"]
        for one in np.unique(stage.tasks["executor"]).tolist():
            end = float(ends[stage.tasks["executor"] == one].min())
            first[int(one)] = min(end, first.get(int(one), end))
    return first


def _is_first(stage: Stage, first: dict[int, float]) -> Booleans:
    """Which tasks were launched before any task of their executor had ended."""
    until = np.array([first[int(one)] for one in stage.tasks["executor"]])
    return stage.tasks["launched"] < until


def skew_score(values: F64) -> float:
    """The mean distance from the average, in per cent of the average; at most 100.

    Example:
        >>> skew_score(np.array([5.0, 5.0])), skew_score(np.array([9.0, 1.0, 1.0, 1.0]))
        (0.0, 100.0)
        >>> skew_score(np.array([2.0, 1.0]))
        33.3
    """
    average = float(values.mean()) if len(values) else 0.0
    if average <= 0:
        return 0.0
    return round(min(100.0, 100 * float(np.abs(values - average).mean()) / average), 1)


def makespan(seconds: Sequence[float], slots: int) -> float:
    """How long tasks take that start in this order, each as soon as a slot is free.

    Example:
        >>> makespan([1, 1, 1, 4], slots=2), makespan([4, 1, 1, 1], slots=2)
        (5.0, 4.0)
    """
    free = [0.0] * max(1, min(slots, len(seconds)))
    for one in seconds:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def lost_seconds(seconds: F64, slots: int, even: float) -> float:
    """How much longer the tasks take than as many tasks that take `even` seconds each; 0 at least.

    A last round of tasks that does not fill all slots is nobody's loss here: even tasks have it, too.

    Example:
        >>> lost_seconds(np.array([1.0, 1, 1, 5]), slots=4, even=2.0)
        3.0
        >>> lost_seconds(np.array([2.0] * 5), slots=4, even=2.0)
        0.0
    """
    rounds = -(-len(seconds) // max(1, slots))
    return max(0.0, makespan(seconds.tolist(), slots) - rounds * even)


def busy_slots(launched: F64, seconds: F64) -> int:
    """How many tasks ran at the same time, at most.

    Example:
        >>> busy_slots(np.array([0.0, 0.5, 2.0]), np.array([1.0, 1.0, 1.0]))
        2
    """
    times = np.concatenate([launched, launched + seconds])
    change = np.concatenate([np.ones(len(launched)), -np.ones(len(launched))])
    # Where a task ends in the millisecond in which the next one starts, they used one slot.
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=1))


def slow_executors(application: Application) -> list[frozenset[int]]:
    """For each stage: the executors whose tasks take longer than others' with as many rows, in that
    stage or over all stages.

    The time to start Python does not count, nor does the first task of an executor.
    """
    first = _first_ends(application)
    by_stage = [_slowness(stage, ~_is_first(stage, first)) for stage in application.stages]
    everywhere: dict[int, list[float]] = {}
    for slowness in by_stage:
        for executor, times in slowness.items():
            everywhere.setdefault(executor, []).extend(times)
    always = {executor for executor, times in everywhere.items() if _is_slow(times)}
    return [
        frozenset(always | {executor for executor, times in slowness.items() if _is_slow(times)})
        for slowness in by_stage
    ]


def _slowness(stage: Stage, counted: Booleans) -> dict[int, list[float]]:
    """The time of each executor's tasks, as multiples of what other executors take."""
    executor = stage.tasks["executor"][counted]
    names = np.unique(executor).tolist()
    if len(names) < 2:
        return {}
    rows = stage.rows[counted]
    seconds = (stage.tasks["seconds"] - stage.tasks["start_seconds"])[counted]
    usual = seconds / np.maximum(1.0, rows / max(float(np.median(rows)), 1.0))
    return {
        int(one): (
            usual[executor == one] / max(float(np.median(usual[executor != one])), 1e-3)
        ).tolist()
        for one in names
    }


def _is_slow(times: list[float]) -> bool:
    slow = sum(one >= LIMITS.slower_machine for one in times)
    return slow >= max(LIMITS.tasks_of_a_slow_machine, LIMITS.most_of_its_tasks * len(times))


def _measured(stage: Stage, slow: frozenset[int], first: Booleans) -> StageFigures:
    seconds, rows, size = stage.tasks["seconds"], stage.rows, stage.bytes
    launched = stage.tasks["launched"]
    longest = int(np.argmax(seconds))
    slots = busy_slots(launched, seconds)
    executor = int(stage.tasks["executor"][longest])
    shuffle = max(
        stage.shuffles, key=lambda one: stage.fullest.get(one.reads or -1, 0), default=None
    )
    run = float(stage.tasks["run_seconds"].sum())
    return StageFigures(
        stage=stage,
        slots=slots,
        began=float(launched.min()),
        ended=float((launched + seconds).max()),
        median_seconds=float(np.median(seconds)),
        longest_seconds=float(seconds[longest]),
        lost_seconds=lost_seconds(seconds, slots, float(seconds.mean())),
        lost_to_slowness=lost_seconds(seconds, slots, float(np.median(seconds))),
        time_score=skew_score(seconds),
        rows_score=skew_score(rows),
        bytes_score=skew_score(size),
        rows_ratio=_ratio(rows, longest),
        bytes_ratio=_ratio(size, longest),
        rows_known=bool(rows.any() or size.any()),
        from_files=bool(stage.tasks["input_bytes"].sum() > stage.tasks["shuffle_bytes"].sum()),
        gc_share=float(stage.tasks["gc_seconds"].sum()) / run if run > 0 else 0.0,
        spilled_bytes=float(stage.tasks["spilled_disk"].sum()),
        read_bytes=float(size.sum()),
        shuffle=shuffle,
        slow_executor=executor if executor in slow else None,
        starting=_only_starts(stage, longest, first),
        null_partition=_has_nulls(stage, shuffle, longest),
    )


def _ratio(values: F64, task: int) -> float:
    return float(values[task]) / max(float(np.median(values)), 1.0) if values.any() else 1.0


def _only_starts(stage: Stage, longest: int, first: Booleans) -> bool:
    """Whether the longest task is that long because it had to start Python, or was the first at all."""
    seconds = stage.tasks["seconds"]
    own = seconds - stage.tasks["start_seconds"]
    if own[longest] < LIMITS.straggler * float(np.median(own)):
        return True
    if not first[longest]:
        return False
    if float(own[longest] - np.median(own)) <= LIMITS.start_seconds:
        return True
    # On a busy machine starting takes longer, but for all executors.
    return int(first.sum()) > 1 and own[longest] < LIMITS.straggler * float(np.median(own[first]))


def _has_nulls(stage: Stage, shuffle: Shuffle | None, longest: int) -> bool:
    """Whether the longest task is where Spark sends all rows whose key is null."""
    if shuffle is None or shuffle.by_range or (shuffle.operator == "join" and not shuffle.outer):
        return False
    if stage.planned != shuffle.partitions or shuffle.partitions < LIMITS.partitions_to_know_nulls:
        return False  # partitions were joined or split, so their numbers are others
    return int(stage.tasks["partition"][longest]) == _SEED_OF_SPARKS_HASH % shuffle.partitions
