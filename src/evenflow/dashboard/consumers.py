"""How far consumer groups are behind, over time."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from evenflow.dashboard.history import sentence_of
from evenflow.model.errors import EvenflowError

if TYPE_CHECKING:
    from prometheus_client import Metric

    from evenflow.kafka.lag import LagReader

_KEPT = 10_000  # readings


class ConsumerLag:
    """Watches a consumer group.

    Parameters:
        bootstrap: the broker's address.
        topic: the topic that the group reads.
        group: any Kafka consumer group.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.version = 0  #: grows with every reading
        self.error: str | None = None  #: why nothing can be read, as a sentence
        self.partitions: list[dict[str, Any]] = []  #: of the last reading
        self.readings: deque[tuple[float, int, float]] = deque(maxlen=_KEPT)
        self._reader: LagReader | None = None

    def poll(self) -> bool:
        """Read the lag once; nothing is left to read."""
        from confluent_kafka import KafkaException

        from evenflow.kafka.lag import LagReader

        try:
            if self._reader is None:
                self._reader = LagReader(self.bootstrap, self.topic, self.group)
            found = self._reader.read()
        except (EvenflowError, OSError, KafkaException) as problem:
            self.error = sentence_of(problem)
        else:
            self.error = None
            self.partitions = [line._asdict() for line in found]
            seconds = max((line.seconds or 0.0 for line in found), default=0.0)
            self.readings.append((time.time(), sum(line.messages for line in found), seconds))
        self.version += 1
        return False

    def to_json(self) -> dict[str, Any]:
        """All that the page shows."""
        readings = list(self.readings)
        return {
            "topic": self.topic,
            "group": self.group,
            "error": self.error,
            "partitions": self.partitions,
            "time": [when for when, _, _ in readings],
            "messages": [messages for _, messages, _ in readings],
            "seconds": [seconds for _, _, seconds in readings],
        }


def lag_families(watched: list[ConsumerLag]) -> list[Metric]:
    """The lag of all groups, for Prometheus."""
    from prometheus_client.core import GaugeMetricFamily

    names = ["topic", "group", "partition"]
    messages = GaugeMetricFamily(
        "evenflow_consumer_lag_messages", "Messages that a group has not committed.", labels=names
    )
    seconds = GaugeMetricFamily(
        "evenflow_consumer_lag_seconds", "Age of the oldest of them.", labels=names
    )
    for one in watched:
        for line in one.partitions:
            labels = [one.topic, one.group, str(line["partition"])]
            messages.add_metric(labels, line["messages"])
            if line["seconds"] is not None:
                seconds.add_metric(labels, line["seconds"])
    return [messages, seconds] if watched else []
