"""What the page keeps of a batch: its numbers, and the loads of its partitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LOAD = np.dtype([("rows", "u4"), ("keys", "u4"), ("seconds", "f4"), ("state", "f8")])
_MOST_PARTITIONS = 1 << 17

Loads = npt.NDArray[np.void]  #: of `LOAD`, by partition


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """A batch without its partitions and keys.

    Parameters:
        batch, began: its number, and when, in seconds since 1970.
        steps: the seconds of each step.
        rows, keys: how many it had.
        scheme, reason, epoch: of the plan that it followed.
        partitions: how many shared the work; 0 if nothing says so.
        balance: rows of the fullest partition, as a multiple of the average.
        replication: partitions in which a key had rows, on average.
        state_bytes, table_size: after it.
        moved_keys, moved_bytes: states that came from another partition.
        hottest: bounds of the share of the rows that the hottest key had.
        late_rows, dead_letters: rows that did not count.
        decision: why the controller replanned the routing table; empty if it did not.
        load: the share of the time that the busiest partition has to work, where the number of
            partitions follows that; else None.
        sizing: why the next batch has as many partitions as it has; empty if the load does not decide.
    """

    batch: int
    began: float
    steps: Mapping[str, float]
    rows: int
    keys: int
    scheme: str
    reason: str
    epoch: int
    partitions: int
    balance: float
    replication: float
    state_bytes: float
    table_size: int
    moved_keys: int
    moved_bytes: float
    hottest: tuple[float, float]
    late_rows: int
    dead_letters: int
    decision: str
    load: float | None = None
    sizing: str = ""

    @property
    def seconds(self) -> float:
        return math.fsum(self.steps.values())

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> BatchSummary:
        """From the metrics of a batch, of a keyed query or of a gateway.

        Guarantee: whatever a file of metrics says, there is a summary or a ValueError.
        """
        sizes = metrics.get("sizes")  # of a gateway: the partitions of its topic
        hot = metrics.get("hot_keys")
        planning, scaling = _mapping(metrics.get("planning")), _mapping(metrics.get("scaling"))
        rows = _number(metrics.get("rows"))
        return cls(
            batch=int(_number(metrics.get("batch"))),
            began=_number(metrics.get("began")),
            steps={
                str(step): _number(seconds)
                for step, seconds in _mapping(metrics.get("durations")).items()
            },
            rows=int(rows),
            keys=int(_number(metrics.get("keys"))),
            scheme="gateway" if sizes is not None else str(metrics.get("scheme") or ""),
            reason=str(metrics.get("reason") or ""),
            epoch=int(_number(metrics.get("epoch"))),
            partitions=_partitions(metrics),
            balance=_number(metrics.get("max_over_average"), 1.0),
            replication=_number(metrics.get("replication"), 1.0),
            state_bytes=_number(metrics.get("state_bytes")),
            table_size=int(_number(metrics.get("table_size", metrics.get("away")))),
            moved_keys=int(_number(metrics.get("migrated_keys", metrics.get("moves")))),
            moved_bytes=_number(metrics.get("migrated_bytes")),
            hottest=_hottest(hot if isinstance(hot, list) else [], rows),
            late_rows=int(_number(metrics.get("late_rows"))),
            dead_letters=int(_number(metrics.get("dead_letters"))),
            decision=str(planning.get("reason") or "") if planning.get("changed") else "",
            load=None if scaling.get("load") is None else _number(scaling.get("load")),
            sizing=str(scaling.get("reason") or ""),
        )


def loads_of(metrics: Mapping[str, Any]) -> Loads:
    """The loads of a batch's partitions, those without rows too."""
    loads = np.zeros(_partitions(metrics), LOAD)
    for name, columns in (("partitions", _WORK), ("state", _STATE)):
        listed = _listed(metrics.get(name))
        places = _numbers(listed, "partition", -1.0)
        known = (places >= 0) & (places < _MOST_PARTITIONS)
        at = places[known].astype(np.int64)
        missing = int(at.max(initial=-1)) + 1 - len(loads)
        if missing > 0:
            loads = np.concatenate([loads, np.zeros(missing, LOAD)])
        for column, field in columns.items():
            most = np.iinfo("u4").max if column in ("rows", "keys") else 1e300
            loads[column][at] = np.clip(_numbers(listed, field)[known], 0, most)
    return loads


_WORK = {"rows": "rows", "keys": "keys", "seconds": "seconds"}
_STATE = {"state": "state_bytes"}


def _partitions(metrics: Mapping[str, Any]) -> int:
    """How many partitions shared the work. Where the metrics do not say it, they have the fullest, and
    what it is of the average."""
    planned = min(max(_number(metrics.get("planned_partitions")), 0.0), _MOST_PARTITIONS)
    rows = _number(metrics.get("rows"))
    listed = [_number(one.get("rows")) for one in _listed(metrics.get("partitions"))]
    fullest = max(listed, default=0.0)
    if rows <= 0 or fullest <= 0:
        return int(planned)
    found = _number(metrics.get("max_over_average"), 1.0) * rows / fullest
    return max(len(listed), int(planned), round(min(found, _MOST_PARTITIONS)))


def _hottest(hot: Sequence[Any], rows: float) -> tuple[float, float]:
    first = _mapping(hot[0]) if hot else {}
    if not first or rows <= 0:
        return 0.0, 0.0
    lower, upper = (_number(first.get(name)) / rows for name in ("lower", "upper"))
    return lower, min(max(lower, upper), 1.0)


def _number(value: Any, default: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e300 < value < 1e300:
        return default
    return float(value)


def _numbers(
    listed: Sequence[Mapping[str, Any]], field: str, default: float = 0.0
) -> npt.NDArray[np.float64]:
    return np.array([_number(one.get(field), default) for one in listed], np.float64)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
