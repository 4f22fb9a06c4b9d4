"""The diagnosis of keys: how skewed they are, and what each scheme would make of them."""

from __future__ import annotations

from typing import Any

from evenflow.diagnosis.causes import filled, names_in_code
from evenflow.diagnosis.diagnosis import Bars, Diagnosis, Finding, Table
from evenflow.diagnosis.dry_run import Trial, dry_run
from evenflow.diagnosis.key_figures import KeyFigures
from evenflow.diagnosis.rules import (
    HOT_KEY,
    LIMITS,
    NOTHING,
    NULL_KEYS,
    PLACE_KEYS,
    SPLIT_KEYS,
    Remedy,
)
from evenflow.model.validation import check_partitions

_NULL = ("null", "None")


def diagnose_keys(
    figures: KeyFigures,
    partitions: int,
    seconds_per_row: float | None = None,
    *,
    mergeable: bool = True,
    every_planner: bool = False,
    kind: str = "keys",
) -> Diagnosis:
    """How skewed keys are, and what each scheme and planner would make of them.

    Parameters:
        figures: how often the keys occur.
        partitions: tasks that share the work.
        seconds_per_row: cost of the work; None if it is not known.
        mergeable: whether the work has a merge, so that keys may be split.
        every_planner: try all planners that are installed.
    """
    check_partitions(partitions)
    trials = dry_run(
        figures.workload, figures.rows, partitions, seconds_per_row, every_planner=every_planner
    )
    plain = trials[0]
    best = _best(trials, mergeable)
    name, hottest = figures.hottest[0] if figures.hottest else ("", 0)
    share = hottest / max(figures.rows, 1)
    keys = ", ".join(figures.columns)
    finding = (
        f"the hottest key of {keys}, {name}, has {share:.1%} of the rows, {share * partitions:.1f} "
        f"times a partition's share; by hash, the fullest of {partitions} partitions has "
        f"{plain.fullest:.2f} times the average"
    )
    words = {**names_in_code(figures.columns), "partitions": partitions}
    remedies: tuple[Remedy, ...] = ()
    findings: tuple[Finding, ...] = ()
    if plain.fullest <= LIMITS.even_enough:
        cause, answer = NOTHING, f"You don't need Evenflow: {finding}."
    elif plain.fullest / best.fullest < LIMITS.splitting_pays:
        cause = NULL_KEYS if name in _NULL else HOT_KEY
        answer = (
            f"Evenflow would not help as it is: {finding}, and no scheme that keeps keys whole does "
            "better; work with a merge could split the key."
        )
        remedies = filled((SPLIT_KEYS,), words)
    else:
        cause = NULL_KEYS if name in _NULL else HOT_KEY
        gain = plain.fullest / best.fullest
        answer = f"Evenflow would help: {finding}; {best.name} brings it to {best.fullest:.2f}, "
        answer += f"which is {gain:.1f} times as fast where the keyed work takes the time."
        chosen = SPLIT_KEYS if best.splits_keys else PLACE_KEYS
        others = (PLACE_KEYS,) if best.splits_keys else ()
        remedies = filled((chosen, *others), words)
    if cause != NOTHING:
        findings = (
            Finding(cause, finding, None, None, "", figures.columns, {"share": share}, remedies),
        )
    return Diagnosis(
        figures.source,
        kind,
        answer,
        cause,
        bool(remedies)
        and cause != NOTHING
        and plain.fullest / best.fullest >= LIMITS.splitting_pays,
        findings,
        remedies,
        (_hottest(figures, partitions), trials_table(trials)),
        (
            Bars(
                "Rows of the hottest keys",
                tuple(float(count) for _, count in figures.hottest),
                "rows",
                figures.rows / partitions,
            ),
        ),
        (f"the dry run draws {figures.workload.length():,} of {figures.rows:,} rows",)
        if figures.sampled
        else (),
    )


def _best(trials: list[Trial], mergeable: bool) -> Trial:
    """The trial with the fewest copies of keys among those that are about as even as the evenest."""
    allowed = [one for one in trials if mergeable or not one.splits_keys]
    evenest = min(one.fullest for one in allowed)
    near = [one for one in allowed if one.fullest <= LIMITS.splitting_pays * evenest]
    return min(near, key=lambda one: (one.replicas, one.fullest))


def _hottest(figures: KeyFigures, partitions: int) -> Table:
    return Table(
        "hottest keys",
        tuple(
            {
                "key": name,
                "rows": count,
                "share": f"{count / max(figures.rows, 1):.2%}",
                "× a partition": round(count * partitions / max(figures.rows, 1), 2),
            }
            for name, count in figures.hottest
        ),
    )


def trials_table(trials: list[Trial]) -> Table:
    """A dry run as a table."""
    timed = any(one.seconds is not None for one in trials)
    rows: list[dict[str, Any]] = []
    for one in trials:
        row: dict[str, Any] = {"scheme": one.name, "fullest ÷ average": round(one.fullest, 2)}
        if timed:
            row["predicted s"] = None if one.seconds is None else round(one.seconds, 2)
        row |= {
            "needs merge": one.splits_keys,
            "replicas": one.replicas,
            "per key": round(one.replication, 3),
            "keys moved": one.moved_keys,
            "state moved kB": round(one.moved_bytes / 1e3, 1),
            "table": one.table_size,
        }
        rows.append(row)
    return Table("dry run", tuple(rows))
