"""A gateway job, as the command line starts it: source, topic, session, query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic
from evenflow.kafka.gateway_rows import Rows
from evenflow.kafka.gateway_source import topic_names
from evenflow.kafka.gateway_topics import ensure_topic, partitions_of
from evenflow.model import InputError
from evenflow.spark.columns import check_columns
from evenflow.spark.file_job import explained
from evenflow.spark.input_files import input_files
from evenflow.spark.locations import spark_address, storage_for
from evenflow.spark.query import StreamingQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STOP_TIMEOUT = 30.0  # seconds for the current batch
_FILE_ORDER = ("file_modification_time", "file_path", "row_index")


@dataclass(frozen=True)
class GatewayJob:
    """The source and the target of a gateway.

    Parameters:
        source: a topic, several separated by commas, or a directory of Parquet, JSON or CSV files.
        bootstrap: the broker's address.
        topic: to write to; created if it does not exist and `partitions` is given.
        partitions: of that topic.
        key, value: columns of files; without `value`, the whole row as JSON.
        order: columns that order the rows of files; by default, Parquet files are read in the order of
            their modification times.
        most: the maximum number of messages, or files, per batch.
    """

    source: str
    bootstrap: str
    topic: str
    partitions: int | None = None
    key: str | None = None
    value: str | None = None
    order: tuple[str, ...] = ()
    most: int | None = None

    @property
    def from_files(self) -> bool:
        # A topic's name has no slash.
        return "/" in self.source or Path(self.source).is_dir()

    def __post_init__(self) -> None:
        given = {"--key": self.key, "--value": self.value, "--order": self.order}
        if self.from_files and self.key is None:
            raise InputError(
                f"{self.source} is a directory of files; set the key column with --key"
            )
        if not self.from_files and any(given.values()):
            named = next(option for option, value in given.items() if value)
            raise InputError(f"{named} is for files, but {self.source!r} is a topic; leave it out")
        if not self.from_files and self.topic in topic_names(self.source):
            raise InputError(f"the gateway cannot read and write the same topic, {self.topic!r}")

    def prepare(self) -> int:
        """Check the source and create the topic if needed; return its number of partitions."""
        if not self.from_files:
            for name in topic_names(self.source):
                partitions_of(self.bootstrap, name)
        return ensure_topic(self.bootstrap, self.topic, self.partitions)

    def start(
        self,
        spark: SparkSession,
        gateway: Gateway,
        checkpoint: str,
        *,
        once: bool = False,
        every: str | None = None,
        on_batch: Callable[[Mapping[str, Any]], object] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> StreamingQuery:
        """Start it on a session that has Spark's Kafka connector."""
        with explained():
            if self.from_files:
                df, rows = self._files(spark, storage_options)
            else:
                df = read_topic(spark, self.bootstrap, self.source, most=self.most or 1_000_000)
                rows = TOPIC_ROWS
            return gateway.start(
                df,
                checkpoint,
                rows,
                available_now=once,
                every=every,
                on_batch=on_batch,
                storage_options=storage_options,
            )

    def _files(
        self, spark: SparkSession, storage_options: Mapping[str, str] | None
    ) -> tuple[DataFrame, Rows]:
        from pyspark.sql import functions as F

        at = partial(storage_for, spark, storage_options=storage_options)
        kind = input_files(self.source, at).kind.lower()
        place = spark_address(spark, self.source)
        if kind != "parquet" and not self.order:
            raise InputError(
                f"{self.source} has {kind.upper()} files, whose rows have no order; set the columns "
                "that order them with --order"
            )
        options = {"header": "true"} if kind == "csv" else {}
        schema = spark.read.format(kind).options(**options).load(place).schema
        reader = spark.readStream.format(kind).options(**options).schema(schema)
        if self.most is not None:
            reader = reader.option("maxFilesPerTrigger", self.most)
        df = reader.load(place)
        assert self.key is not None
        named = (self.key, *self.order, *([] if self.value is None else [self.value]))
        check_columns(df, named, self.source)
        value = F.to_json(F.struct("*")) if self.value is None else F.col(f"`{self.value}`")
        places = [F.col(f"`{name}`") for name in self.order] or [
            F.col(f"_metadata.{name}") for name in _FILE_ORDER
        ]
        rows = df.select(
            _string_or_bytes(df, self.key).alias("key"),
            (value if self.value is None else _string_or_bytes(df, self.value)).alias("value"),
            *(place.alias(f"place{i}") for i, place in enumerate(places)),
        )
        return rows, Rows("key", "value", tuple(f"place{i}" for i in range(len(places))))


def connected_session(master: str | None, settings: Mapping[str, Any]) -> Any:
    """A context manager for a session with Spark's Kafka connector."""
    from evenflow.kafka.artifacts import connector_jars
    from evenflow.spark.session import running_session

    jars = ",".join(str(jar) for jar in connector_jars())
    return running_session(master, "evenflow gateway", **{"spark.jars": jars, **settings})


def stop_query(query: StreamingQuery) -> bool:
    """Stop a query after its current batch; return whether that succeeded.

    A batch that waits for a broker may never end: it is interrupted after a timeout, and the next start
    reruns it.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        query.stop(timeout=_STOP_TIMEOUT)
    except (PySparkException, Py4JJavaError):
        return False
    return True


def _string_or_bytes(df: DataFrame, name: str) -> Any:
    column = df[f"`{name}`"]
    kind = df.schema[name].dataType.simpleString()
    return column if kind in ("string", "binary") else column.cast("string")
