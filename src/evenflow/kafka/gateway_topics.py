"""Checks and creates topics before a gateway starts."""

from __future__ import annotations

import logging
import socket
from typing import Any, NamedTuple

from evenflow.kafka.topic_settings import alter_topic, is_own_setting, topic_settings
from evenflow.model import InputError
from evenflow.model.validation import check_whole

_LOG = logging.getLogger(__name__)

_TIMEOUT = 15.0  # seconds that a broker may take to answer
_HEADROOM = (
    16_384  # bytes for our header, and for an estimate of a record's size that is never too low
)


class Target(NamedTuple):
    """The topic that a gateway writes to.

    id: changes if the topic is deleted and created again; None if the broker does not tell.
    limit: the bytes of a record that it takes.
    """

    id: str | None
    limit: int


def check_target(bootstrap: str, topic: str, partitions: int) -> Target:
    """Check that a gateway with so many partitions may write to a topic; an `InputError` if not.

    A topic without a limit of its own for the size of records gets one, a little above the brokers':
    what a source on the same brokers could take is then taken with our header, too.
    """
    admin, found = _find(bootstrap, topic)
    if found is None:
        raise InputError(f"the broker at {bootstrap} has no topic {topic!r}; create it first")
    if found != partitions:
        raise InputError(
            f"the topic {topic!r} has {found} partitions, but the policy has {partitions}; use {found}"
        )
    settings = topic_settings(admin, topic)
    if "compact" in settings["cleanup.policy"].value:
        raise InputError(
            f"the topic {topic!r} is compacted (cleanup.policy={settings['cleanup.policy'].value}): "
            "Kafka would delete messages of a key before they are read, and takes markers of moves, "
            "which have no value, for deletions; set cleanup.policy=delete, or write to another topic"
        )
    limit = int(settings["max.message.bytes"].value)
    if not is_own_setting(settings["max.message.bytes"]):
        try:
            alter_topic(admin, topic, {"max.message.bytes": str(limit + _HEADROOM)})
            limit += _HEADROOM
        except InputError as error:
            _LOG.warning("messages as large as the broker takes may not fit: %s", error)
    return Target(topic_id(admin, topic), limit)


def topic_id(admin: Any, topic: str) -> str | None:
    """The id of a topic; "" if there is no such topic, None if the broker does not answer that."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    try:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT)
        return str(asked[topic].result(_TIMEOUT).topic_id)
    except KafkaException as error:
        gone = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return "" if gone else None


def partitions_of(bootstrap: str, topic: str) -> int:
    """The number of partitions of a topic; an `InputError` if there is no such topic, or no broker."""
    _, found = _find(bootstrap, topic)
    if found is None:
        raise InputError(f"the broker at {bootstrap} has no topic {topic!r}; create it first")
    return found


def ensure_topic(bootstrap: str, topic: str, partitions: int | None) -> int:
    """The number of partitions of a topic, which is created if it does not exist.

    Parameters:
        bootstrap: the brokers' address.
        topic: its name.
        partitions: the number it must have; None for any number, of an existing topic.
    """
    admin, found = _find(bootstrap, topic)
    if found is None and partitions is not None:
        check_whole("the number of partitions", partitions, 1)
        _create(admin, topic, partitions)
        return partitions
    if found is None:
        raise InputError(
            f"the broker at {bootstrap} has no topic {topic!r}; "
            "give its number of partitions to create it"
        )
    if partitions is not None and partitions != found:
        raise InputError(
            f"the topic {topic!r} has {found} partitions, not {partitions}; omit the number, or write "
            "to another topic"
        )
    return found


def _find(bootstrap: str, topic: str) -> tuple[Any, int | None]:
    """A client, and the number of partitions of a topic, None if it does not exist."""
    try:
        from evenflow.kafka.consumer_topics import find_partitions
    except ImportError:
        raise InputError(
            "confluent-kafka is not installed; install it with: pip install 'evenflow[kafka]'"
        ) from None
    _check_reachable(bootstrap)
    admin = client(bootstrap)
    return admin, find_partitions(admin, topic)


def client(bootstrap: str) -> Any:
    """A client that describes and changes topics."""
    from confluent_kafka.admin import AdminClient

    # No log of its own: errors are reported here, in one line.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "client.id": "evenflow"})


def _check_reachable(bootstrap: str) -> None:
    """Refuse addresses where nothing listens at once, without the timeout of a slow broker."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"a broker's address has the form HOST:PORT, got {address.strip()!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_TIMEOUT).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(str(error))
    raise InputError(
        f"no Kafka broker answers at {bootstrap} ({reasons[-1]}); check the address, or start a broker "
        "on this machine with `evenflow kafka up`"
    )


def _create(admin: Any, topic: str, partitions: int) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    # As many replicas as the brokers' default.replication.factor says.
    created = admin.create_topics([NewTopic(topic, partitions, -1)])[topic]
    try:
        created.result(_TIMEOUT)
    except KafkaException as error:
        raise InputError(f"the topic {topic!r} cannot be created: {error.args[0].str()}") from None
