"""Stateful processors: what Spark's own operators put out on the same stream, ours put out."""

import datetime as dt
import math
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow_lab.checking.streaming import run

pytest.importorskip("pyspark.sql.streaming.stateful_processor")
pytestmark = pytest.mark.spark

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROWS = pa.schema(
    [
        ("user", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("ms", pa.int64()),
        ("ratio", pa.float64()),
    ]
)
OUTPUT = "user string, what string, number bigint, text string"
BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def both(spark):
    """The session, with the state store that Spark's operator wants, and no batches without rows."""
    changed = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    before = {name: spark.conf.get(name, None) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def stream_of(spark, folder, batches):
    """A stream with one file of rows per batch."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(batches):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=ROWS), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    schema = "user string, at timestamp, ms bigint, ratio double"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("at", "10 seconds")


def collected(taken):
    """A function for `foreachBatch` that collects rows as comparable text, batch by batch."""

    def take(df, batch):
        taken[batch] = sorted(str(tuple(row)) for row in df.collect())

    return take


def sparks(result, checkpoint):
    """What Spark's own query puts out."""
    taken = {}
    query = (
        result.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(collected(taken))
        .start()
    )
    assert query.awaitTermination(300)
    return taken


def ours(result, checkpoint):
    taken = {}
    run(result, checkpoint, collected(taken))
    return taken


def rows_of(seconds, users, start=0):
    return [
        {
            "user": user,
            "at": BEGIN + dt.timedelta(seconds=second) if second is not None else None,
            "ms": None if i % 5 == 4 else i + start,
            "ratio": math.nan if i % 7 == 3 else i / 2,
        }
        for i, (second, user) in enumerate(zip(seconds, users, strict=True))
    ]


BATCHES = [
    rows_of([1, 2, 3, 5], ["ann", "bob", "ann", "çé日"]),
    rows_of([20, 21, None, 4], ["ann", "", "ann", "bob"], 10),
    rows_of([40, 2, 41, 60], ["cyd", "bob", "", "ann"], 20),
    rows_of([90, 91, 70, 30], ["dan", "ann", "bob", "cyd"], 30),
    rows_of([200], ["dan"], 40),
]


def processors():
    """The same work for DataFrames and for Rows, with every kind of state and with timers."""
    import pandas as pd
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Work(StatefulProcessor):
        pandas = True

        def init(self, handle):
            self.handle = handle
            self.seen = handle.getValueState("seen", "n bigint, last string")
            self.values = handle.getListState("values", "ms bigint")
            self.by = handle.getMapState("by", "part string, odd boolean", "n int, at array<int>")
            self.gone = handle.getValueState("gone", "n int")
            handle.deleteIfExists("gone")

        def given(self, rows):
            if self.pandas:
                for frame in rows:
                    assert list(frame.index) == list(range(len(frame)))
                    for row in frame.itertuples(index=False):
                        yield row.user, None if pd.isna(row.ms) else int(row.ms)
            else:
                for row in rows:
                    yield row.user, row.ms

        def made(self, *rows):
            names = ("user", "what", "number", "text")
            if self.pandas:
                yield pd.DataFrame(rows, columns=names)
            else:
                for row in rows:
                    yield Row(**dict(zip(names, row, strict=True)))

        def handleInputRows(self, key, rows, timerValues):
            user = key[0]
            values = [ms for _, ms in self.given(rows)]
            n, last = self.seen.get() if self.seen.exists() else (0, None)
            self.seen.update((n + len(values), f"{last}>{values[-1]}"[-30:]))
            self.values.appendList([(ms,) for ms in values])
            for ms in values:
                odd = None if ms is None else ms % 2 == 1
                part = "none" if ms is None else "some"
                known = self.by.getValue((part, odd)) or (0, [])
                self.by.updateValue((part, odd), (known[0] + 1, [*known[1], ms]))
            watermark = timerValues.getCurrentWatermarkInMs()
            self.handle.registerTimer(watermark + 15_000)
            self.handle.registerTimer(watermark)
            if n:
                self.handle.deleteTimer(watermark)
            listed = list(self.handle.listTimers())
            yield from self.made(
                (user, "seen", n + len(values), self.seen.get()[1]),
                (user, "values", sum(ms or 0 for (ms,) in self.values.get()), None),
                (user, "timers", len(listed), ",".join(map(str, sorted(listed)))),
            )
            pairs = sorted(str(pair) for pair in self.by.iterator())
            if len(pairs) > 1:
                yield from self.made((user, "by", len(list(self.by.keys())), "; ".join(pairs)))
            if n > 3:
                self.values.clear()
                self.by.removeKey(("none", None))

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            moment = expiredTimerInfo.getExpiryTimeInMs()
            n = self.seen.get()[0] if self.seen.exists() else -1
            yield from self.made((key[0], "expired", n, str(moment)))
            if moment % 3 == 0:
                self.seen.clear()
                self.by.clear()
                # Its time has come already: Spark fires it in the next batch.
                self.handle.registerTimer(moment - 1)

    class InRows(Work):
        pandas = False

    return Work(), InRows()


@pytest.mark.parametrize("pandas", [pytest.param(True, marks=pytest.mark.long), False])
def test_transform_with_state_gives_what_spark_s_own_gives(both, tmp_path, pandas):
    """Value, list and map state, timers in event time, late rows, null times: batch by batch."""
    processor = processors()[0 if pandas else 1]
    method = "transformWithStateInPandas" if pandas else "transformWithState"
    df = stream_of(both, tmp_path / "in", BATCHES)
    args = (processor, OUTPUT, "Update", "EventTime")
    expected = sparks(getattr(df.groupBy("user"), method)(*args), tmp_path / "spark")
    found = ours(
        getattr(ef.keyed(df, "user").balance("table", partitions=3), method)(*args),
        tmp_path / "ours",
    )
    assert any("expired" in text for rows in expected.values() for text in rows)
    assert found == expected


def grouped(timeout):
    """A function with a state: it counts, and forgets a key that times out or has five rows."""
    import pandas as pd
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key, frames, state):
        rows = sum(map(len, frames))
        n, least = state.getOption or (0, None)
        what = "timeout" if state.hasTimedOut else "rows"
        if state.hasTimedOut:
            assert rows == 0
            state.remove()
        else:
            state.update((n + rows, key[0] if least is None else min(least, key[0])))
            if n + rows >= 5:
                state.remove()
            if timeout == GroupStateTimeout.EventTimeTimeout:
                state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 20_000)
        text = f"{state.exists} {state.getOption}"
        yield pd.DataFrame({"user": [key[0]], "what": [what], "number": [n + rows], "text": [text]})

    return count


@pytest.mark.long
@pytest.mark.parametrize("timeout", ["EventTimeTimeout", "NoTimeout"])
def test_apply_in_pandas_with_state_gives_what_spark_s_own_gives(both, tmp_path, timeout):
    """State that comes and goes, timeouts of keys with and without rows: batch by batch."""
    df = stream_of(both, tmp_path / "in", BATCHES)
    args = (grouped(timeout), OUTPUT, "n bigint, least string", "update", timeout)
    expected = sparks(df.groupBy("user").applyInPandasWithState(*args), tmp_path / "spark")
    keyed = ef.keyed(df, "user").balance("auto", partitions=3)
    found = ours(keyed.applyInPandasWithState(*args), tmp_path / "ours")
    assert any("timeout" in text for rows in expected.values() for text in rows) == (
        timeout != "NoTimeout"
    )
    assert found == expected


@pytest.mark.long
@pytest.mark.parametrize("pandas", [True, False])
def test_a_batch_dataframe_gives_what_spark_s_own_gives(both, pandas):
    df = both.createDataFrame(
        [row for batch in BATCHES for row in batch],
        "user string, at timestamp, ms bigint, ratio double",
    )
    method = "transformWithStateInPandas" if pandas else "transformWithState"
    args = (processors()[0 if pandas else 1], OUTPUT, "Append", "ProcessingTime")
    found, expected = (
        sorted(str(tuple(row)[:3]) for row in getattr(keyed, method)(*args).collect())
        for keyed in (ef.keyed(df, "user"), df.groupBy("user"))
    )
    assert len(found) > 10
    assert found == expected
