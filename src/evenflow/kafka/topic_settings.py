"""The settings of a topic: read and changed."""

from __future__ import annotations

from typing import Any

from evenflow.model import InputError

_TIMEOUT = 15.0  # seconds that a broker may take to answer


def topic_settings(admin: Any, topic: str) -> dict[str, Any]:
    """The settings of a topic, as confluent-kafka describes them."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    asked = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found: dict[str, Any] = admin.describe_configs([asked])[asked].result(_TIMEOUT)
    except KafkaException as error:
        raise InputError(
            f"the settings of topic {topic!r} are not available: {error.args[0].str()}"
        ) from None
    return found


def is_own_setting(entry: Any) -> bool:
    """Whether a setting was made for the topic, and is not the brokers' default."""
    from confluent_kafka.admin import ConfigSource

    return bool(entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value)


def alter_topic(admin: Any, topic: str, settings: dict[str, str]) -> None:
    """Change settings of a topic."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    put = {"incremental_operation": AlterConfigOpType.SET}
    entries = [ConfigEntry(name, value, **put) for name, value in settings.items()]
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    try:
        admin.incremental_alter_configs([changed])[changed].result(_TIMEOUT)
    except KafkaException as error:
        wanted = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise InputError(
            f"the topic {topic!r} needs {wanted}, which cannot be set: {error.args[0].str()}"
        ) from None
