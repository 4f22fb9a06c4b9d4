"""Checks and creates topics before a gateway starts."""

from __future__ import annotations

import socket
from typing import Any

from evenflow.model import InputError
from evenflow.model.validation import check_whole

_TIMEOUT = 15.0  # seconds that a broker may take to answer


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
        from confluent_kafka.admin import AdminClient

        from evenflow.kafka.consumer_topics import find_partitions
    except ImportError:
        raise InputError(
            "confluent-kafka is not installed; install it with: pip install 'evenflow[kafka]'"
        ) from None
    _check_reachable(bootstrap)
    # No log of its own: errors are reported here, in one line.
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "client.id": "evenflow"}
    admin = AdminClient(settings)
    return admin, find_partitions(admin, topic)


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

    created = admin.create_topics([NewTopic(topic, partitions, 1)])[topic]
    try:
        created.result(_TIMEOUT)
    except KafkaException as error:
        raise InputError(f"the topic {topic!r} cannot be created: {error.args[0].str()}") from None
