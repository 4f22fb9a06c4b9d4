"""A streaming run as numbers: throughput, latency, imbalance, replication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredRun:
    """The metrics of a query's batches, summarised over the whole run.

    A batch without rows contributes only its time. The latency of a message is the time from the start
    of its batch until its task had processed it; a task is assumed to process its rows at equal
    intervals over the operator's time.

    Parameters:
        label: a name for the run.
        batches: the metrics of its batches, oldest first.

    Example:
        >>> partition = {"rows": 4, "started": 100.5, "update_seconds": 2.0}
        >>> batch = {"rows": 4, "began": 100.0, "durations": {"tasks": 4.0}, "keys": 2, "replicas": 3,
        ...          "max_over_average": 1.0, "imbalance": 0.0, "scheme": "key",
        ...          "partitions": [partition]}
        >>> run = MeasuredRun("key", (batch,))
        >>> run.latencies.tolist(), run.throughput, run.replication
        ([1.0, 1.5, 2.0, 2.5], 1.0, 1.5)
    """

    label: str
    batches: tuple[Mapping[str, Any], ...]

    @property
    def rows(self) -> int:
        return sum(batch["rows"] for batch in self.batches)

    @property
    def seconds(self) -> float:
        """From the start of the first batch to the end of the last, with Spark's work in between."""
        if not self.batches:
            return 0.0
        first, last = self.batches[0], self.batches[-1]
        return float(last["began"] + batch_seconds(last) - first["began"])

    @property
    def throughput(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @cached_property
    def latencies(self) -> F64:
        """Of every message, in seconds, batch by batch."""
        parts = [
            task["started"]
            - batch["began"]
            + task["update_seconds"] * np.arange(1, task["rows"] + 1) / task["rows"]
            for batch in self.batches
            for task in batch["partitions"]
            if task["rows"] and task["started"] is not None
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def latency(self, q: float) -> float | None:
        """The latency that a share `q` of all messages does not exceed; None without messages."""
        if not len(self.latencies):
            return None
        return float(np.quantile(self.latencies, q, method="inverted_cdf"))

    @property
    def max_over_average(self) -> float:
        """The fullest partition of a batch, as a multiple of the average: the mean over rows."""
        return self._mean("max_over_average")

    @property
    def imbalance(self) -> float:
        """The papers' imbalance, the mean over rows."""
        return self._mean("imbalance")

    @property
    def worst_max_over_average(self) -> float:
        return max((b["max_over_average"] for b in self.batches if b["rows"]), default=1.0)

    @property
    def replication(self) -> float:
        """Partitions per key within a batch, on average."""
        keys = sum(batch["keys"] for batch in self.batches)
        return sum(batch["replicas"] for batch in self.batches) / keys if keys else 1.0

    @property
    def schemes(self) -> list[str]:
        """The schemes of the batches, in order, without repetitions."""
        names = [batch["scheme"] for batch in self.batches]
        return [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]

    def settled(self) -> MeasuredRun | None:
        """The part of the run under its last scheme; None if it had only one.

        "auto" has to see keys before it can choose, so its first batches use another scheme.
        """
        if len(self.schemes) < 2:
            return None
        last = self.schemes[-1]
        others = [i for i, batch in enumerate(self.batches) if batch["scheme"] != last]
        return MeasuredRun(f"{self.label}, once {last}", self.batches[others[-1] + 1 :])

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, without the batches."""
        return {
            "grouping": self.label,
            "schemes": self.schemes,
            "batches": len(self.batches),
            "rows": self.rows,
            "seconds": self.seconds,
            "rows_per_second": self.throughput,
            "latency_mean": float(self.latencies.mean()) if len(self.latencies) else None,
            "latency_p50": self.latency(0.5),
            "latency_p95": self.latency(0.95),
            "latency_p99": self.latency(0.99),
            "imbalance": self.imbalance,
            "max_over_average": self.max_over_average,
            "worst_max_over_average": self.worst_max_over_average,
            "replication": self.replication,
        }

    def _mean(self, name: str) -> float:
        rows = self.rows
        if not rows:
            return 1.0 if name == "max_over_average" else 0.0
        return float(sum(batch[name] * batch["rows"] for batch in self.batches) / rows)


def batch_seconds(batch: Mapping[str, Any]) -> float:
    """How long a batch took, all steps together."""
    return float(sum(batch["durations"].values()))
