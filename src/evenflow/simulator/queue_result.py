"""The result of a simulation in virtual time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from evenflow.simulator.cluster import Cluster
from evenflow.simulator.result import Result, plain_values


@dataclass(frozen=True)
class Slot:
    """One time slot, measured over the workers.

    Parameters:
        time: its end, in units of time; `messages`: arrived by then, since the beginning.
        queue_max: longest queue of a worker at its end, the message in service included;
            `queue_min`, `queue_mean`: shortest and average; `queue_difference`: max − min.
        latency_max: largest of the workers' mean latencies of the messages that arrived in the slot
            (a worker without any has none); `latency_min`: smallest; `latency_mean`: of all those
            messages; `latency_difference`: max − min. None in a slot without messages.
        utilisation_max: largest number of messages that arrived in the slot ÷ capacity of the slot;
            `utilisation_min`, `utilisation_mean`, `utilisation_difference`: likewise.
        imbalance: largest − average utilisation in the slot; `cumulative_imbalance`: the same of all
            messages so far ÷ all capacity so far, which is I(t) of the paper.
        moves: virtual workers moved so far by all sources together, where the scheme has any.
        throughput: messages done per unit of time, in the slot.
    """

    time: float
    messages: int
    queue_max: int
    queue_min: int
    queue_mean: float
    queue_difference: int
    latency_max: float | None
    latency_min: float | None
    latency_mean: float | None
    latency_difference: float | None
    utilisation_max: float
    utilisation_min: float
    utilisation_mean: float
    utilisation_difference: float
    imbalance: float
    cumulative_imbalance: float
    moves: int
    throughput: float


@dataclass(frozen=True)
class QueueResult:
    """The measurements of one scheme on one stream and one cluster.

    Times are in units of the average time between two messages.

    Parameters:
        routing: loads, imbalance and replicas, as `simulate` measures them.
        cluster: the machines.
        block: messages between two deliveries of signals to the sources.
        timeline: one entry per time slot.
        latency_mean: finish − arrival, on average over all messages; `latency_max`: exact too;
            `latency_p50`, `latency_p95`, `latency_p99`: quantiles, within 1 %.
        queue_max: longest queue of a worker at any time; `queue_mean`: average over workers and over
            time, up to the last finish.
        throughput: messages ÷ last finish.
        utilisation_max: of a worker over the whole stream: messages ÷ capacity; `utilisation_min`,
            `utilisation_mean`: smallest and average; `utilisation_difference`: max − min.
        utilisation_imbalance: largest − average utilisation, I(m) of the paper.
        moves: virtual workers moved by all sources together.
    """

    routing: Result
    cluster: Cluster
    block: int
    timeline: tuple[Slot, ...]
    latency_mean: float
    latency_p50: float
    latency_p95: float
    latency_p99: float
    latency_max: float
    queue_max: int
    queue_mean: float
    throughput: float
    utilisation_max: float
    utilisation_min: float
    utilisation_mean: float
    utilisation_difference: float
    utilisation_imbalance: float
    moves: int

    def to_dict(self, *, loads: bool = False, timeline: bool = True) -> dict[str, Any]:
        """Plain values that strict JSON can hold; `timeline` as a list of one dict per slot.

        Example:
            >>> from evenflow.simulator import Cluster, simulate_queues
            >>> from evenflow.simulator.workloads import Zipf
            >>> result = simulate_queues("shuffle", Zipf(messages=1_000), Cluster(workers=4, slots=5))
            >>> row = result.to_dict()
            >>> row["grouping"], row["queue_max"], len(row["timeline"])
            ('shuffle', 1, 5)
        """
        left_out = {"routing", "cluster", "timeline"}
        answer = self.routing.to_dict(loads=loads)
        answer.update(
            (f.name, getattr(self, f.name))
            for f in dataclasses.fields(self)
            if f.name not in left_out
        )
        answer["slots"] = len(self.timeline)
        answer["cluster"] = self.cluster.to_dict()
        if timeline:
            answer["timeline"] = [dataclasses.asdict(slot) for slot in self.timeline]
        plain: dict[str, Any] = plain_values(answer)
        return plain
