"""What consumers have committed, read back."""

from __future__ import annotations

import time

from evenflow_lab.benchmarks.ordering.settings import STALLED


class Outputs:
    """The committed records of the output topic, as (key, number of the message, count)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._settings = {"bootstrap.servers": bootstrap}
        self._topic = topic
        self._consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{topic}-checker",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            }
        )
        self._partitions = list(self._consumer.list_topics(topic, 30).topics[topic].partitions)
        self._read_to = dict.fromkeys(self._partitions, 0)
        self._consumer.assign(
            [TopicPartition(topic, p, OFFSET_BEGINNING) for p in self._partitions]
        )

    def poll(self) -> list[tuple[bytes, int, int]]:
        from confluent_kafka import KafkaError

        rows = []
        for message in self._consumer.consume(10_000, 0.1):
            error = message.error()
            if error is None:
                count, number = message.value().split()
                rows.append((message.key(), int(number), int(count)))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read_to[message.partition()] = message.offset()
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise RuntimeError(f"the checker lost its place: {error.str()}")
        return rows

    def to_the_end(self) -> list[tuple[bytes, int, int]] | None:
        """Everything to where the topic ends now, transactions that nobody has ended included; None
        if there are some."""
        from evenflow.kafka.consumer_topics import end_offsets

        ends = end_offsets(self._settings, self._topic, self._partitions)
        rows: list[tuple[bytes, int, int]] = []
        silent_since = time.monotonic()
        while any(self._read_to[p] < end for p, end in ends.items()):
            new = self.poll()
            rows += new
            if new:
                silent_since = time.monotonic()
            if time.monotonic() - silent_since > 3:
                return None
        self._consumer.close()
        return rows


def all_outputs(bootstrap: str, topic: str) -> list[tuple[bytes, int, int]]:
    """Every committed output, read again when all is over: what was seen on the way does not count."""
    deadline = time.monotonic() + STALLED
    while time.monotonic() < deadline:
        rows = Outputs(bootstrap, topic).to_the_end()
        if rows is not None:
            return rows
    raise RuntimeError("the outputs could not be read to their end")
