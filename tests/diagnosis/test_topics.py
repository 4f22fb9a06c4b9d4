"""A Kafka topic: its partitions, the lag of a group, its hot keys."""

from __future__ import annotations

import pytest

import evenflow as ef
from evenflow.model import InputError
from evenflow_lab.checking.kafka_topics import new_topic, produced

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_partitions_lag_and_hot_keys_of_a_topic(broker):
    topic = new_topic(broker, 4)
    records = [(b"hot", b"x", 1)] * 300 + [(f"k{i}".encode(), b"x", i % 4) for i in range(100)]
    produced(broker, topic, records)
    found = ef.diagnose(topic, bootstrap=broker.bootstrap, group="counters")
    assert (found.kind, found.cause) == ("topic", "hot key")
    assert "hot, has 75.0% of the rows" in found.answer
    assert "group counters is furthest behind in partition 1 (325 messages" in found.answer
    [fullest, *_] = found.tables[0].rows
    assert (fullest["partition"], fullest["records"], fullest["lag"]) == (1, 325, 325)


def test_a_topic_without_records_and_one_that_is_not_there(broker):
    topic = new_topic(broker, 2)
    found = ef.diagnose(topic, bootstrap=broker.bootstrap)
    assert found.answer.startswith("There is nothing to diagnose yet")
    with pytest.raises(InputError, match="there is no topic"):
        ef.diagnose("no-such-topic", bootstrap=broker.bootstrap)
