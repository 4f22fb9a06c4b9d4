"""Deduplication on Spark: the same rows as Spark's own, batch and stream."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.spark.sinks import MemorySink
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow_lab.checking.streaming import run
from spark_streams import SCHEMES, comparable, rows_of, stream_of

pytest.importorskip("pyspark")

pytestmark = pytest.mark.spark

BATCHES = 5


def repeated(seed, n=500):
    """Rows of which many come again, some of them much later or with another time."""
    table = rows_of(seed, n, disorder=3)
    rng = np.random.default_rng(seed)
    back = np.maximum(np.arange(n) - rng.integers(0, 120, n) * (rng.random(n) < 0.6), 0)
    words = table.column("word").take(pa.array(back))
    times = table.column("ts").take(pa.array(np.where(rng.random(n) < 0.5, back, np.arange(n))))
    return table.set_column(1, "word", words).set_column(2, "ts", times)


def spark_batches(result, directory):
    found = {}
    query = (
        result.writeStream.outputMode("append")
        .foreachBatch(lambda df, batch: found.update({batch: df.toArrow()}))
        .option("checkpointLocation", str(directory))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


KINDS = {
    "plain": (["word", "value"], False, False),
    "time in the key": (["word", "ts"], True, False),
    "watermark beside": (["word", "value"], True, False),
    "within": (["word", "value"], True, True),
}


@pytest.mark.parametrize(
    "kind",
    ["plain", "within"] + [pytest.param(kind, marks=pytest.mark.long) for kind in [*KINDS][1:3]],
)
def test_a_stream_keeps_the_rows_of_spark_batch_by_batch(spark, tmp_path, kind):
    """All columns of the same rows, since a file is one partition; the rows that are late, too."""
    keys, marked, within = KINDS[kind]
    stream = stream_of(spark, tmp_path / "in", repeated(7), BATCHES)
    if marked:
        stream = stream.withWatermark("ts", "4 minutes")
    verb = "dropDuplicatesWithinWatermark" if within else "dropDuplicates"
    theirs = spark_batches(getattr(stream, verb)(keys), tmp_path / "theirs")
    sink = MemorySink()
    result = getattr(ef.keyed(stream, *keys).balance("key", partitions=3), verb)()
    assert result.columns == stream.columns
    run(result, tmp_path / "ours", sink, mode="append")
    assert sorted(sink.tables) == sorted(theirs) == list(range(BATCHES + marked))
    for batch, expected in theirs.items():
        ours = sink.tables[batch]
        assert comparable(ours, stream.columns) == comparable(expected, stream.columns), batch
    assert 0 < sum(t.num_rows for t in sink.tables.values()) < 500
    metrics = ef.read_metrics(tmp_path / "ours")
    if marked:
        assert sum(m["late_rows"] for m in metrics) >= 5
    if within or kind == "time in the key":
        kept = sum(s.rows for s in Checkpoint.open(tmp_path / "ours").last().segments)
        assert kept < sum(t.num_rows for t in sink.tables.values()) / 2
    assert verify(tmp_path / "ours").intact


def test_a_stream_with_split_keys_has_every_key_once(spark, tmp_path):
    """Any row of a batch may be the first where keys are split; which keys come when is the same."""
    table = repeated(8)
    stream = stream_of(spark, tmp_path / "in", table, BATCHES)
    theirs = spark_batches(stream.dropDuplicates(["word", "value"]), tmp_path / "theirs")
    for scheme in ("d-choices", "table"):
        sink = MemorySink()
        keyed = ef.keyed(stream, "word", "value").balance(scheme, partitions=3)
        run(keyed.dropDuplicates(), tmp_path / scheme, sink)
        for batch in range(BATCHES):
            names = ["word", "value"]
            assert comparable(sink.tables[batch], names) == comparable(theirs[batch], names)
        there = set(comparable(table, table.column_names))
        assert all(set(comparable(t, table.column_names)) <= there for t in sink.tables.values())


@pytest.fixture(scope="module")
def whole(spark):
    """Rows in two partitions, and what Spark makes of them."""
    df = spark.createDataFrame(repeated(9, 200)).repartition(2)
    return df, df.dropDuplicates(["word"]).toArrow()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_keeps_one_row_per_key(whole, scheme):
    df, theirs = whole
    found = ef.keyed(df, "word").balance(scheme, partitions=3).dropDuplicates()
    assert found.columns == df.columns
    assert comparable(found.toArrow(), ["word"]) == comparable(theirs, ["word"])


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "ä", "", None]),
            st.sampled_from([1.5, float("nan"), -0.0, 0.0, None]),
        ),
        max_size=30,
    )
)
def test_whole_rows_are_deduplicated_as_spark_does(spark, rows):
    """`df.dropDuplicates()` is `ef.keyed(df, *df.columns).dropDuplicates()`; null, NaN and −0.0 too."""
    df = spark.createDataFrame(rows, "a string, b double")
    found = ef.keyed(df, *df.columns).balance("w-choices", partitions=2).dropDuplicates()
    theirs = df.dropDuplicates().toArrow()
    assert comparable(found.toArrow(), ["a", "b"]) == comparable(theirs, ["a", "b"])


def test_what_deduplication_cannot_do_is_said(spark, tmp_path):
    table = rows_of(1, 16)
    batch = ef.keyed(spark.createDataFrame(table), "word")
    with pytest.raises(ef.InputError, match="use dropDuplicates"):
        batch.dropDuplicatesWithinWatermark()
    stream = ef.keyed(stream_of(spark, tmp_path / "in", table), "word")
    with pytest.raises(ef.InputError, match="needs a watermark"):
        stream.dropDuplicatesWithinWatermark()
    with pytest.raises(ef.InputError, match="must be a timestamp"):
        stream.withWatermark("id", dt.timedelta(minutes=1)).dropDuplicates()
    with pytest.raises(ef.InputError, match="leave window"):
        batch.window("ts", "1 minute").dropDuplicates()
