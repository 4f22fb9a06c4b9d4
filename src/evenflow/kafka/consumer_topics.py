"""The topics of a group beside the data topic: `done` messages, and the changelog of its state."""

from __future__ import annotations

import logging
import time
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from evenflow.kafka.topic_settings import alter_topic, topic_settings
from evenflow.model import InputError

_LOG = logging.getLogger(__name__)

_TIMEOUT = 30.0  # seconds, of any request to the broker
_PROPAGATION = 3.0  # seconds until a new topic is known everywhere


# A `done` that was not read yet is the only copy of a key's state: no time and no size may delete it.
# Consumers delete what they have read (`consumer_purge`).
_CONTROL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_CHANGELOG = {"cleanup.policy": "compact"}


class GroupTopics(NamedTuple):
    """The topics of a group on a data topic, all with the same number of partitions.

    Example:
        >>> group_topics("clicks", "sessions").control
        'clicks-sessions-control'
    """

    data: str
    control: str
    changelog: str


def group_topics(data: str, group: str) -> GroupTopics:
    """The names of a group's topics."""
    return GroupTopics(data, f"{data}-{group}-control", f"{data}-{group}-changelog")


def make_group_topics(admin: AdminClient, topics: GroupTopics, *outputs: str | None) -> int:
    """Create the control and changelog topics if they are missing; return the number of partitions.

    The data topic and the topics for outputs must exist.
    """
    partitions = partition_count(admin, topics.data)
    for output in outputs:
        if output is not None:
            partition_count(admin, output)
    wanted = {topics.control: _CONTROL, topics.changelog: _CHANGELOG}
    for name, config in wanted.items():
        if _count(admin, name) is None:
            _create(admin, NewTopic(name, partitions, replication_factor=-1, config=config))
        found = partition_count(admin, name)
        _ensure_settings(admin, name, config)
        if found != partitions:
            raise InputError(
                f"the topic {name!r} has {found} partitions and {topics.data!r} has {partitions}, but "
                "the numbers must be equal; after adding partitions to a topic, use a new group"
            )
    return partitions


def partition_count(admin: AdminClient, topic: str) -> int:
    """The number of partitions of a topic."""
    found = find_partitions(admin, topic)
    if found is None:
        raise InputError(f"there is no topic {topic!r} on this broker; create it first")
    return found


def find_partitions(admin: AdminClient, topic: str) -> int | None:
    """The number of partitions of a topic that may just have been created; None if there is none."""
    deadline = time.monotonic() + _PROPAGATION
    while True:
        found = _count(admin, topic)
        if found is not None or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def end_offsets(client: dict[str, Any], topic: str, partitions: list[int]) -> dict[int, int]:
    """The end of each partition, open transactions included."""
    return _offsets(client, topic, partitions, OffsetSpec.latest())


def first_offsets(client: dict[str, Any], topic: str, partitions: list[int]) -> dict[int, int]:
    """The first offset of each partition: above 0 if its head was deleted."""
    return _offsets(client, topic, partitions, OffsetSpec.earliest())


def _ensure_settings(admin: AdminClient, topic: str, wanted: dict[str, str]) -> None:
    """Change the settings of a topic that an earlier version, or somebody else, created differently."""
    found = topic_settings(admin, topic)
    wrong = {name: value for name, value in wanted.items() if found[name].value != value}
    if wrong:
        _LOG.warning("the topic %r gets the settings %s, to keep what is not read", topic, wrong)
        alter_topic(admin, topic, wrong)


def _offsets(
    client: dict[str, Any], topic: str, partitions: list[int], which: OffsetSpec
) -> dict[int, int]:
    asked = {TopicPartition(topic, partition): which for partition in partitions}
    deadline = time.monotonic() + 2 * _TIMEOUT
    while True:
        try:
            # A new client each time: after a broker's restart an old one keeps using stale metadata
            # and is refused (FENCED_LEADER_EPOCH).
            admin = AdminClient(client)  # in a variable: results need a client that is alive
            found = admin.list_offsets(
                asked,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_TIMEOUT,
            )
            return {where.partition: answer.result().offset for where, answer in found.items()}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _count(admin: AdminClient, topic: str) -> int | None:
    try:
        found = admin.list_topics(timeout=_TIMEOUT).topics.get(topic)
    except KafkaException as error:
        raise InputError(
            f"the broker does not answer ({error.args[0].str()}); check that it is running and that "
            "the address is right"
        ) from error
    return None if found is None or not found.partitions else len(found.partitions)


def _create(admin: AdminClient, topic: NewTopic) -> None:
    for created in admin.create_topics([topic], request_timeout=_TIMEOUT).values():
        try:
            created.result()
        except KafkaException as error:
            # Another consumer of the group was faster.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
