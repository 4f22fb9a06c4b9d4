"""The diagnosis of a Spark application, from its event log or while it runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from evenflow.diagnosis.application import Application
from evenflow.diagnosis.causes import finding_of
from evenflow.diagnosis.diagnosis import Bars, Diagnosis, Finding, Table
from evenflow.diagnosis.rules import HOT_KEY, LIMITS, NOTHING, SPLIT_KEYS
from evenflow.diagnosis.stages import StageFigures, figures_of

_MOST_BARS, _MOST_PICTURES, _MOST_STAGES = 200, 3, 12


def diagnose_application(application: Application, kind: str = "event log") -> Diagnosis:
    """Which of an application's stages waited for stragglers, why, and what would help.

    Guarantee: "nothing" is the answer unless a cause costs a tenth of the time in which the application
    had tasks running (`evenflow.diagnosis.rules.LIMITS`).
    """
    measured = figures_of(application)
    busy = busy_seconds(measured)
    pairs = [
        (one, figures) for figures in measured if (one := finding_of(figures, busy)) is not None
    ]
    found = sorted((one for one, _ in pairs), key=lambda one: -_weight(one))
    by_cause: dict[str, float] = defaultdict(float)
    for one in found:
        by_cause[one.cause] += _weight(one)
    if not found:
        return Diagnosis(
            application.source,
            kind,
            _nothing(measured, busy),
            NOTHING,
            False,
            tables=_tables(measured),
            pictures=_pictures(measured, []),
            notes=application.notes,
        )
    cause = max(by_cause, key=lambda name: by_cause[name])
    main = next(one for one in found if one.cause == cause)
    return Diagnosis(
        application.source,
        kind,
        _answer(main, _lost(pairs, cause), busy),
        cause,
        main.remedies[0].evenflow,
        tuple(found),
        main.remedies,
        _tables(measured),
        _pictures(measured, found),
        application.notes,
    )


def busy_seconds(measured: list[StageFigures]) -> float:
    """The time in which at least one stage had tasks running."""
    return _covered((one.began, one.ended) for one in measured)


def _lost(pairs: list[tuple[Finding, StageFigures]], cause: str) -> float:
    """What a cause costs in all stages: a stage waits at its end, and stages that wait at the same time
    wait together."""
    return _covered(
        (figures.ended - finding.lost_seconds, figures.ended)
        for finding, figures in pairs
        if finding.cause == cause and finding.lost_seconds is not None
    )


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals of time."""
    total, until = 0.0, float("-inf")
    for began, ended in sorted(intervals):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def _weight(finding: Finding) -> float:
    if finding.lost_seconds is not None:
        return finding.lost_seconds
    return LIMITS.spilling_costs * float(finding.figures["wall_seconds"])


def _answer(main: Finding, lost: float, busy: float) -> str:
    costs = f" ({lost:.1f} of {busy:.1f} s are lost)" if main.lost_seconds is not None else ""
    if main.remedies[0].evenflow:
        merged = main.cause == HOT_KEY and SPLIT_KEYS.what == main.remedies[0].what
        condition = " if the work can be merged" if merged else ""
        return f"Evenflow would help{condition}: {main.sentence}{costs}."
    return f"You don't need Evenflow: {main.sentence}{costs}."


def _nothing(measured: list[StageFigures], busy: float) -> str:
    if not measured:
        return "There is nothing to diagnose yet: no task has finished."
    worst = max(measured, key=lambda one: one.lost_seconds)
    return (
        "You don't need Evenflow: nothing is wrong with the balance; stragglers cost at most "
        f"{worst.lost_seconds:.1f} of {busy:.1f} s (stage {worst.stage.stage})."
    )


def _tables(measured: list[StageFigures]) -> tuple[Table, ...]:
    shown = sorted(measured, key=lambda one: -one.wall_seconds)[:_MOST_STAGES]
    rows = tuple(
        {
            "stage": f"{one.stage.stage}.{one.stage.attempt}"
            if one.stage.attempt
            else one.stage.stage,
            "what": ", ".join(one.stage.operators) or _name(one),
            "key": "" if one.shuffle is None else ", ".join(one.shuffle.keys),
            "tasks": len(one.stage),
            "seconds": round(one.wall_seconds, 2),
            "lost": round(one.lost_seconds, 2),
            "longest ÷ median": round(one.time_ratio, 2),
            "skew: time": one.time_score,
            "rows": one.rows_score,
            "bytes": one.bytes_score,
            "garbage": f"{one.gc_share:.0%}",
            "spilled MB": round(one.spilled_bytes / 1e6, 1),
        }
        for one in sorted(shown, key=lambda one: one.stage.stage)
    )
    return (Table("stages", rows),) if rows else ()


def _name(figures: StageFigures) -> str:
    """A stage's name, unless it only says where in Spark its job was started."""
    name = figures.stage.name
    return "" if name.startswith("$anonfun") else name


def _pictures(measured: list[StageFigures], found: list[Finding]) -> tuple[Bars, ...]:
    wanted = [one.stage for one in found]
    if not wanted:
        wanted = [one.stage.stage for one in sorted(measured, key=lambda one: -one.wall_seconds)]
    pictures = []
    for number in list(dict.fromkeys(wanted))[:_MOST_PICTURES]:
        figures = next(one for one in reversed(measured) if one.stage.stage == number)
        for what, values, unit in (
            ("seconds of each task", figures.stage.tasks["seconds"], "s"),
            ("rows of each task", figures.stage.rows, "rows"),
        ):
            largest = sorted(values.tolist(), reverse=True)
            kept = tuple(largest[:_MOST_BARS])
            more = (
                f" (the {_MOST_BARS} largest of {len(largest)})" if len(largest) > len(kept) else ""
            )
            title = f"Stage {number}: {what}{more}"
            pictures.append(Bars(title, kept, unit, float(values.mean())))
    return tuple(pictures)
