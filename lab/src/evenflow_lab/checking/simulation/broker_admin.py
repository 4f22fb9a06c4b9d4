"""confluent-kafka's admin client on the model of a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import OffsetSpec

from evenflow_lab.checking.simulation.broker_model import BrokerModel, refusal


class AdminModel:
    """`confluent_kafka.admin.AdminClient`: topics, their settings, offsets and deletions."""

    def __init__(self, broker: BrokerModel, settings: dict[str, Any]) -> None:
        self._broker = broker

    def list_topics(self, timeout: float) -> Any:
        self._broker.call("list_topics")
        topics = {
            name: SimpleNamespace(partitions=dict(enumerate(topic.logs)))
            for name, topic in self._broker.topics.items()
        }
        return SimpleNamespace(topics=topics)

    def create_topics(self, topics: list[Any], request_timeout: float) -> dict[str, Any]:
        self._broker.call("create_topics")
        answers = {}
        for topic in topics:
            answers[topic.topic] = _answer(None)
            if topic.topic in self._broker.topics:
                error = refusal(KafkaError.TOPIC_ALREADY_EXISTS, "there already")
                answers[topic.topic] = _answer(None, error)
            else:
                self._broker.add_topic(topic.topic, topic.num_partitions, dict(topic.config))
        return answers

    def describe_configs(self, resources: list[Any]) -> dict[Any, Any]:
        self._broker.call("describe_configs")
        defaults = {
            "cleanup.policy": "delete",
            "retention.ms": "604800000",
            "retention.bytes": "-1",
        }
        answers = {}
        for resource in resources:
            settings = {**defaults, **self._broker.topics[resource.name].settings}
            entries = {name: SimpleNamespace(value=value) for name, value in settings.items()}
            answers[resource] = _answer(entries)
        return answers

    def incremental_alter_configs(self, resources: list[Any]) -> dict[Any, Any]:
        self._broker.call("incremental_alter_configs")
        for resource in resources:
            for entry in resource.incremental_configs:
                self._broker.topics[resource.name].settings[entry.name] = entry.value
        return {resource: _answer(None) for resource in resources}

    def list_offsets(
        self, asked: dict[TopicPartition, Any], isolation_level: Any, request_timeout: float
    ) -> dict[TopicPartition, Any]:
        self._broker.call("list_offsets")
        first = type(OffsetSpec.earliest())
        answers = {}
        for place, which in asked.items():
            log = self._broker.log(place.topic, place.partition)
            offset = log.start if isinstance(which, first) else log.end
            answers[place] = _answer(SimpleNamespace(offset=offset))
        return answers

    def delete_records(self, places: list[TopicPartition]) -> None:
        self._broker.call("delete_records")
        for place in places:
            self._broker.log(place.topic, place.partition).delete_before(place.offset)


def _answer(result: Any, error: BaseException | None = None) -> Any:
    def of(timeout: float | None = None) -> Any:
        if error is not None:
            raise error
        return result

    return SimpleNamespace(result=of)
