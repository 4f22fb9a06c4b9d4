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
    """What the metrics of a query's batches say about the run as a whole.

    A batch without rows counts only with its time. The latency of a message is the time from the start
    of its batch until its task had processed it; the rows of a task are taken to have been processed
    at equal intervals over the time that the operator took for them.

    Parameters:
        label: what the run is called.
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
        """From the start of the first batch to the end of the last, with what Spark does between."""
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
        """The latency that the part `q` of all messages does not exceed; None without messages."""
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
        """In how many partitions a key has rows within a batch, on average."""
        keys = sum(batch["keys"] for batch in self.batches)
        return sum(batch["replicas"] for batch in self.batches) / keys if keys else 1.0

    @property
    def schemes(self) -> list[str]:
        """The schemes that it went through, in order."""
        names = [batch["scheme"] for batch in self.batches]
        return [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]

    def settled(self) -> MeasuredRun | None:
        """The part of the run under its last scheme; None where it had one scheme only.

        "auto" has to see keys before it can choose: its first batches say what it began with.
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
