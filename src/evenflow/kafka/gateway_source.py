"""The stream of one or several topics that a gateway reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenflow.kafka.gateway_rows import Rows
from evenflow.model import InputError
from evenflow.ordering.headers import LANE_BITS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# After every poll Spark asks the broker twice for the end of the topic; Kafka's default of 500 messages
# per poll is too small for that. The bytes per fetch keep Kafka's default and bound the memory of a
# task: an executor caches fetched data for up to 64 partitions.
CONSUMER = {"kafka.max.poll.records": "10000"}

SOURCE = "source"  #: the column of `read_topic` that numbers the partitions of all its topics

#: The columns and order of `read_topic`.
TOPIC_ROWS = Rows("key", "value", (SOURCE, "offset"), "headers", in_order=True)

_PARTITION_BITS = 16  # of a source's number, if there are several topics
_MOST_PARTITIONS = (1 << _PARTITION_BITS) - 2  # of each; two lanes are not for sources
_MOST_TOPICS = 1 << (LANE_BITS - _PARTITION_BITS)
_TOPICS = "evenflow.topics"  # the metadata of the column: the names of the topics
_BY_OTHER_MEANS = ("subscribePattern", "assign")
_SPLITTING = ("minPartitions", "maxRecordsPerPartition")


def read_topic(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    most: int | None = 1_000_000,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A stream of all messages of a topic, or of several, for `Gateway.start` with `TOPIC_ROWS`.

    Guarantee: the columns are those of Spark's Kafka source, and `source`, a number that no two
    partitions share, whichever topics they belong to.

    Parameters:
        spark: a session with Spark's Kafka connector (`artifacts.connector_jars`).
        bootstrap: the brokers' address.
        topic: each key's messages are in one partition, as Kafka's producers write them. Several
            topics are separated by commas; the numbers depend on their names, so a checkpoint is bound
            to them.
        most: the maximum number of messages per batch.
        options: of Spark's Kafka source; they take precedence over ours.
    """
    settings = {"startingOffsets": "earliest", "includeHeaders": "true", "subscribe": topic}
    settings |= {**CONSUMER, **(options or {})}
    for refused in _BY_OTHER_MEANS:
        if refused in settings:
            raise InputError(
                f"{refused} does not say which topics there will be, but each partition must have the "
                "same number at every start; name the topics instead, separated by commas"
            )
    for refused in _SPLITTING:
        if refused in settings:
            raise InputError(
                f"{refused} would split a topic's partition between tasks, and a key's messages would "
                "lose their order; leave it out"
            )
    names = topic_names(settings["subscribe"])
    if most is not None:
        settings["maxOffsetsPerTrigger"] = str(most)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    df = reader.options(**settings).load()
    return df.withColumn(SOURCE, _source(names)).withMetadata(SOURCE, {_TOPICS: names})


def topic_names(listed: str) -> list[str]:
    """The topics of a list with commas, sorted: their order there has no meaning.

    Example:
        >>> topic_names("visits, clicks")
        ['clicks', 'visits']
    """
    names = sorted({name.strip() for name in listed.split(",")} - {""})
    if not 1 <= len(names) <= _MOST_TOPICS:
        raise InputError(
            f"a gateway reads 1 to {_MOST_TOPICS} topics, got {len(names)}; give the name of a topic, "
            "or several separated by commas, and start several gateways for more"
        )
    return names


def topics_of(df: DataFrame, rows: Rows) -> list[str]:
    """The topics that number the sources of a DataFrame; none if it is not from `read_topic`."""
    if not rows.in_order:
        return []
    names: list[str] = df.schema[rows.order[0]].metadata.get(_TOPICS, [])
    return names


def source_number(topic: int, partition: int) -> int:
    """The number of a partition, where several topics are read: no two partitions share one.

    Example:
        >>> source_number(0, 3), source_number(1, 3)
        (3, 65539)
    """
    return (topic << _PARTITION_BITS) + partition


def source_name(source: int, topics: list[str]) -> str:
    """What to call a source in a message to users.

    Example:
        >>> source_name(65539, ["clicks", "visits"])
        "partition 3 of 'visits'"
    """
    if not topics:
        return f"source {source}"
    if len(topics) == 1:
        return f"partition {source} of {topics[0]!r}"
    topic, partition = divmod(source, 1 << _PARTITION_BITS)
    return f"partition {partition} of {topics[topic]!r}"


def _source(names: list[str]) -> Column:
    from pyspark.sql import functions as F

    partition = F.col("partition")
    if len(names) == 1:
        return partition.cast("int")
    # Neither can happen before somebody has a topic with so many partitions, or changes a checkpoint.
    refused = F.raise_error(
        F.lit(f"InputError: a topic read with others has more than {_MOST_PARTITIONS} partitions")
    ).cast("int")
    chosen = F.when(partition >= F.lit(_MOST_PARTITIONS), refused)
    for number, name in enumerate(names):
        base = F.lit(source_number(number, 0))
        chosen = chosen.when(F.col("topic") == F.lit(name), partition + base)
    return chosen.otherwise(
        F.raise_error(F.lit("InputError: a topic that is not read")).cast("int")
    )
