"""The diagnosis of a query by its checkpoint: the load of its partitions, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evenflow.diagnosis.causes import filled, names_in_code
from evenflow.diagnosis.diagnosis import Bars, Diagnosis, Finding, Table
from evenflow.diagnosis.rules import (
    COSTLY_ROWS,
    HOT_KEY,
    LIMITS,
    NOTHING,
    SPLIT_KEYS,
    WEIGH_ROWS,
    Remedy,
)
from evenflow.metrics.measured_run import batch_seconds
from evenflow.state.checkpoint import FOLDER, Checkpoint
from evenflow.state.errors import CheckpointError
from evenflow.state.metrics import read_metrics
from evenflow.storage import Storage

_LAST = 50  #: batches that count
_SHOWN = 10


def is_checkpoint(storage: Storage) -> bool:
    """Whether a query has its checkpoint here.

    Example:
        >>> from evenflow.storage.memory import MemoryStorage
        >>> is_checkpoint(MemoryStorage())
        False
    """
    from evenflow.state.checkpoint import IDENTITY

    return bool(storage.under(FOLDER).list(IDENTITY))


def diagnose_checkpoint(storage: Storage, where: str) -> Diagnosis:
    """How evenly a query's partitions were loaded, why not, and what would help.

    Guarantee: nothing is written, and the query may be running.

    Parameters:
        storage: at the checkpoint location.
        where: the location, for people.
    """
    under = storage.under(FOLDER)
    batches = read_metrics(under)
    identity, broken = _identity(storage)
    if not batches:
        what = broken or "no batch has been committed yet; look again when one has"
        return Diagnosis(
            where, "checkpoint", f"There is nothing to diagnose yet: {what}.", NOTHING, False
        )
    recent = [one for one in batches[-_LAST:] if one.get("rows")]
    if not recent:
        answer = "You don't need Evenflow: no batch had any rows."
        return Diagnosis(where, "checkpoint", answer, NOTHING, False, tables=(_batches(batches),))
    return _judged(where, identity, batches, recent)


def _identity(storage: Storage) -> tuple[Mapping[str, Any], str]:
    try:
        return dict(Checkpoint.open(storage).identity), ""
    except (CheckpointError, OSError) as error:
        return {}, " ".join(str(error).split())


def _judged(
    where: str,
    identity: Mapping[str, Any],
    batches: Sequence[Mapping[str, Any]],
    recent: Sequence[Mapping[str, Any]],
) -> Diagnosis:
    weights = np.array([one["rows"] for one in recent], np.float64)
    by_rows = float(np.average([one["max_over_average"] for one in recent], weights=weights))
    by_time = float(np.average([_time_ratio(one) for one in recent], weights=weights))
    last = recent[-1]
    keys = _keys_of(identity)
    partitions = _partitions(last)
    hottest = max(last.get("hot_keys") or (), key=lambda hot: hot["lower"], default=None)
    share = 0.0 if hottest is None else hottest["lower"] / last["rows"]
    named = "no key is hot"
    if hottest is not None:
        named = f"its hottest key, {hottest['key']}, has {share:.1%} of the rows"
    figures = (
        f"the fullest of {partitions} partitions has {by_rows:.2f} times the average rows over the "
        f"last {len(recent)} batches (scheme {last['scheme']}); {named}"
    )
    lost = sum(_lost(one) for one in recent)
    words = {**names_in_code(keys), "partitions": partitions}
    cause = NOTHING
    remedies: tuple[Remedy, ...] = ()
    if by_rows > LIMITS.even_enough:
        cause = HOT_KEY
        remedies = filled((_scheme_for(share, partitions),), words)
        answer = f"Another scheme would help: {figures} ({lost:.1f} s are lost)."
    elif by_time > LIMITS.even_enough and lost >= LIMITS.worth_share * _seconds(recent):
        cause = COSTLY_ROWS
        remedies = filled((WEIGH_ROWS,), words)
        answer = (
            f"The rows are even, the time is not: {figures}, but the slowest partition takes "
            f"{by_time:.2f} times the average ({lost:.1f} s are lost): some rows cost more, or a "
            "machine is slow."
        )
    else:
        answer = f"Nothing is wrong: {figures}."
    findings = (
        ()
        if cause == NOTHING
        else (Finding(cause, figures, lost, None, "", keys, {"share": share}, remedies),)
    )
    loads = sorted((float(one["rows"]) for one in last["partitions"]), reverse=True)
    return Diagnosis(
        where,
        "checkpoint",
        answer,
        cause,
        bool(remedies),
        findings,
        remedies,
        (_batches(batches), _hot(last)),
        (Bars("Rows of each partition in the last batch", tuple(loads), "rows",
              last["rows"] / max(partitions, 1)),),
    )  # fmt: skip


def _scheme_for(share: float, partitions: int) -> Remedy:
    if share * partitions > 1:
        return SPLIT_KEYS
    return Remedy(
        "No single key is too hot, but several share a partition: let keys move.",
        'ef.keyed(stream, {names}).balance("table", partitions={partitions}).replan()',
        evenflow=True,
    )


def _time_ratio(batch: Mapping[str, Any]) -> float:
    seconds = [one["update_seconds"] for one in batch["partitions"]]
    average = sum(seconds) / max(len(seconds), 1)
    return max(seconds, default=0.0) / average if average > 0 else 1.0


def _lost(batch: Mapping[str, Any]) -> float:
    seconds = [one["update_seconds"] for one in batch["partitions"]]
    return float(max(seconds, default=0.0) - sum(seconds) / max(len(seconds), 1))


def _seconds(batches: Sequence[Mapping[str, Any]]) -> float:
    return sum(batch_seconds(one) for one in batches)


def _keys_of(identity: Mapping[str, Any]) -> tuple[str, ...]:
    keys = identity.get("key") or identity.get("keys") or ()
    return (keys,) if isinstance(keys, str) else tuple(str(key) for key in keys)


def _partitions(last: Mapping[str, Any]) -> int:
    if last["max_over_average"] and last["partitions"]:
        fullest = max(one["rows"] for one in last["partitions"])
        return max(1, int(0.5 + last["max_over_average"] * last["rows"] / max(fullest, 1)))
    return max(1, len(last["partitions"]))


def _batches(batches: Sequence[Mapping[str, Any]]) -> Table:
    rows = tuple(
        {
            "batch": one["batch"],
            "scheme": one["scheme"],
            "rows": one["rows"],
            "seconds": round(batch_seconds(one), 2),
            "fullest ÷ average": round(one["max_over_average"], 2),
            "slowest ÷ average": round(_time_ratio(one), 2),
            "per key": round(one.get("replication") or 1.0, 2),
            "keys moved": one.get("migrated_keys", 0),
        }
        for one in batches[-_SHOWN:]
    )
    return Table("last batches", rows)


def _hot(batch: Mapping[str, Any]) -> Table:
    rows = tuple(
        {"key": hot["key"], "rows at least": hot["lower"], "at most": hot["upper"]}
        for hot in (batch.get("hot_keys") or ())[:_SHOWN]
    )
    return Table("hot keys of the last batch", rows)
