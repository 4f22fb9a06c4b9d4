"""Observe: the tasks' reports of a batch as numbers, and as what the next batch should know."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evenflow.engine.splitting import JoinCost
from evenflow.model import EvenflowError, KeyCounts, Plan
from evenflow.state.segments import Segment

REMEMBERED = 1024  #: how many hot keys a plan carries
SHOWN = 10


@dataclass(frozen=True)
class Reports:
    """The reports that the tasks of one batch returned."""

    work: tuple[Mapping[str, Any], ...]  #: from those that did the operator's work on rows
    state: tuple[Mapping[str, Any], ...]  #: from the owners of keys

    @classmethod
    def read(cls, texts: Iterable[str]) -> Reports:
        """From JSON."""
        reports = [json.loads(text) for text in texts]
        state = tuple(r for r in reports if r["stage"] == "state")
        work = tuple(r for r in reports if r["stage"] == "work") or tuple(
            r for r in state if not r["split"]
        )
        return cls(work, state)

    def require_owners(self, partitions: int) -> None:
        """Refuse a batch of which some owner has not reported, or twice: state that moves to it, and
        what event time closes there, would be lost, or put out twice."""
        reported = Counter(report["partition"] for report in self.state)
        wrong = [owner for owner in range(partitions) if reported[owner] != 1]
        if wrong or len(self.state) != partitions:
            raise EvenflowError(
                f"of {partitions} partitions, {len(reported)} have reported, and not one by one "
                f"{', '.join(map(str, wrong[:10]))}: their tasks were left out, or run under another "
                "number. Nothing of this batch counts; start the query again, and if this comes again, "
                "without settings or plugins that change Spark's physical plans"
            )

    @property
    def rows(self) -> int:
        return sum(r["rows"] for r in self.work)

    @property
    def keys(self) -> int:
        """Distinct keys touched."""
        return sum(r["keys"] for r in self.state)

    def requests(self) -> dict[str, int]:
        """The requests that all tasks made to a remote store, by kind; empty for a local one."""
        counted: Counter[str] = Counter()
        for report in {id(report): report for report in (*self.work, *self.state)}.values():
            counted.update(report.get("requests", {}))
        return dict(counted)

    def join_costs(self) -> dict[int, JoinCost]:
        """What the hottest keys of a join have cost, all parts of a key together; under 0, all keys."""
        found: dict[int, JoinCost] = {0: JoinCost(0, 0, 0.0)}
        for report in self.state:
            for key, *cost in report.get("join_costs", ()):
                fingerprint = int(key)
                found[fingerprint] = found.get(fingerprint, JoinCost(0, 0, 0.0)).plus(*cost)
        return found

    def letters(self) -> list[Mapping[str, Any]]:
        """What the tasks have set aside: file, number of rows, and the first of them in words."""
        reports = {id(report): report for report in (*self.work, *self.state)}.values()
        return [report["letters"] for report in reports if "letters" in report]

    def hot(self) -> list[dict[str, Any]]:
        """The most frequent keys, hottest first, with bounds: a task that does not list a key may
        have had as many of its rows as its least frequent listed one."""
        lower: dict[int, int] = {}
        listed_floor: dict[int, int] = {}
        names: dict[int, str] = {}
        for report in self.work:
            for text, rows, name in report["top"]:
                fingerprint = int(text)
                lower[fingerprint] = lower.get(fingerprint, 0) + rows
                listed_floor[fingerprint] = listed_floor.get(fingerprint, 0) + report["floor"]
                names[fingerprint] = name
        floors = sum(report["floor"] for report in self.work)
        ordered = sorted(lower, key=lambda k: (-lower[k], k))
        return [
            {
                "key": names[k],
                "fingerprint": str(k),
                "lower": lower[k],
                "upper": lower[k] + floors - listed_floor[k],
            }
            for k in ordered
        ]


def remembered(before: KeyCounts, hot: list[dict[str, Any]], rows: int) -> KeyCounts:
    """What is known of the hot keys after another batch: the past counts half."""
    counts = {key: count // 2 for key, count in before.counts.items()}
    for key in hot:
        fingerprint = int(key["fingerprint"])
        counts[fingerprint] = counts.get(fingerprint, 0) + key["lower"]
    kept = sorted((k for k in counts if counts[k]), key=lambda k: (-counts[k], k))[:REMEMBERED]
    return KeyCounts({k: counts[k] for k in kept}, before.total // 2 + rows)


def batch_metrics(
    batch: int,
    plan: Plan,
    reports: Reports,
    segments: Iterable[Segment],
    durations: Mapping[str, float],
    tasks: int,
) -> dict[str, Any]:
    """One batch as numbers.

    `imbalance` is the papers': the fullest partition's share of the rows minus the average's.
    `replication` is pairs of a partition and a key, over keys. `migrated_keys` and `migrated_bytes`
    are states that owners took over from others in this batch.
    """
    rows, keys = reports.rows, reports.keys
    loads = [0] * tasks
    for report in reports.work:
        loads[report["partition"]] += report["rows"]
    replicas = sum(r["keys"] for r in reports.work)
    state_bytes: dict[int, int] = {}
    for segment in segments:
        state_bytes[segment.owner] = state_bytes.get(segment.owner, 0) + segment.bytes
    return {
        "batch": batch,
        "scheme": plan.scheme,
        "reason": plan.reason,
        "planned_partitions": plan.partitions,
        "epoch": plan.epoch,
        "rows": rows,
        "keys": keys,
        "imbalance": max(loads) / rows - 1 / tasks if rows else 0.0,
        "max_over_average": max(loads) * tasks / rows if rows else 1.0,
        "replicas": replicas,
        "replication": replicas / keys if keys else 1.0,
        "state_bytes": sum(state_bytes.values()),
        "migrated_keys": sum(r["moved_keys"] for r in reports.state),
        "migrated_bytes": sum(r["moved_bytes"] for r in reports.state),
        "table_size": len(plan.table.entries),
        "hot_keys": reports.hot()[:SHOWN],
        "partitions": [
            {
                "partition": r["partition"],
                "rows": r["rows"],
                "keys": r["keys"],
                "seconds": r["seconds"],
                "update_seconds": r["update_seconds"],
                "started": r["started"],
            }
            for r in sorted(reports.work, key=lambda r: r["partition"])
        ],
        "state": [
            {
                "partition": r["partition"],
                "keys": r["keys"],
                "seconds": r["seconds"],
                "write_seconds": r["write_seconds"],
                "state_bytes": state_bytes.get(r["partition"], 0),
            }
            for r in sorted(reports.state, key=lambda r: r["partition"])
        ],
        "durations": dict(durations),
    }
