"""Topics, before a gateway starts: are they there, and with how many partitions."""

from __future__ import annotations

import socket
import time
from typing import Any

from evenflow.model import InputError
from evenflow.model.validation import check_whole

_PATIENCE = 15.0  # seconds that a broker may take to answer
_SOON = 2.0  # seconds after which a topic that was just made is known to a broker


def partitions_of(bootstrap: str, topic: str) -> int:
    """How many partitions a topic has; an `InputError` where there is no such topic, or no broker."""
    found = _partitions(_admin(bootstrap), bootstrap, topic)
    if found is None:
        raise InputError(
            f"the broker at {bootstrap} has no topic {topic!r}; make it first, or say how many "
            "partitions it is to have"
        )
    return found


def ensure_topic(bootstrap: str, topic: str, partitions: int | None, replicas: int = 1) -> int:
    """How many partitions a topic has; made with so many if it is not there.

    Parameters:
        bootstrap: the brokers' address.
        topic: its name.
        partitions: that it has, or is to have; None for whatever it has.
        replicas: of a topic that is made.
    """
    admin = _admin(bootstrap)
    found = _partitions(admin, bootstrap, topic)
    if found is None and partitions is not None:
        check_whole("the number of partitions", partitions, 1)
        _make(admin, topic, partitions, replicas)
        return partitions
    if found is None:
        raise InputError(
            f"the broker at {bootstrap} has no topic {topic!r}; say how many partitions it is to have, "
            "and it will be made"
        )
    if partitions is not None and partitions != found:
        raise InputError(
            f"the topic {topic!r} has {found} partitions, not {partitions}; leave the number out, or "
            "write to another topic"
        )
    return found


def _admin(bootstrap: str) -> Any:
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise InputError(
            "confluent-kafka is needed for this and is not installed; pip install 'evenflow[kafka]'"
        ) from None
    _check_reachable(bootstrap)
    # Its own complaints about a broker that is not there are said here, in a line.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "client.id": "evenflow"})


def _check_reachable(bootstrap: str) -> None:
    """Refuse addresses at which nobody listens, without the patience that a slow broker gets."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"a broker's address is HOST:PORT, got {address.strip()!r}")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(str(error))
    raise _no_broker(bootstrap, reasons[-1])


def _no_broker(bootstrap: str, reason: str) -> InputError:
    return InputError(
        f"no Kafka broker answers at {bootstrap} ({reason}); is the address right? `evenflow kafka "
        "up` starts one on this machine"
    )


def _partitions(admin: Any, bootstrap: str, topic: str) -> int | None:
    from confluent_kafka import KafkaException

    end = time.monotonic() + _SOON
    while True:
        try:
            known = admin.list_topics(timeout=_PATIENCE).topics
        except KafkaException as error:
            raise _no_broker(bootstrap, error.args[0].str()) from None
        if topic in known and known[topic].partitions:
            return len(known[topic].partitions)
        if time.monotonic() > end:
            return None
        time.sleep(0.1)


def _make(admin: Any, topic: str, partitions: int, replicas: int) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    made = admin.create_topics([NewTopic(topic, partitions, replicas)])[topic]
    try:
        made.result(_PATIENCE)
    except KafkaException as error:
        raise InputError(f"the topic {topic!r} cannot be made: {error.args[0].str()}") from None
