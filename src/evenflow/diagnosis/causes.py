"""Which cause a stage's stragglers have, and what would help."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenflow.diagnosis.diagnosis import Finding
from evenflow.diagnosis.rules import (
    BROADCAST,
    CAUSES,
    CONSISTENT,
    COSTLY_ROWS,
    DROP_NULL_GROUP,
    DROP_NULLS,
    FIND_THE_KEY,
    GARBAGE,
    HOT_KEY,
    INPUT_FILES,
    JOIN_GRID,
    LESS_GARBAGE,
    LIMITS,
    MORE_MEMORY,
    NO_KEY,
    NULL_KEYS,
    PARTIAL,
    PLACE_KEYS,
    REPLACE_MACHINE,
    SAMPLE_RANGES,
    SKEW_JOIN,
    SLOW_MACHINE,
    SPILL,
    SPLIT_FILES,
    SPLIT_KEYS,
    UNEVEN_RANGES,
    WEIGH_ROWS,
    Remedy,
)
from evenflow.diagnosis.stages import StageFigures

_PYTHON = ("applyInPandas", "applyInArrow", "cogroup.apply", "a pandas aggregate")
_STATEFUL = ("transformWithState", "applyInPandasWithState")


def finding_of(figures: StageFigures, busy_seconds: float) -> Finding | None:
    """What is wrong with a stage; None if nothing is, or if it is not worth a word.

    Parameters:
        figures: of the stage.
        busy_seconds: the time in which the application had tasks running.
    """
    for cause in CAUSES:
        if _applies(cause, figures):
            lost = _lost(cause, figures)
            if lost < LIMITS.worth_seconds or lost < LIMITS.worth_share * busy_seconds:
                continue
            shuffle = figures.shuffle
            return Finding(
                cause,
                _sentence(cause, figures),
                None if cause == SPILL else lost,
                figures.stage.stage,
                _operator(figures),
                () if shuffle is None else shuffle.keys,
                _numbers(figures),
                _filled(_remedies(cause, figures), figures),
            )
    return None


def _applies(cause: str, figures: StageFigures) -> bool:
    straggles = figures.time_ratio >= LIMITS.straggler
    by_data = straggles and figures.rows_known and figures.explained >= LIMITS.explained
    # Jobs on RDDs have no plan: what they shuffle has no known columns.
    shuffled = figures.read_bytes > 0 and not figures.from_files
    by_range = figures.shuffle is not None and figures.shuffle.by_range
    spills = figures.spilled_bytes >= LIMITS.spilled_share * max(figures.read_bytes, 1.0)
    return {
        SLOW_MACHINE: straggles and not by_data and figures.slow_executor is not None,
        NULL_KEYS: by_data and shuffled and figures.null_partition,
        HOT_KEY: by_data and shuffled and not by_range,
        UNEVEN_RANGES: by_data and shuffled and by_range,
        INPUT_FILES: by_data and figures.from_files,
        SPILL: spills,
        GARBAGE: figures.gc_share >= LIMITS.gc_share,
        COSTLY_ROWS: straggles and figures.rows_known and not by_data and not figures.starting,
    }[cause]


def _lost(cause: str, figures: StageFigures) -> float:
    """Wall time that a cause costs; of spill, what it is taken to cost."""
    if cause == SPILL:
        return LIMITS.spilling_costs * figures.wall_seconds
    if cause == GARBAGE:
        return figures.gc_share * figures.wall_seconds
    return figures.lost_to_slowness if cause == SLOW_MACHINE else figures.lost_seconds


def _operator(figures: StageFigures) -> str:
    if figures.shuffle is not None:
        return figures.shuffle.operator
    if figures.stage.operators:
        return figures.stage.operators[0]
    return "a shuffle" if figures.read_bytes and not figures.from_files else ""


def _sentence(cause: str, figures: StageFigures) -> str:
    stage, times = f"stage {figures.stage.stage}", f"{figures.time_ratio:.1f}"
    took = f"the longest task took {figures.longest_seconds:.1f} s, {times} times the median"
    keys = "" if figures.shuffle is None else ", ".join(figures.shuffle.keys)
    more = max(figures.rows_ratio, figures.bytes_ratio)
    operator = _operator(figures)
    where = f"{operator} by {keys}" if keys else operator
    if cause == SLOW_MACHINE:
        assert figures.slow_executor is not None
        executor = figures.stage.executors[figures.slow_executor]
        host = figures.stage.hosts[figures.slow_executor]
        return (
            f"executor {executor} on {host} is slow: in {stage} {took}, with {more:.1f} times the "
            "median's rows"
        )
    if cause == NULL_KEYS:
        return (
            f"rows whose key is null are all in one partition of {where}: in {stage} it has "
            f"{more:.1f} times the median's rows, and {took}"
        )
    if cause in (HOT_KEY, UNEVEN_RANGES):
        what = "a hot key" if cause == HOT_KEY else "an uneven range of keys"
        return (
            f"{what} in {where}: in {stage} one partition has {more:.1f} times the median's rows, "
            f"and {took}"
        )
    if cause == INPUT_FILES:
        return (
            f"the input files are uneven: in {stage} one task read {more:.1f} times the median's rows, "
            f"and {took}"
        )
    if cause == SPILL:
        return (
            f"{stage} ({where or 'no operator known'}) does not fit into memory: its tasks read "
            f"{_size(figures.read_bytes)} and spilled {_size(figures.spilled_bytes)} to disk"
        )
    if cause == GARBAGE:
        return (
            f"{stage} ({where or 'no operator known'}) spends {figures.gc_share:.0%} of its tasks' "
            "time on garbage collection"
        )
    return (
        f"some rows of {where or stage} cost more than others: in {stage} {took}, with "
        f"{more:.1f} times the median's rows"
    )


def _remedies(cause: str, figures: StageFigures) -> tuple[Remedy, ...]:
    operator = _operator(figures)
    if cause == NULL_KEYS:
        return (DROP_NULLS, JOIN_GRID) if operator == "join" else (DROP_NULL_GROUP,)
    if cause == HOT_KEY:
        if operator == "join":
            return (SKEW_JOIN, BROADCAST, JOIN_GRID, FIND_THE_KEY)
        if operator in _PYTHON:
            return (SPLIT_KEYS, PLACE_KEYS, FIND_THE_KEY)
        if operator in _STATEFUL:
            return (SPLIT_KEYS, FIND_THE_KEY)
        if operator == "repartition":
            return (NO_KEY, SPLIT_KEYS, FIND_THE_KEY)
        return (PARTIAL, FIND_THE_KEY)
    return {
        UNEVEN_RANGES: (SAMPLE_RANGES,),
        SLOW_MACHINE: (REPLACE_MACHINE, CONSISTENT),
        INPUT_FILES: (SPLIT_FILES,),
        SPILL: (MORE_MEMORY,),
        GARBAGE: (LESS_GARBAGE,),
        COSTLY_ROWS: (WEIGH_ROWS,) if figures.shuffle is not None else (NO_KEY,),
    }[cause]


def _filled(remedies: tuple[Remedy, ...], figures: StageFigures) -> tuple[Remedy, ...]:
    """The remedies with this stage's columns and sizes in their code."""
    keys = () if figures.shuffle is None else figures.shuffle.keys
    partitions = len(figures.stage) if figures.shuffle is None else figures.shuffle.partitions
    fullest = figures.bytes_ratio * figures.read_bytes / max(len(figures.stage), 1)
    words = {
        "partitions": max(partitions, figures.slots),
        "more": 4 * max(partitions, figures.slots),
        "threshold": f"{max(1, int(fullest / 4 / 2**20))}m",
        **names_in_code(keys),
    }
    return filled(remedies, words)


def filled(remedies: tuple[Remedy, ...], words: Mapping[str, Any]) -> tuple[Remedy, ...]:
    """Remedies with these words in their code."""
    return tuple(Remedy(one.what, one.code.format(**words), one.evenflow) for one in remedies)


def names_in_code(keys: tuple[str, ...]) -> dict[str, str]:
    """Key columns as arguments, as a list, and as a condition.

    Example:
        >>> names_in_code(("page", "user"))["names"], names_in_code(("page",))["columns"]
        ('"page", "user"', '["page"]')
    """
    texts = [json.dumps(key, ensure_ascii=False) for key in keys or ("key",)]
    quoted = [one.replace("`", "``") for one in keys or ("key",)]
    condition = " AND ".join(f"`{one}` IS NOT NULL" for one in quoted)
    return {
        "names": ", ".join(texts),
        "columns": f"[{', '.join(texts)}]",
        "not_null": f"F.expr({json.dumps(condition, ensure_ascii=False)})",
    }


def _numbers(figures: StageFigures) -> dict[str, Any]:
    return {
        "tasks": len(figures.stage),
        "slots": figures.slots,
        "wall_seconds": round(figures.wall_seconds, 3),
        "median_seconds": round(figures.median_seconds, 3),
        "longest_seconds": round(figures.longest_seconds, 3),
        "rows_ratio": round(figures.rows_ratio, 2),
        "bytes_ratio": round(figures.bytes_ratio, 2),
        "gc_share": round(figures.gc_share, 3),
        "spilled_bytes": int(figures.spilled_bytes),
    }


def _size(count: float) -> str:
    """A number of bytes for people.

    Example:
        >>> _size(40_747_195)
        '41 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return (
                f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
            )
        count /= 1000
    return f"{count:.1f} TB"
