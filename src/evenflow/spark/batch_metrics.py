"""The metrics of a query's batches: as a list of dicts, and as a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.storage.requests import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITION = pa.struct(
    [
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("keys", pa.int64()),
        ("seconds", pa.float64()),
        ("update_seconds", pa.float64()),
        ("started", pa.float64()),
    ]
)
_STATE = pa.struct(
    [
        ("partition", pa.int32()),
        ("keys", pa.int64()),
        ("seconds", pa.float64()),
        ("write_seconds", pa.float64()),
        ("state_bytes", pa.int64()),
    ]
)
_REQUESTS = pa.struct([(kind, pa.int64()) for kind in KINDS])
_SCALING = pa.struct(
    [
        ("partitions", pa.int64()),
        ("reason", pa.string()),
        ("load", pa.float64()),
        ("arriving", pa.float64()),
        ("true_rate", pa.float64()),
        ("waiting", pa.int64()),
        ("interval_seconds", pa.float64()),
    ]
)
_HOT_KEY = pa.struct(
    [
        ("key", pa.string()),
        ("fingerprint", pa.string()),
        ("lower", pa.int64()),
        ("upper", pa.int64()),
    ]
)

SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("began", pa.float64()),
        ("seconds", pa.float64()),
        ("rows", pa.int64()),
        ("keys", pa.int64()),
        ("scheme", pa.string()),
        ("reason", pa.string()),
        ("planned_partitions", pa.int64()),
        ("scaling", _SCALING),
        ("epoch", pa.int64()),
        ("imbalance", pa.float64()),
        ("max_over_average", pa.float64()),
        ("replicas", pa.int64()),
        ("replication", pa.float64()),
        ("state_bytes", pa.int64()),
        ("migrated_keys", pa.int64()),
        ("migrated_bytes", pa.int64()),
        ("table_size", pa.int64()),
        ("watermark", pa.string()),
        ("late_rows", pa.int64()),
        ("partly_late_rows", pa.int64()),
        ("null_times", pa.int64()),
        ("windows", pa.int64()),
        ("closed_windows", pa.int64()),
        ("pairs", pa.int64()),
        ("state_rows", pa.int64()),
        ("dead_letters", pa.int64()),
        ("hot_keys", pa.list_(_HOT_KEY)),
        ("partitions", pa.list_(_PARTITION)),
        ("state", pa.list_(_STATE)),
        ("requests", pa.struct([("driver", _REQUESTS), ("tasks", _REQUESTS)])),
        ("durations", pa.map_(pa.string(), pa.float64())),
    ]
)  #: the columns of `metricsDF`


def read_metrics(
    checkpoint: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The metrics of the batches of the query with this checkpoint, oldest first; at most the newest
    10 000.

    Every batch is a dict:

    - `name`, of the query, if it has one; `batch`, its number; `began`, in seconds since 1970;
      `durations`, the seconds of each step;
    - `rows` and distinct `keys`, and `key`, the key columns;
    - `scheme`, `reason`, `epoch` and `table_size`: the plan that it followed, and why;
    - `planned_partitions`: how many the plan has; and where the load decides (`partitions="auto"`),
      `scaling`: `partitions` of the next batch and the `reason`, `load` (the share of the time that the
      busiest partition has to work), rows `arriving` per second, `true_rate` (rows per second of a
      partition's work), rows `waiting` at the source, and `interval_seconds` since the batch before;
    - `max_over_average`: rows of the fullest partition, as a multiple of the average; `imbalance`, the
      papers' measure: the fullest partition's share of the rows minus the average share;
    - `replicas`, pairs of a partition and a key; `replication`, the same per key;
    - `hot_keys`: the most frequent keys, each with bounds of its rows, `lower` and `upper`;
    - `partitions`: for each that had rows, `partition`, `rows`, `keys`, `seconds`, `update_seconds`
      (in the operator) and `started`;
    - `state`: for each partition that wrote state, `partition`, `keys`, `seconds`, `write_seconds` and
      `state_bytes`; `state_bytes` of all of them together, and `migrated_keys` and `migrated_bytes`,
      which were read from another partition's state;
    - `requests`: those that the `driver` and the `tasks` made to the store, where it is not a local or
      mounted disk: `reads`, `writes`, `lists` and `deletes`, `read_bytes` and `written_bytes` over the
      network, and `cached_bytes`, which the executors' caches saved;
    - `dead_letters`, rows that were set aside, and `dead_letters_total`, those since the query began,
      where the query has the option "deadLetterPath";
    - `planning`: what the controller decided, where a routing table routes;
    - with event time, `watermark`, `late_rows`, `partly_late_rows`, `null_times`, `state_rows`, and
      `windows` and `closed_windows` or `pairs`.

    Parameters:
        checkpoint: the query's checkpoint location.
        storage_options: credentials and settings of its store, where the environment does not have
            them; as in polars and delta-rs.
    """
    from evenflow.state import metrics
    from evenflow.state.checkpoint import FOLDER
    from evenflow.storage import storage_at

    return metrics.read_metrics(storage_at(checkpoint, storage_options).under(FOLDER))


def metrics_frame(spark: SparkSession, metrics: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Metrics as a DataFrame, one row per batch; what a batch does not have is null.

    Parameters:
        spark: the session that the DataFrame belongs to.
        metrics: as `read_metrics` returns them.
    """
    return spark.createDataFrame(metrics_table(metrics))


def metrics_table(metrics: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Metrics as an Arrow table.

    Example:
        >>> metrics_table([{"batch": 0, "rows": 7, "durations": {"spark": 0.5}}]).select(
        ...     ["batch", "rows", "seconds", "watermark"]).to_pylist()
        [{'batch': 0, 'rows': 7, 'seconds': 0.5, 'watermark': None}]
    """
    rows = [
        {
            **batch,
            "seconds": sum(batch["durations"].values()),
            "durations": list(batch["durations"].items()),
        }
        for batch in metrics
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
