"""Key grouping by Spark's own expressions, beside the kernels that it must agree with."""

import numpy as np
import pyarrow as pa
import pytest

from evenflow.engine.layout import FINGERPRINT, PARTITION
from evenflow.engine.routing import Route, Router, fingerprints_of
from evenflow.grouping import make
from evenflow.model import KeyCounts, RoutingTable
from evenflow.spark.native_routing import can_route, routed_by_owner, shuffled_by_owner

pytestmark = pytest.mark.spark


def awkward(n=3000):
    rng = np.random.default_rng(1)
    words = ["", "a", "ä", "日本", "a\x00b", None, "x" * 31, "y" * 32, "z" * 100]
    edges = [0, 1, -1, None, 2**31 - 1, -(2**31)]
    longs = [*edges, 2**63 - 1, -(2**63), *rng.integers(-(2**63), 2**63 - 1, 50).tolist()]
    return pa.table(
        {
            "text": pa.array([words[i] for i in rng.integers(0, len(words), n)], pa.string()),
            "bytes": pa.array(
                [None if i == 0 else rng.bytes(i) for i in rng.integers(0, 70, n)], pa.binary()
            ),
            "long": pa.array([longs[i] for i in rng.integers(0, len(longs), n)], pa.int64()),
            "int": pa.array([edges[i] for i in rng.integers(0, len(edges), n)], pa.int32()),
            "a `b`": pa.array(rng.integers(-128, 127, n), pa.int8()),
            "__h": pa.array(rng.integers(-128, 127, n), pa.int16()),
            "real": pa.array(rng.random(n)),
        }
    )


@pytest.mark.parametrize(
    ("key", "workers", "seed"),
    [
        (["text"], 7, 0),
        (["bytes"], 80, 1),
        (["long"], 1, 2**64 - 1),
        (["int"], 3, -5),
        (["a `b`"], 1000, 12345),
        (["text", "long", "__h"], 2, 7),
    ],
)
def test_the_same_fingerprints_and_workers_as_the_kernels(spark, key, workers, seed):
    table = awkward()
    df = spark.createDataFrame(table)
    assert can_route([df.schema[name].dataType for name in key])
    found = routed_by_owner(df, key, workers, seed)
    assert found.columns == [PARTITION, FINGERPRINT, *table.column_names]
    route = Route(make("key"), workers, seed, tuple(key), KeyCounts())
    (batch,) = table.combine_chunks().to_batches()
    expected = pa.Table.from_batches([Router(route, 0).routed(batch)])
    answer = found.toArrow().combine_chunks()
    for name in (PARTITION, FINGERPRINT):
        assert answer.column(name).to_pylist() == expected.column(name).to_pylist()
    assert answer.select(table.column_names).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("listed", [1, 3, 500])
def test_the_same_owners_as_the_kernel_under_a_routing_table(spark, listed):
    from pyspark.sql import functions as F

    table = awkward()
    df = spark.createDataFrame(table).select("text", "long")
    (batch,) = table.select(["text", "long"]).combine_chunks().to_batches()
    prints = np.unique(fingerprints_of(batch, ("long", "text")))
    entries = {int(one): i % 5 for i, one in enumerate(prints[:listed])}
    assert len(entries) == min(listed, len(prints))
    key = ("long", "text")
    route = Route(make("table"), 5, 3, key, KeyCounts(), table=RoutingTable(entries))
    assert route.by_owner
    assert not route.by_hash
    answer = routed_by_owner(df, key, 5, 3, route.entries).toArrow()
    expected = Router(route, 0).routed(batch)
    assert answer.column(PARTITION).to_pylist() == expected.column(PARTITION).to_pylist()
    placed = shuffled_by_owner(df, key, 5, 3, False, route.entries)
    there = placed.select(F.spark_partition_id().alias("at"), "*").toArrow().to_pylist()
    owner = dict(
        zip(
            zip(*(batch.column(name).to_pylist() for name in key), strict=True),
            expected.column(PARTITION).to_pylist(),
            strict=True,
        )
    )
    assert all(row["at"] == owner[row["long"], row["text"]] for row in there)


def test_keys_of_other_types_are_left_to_the_kernels(spark):
    df = spark.createDataFrame(awkward(10))
    assert not can_route([df.schema["real"].dataType])
    assert not can_route([df.schema["text"].dataType, df.schema["real"].dataType])
