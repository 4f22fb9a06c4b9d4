"""What another scheme, number of partitions or θmax would do, from what a query has recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError, KeyCounts
from evenflow.model.validation import check_whole

if TYPE_CHECKING:
    from evenflow.dashboard.history import QueryHistory

MOST_PARTITIONS = 4096
MESSAGES = 200_000  #: at most, of one simulated batch
SOURCES = 4  #: tasks that route, each knowing only its own rows
_BATCHES = 6  # under a routing table, which needs some to settle
_MOST_KEYS = 2_000_000

U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class RecordedKeys:
    """A stream like the one that a query has seen: its hot keys by their counts, the rest even.

    Guarantee: the same record gives the same stream. Rows of keys that were not counted are spread
    evenly over as many keys as the last batch had: if they are skewed, the answer is too good.

    Parameters:
        hot: the counts of the hot keys.
        keys: distinct keys of a batch.
        messages: its length.
        batches: how many batches it repeats for.
    """

    hot: KeyCounts
    keys: int
    messages: int
    batches: int = 1

    @cached_property
    def _stream(self) -> U64:
        rng = np.random.default_rng(0)
        fingerprints = np.array(list(self.hot.counts), np.uint64)
        counts = np.array(list(self.hot.counts.values()), np.float64)
        rest = max(0.0, self.hot.total - float(counts.sum()))
        tail = min(max(self.keys - len(counts), 1 if rest else 0), _MOST_KEYS)
        others = rng.integers(0, 2**63, tail, np.int64).astype(np.uint64)
        keys = np.concatenate([fingerprints, others])
        weights = np.concatenate([counts, np.full(tail, rest / max(tail, 1))])
        cumulated = np.cumsum(weights)
        drawn = rng.random(self.messages * self.batches) * cumulated[-1]
        at = np.minimum(np.searchsorted(cumulated, drawn, "right"), len(keys) - 1)
        return np.ascontiguousarray(keys[at])

    def chunks(self, size: int) -> Iterator[U64]:
        """The stream in pieces."""
        for start in range(0, len(self._stream), size):
            yield self._stream[start : start + size]

    def length(self) -> int:
        """The number of messages."""
        return self.messages * self.batches

    def describe(self) -> dict[str, Any]:
        """For reports."""
        return {"name": "recorded", "stand_in": True, "keys": self.keys}


def answer(
    history: QueryHistory, scheme: str, partitions: int, theta: float | None = None
) -> dict[str, Any]:
    """What a scheme would do to the stream that a query has recorded, beside what it does now.

    The simulator routes the recorded keys; under "table", the engine itself replans between batches.

    Parameters:
        history: of the query.
        scheme: its name, with parameters after a colon.
        partitions: how many.
        theta: θmax, for "table".
    """
    check_whole("partitions", partitions, least=1)
    if partitions > MOST_PARTITIONS:
        raise InputError(f"got {partitions} partitions; a what-if takes at most {MOST_PARTITIONS}")
    recorded = _recorded(history)
    now = next((one for one in reversed(history.summaries()) if one.rows), None)
    if now is None or recorded is None:
        raise InputError("no batch had rows yet, so there are no statistics to answer from")
    began = time.perf_counter()
    loads = history.loads(now.batch)
    per_row = 0.0
    if loads is not None and len(loads):
        per_row = float(loads["seconds"].sum()) / max(float(loads["rows"].sum()), 1.0)
    found = _predict(recorded, scheme, partitions, theta)
    average = now.rows / partitions
    measured = loads["seconds"].max() if loads is not None and len(loads) else 0.0
    return {
        **found,
        "scheme": scheme,
        "partitions": partitions,
        "theta": theta,
        "busiest_seconds": found["max_over_average"] * average * per_row,
        "batch": now.batch,
        "messages": recorded.messages,
        "keys": recorded.keys,
        "hot_keys": len(recorded.hot.counts),
        "took": time.perf_counter() - began,
        "now": {
            "scheme": now.scheme,
            "partitions": now.partitions,
            "max_over_average": now.balance,
            "replication": now.replication,
            "busiest_seconds": float(measured),
        },
    }


def _recorded(history: QueryHistory) -> RecordedKeys | None:
    last = history.checkpoint().last()
    if last is None:
        return None
    hot = last.plan.get("hot")
    if not isinstance(hot, dict):
        raise InputError("this query records no hot keys, so a what-if has nothing to go by")
    counts = KeyCounts({int(key): int(n) for key, n in hot.items()}, int(last.plan["total"]))
    keys, rows = last.metrics.get("keys", 0), last.metrics.get("rows", 0)
    if not counts.total:
        return None
    return RecordedKeys(
        counts, max(int(keys), len(counts.counts), 1), max(min(int(rows), MESSAGES), 1000)
    )


def _predict(
    recorded: RecordedKeys, scheme: str, partitions: int, theta: float | None
) -> dict[str, Any]:
    from evenflow.grouping import make
    from evenflow.grouping.table import TableRouting

    made = make(scheme)
    if isinstance(made, TableRouting):
        return _under_table(recorded, partitions, theta, made.limit)
    if theta is not None:
        raise InputError(f"θmax is for the scheme 'table'; {scheme!r} does not replan")
    from evenflow.simulator import simulate

    result = simulate(made, recorded, partitions, sources=min(SOURCES, recorded.messages))
    return {
        "max_over_average": max(result.loads) * partitions / result.messages,
        "replication": result.replication,
        "moved_keys": 0,
        "table_size": 0,
        "splits_keys": made.splits_keys,
    }


def _under_table(
    recorded: RecordedKeys, partitions: int, theta: float | None, limit: int
) -> dict[str, Any]:
    from evenflow.planning.controller import Replanning
    from evenflow.simulator.replanning import simulate_replanning

    stream = RecordedKeys(recorded.hot, recorded.keys, recorded.messages, _BATCHES)
    policy = Replanning() if theta is None else Replanning(theta=theta)
    batches = list(simulate_replanning(stream, partitions, recorded.messages, policy, limit=limit))
    return {
        "max_over_average": batches[-1].max_over_average,
        "replication": 1.0,
        "moved_keys": sum(one.moved_keys for one in batches),
        "table_size": batches[-1].table_size,
        "splits_keys": False,
    }
