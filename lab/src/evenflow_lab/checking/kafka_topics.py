"""Topics on a broker: created, written, read to their end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from evenflow_lab.checking.broker import Broker

Message = Any  #: as confluent-kafka gives them, which has no types

_QUIET = {"log_level": 0}


def new_topic(broker: Broker, partitions: int, **config: str) -> str:
    """A new, empty topic; its name."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"test-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **_QUIET})
    made = admin.create_topics([NewTopic(name, partitions, 1, config=config)])
    made[name].result(30)
    return name


def produced(broker: Broker, topic: str, messages: Iterable[tuple[Any, ...]]) -> None:
    """Writes (key, value, partition), or (key, value, partition, headers), and waits for them."""
    from confluent_kafka import Producer

    # Idempotent, because otherwise what is sent again after a slow answer loses its order.
    settings = {"linger.ms": 5, "enable.idempotence": True, **_QUIET}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    failures: list[Any] = []

    def delivered(error: Any, message: Message) -> None:
        if error is not None:
            failures.append(error)

    for key, value, partition, *headers in messages:
        producer.produce(
            topic,
            value,
            key,
            partition,
            headers=headers[0] if headers else None,
            on_delivery=delivered,
        )
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not failures, failures[0]


def end_offsets(broker: Broker, topic: str) -> list[int]:
    """How many messages were written to each partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", **_QUIET})
    try:
        n = len(consumer.list_topics(topic, 30).topics[topic].partitions)
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, p), 30, cached=False)[1]
            for p in range(n)
        ]
    finally:
        consumer.close()


def consumed(broker: Broker, topic: str) -> list[list[Message]]:
    """All messages of a topic, partition by partition, as confluent-kafka gives them."""
    from confluent_kafka import Consumer, TopicPartition

    ends = end_offsets(broker, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "all",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **_QUIET,
        }
    )
    found: list[list[Message]] = [[] for _ in ends]
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p, end in enumerate(ends) if end])
        while any(len(got) < end for got, end in zip(found, ends, strict=True)):
            for message in consumer.consume(10_000, 1.0):
                assert message.error() is None, message.error()
                found[message.partition()].append(message)
            positions = consumer.position([TopicPartition(topic, p) for p in range(len(ends))])
            if all(p.offset >= end for p, end in zip(positions, ends, strict=True) if end):
                break  # some offsets are those of transactions' markers, which nobody is given
    finally:
        consumer.close()
    return found
