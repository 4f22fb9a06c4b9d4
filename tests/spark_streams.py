"""Streams on Spark whose batches are files, and rows that can be compared."""

import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenflow.grouping import schemes

MINUTE = 60_000_000
BEGIN = 1_700_000_000_000_000
BATCHES = 8


def rows_of(seed, n=800, disorder=1, minutes=60):
    """Rows of an hour or more: a hot key, null keys, values and times, some of them late."""
    rng = np.random.default_rng(seed)
    words = ["hot", "hot", "hot", "a", "ä", "", None, *(f"rare {i}" for i in range(20))]
    times = np.sort(rng.integers(0, minutes * MINUTE, n))
    times += rng.integers(-disorder, disorder, n) * MINUTE
    times = [None if i % 50 == 7 else BEGIN + int(t) for i, t in enumerate(times)]
    values = [None if i % 7 == 0 else int(i) for i in rng.integers(-50, 50, n)]
    return pa.table(
        {
            "id": pa.array(np.arange(n)),
            "word": pa.array([words[i] for i in rng.integers(0, len(words), n)], pa.string()),
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "value": pa.array(values, pa.int64()),
            "ratio": pa.array(rng.normal(size=n)),
        }
    )


def add_files(directory, table, first=0, last=BATCHES):
    """Files `first` … `last - 1` of eight, with the rows in their order; each makes a micro-batch."""
    directory.mkdir(exist_ok=True)
    cuts = np.linspace(0, table.num_rows, BATCHES + 1).astype(int)
    for i in range(first, last):
        file = directory / f"{i:03d}.parquet"
        pq.write_table(table.slice(cuts[i], cuts[i + 1] - cuts[i]), file)
        os.utime(file, (1_700_000_000 + i,) * 2)  # Spark takes the oldest file first


def stream_of(spark, directory, table, last=BATCHES):
    add_files(directory, table, 0, last)
    schema = spark.createDataFrame(table.slice(0, 1)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(directory))


def comparable(table, names):
    return sorted(str([_plain(row[name]) for name in names]) for row in table.to_pylist())


def _plain(value):
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    return value


#: Every scheme, as the parameters of a test; in a short run, one of each kind.
SCHEMES = [
    name
    if name in ("key", "d-choices", "table", "consistent", "auto")
    else pytest.param(name, marks=pytest.mark.long)
    for name in (*schemes(), "auto")
]
