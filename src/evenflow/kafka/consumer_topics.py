"""The two topics beside a data topic: `done` messages of consumers, and what they remember."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
    libversion,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from evenflow.model import InputError

_REBOOTSTRAPS = 0x020B00FF  # librdkafka 2.11
_SECONDS = 30.0  # for anything that the broker is asked here


def client_settings(bootstrap: str) -> dict[str, Any]:
    """What all clients of a consumer share."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if libversion()[1] >= _REBOOTSTRAPS:
        # Once all brokers were away, such a client throws away what it knew of them, and then
        # send_offsets_to_transaction waits forever for a coordinator that is no more.
        settings["metadata.recovery.strategy"] = "none"
    return settings


class GroupTopics(NamedTuple):
    """The topics of one group on one data topic, all with the same number of partitions.

    Example:
        >>> group_topics("clicks", "sessions").control
        'clicks-sessions-control'
    """

    data: str
    control: str
    changelog: str


def group_topics(data: str, group: str) -> GroupTopics:
    """How the topics are named."""
    return GroupTopics(data, f"{data}-{group}-control", f"{data}-{group}-changelog")


def make_group_topics(admin: AdminClient, topics: GroupTopics, output: str | None) -> int:
    """Makes the control and changelog topics if they are not there; gives the number of partitions.

    A data topic or an output topic that is not there is the user's mistake.
    """
    partitions = partition_count(admin, topics.data)
    if output is not None:
        partition_count(admin, output)
    wanted = {
        topics.control: {"cleanup.policy": "delete"},
        topics.changelog: {"cleanup.policy": "compact"},
    }
    for name, config in wanted.items():
        if _count(admin, name) is None:
            _make(admin, NewTopic(name, partitions, replication_factor=-1, config=config))
        found = partition_count(admin, name)
        if found != partitions:
            raise InputError(
                f"the topic {name!r} has {found} partitions and {topics.data!r} has {partitions}: "
                "they must have as many; a topic whose partitions became more needs a new group"
            )
    return partitions


def partition_count(admin: AdminClient, topic: str) -> int:
    """How many partitions a topic has."""
    deadline = time.monotonic() + _SECONDS
    while True:
        found = _count(admin, topic)
        if found is not None:
            return found
        # A topic that somebody else has just made may take a moment to be known.
        if time.monotonic() > deadline - _SECONDS + 3:
            raise InputError(f"there is no topic {topic!r} on this broker: create it first")
        time.sleep(0.1)


def end_offsets(client: dict[str, Any], topic: str, partitions: list[int]) -> dict[int, int]:
    """Where each partition ends, open transactions included."""
    return _offsets(client, topic, partitions, OffsetSpec.latest())


def first_offsets(client: dict[str, Any], topic: str, partitions: list[int]) -> dict[int, int]:
    """Where each partition begins: above 0 if its head was deleted."""
    return _offsets(client, topic, partitions, OffsetSpec.earliest())


def _offsets(
    client: dict[str, Any], topic: str, partitions: list[int], which: OffsetSpec
) -> dict[int, int]:
    asked = {TopicPartition(topic, partition): which for partition in partitions}
    deadline = time.monotonic() + 2 * _SECONDS
    while True:
        try:
            # A new client each time: an old one asks for ever by what it knew before a broker was
            # restarted, and is refused (FENCED_LEADER_EPOCH).
            admin = AdminClient(client)  # by name: it answers for as long as it lives
            found = admin.list_offsets(
                asked,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_SECONDS,
            )
            return {where.partition: answer.result().offset for where, answer in found.items()}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _count(admin: AdminClient, topic: str) -> int | None:
    try:
        found = admin.list_topics(timeout=_SECONDS).topics.get(topic)
    except KafkaException as error:
        raise InputError(
            f"the broker does not answer ({error.args[0].str()}): is it running, and is its address "
            "right?"
        ) from error
    return None if found is None or not found.partitions else len(found.partitions)


def _make(admin: AdminClient, topic: NewTopic) -> None:
    for made in admin.create_topics([topic], request_timeout=_SECONDS).values():
        try:
            made.result()
        except KafkaException as error:
            # Another consumer of the group was faster.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
