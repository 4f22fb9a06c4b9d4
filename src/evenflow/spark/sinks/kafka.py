"""The format "kafka": each row a message, through Spark's own Kafka writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow.model import InputError
from evenflow.spark.sinks.protocol import Target
from evenflow.spark.sinks.spark_format import SparkFormat, warn_at_least_once
from evenflow.spark.sinks.tables import check_format

_TEXT = ("string", "binary")


@dataclass(frozen=True)
class KafkaSink(SparkFormat):
    """Sends the rows of each batch to Kafka: the columns `value` and, if they are there, `key`,
    `topic`, `partition` and `headers`, as Spark's own writer does.

    Guarantee: every row at least once. A driver that dies between delivery and commit sends the
    batch again, and so does a task that is run again: Spark's writer has no transactions.
    """

    name: ClassVar[str] = "kafka"
    temporary: ClassVar[bool] = False

    @classmethod
    def of(cls, target: Target) -> KafkaSink:
        if target.table is not None or target.partition_by or target.path is not None:
            raise InputError(
                'format "kafka" writes to a topic, without a path, table or partitionBy; write '
                '.option("topic", "hits").start()'
            )
        check_format(target)
        _check_columns(target)
        if target.option("kafka.bootstrap.servers") is None:
            raise InputError(
                'format "kafka" needs the brokers; add .option("kafka.bootstrap.servers", '
                '"host:9092")'
            )
        warn_at_least_once(target)
        return cls("kafka", options=dict(target.options))


def _check_columns(target: Target) -> None:
    types = {field.name.lower(): field.dataType.simpleString() for field in target.schema.fields}
    if types.get("value") not in _TEXT or types.get("key", "binary") not in _TEXT:
        found = ", ".join(f"{name} {kind}" for name, kind in types.items())
        raise InputError(
            'format "kafka" writes the columns value and, if there is one, key, as string or binary; '
            f'the output has {found}. Make them in foreachBatch: df.selectExpr("CAST(page AS STRING) '
            'AS key", "to_json(struct(*)) AS value").write.format("kafka")…save()'
        )
    if "topic" not in types and target.option("topic") is None:
        raise InputError(
            'format "kafka" needs a topic; add .option("topic", "hits"), or a column `topic`'
        )
