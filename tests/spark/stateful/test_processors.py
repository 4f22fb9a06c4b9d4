"""Stateful processors on Spark: time, TTL, initial state, batch DataFrames, kinds of values, errors."""

import datetime as dt
import json
import os
import re
from decimal import Decimal

import pytest

import evenflow as ef
from evenflow.state.checkpoint import Checkpoint
from evenflow_lab.checking.streaming import run

pytest.importorskip("pyspark.sql.streaming.stateful_processor")
pytestmark = pytest.mark.spark

KINDS = (
    "id int, small tinyint, ratio float, price decimal(9,2), flag boolean, raw binary, day date, "
    "at timestamp, plain timestamp_ntz, tags array<string>, by map<string,array<int>>, "
    "place struct<road:int,city:string>, took interval day to second"
)


def counting(ttl=None, timer=None):
    """Counts rows; with a TTL, and a timer so many milliseconds after the first row."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Counting(StatefulProcessor):
        calls = 0

        def init(self, handle):
            self.handle = handle
            self.seen = handle.getValueState("seen", "n bigint", ttl)

        def handleInitialState(self, key, initialState, timerValues):
            total = int(initialState["n"].sum())
            self.seen.update((total + (self.seen.get() or (0,))[0],))

        def handleInputRows(self, key, rows, timerValues):
            known = self.seen.get()
            total = (known[0] if known else 0) + sum(map(len, rows))
            self.seen.update((total,))
            now = timerValues.getCurrentProcessingTimeInMs()
            if timer is not None and not list(self.handle.listTimers()):
                self.handle.registerTimer(now + timer)
            yield pd.DataFrame({"key": [key[0]], "n": [total], "now": [now]})

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            moment = expiredTimerInfo.getExpiryTimeInMs()
            yield pd.DataFrame({"key": [f"{key[0]} expired"], "n": [0], "now": [moment]})

    return Counting()


COUNTED = "key string, n bigint, now bigint"
WRAPPED = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


@pytest.fixture
def clicks(spark, tmp_path):
    """Adds files to a stream of keys."""

    class Clicks:
        def __init__(self):
            self.number = 0
            (tmp_path / "in").mkdir()
            reader = spark.readStream.option("maxFilesPerTrigger", 1)
            self.df = reader.text(str(tmp_path / "in")).withColumnRenamed("value", "key")

        def add(self, *keys):
            file = tmp_path / "in" / f"{self.number}.txt"
            file.write_text("\n".join(keys) + "\n")
            os.utime(file, (1_700_000_000 + self.number,) * 2)  # Spark reads the oldest first
            self.number += 1

    made = Clicks()
    before = spark.conf.get("spark.sql.streaming.noDataMicroBatches.enabled")
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    yield made
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", before)


def moment_of(checkpoint, batch):
    """When a batch began, by Spark's own log."""
    log = (checkpoint / "spark" / "offsets" / str(batch)).read_text().splitlines()
    return json.loads(log[1])["batchTimestampMs"]


def test_a_batch_that_is_run_again_sees_the_same_time(spark, clicks, tmp_path):
    """The time of Spark's log: of the try that fails after its tasks, and of the one that counts."""
    taken = []

    def take(df, batch):
        taken.append(sorted(map(tuple, df.collect())))
        if len(taken) == 1:
            raise OSError("no room")

    clicks.add("a", "b", "a")
    result = ef.keyed(clicks.df, "key").transformWithStateInPandas(
        counting(ttl=60_000), COUNTED, "Update", "ProcessingTime"
    )
    with pytest.raises(ef.QueryFailed, match="no room"):
        run(result, tmp_path / "ckpt", take)
    run(result, tmp_path / "ckpt", take)
    moment = moment_of(tmp_path / "ckpt", 0)
    assert taken == [[("a", 2, moment), ("b", 1, moment)]] * 2


def test_availableNow_takes_what_is_new_after_a_batch_that_was_cut(spark, clicks, tmp_path):
    """Also with the second source that makes timers fire: file by file, as without it."""
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    result = ef.keyed(clicks.df, "key").transformWithStateInPandas(
        counting(), COUNTED, "update", "processingTime"
    )

    def fails(df, batch):
        raise OSError("no room")

    clicks.add("a")
    with pytest.raises(ef.QueryFailed, match="no room"):
        run(result, tmp_path / "ckpt", fails)
    clicks.add("b")
    clicks.add("c")
    taken = []
    run(result, tmp_path / "ckpt", lambda df, _: taken.append([row.key for row in df.collect()]))
    assert [keys for keys in taken if keys] == [["a"], ["b"], ["c"]]
    assert spark.conf.get(WRAPPED) == "false"


def test_a_task_that_is_run_again_changes_nothing(spark, clicks, tmp_path):
    """One task of a batch ends, another fails, and both are run again: calls, state and timers count
    once."""
    from pyspark.sql.streaming import StatefulProcessor

    marks = str(tmp_path)

    class Unlucky(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.seen = handle.getListState("seen", "at bigint")

        def handleInputRows(self, key, rows, timerValues):
            from pyspark.sql import Row

            self.seen.appendValue((timerValues.getCurrentProcessingTimeInMs(),))
            self.handle.registerTimer(0)
            mark = os.path.join(marks, f"{key[0]}-{len(list(self.seen.get()))}")
            if key[0] == "a" and not os.path.exists(mark):
                open(mark, "w").close()
                raise OSError("unlucky")
            yield Row(key=key[0], n=len(list(self.seen.get())), now=len(list(rows)))

        def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
            from pyspark.sql import Row

            yield Row(key=f"{key[0]} expired", n=len(list(self.seen.get())), now=0)

        def close(self):
            pass

    taken = {}

    def take(df, batch):
        taken[batch] = sorted(map(tuple, df.collect()))

    clicks.add("a", "a", "b", "c")
    clicks.add("a", "c")
    keyed = ef.keyed(clicks.df, "key").balance("key", partitions=3)
    result = keyed.transformWithState(Unlucky(), COUNTED, "Append", "ProcessingTime")
    for _ in range(2):
        with pytest.raises(ef.QueryFailed, match="unlucky"):
            run(result, tmp_path / "ckpt", take, mode="append")
    run(result, tmp_path / "ckpt", take, mode="append")
    assert taken == {
        0: [
            *(("a", 1, 2), ("a expired", 1, 0), ("b", 1, 1), ("b expired", 1, 0)),
            *(("c", 1, 1), ("c expired", 1, 0)),
        ],
        1: [("a", 2, 1), ("a expired", 2, 0), ("c", 2, 1), ("c expired", 2, 0)],
    }


def test_timers_fire_and_values_end_while_nothing_arrives(spark, clicks, tmp_path):
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    clicks.add("a", "b")
    taken = []
    result = (
        ef.keyed(clicks.df, "key")
        .balance("key", partitions=1)
        .transformWithStateInPandas(
            counting(ttl=1, timer=1_500), COUNTED, "Update", "ProcessingTime"
        )
    )
    writer = result.writeStream.option("checkpointLocation", tmp_path / "ckpt")
    query = writer.foreachBatch(lambda df, _: taken.extend(map(tuple, df.collect()))).start()
    try:
        for _ in range(120):
            if len(taken) >= 4:
                break
            query.awaitTermination(0.5)
    finally:
        query.stop()
    moment = moment_of(tmp_path / "ckpt", 0)
    assert sorted(taken) == [
        ("a", 1, moment),
        ("a expired", 0, moment + 1_500),
        ("b", 1, moment),
        ("b expired", 0, moment + 1_500),
    ]
    last = Checkpoint.open(tmp_path / "ckpt").last()
    assert (sum(one.rows for one in last.segments), last.due) == (0, ())


@pytest.mark.parametrize("grouped", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_initial_state_is_handed_over_once(spark, clicks, tmp_path, grouped):
    """Also for keys without rows; and if the query is started again with it, not again."""
    states = spark.createDataFrame([(10, "a"), (5, "c"), (1, "a")], "n int, who string")
    initial = states.groupBy("who") if grouped else ef.keyed(states, "who")
    result = ef.keyed(clicks.df, "key").transformWithStateInPandas(
        counting(), COUNTED, "Update", "None", initial
    )
    taken = {}
    for keys in (("a", "b"), ("a", "c")):
        clicks.add(*keys)
        take = lambda df, batch: taken.update({batch: sorted(map(tuple, df.collect()))})  # noqa: E731
        run(result, tmp_path / "ckpt", take)
    assert taken == {0: [("a", 12, -1), ("b", 1, -1)], 1: [("a", 13, -1), ("c", 6, -1)]}


@pytest.mark.long
def test_batch_dataframes_are_worked_on_once(spark):
    df = spark.createDataFrame([("a",), ("b",), ("a",), (None,)], "key string")
    states = spark.createDataFrame([(10, "a"), (7, "z")], "n int, key string")
    made = ef.keyed(df, "key").transformWithStateInPandas(
        counting(timer=-1), COUNTED, "Update", "ProcessingTime", states.groupBy("key")
    )
    rows = sorted(str((row.key, row.n)) for row in made.collect())
    expected = [("a", 12), ("b", 1), (None, 1)]
    expected += [(f"{key} expired", 0) for key in ("a", "b", None)]
    assert rows == sorted(map(str, expected))
    assert made.columns == ["key", "n", "now"]


def every_kind():
    """A value of every kind that a state can hold, as a user writes it."""
    import numpy as np
    import pandas as pd

    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
    return (
        np.int64(7),
        -1,
        0.1,
        Decimal("1.005"),
        np.bool_(True),
        bytearray(b"\x00\xff"),
        moment,
        pd.Timestamp(moment),
        moment,
        ["x", None, "ü"],
        {"a": [1, None], "": []},
        (1, "Köln"),
        dt.timedelta(seconds=1.5),
    )


@pytest.mark.long
def test_values_of_every_kind_are_read_as_spark_reads_them(spark, tmp_path):
    """In the batch that wrote them, and from the state in the next one."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    values, kinds = every_kind(), KINDS

    class Keeper(StatefulProcessor):
        def init(self, handle):
            self.one = handle.getValueState("one", kinds)
            self.many = handle.getListState("many", kinds)
            self.by = handle.getMapState("by", kinds, "n int")

        def handleInputRows(self, key, rows, timerValues):
            if not self.one.exists():
                self.one.update(values)
                self.many.put([values, (None,) * len(values)])
                self.by.updateValue(values, (1,))
            found = [self.one.get(), *self.many.get(), *self.by.keys()]
            found[0][9].append("mine")  # what is read is the reader's own
            assert self.by.containsKey(values)
            assert self.by.getValue(found[1]) == (1,)
            yield Row(key=key[0], text="\n".join(map(repr, [self.one.get(), *found[1:]])))

        def close(self):
            pass

    (tmp_path / "in").mkdir()
    taken = []
    reader = spark.readStream.text(str(tmp_path / "in")).withColumnRenamed("value", "key")
    result = ef.keyed(reader, "key").transformWithState(
        Keeper(), "key string, text string", "update", "none"
    )
    for number in range(2):
        (tmp_path / "in" / f"{number}.txt").write_text("a\n")
        run(result, tmp_path / "ckpt", lambda df, _: taken.extend(df.collect()))
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
    one = (
        7,
        -1,
        0.10000000149011612,
        Decimal("1.01"),
        True,
        b"\x00\xff",
        dt.date(2024, 5, 6),
        moment,
        moment,
        ["x", None, "ü"],
        {"a": [1, None], "": []},
        Row(road=1, city="Köln"),
        dt.timedelta(seconds=1, microseconds=500_000),
    )
    nothing = (None,) * len(one)
    assert [row.text for row in taken] == ["\n".join(map(repr, [one, one, nothing, one]))] * 2


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("handleInputRows", r"KeyError: 'price' \(test_processors\.py, line \d+\)"),
        pytest.param(
            "update", "the state 'seen': 'x' is not a whole number", marks=pytest.mark.long
        ),
        pytest.param(
            "undeclared", "no column 'n'; the schema has key, n, now", marks=pytest.mark.long
        ),
        ("wrong type", "Failed to convert the value of the column 'n'"),
        pytest.param(
            "no frame", "it must give pandas DataFrames, and gave dict", marks=pytest.mark.long
        ),
        pytest.param("timer", 'there are no timers with timeMode="None"', marks=pytest.mark.long),
    ],
)
def test_an_error_is_one_sentence_with_method_key_and_batch(
    spark, clicks, tmp_path, method, message
):
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Wrong(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.seen = handle.getValueState("seen", "n int")

        def handleInputRows(self, key, rows, timerValues):
            made = {"key": [key[0]], "n": [1], "now": [1]}
            if key[0] == "b":
                if method == "handleInputRows":
                    raise KeyError("price")
                if method == "update":
                    self.seen.update(("x",))
                if method == "undeclared":
                    made = {"key": ["b"], "m": [1], "now": [1]}
                if method == "wrong type":
                    made["n"] = ["many"]
                if method == "timer":
                    self.handle.registerTimer(1)
            yield made if key[0] == "b" and method == "no frame" else pd.DataFrame(made)

        def close(self):
            pass

    if method not in ("handleInputRows", "wrong type"):
        # What Spark makes of an error is tried above; the sentence is the same without a query.
        frame = spark.createDataFrame([("a",), ("b",)], "key string")
        made = ef.keyed(frame, "key").balance("key", partitions=1)
        with pytest.raises(
            Exception, match=r'Wrong\.handleInputRows failed for the key \["b"\] in'
        ) as r:
            made.transformWithStateInPandas(Wrong(), COUNTED, "update", "none").collect()
        assert message in str(r.value)
        return
    clicks.add("a", "b")
    result = (
        ef.keyed(clicks.df, "key")
        .balance("key", partitions=1)
        .transformWithStateInPandas(Wrong(), COUNTED, "update", "none")
    )
    sentence = r'^Wrong\.handleInputRows failed for the key \["b"\] in batch 0, partition 0: '
    with pytest.raises(ef.QueryFailed, match=sentence) as raised:
        run(result, tmp_path / "ckpt")
    assert re.search(message, str(raised.value))
    assert "\n" not in str(raised.value)


def test_what_cannot_be_done_is_refused_before_anything_runs(spark, clicks):
    from pyspark.sql.streaming.state import GroupStateTimeout

    df = clicks.df
    keyed = ef.keyed(df, "key")
    how = (COUNTED, "update", "none")
    for message, attempt in {
        "StatefulProcessor": lambda: keyed.transformWithState(len, *how),
        'outputMode is "update" or "append"': lambda: keyed.transformWithState(
            counting(), COUNTED, "complete", "none"
        ),
        'timeMode is "none"': lambda: keyed.transformWithState(
            counting(), COUNTED, "update", "now"
        ),
        "need a watermark": lambda: keyed.transformWithState(
            counting(), COUNTED, "update", "eventTime"
        ),
        "goes by processing time": lambda: keyed.transformWithState(counting(ttl=5), *how),
        "must be above 0": lambda: keyed.transformWithState(
            counting(ttl=-5), COUNTED, "update", "processingTime"
        ),
        "is not a schema": lambda: keyed.transformWithState(counting(), "n what", "update", "none"),
        "initialState is a grouped batch DataFrame": lambda: keyed.transformWithState(
            counting(), *how, initialState=df
        ),
        "initialState is grouped by n int, and the rows by key string": lambda: (
            keyed.transformWithState(
                counting(), *how, initialState=spark.createDataFrame([(1,)], "n int").groupBy("n")
            )
        ),
        "eventTimeColumnName is a column of the output": lambda: keyed.transformWithState(
            counting(), *how, eventTimeColumnName="at"
        ),
        "no `merge`": lambda: keyed.balance("d-choices").transformWithState(counting(), *how),
        "timeoutConf is one of": lambda: keyed.applyInPandasWithState(
            len, "n int", "n int", "update", "x"
        ),
        "takes a function": lambda: keyed.applyInPandasWithState(
            3, "n int", "n int", "update", GroupStateTimeout.NoTimeout
        ),
    }.items():
        with pytest.raises(ef.InputError, match=message):
            attempt()


@pytest.mark.long
def test_a_new_version_of_a_processor_goes_on_with_the_state(spark, clicks, tmp_path):
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    def version(schema, deleted=()):
        class Version(StatefulProcessor):
            def init(self, handle):
                self.state = handle.getValueState("state", schema)
                for name in deleted:
                    handle.deleteIfExists(name)
                if not deleted:
                    self.other = handle.getListState("other", "n int")

            def handleInputRows(self, key, rows, timerValues):
                before = self.state.get()
                names = [part.split()[0] for part in schema.split(", ")]
                fresh = {"id": 3, "name": "x", "score": 0.5}
                self.state.update(tuple(fresh[name] for name in names))
                yield Row(key=key[0], text=str(before))

            def close(self):
                pass

        return Version()

    taken = []
    for schema, deleted in [
        ("id int, name string", ()),
        ("name string, score double, id bigint", ("other",)),
        ("id bigint", ("other",)),
    ]:
        clicks.add("a")
        result = ef.keyed(clicks.df, "key").transformWithState(
            version(schema, deleted), "key string, text string", "update", "none"
        )
        run(result, tmp_path / "ckpt", lambda df, _: taken.extend(row.text for row in df.collect()))
    assert taken == ["None", "('x', None, 3)", "(3,)"]
    clicks.add("a")
    result = ef.keyed(clicks.df, "key").transformWithState(
        version("id int", ("other",)), "key string, text string", "update", "none"
    )
    with pytest.raises(ef.InputError, match=r"value_state\.value\.id was int64 and is int32 now"):
        run(result, tmp_path / "ckpt")
