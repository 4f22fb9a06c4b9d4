"""Metrics of batches in Prometheus' text format. Keys are users' data and never become labels."""

from __future__ import annotations

import bisect
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)  #: seconds

# Name → (what it counts, the field of a batch's metrics).
_SUMS = {
    "rows": ("Rows processed.", "rows"),
    "late_rows": ("Rows that came after the watermark and were dropped.", "late_rows"),
    "dead_letters": ("Rows set aside because the operator failed for them.", "dead_letters"),
    "migrated_keys": ("Keys whose state came from another partition.", "migrated_keys"),
    "migrated_bytes": ("Bytes of state that came from another partition.", "migrated_bytes"),
}
# Name → (what it is, the field), of the batch that was committed last.
_LAST = {
    "last_batch": ("Number of the last committed batch.", "batch"),
    "last_batch_timestamp_seconds": ("When the last batch began, since 1970.", "began"),
    "last_batch_rows": ("Rows of the last batch.", "rows"),
    "last_batch_keys": ("Distinct keys of the last batch.", "keys"),
    "max_over_average": (
        "Rows of the fullest partition, as a multiple of the average.",
        "max_over_average",
    ),
    "imbalance": ("Share of the fullest partition minus the average share.", "imbalance"),
    "replication": ("Partitions in which a key had rows, on average.", "replication"),
    "state_bytes": ("Bytes of committed state.", "state_bytes"),
    "routing_table_entries": ("Keys that a routing table places.", "table_size"),
    "partitions": ("Partitions of the last batch.", "planned_partitions"),
    "plan_epoch": ("Grows by one whenever keys change their owner.", "epoch"),
}

# The same, where the number of partitions follows the load.
_SCALING = {
    "partitions_wanted": ("Partitions of the next batch.", "partitions"),
    "load": ("Share of the time that the busiest partition has to work.", "load"),
    "arriving_rows_per_second": ("Rows that arrive per second.", "arriving"),
    "true_rate_rows_per_second": ("Rows per second of a partition's work.", "true_rate"),
    "waiting_rows": ("Rows that the source held back, where it says so.", "waiting"),
}


class BatchCounters:
    """Adds up the metrics of one query's batches for Prometheus.

    Guarantee: counters only grow while the process lasts, whichever order batches come in; gauges are
    those of the newest batch.

    Parameters:
        query: the value of the label `query`.

    Example:
        >>> counters = BatchCounters("hits")
        >>> counters.take({"batch": 0, "rows": 7, "scheme": "key", "durations": {"tasks": 0.5}})
        >>> print(exposition([counters]).decode().splitlines()[2])
        evenflow_batches_total{query="hits"} 1.0
    """

    def __init__(self, query: str) -> None:
        self.query = query
        self._lock = threading.Lock()
        self._batches = 0
        self._sums: dict[str, float] = defaultdict(float)
        self._steps: dict[str, float] = defaultdict(float)
        self._requests: dict[tuple[str, str], float] = defaultdict(float)
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._last: Mapping[str, Any] | None = None

    def take(self, metrics: Mapping[str, Any]) -> None:
        """Add one batch.

        Parameters:
            metrics: of the batch, as `evenflow.read_metrics` describes them.
        """
        durations = metrics.get("durations") or {}
        with self._lock:
            self._batches += 1
            for name, (_, field) in _SUMS.items():
                self._sums[name] += metrics.get(field) or 0
            for step, seconds in durations.items():
                self._steps[step] += seconds
            self._buckets[bisect.bisect_left(BUCKETS, sum(durations.values()))] += 1
            for who, kinds in (metrics.get("requests") or {}).items():
                for kind, count in kinds.items():
                    self._requests[who, kind] += count
            if self._last is None or metrics["batch"] >= self._last["batch"]:
                kept = {"scheme", "hot_keys", "scaling", *(field for _, field in _LAST.values())}
                self._last = {name: metrics[name] for name in kept if name in metrics}

    def samples(self) -> Iterator[tuple[str, str, str, dict[str, str], Any]]:
        """(kind, name, help, labels, value) of everything that is known."""
        with self._lock:
            yield "counter", "batches", "Committed batches.", {}, self._batches
            for name, (text, _) in _SUMS.items():
                yield "counter", name, text, {}, self._sums[name]
            for step, seconds in self._steps.items():
                text = "Seconds spent in a step of the batches."
                yield "counter", "step_seconds", text, {"step": step}, seconds
            for (who, kind), count in self._requests.items():
                labels = {"by": who, "kind": kind}
                yield (
                    "counter",
                    "store_requests",
                    "Requests to the store, and bytes.",
                    labels,
                    count,
                )
            seconds_histogram = (list(self._buckets), sum(self._steps.values()))
            yield "histogram", "batch_seconds", "How long batches took.", {}, seconds_histogram
            last = self._last
            if last is None:
                return
            for name, (text, field) in _LAST.items():
                if isinstance(last.get(field), int | float):
                    yield "gauge", name, text, {}, last[field]
            if last.get("scheme"):
                text = "The grouping scheme of the last batch."
                yield "gauge", "scheme_info", text, {"scheme": str(last["scheme"])}, 1
            scaling = last.get("scaling")
            for name, (text, field) in _SCALING.items():
                if isinstance(scaling, Mapping) and isinstance(scaling.get(field), int | float):
                    yield "gauge", name, text, {}, scaling[field]
            hot = last.get("hot_keys")
            if isinstance(hot, list) and hot and last.get("rows"):
                text = "Share of the rows that the hottest key has at least."
                yield "gauge", "hottest_key_share", text, {}, hot[0]["lower"] / last["rows"]


def exposition(counters: Iterable[BatchCounters], more: Iterable[Metric] = ()) -> bytes:
    """All queries in Prometheus' text format.

    Parameters:
        counters: of the queries.
        more: other metrics.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    families = [*_families(counters), *more]

    class Collected(Collector):
        def collect(self) -> Iterable[Metric]:
            return families

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return generate_latest(registry)


def _families(counters: Iterable[BatchCounters]) -> list[Metric]:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    classes = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    found: dict[str, Any] = {}
    for counter in counters:
        for kind, name, text, labels, value in counter.samples():
            names, values = ["query", *labels], [counter.query, *labels.values()]
            if kind == "histogram":
                one = HistogramMetricFamily(f"evenflow_{name}", text, labels=names)
                family = found.setdefault(name, one)
                family.add_metric(values, _cumulative(value[0]), value[1])
            else:
                family = found.setdefault(
                    name, classes[kind](f"evenflow_{name}", text, labels=names)
                )
                family.add_metric(values, value)
    return list(found.values())


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    found, total = [], 0
    for bound, count in zip(bounds, buckets, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
