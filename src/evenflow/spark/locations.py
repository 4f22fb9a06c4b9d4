"""Where a query's checkpoint and output are: for evenflow a storage, for Spark a full address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evenflow.spark.columns import is_connect
from evenflow.storage import Storage, hadoop, local_path, options_for, storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REMOTE = re.compile(r"(?!file:|dbfs:/+Volumes/)[A-Za-z][A-Za-z0-9+.-]+:")


def storage_for(
    spark: SparkSession,
    address: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
) -> Storage:
    """The storage at an address, reached as this session's Spark reaches it.

    What is given as `storage_options` counts first, then the session's Hadoop configuration
    (`fs.s3a.*`, `fs.azure.*`, `fs.gs.*`, `dfs.*`), then what the environment has: variables, profiles,
    the role of the machine.

    Guarantee: credentials are in the storage alone, which is pickled to tasks; not in its address,
    its `repr` or an error.

    Parameters:
        spark: a session, classic or Connect.
        address: a path, or `s3://…`, `s3a://…`, `gs://…`, `abfss://…`, `hdfs://…`, `file:/…`.
        storage_options: settings of the store by obstore's names, such as `access_key_id`; as in
            polars and delta-rs.
    """
    text = os.fspath(address)
    if is_local(text) or text.startswith("memory:"):
        return storage_at(text)
    return storage_at(text, options_for(text, storage_options, hadoop_settings(spark)))


def spark_address(spark: SparkSession, address: str | os.PathLike[str]) -> str:
    """The full address under which this session's Spark knows a place.

    A path without a scheme is one of Spark's default file system to Spark, and one of the local file
    system to evenflow: so no address goes to Spark without one. No character is escaped, because
    Spark takes names as they are.

    Parameters:
        spark: a session, classic or Connect.
        address: as a user wrote it, or as `Storage.where` says it.
    """
    text = os.fspath(address)
    if not is_local(text):
        return hadoop.spark_address(text, hadoop_settings(spark))
    path = str(local_path(text))
    if path.startswith("/Volumes/") and _default(spark).startswith("dbfs:"):
        return f"dbfs:{path}"  # on Databricks, executors have volumes under this address
    return f"file://{path}"


def is_local(address: str | os.PathLike[str]) -> bool:
    """Whether it is a path, plain or as `file:/…`.

    Example:
        >>> is_local("/data/x"), is_local("file:/data/x"), is_local("s3://bucket/x")
        (True, True, False)
    """
    return not _REMOTE.match(os.fspath(address))


def hadoop_settings(spark: SparkSession) -> Mapping[str, str]:
    """The settings of Hadoop's file systems in a session, by Hadoop's names.

    A classic session knows all of them, those of `core-site.xml` too; on Spark Connect, what the
    session's configuration has, where Spark's prefix `spark.hadoop.` stays.
    """
    return dict(spark.conf.getAll) if is_connect(spark) else _Settings(spark)


class _Settings(Mapping[str, str]):
    """The Hadoop configuration of a classic session, asked for one name at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark.conf
        # Only the JVM reads core-site.xml. This is configuration: no row goes this way.
        self._hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def __getitem__(self, name: str) -> str:
        found = self._session.get(name, None)  # as in spark.conf.set("fs.s3a.access.key", …)
        found = self._hadoop.get(name) if found is None else found
        if found is None:
            raise KeyError(name)
        return str(found)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._session.getAll, *self._hadoop.getPropsWithPrefix("")]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _default(spark: SparkSession) -> str:
    """Spark's default file system, such as `hdfs://namenode`; empty if it is unknown."""
    settings = hadoop_settings(spark)
    return settings.get("fs.defaultFS") or settings.get("spark.hadoop.fs.defaultFS") or ""
