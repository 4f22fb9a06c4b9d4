"""What a running query logs: a line per batch, and every change of plan with its reason.

Loggers are `evenflow.query` (batches) and `evenflow.plan` (changes of plan), both at INFO. The library
configures no handler; `logging.basicConfig()` and `logging.getLogger("evenflow").setLevel("INFO")` show
them, without the lines that py4j logs at INFO.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from evenflow.model.plan import Plan

_QUERY = logging.getLogger("evenflow.query")
_PLAN = logging.getLogger("evenflow.plan")


def log_batch(metrics: Mapping[str, Any], name: str | None = None) -> None:
    """Log one committed batch.

    Parameters:
        metrics: of the batch, as `read_metrics` describes them.
        name: of the query, if it has one.
    """
    if _QUERY.isEnabledFor(logging.INFO):
        _QUERY.info("%s", batch_text(metrics, name))


def log_plan_change(before: Plan, after: Plan, name: str | None = None) -> None:
    """Log what changes from one batch's plan to the next, and why; nothing if all stays as it is.

    Parameters:
        before: the plan of the batch that was just committed.
        after: the plan that the next batch will follow.
        name: of the query, if it has one.
    """
    if _PLAN.isEnabledFor(logging.INFO):
        text = plan_change_text(before, after, name)
        if text is not None:
            _PLAN.info("%s", text)


def log_dead_letters(
    batch: int, letters: Sequence[Mapping[str, Any]], name: str | None = None
) -> None:
    """Warn of rows that a committed batch has set aside.

    Parameters:
        batch: its number.
        letters: what its tasks reported of them.
        name: of the query, if it has one.
    """
    if letters:
        prefix = "" if name is None else f"{name}: "
        rows = sum(file["rows"] for file in letters)
        first = letters[0]["first"]
        _QUERY.warning("%sbatch %d: %d rows set aside; %s", prefix, batch, rows, first)


def batch_text(metrics: Mapping[str, Any], name: str | None = None) -> str:
    """One batch in one line.

    Example:
        >>> print(batch_text({"batch": 3, "rows": 1200, "durations": {"spark": 0.5, "commit": 0.1},
        ...     "scheme": "d-choices", "max_over_average": 1.04}, "hits"))
        hits: batch 3: 1,200 rows in 0.60 s, d-choices, fullest partition 1.04 × average
    """
    seconds = sum(metrics["durations"].values())
    prefix = "" if name is None else f"{name}: "
    return (
        f"{prefix}batch {metrics['batch']}: {metrics['rows']:,} rows in {seconds:.2f} s, "
        f"{metrics['scheme']}, fullest partition {metrics['max_over_average']:.2f} × average"
    )


def plan_change_text(before: Plan, after: Plan, name: str | None = None) -> str | None:
    """What changes from one plan to the next, in one line; None if nothing does.

    Example:
        >>> plan_change_text(Plan("key", 4), Plan("d-choices", 4, reason="the hottest key has 31 %"))
        'plan: key → d-choices: the hottest key has 31 %'
        >>> plan_change_text(Plan("key", 4), Plan("key", 4, reason="no key is hot")) is None
        True
    """
    changes = []
    if after.scheme != before.scheme:
        changes.append(f"{before.scheme} → {after.scheme}")
    if after.partitions != before.partitions:
        changes.append(f"{before.partitions} → {after.partitions} partitions")
    if after.table != before.table:
        old, new = before.table.entries, after.table.entries
        moved = sum(old.get(key) != new.get(key) for key in {*old, *new})
        changes.append(f"routing table {len(old)} → {len(new)} keys, {moved} changed")
    if not changes:
        return None
    prefix = "" if name is None else f"{name}: "
    reason = f": {after.reason}" if after.reason else ""
    return f"{prefix}plan: {', '.join(changes)}{reason}"
