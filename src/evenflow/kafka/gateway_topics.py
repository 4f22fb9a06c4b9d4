"""Checks and creates topics before a gateway starts."""

from __future__ import annotations

import socket
import time
from typing import Any

from evenflow.model import InputError
from evenflow.model.validation import check_whole

_TIMEOUT = 15.0  # seconds that a broker may take to answer
_PROPAGATION = 2.0  # seconds until a new topic is known to a broker


def partitions_of(bootstrap: str, topic: str) -> int:
    """The number of partitions of a topic; an `InputError` if there is no such topic, or no broker."""
    found = _partitions(_admin(bootstrap), bootstrap, topic)
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
    admin = _admin(bootstrap)
    found = _partitions(admin, bootstrap, topic)
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


def _admin(bootstrap: str) -> Any:
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise InputError(
            "confluent-kafka is not installed; install it with: pip install 'evenflow[kafka]'"
        ) from None
    _check_reachable(bootstrap)
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
    raise _no_broker(bootstrap, reasons[-1])


def _no_broker(bootstrap: str, reason: str) -> InputError:
    return InputError(
        f"no Kafka broker answers at {bootstrap} ({reason}); check the address, or start a broker on "
        "this machine with `evenflow kafka up`"
    )


def _partitions(admin: Any, bootstrap: str, topic: str) -> int | None:
    from confluent_kafka import KafkaException

    end = time.monotonic() + _PROPAGATION
    while True:
        try:
            known = admin.list_topics(timeout=_TIMEOUT).topics
        except KafkaException as error:
            raise _no_broker(bootstrap, error.args[0].str()) from None
        if topic in known and known[topic].partitions:
            return len(known[topic].partitions)
        if time.monotonic() > end:
            return None
        time.sleep(0.1)


def _create(admin: Any, topic: str, partitions: int) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    created = admin.create_topics([NewTopic(topic, partitions, 1)])[topic]
    try:
        created.result(_TIMEOUT)
    except KafkaException as error:
        raise InputError(f"the topic {topic!r} cannot be created: {error.args[0].str()}") from None
