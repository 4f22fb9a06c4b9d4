"""The engine: the same answer as Spark, whichever scheme, operator and way of running it."""

import datetime as dt
import math
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.engine.layout import FINGERPRINT, PARTITION
from evenflow.engine.plans import first_plan
from evenflow.engine.program import Stages
from evenflow.engine.routing import Route, Router
from evenflow.grouping import make, schemes
from evenflow.model import KeyCounts, Workers
from evenflow.operators import Aggregates, NaiveBayes, on_table
from evenflow.operators.service_time import ServiceTime
from evenflow.simulator.sources import Sources
from evenflow.spark.execution import InPartition, frame_of
from evenflow.spark.sinks import MemorySink
from evenflow_lab.checking.streaming import run, start

F = pytest.importorskip("pyspark.sql.functions")

pytestmark = pytest.mark.spark

SPLITTING = [name for name, scheme in schemes().items() if scheme.splits_keys]
ALL = list(schemes())


def rows_of(seed, n=2000):
    """Awkward rows: unicode, null and NaN keys and values, one hot key, many rare ones."""
    rng = np.random.default_rng(seed)
    words = ["", "a", "ä", "日本", "a\x00b", "<script>", None, "hot", "hot", "hot"]
    numbers = [0.0, -0.0, math.nan, math.inf, None, 1.5, -2.25]
    return pa.table(
        {
            "word": pa.array([words[i] for i in rng.integers(0, len(words), n)], pa.string()),
            "number": pa.array(
                [numbers[i] for i in rng.integers(0, len(numbers), n)], pa.float64()
            ),
            "rare": pa.array(rng.integers(0, n, n), pa.int64()),
            "value": pa.array([None if i % 7 == 0 else int(i) for i in rng.integers(-50, 50, n)]),
            "price": pa.array(
                [Decimal(int(i)) / 100 for i in rng.integers(0, 999, n)], pa.decimal128(9, 2)
            ),
            "day": pa.array(
                [dt.date(2024, 1, 1) + dt.timedelta(int(i)) for i in rng.integers(0, 9, n)]
            ),
            "serial": pa.array(rng.permutation(n)),
            "flag": pa.array([(None, True, False)[i] for i in rng.integers(0, 3, n)]),
        }
    )


def in_spark(spark, table, partitions=3):
    return spark.createDataFrame(table).repartition(partitions)


def answers(df):
    """Rows as a sorted list of comparable texts; NaN and None included."""
    return sorted(str([_plain(v) for v in row]) for row in df.collect())


def _plain(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 9) + 0.0
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


AGGREGATES = {
    "n": (ef.count(), "count(1)"),
    "values": (ef.count("value"), "count(value)"),
    "total": (ef.sum("value"), "sum(value)"),
    "cost": (ef.sum("price"), "sum(price)"),
    "average": (ef.mean("value"), "avg(value)"),
    "least": (ef.min("day"), "min(day)"),
    "most": (ef.max("number"), "max(number)"),
    "least_word": (ef.min("word"), "min(word)"),
    "different": (ef.countDistinct("value"), "count(distinct value)"),
    "kinds": (ef.collect_set("value"), "sort_array(collect_set(value))"),
    "newest": (ef.max_by("value", "serial"), "max_by(value, serial)"),
    "oldest": (ef.min_by("day", "serial"), "min_by(day, serial)"),
    "spread": (ef.stddev("value"), "stddev(value)"),
    "width": (ef.stddev_pop("price"), "stddev_pop(price)"),
    "flagged": (ef.count_if("flag"), "count_if(flag)"),
    "always": (ef.every("flag"), "every(flag)"),
    "ever": (ef.some("flag"), "some(flag)"),
    "usual": (ef.mode("day"), "mode(day, true)"),
    "half": (
        ef.percentile_approx("value", [0.5, 0.9]),
        "percentile_approx(value, array(0.5, 0.9))",
    ),
}


def spark_answer(df, key):
    return df.groupBy(*key).agg(
        *(F.expr(text).alias(name) for name, (_, text) in AGGREGATES.items())
    )


# One of each kind: by hash, by a table, split. `make test-slow` takes all others.
_SCHEMES = [
    scheme
    if scheme in ("d-choices", "key", "table")
    else pytest.param(scheme, marks=pytest.mark.long)
    for scheme in (*ALL, "auto")
]


@pytest.mark.parametrize("scheme", _SCHEMES)
def test_batch_gives_the_same_answer_as_spark(spark, scheme):
    df = in_spark(spark, rows_of(1)).cache()
    for key in (["word"], ["number", "word"], ["rare"]):
        found = (
            ef.keyed(df, key)
            .balance(scheme, partitions=4)
            .agg(**{name: aggregate for name, (aggregate, _) in AGGREGATES.items()})
        )
        assert answers(found) == answers(spark_answer(df, key))


@pytest.mark.parametrize("rows", [0, 1], ids=["no rows", "one row"])
def test_hardly_any_rows(spark, rows):
    df = in_spark(spark, rows_of(1).slice(0, rows))
    found = ef.keyed(df, "word").balance("d-choices", partitions=3).agg(n=ef.count())
    assert [row.n for row in found.collect()] == [1] * rows


def stream_of(spark, directory, table, batches):
    """A stream with `batches` micro-batches, some of them of one row."""
    directory.mkdir()
    cuts = np.linspace(0, table.num_rows, batches + 1).astype(int)
    cuts[1:3] = [1, 2]
    for i in range(batches):
        part = table.slice(cuts[i], cuts[i + 1] - cuts[i])
        file = directory / f"{i:03d}.parquet"
        pq.write_table(part, file)
        os.utime(file, (1_700_000_000 + i,) * 2)  # Spark takes the oldest file first
    schema = spark.createDataFrame(table.slice(0, 1)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(directory))


class Together(ef.Operator):
    """Several operators on the same rows, so that one stream tries them all."""

    def __init__(self, **parts):
        self.parts = parts

    def state_schema(self, rows):
        return self._fields(lambda part: part.state_schema(rows))

    def output_schema(self, rows):
        return self._fields(lambda part: part.output_schema(rows))

    def _fields(self, schema_of):
        return pa.schema(
            [
                field.with_name(f"{name}__{field.name}")
                for name, part in self.parts.items()
                for field in schema_of(part)
            ]
        )

    def _each(self, states, do):
        columns = {}
        for name, part in self.parts.items():
            mine = [c for c in states.column_names if c.startswith(f"{name}__")]
            own = states.select(mine).rename_columns([c.removeprefix(f"{name}__") for c in mine])
            done = do(part, own)
            columns |= {f"{name}__{c}": done.column(c) for c in done.column_names}
        return pa.table(columns)

    def update(self, rows, state):
        return self._each(state, lambda part, own: part.update(rows, own))

    def merge(self, a, b):
        raise AssertionError("merge_groups is asked instead")

    def merge_groups(self, states, group, n):
        return self._each(states, lambda part, own: part.merge_groups(own, group, n))

    def emit(self, keys, state):
        return self._each(state, lambda part, own: part.emit(keys, own))


def largest(key, rows, state):
    values = [v for v in rows["rare"] if v is not None]
    return {"most": max([*values, *([state["most"]] if state else [])])}


def larger(a, b):
    return a if a["most"] >= b["most"] else b


EVERYTHING = Together(
    aggregates=Aggregates(**{name: aggregate for name, (aggregate, _) in AGGREGATES.items()}),
    more=Aggregates(
        roughly=ef.distinct("rare", approximate=True),
        about=ef.approx_count_distinct("rare"),
        middle=ef.quantiles("rare", 0.5),
        top=ef.top_k("day", 2),
        top_roughly=ef.top_k("word", 1, approximate=True),
    ),
    bayes=NaiveBayes("day_is_even", ["no", "yes"]),
    simple=ef.PerKey(largest, state={"most": "int64"}, merge=larger, columns=["rare"]),
)


def all_rows(seed, n):
    table = rows_of(seed, n)
    even = ["yes" if day.day % 2 == 0 else "no" for day in table["day"].to_pylist()]
    return table.append_column("day_is_even", pa.array(even))


@pytest.mark.parametrize("scheme", _SCHEMES)
def test_stream_gives_the_same_answer_as_all_at_once(spark, tmp_path, scheme):
    """Every operator, under every scheme, in many micro-batches; what Spark itself can compute is
    compared with Spark, everything with the operator on the whole table."""
    table = all_rows(2, 600)
    batches = 8 if scheme in ("key", "table") else 20
    stream = stream_of(spark, tmp_path / "in", table, batches)
    sink = MemorySink()
    seen = []
    if scheme == "consistent":
        scheme = ef.grouping.make(scheme, virtual=3)  # each is a task, in every batch
    result = ef.keyed(stream, "word", "number").balance(scheme, partitions=3).apply(EVERYTHING)
    query = run(result, tmp_path / "ckpt", sink, on_batch=seen.append)
    found = sink.latest("word", "number")
    at_once = on_table(EVERYTHING, table, ["word", "number"])
    assert texts(found.to_pylist()) == texts(at_once.to_pylist())
    names = [f"aggregates__{name}" for name in AGGREGATES]
    ours = found.select(["word", "number", *names])
    df = spark.createDataFrame(table)
    theirs = spark_answer(df, ["word", "number"]).toDF("word", "number", *names)
    assert texts(ours.to_pylist()) == texts(theirs.toArrow().to_pylist())
    assert [m["batch"] for m in seen] == list(range(batches))
    assert [m["batch"] for m in query.metrics()] == list(range(batches))
    assert sum(m["rows"] for m in seen) == table.num_rows


def texts(rows):
    return sorted(str({name: _plain(value) for name, value in row.items()}) for row in rows)


@pytest.mark.parametrize("scheme", ["table", "d-choices"])
def test_lists_first_and_last_hold_the_rows_of_the_key_earlier_batches_first(
    spark, tmp_path, scheme
):
    table = rows_of(3, 300)
    chosen = {
        "all": ef.collect_list("serial"),
        "first": ef.first("serial"),
        "last": ef.last("serial"),
        "some": ef.first("value", ignorenulls=True),
        "rows": ef.collect_list("value"),
    }
    df = in_spark(spark, table)
    batch = ef.keyed(df, "word").balance(scheme, partitions=3).agg(**chosen).toArrow()
    stream = stream_of(spark, tmp_path / "in", table, 4)
    sink = MemorySink()
    run(ef.keyed(stream, "word").balance(scheme, partitions=3).agg(**chosen), tmp_path / "c", sink)
    place = {number: i for i, number in enumerate(table["serial"].to_pylist())}
    for found in (batch, sink.latest("word")):
        by_word = {word: [] for word in table["word"].to_pylist()}
        for row in table.to_pylist():
            by_word[row["word"]].append(row)
        assert set(found["word"].to_pylist()) == by_word.keys()
        for row in found.to_pylist():
            rows = by_word[row["word"]]
            assert sorted(row["all"]) == sorted(r["serial"] for r in rows)
            values = [r["value"] for r in rows if r["value"] is not None]
            assert sorted(row["rows"]) == sorted(values)
            assert row["some"] in values
            assert {row["first"], row["last"]} <= set(row["all"])
    # The first two batches have one row each; the last one begins with row 225.
    for row in sink.latest("word").to_pylist():
        places = [place[number] for number in row["all"]]
        batches = [sum(p >= begin for begin in (1, 2, 225)) for p in places]
        assert batches == sorted(batches)
        assert batches[0] == sum(place[row["first"]] >= begin for begin in (1, 2, 225))
        assert batches[-1] == sum(place[row["last"]] >= begin for begin in (1, 2, 225))


keys = st.one_of(st.none(), st.text(max_size=3), st.just("hot"), st.just("hot"))
values = st.one_of(st.none(), st.floats(width=32), st.just(-0.0))


@settings(max_examples=8)
@given(
    rows=st.lists(st.tuples(keys, values), max_size=60),
    scheme=st.sampled_from([*ALL, "auto"]),
    partitions=st.integers(1, 5),
)
def test_any_rows_under_any_scheme(spark, rows, scheme, partitions):
    table = pa.table(
        [pa.array([k for k, _ in rows], pa.string()), pa.array([v for _, v in rows], pa.float64())],
        names=["key", "value"],
    )
    df = in_spark(spark, table)
    found = (
        ef.keyed(df, ["key", "value"])
        .balance(scheme, partitions=partitions)
        .agg(n=ef.count(), least=ef.min("key"), most=ef.max("value"))
    )
    theirs = df.groupBy("key", "value").agg(
        F.count("*").alias("n"), F.min("key").alias("least"), F.max("value").alias("most")
    )
    assert texts(found.toArrow().to_pylist()) == texts(theirs.toArrow().to_pylist())


@pytest.mark.parametrize(
    "scheme", ["d-choices", "w-choices", "partial-key", "key", "random-choices"]
)
def test_spark_and_simulator_assign_the_same_partitions(spark, scheme):
    """Parity: on the same partitions and seed."""
    df = in_spark(spark, rows_of(3, 4000), partitions=4).cache()
    chosen = make(scheme)
    route = Route(chosen, 7, 5, ("word",), first_plan(_job(df, scheme)).hot)
    schema = f"{PARTITION} int, {FINGERPRINT} long, word string"
    routed = df.select("word").mapInArrow(InPartition(route), schema)
    rows = routed.withColumn("p", F.spark_partition_id()).toArrow().to_pandas()
    parts = [rows[rows["p"] == p] for p in range(4)]
    m = min(map(len, parts))
    assert m > 500
    # The simulator deals message i to source i mod 4: so the partitions are shuffled together.
    keys = np.stack([part[FINGERPRINT].to_numpy()[:m] for part in parts], axis=1).ravel()
    simulated = Sources(chosen, Workers.numbered(7), 4, 5).route(keys.view(np.uint64))
    on_spark = np.stack([part[PARTITION].to_numpy()[:m] for part in parts], axis=1).ravel()
    assert simulated.tolist() == on_spark.tolist()


def _job(df, scheme):
    keyed = ef.keyed(df, "word").balance(scheme, partitions=7)
    return keyed._job(keyed._work(Aggregates(n=ef.count())))


def test_a_router_is_a_pure_function_of_its_partition():
    route = Route(make("d-choices"), 5, 1, ("word",), KeyCounts({17: 500, 4: 300}, 1000), batch=3)
    batch = rows_of(4).select(["word"]).to_batches()[0]
    whole = Router(route, 2).routed(batch)
    again = Router(route, 2)
    parts = [again.routed(batch.slice(0, 700)), again.routed(batch.slice(700))]
    assert pa.Table.from_batches([whole]).equals(pa.Table.from_batches(parts).combine_chunks())


class Last(ef.Operator):
    """Keeps the last value of a key: has no merge."""

    def columns(self):
        return ["value"]

    def state_schema(self, rows):
        return pa.schema([("value", pa.int64()), ("rows", pa.int64())])

    def update(self, rows, state):
        last = np.zeros(rows.n_keys, np.int64)
        last[rows.group] = np.arange(len(rows))
        counted = np.bincount(rows.group, minlength=rows.n_keys)
        before = state.column("rows").to_numpy(zero_copy_only=False)
        return pa.table(
            {
                "value": rows.table.column("value").take(pa.array(last)),
                "rows": pa.array(counted + np.nan_to_num(before).astype(np.int64)),
            }
        )


def test_an_operator_without_merge_is_refused_before_spark_starts(spark):
    df = spark.range(1).withColumnRenamed("id", "value")
    with pytest.raises(ef.InputError, match=r"Last has no `merge`.*use key, key-isolator or table"):
        ef.keyed(df, "value").balance("w-choices").apply(Last())


def test_an_operator_without_merge_has_its_state_in_one_partition(spark, tmp_path):
    table = pa.table({"k": [i % 5 for i in range(100)], "value": list(range(100))})
    stream = stream_of(spark, tmp_path / "in", table, 10)
    sink = MemorySink()
    run(ef.keyed(stream, "k").apply(Last()), tmp_path / "ckpt", sink)
    rows = {row["k"]: (row["value"], row["rows"]) for row in sink.latest("k").to_pylist()}
    assert {k: n for k, (_, n) in rows.items()} == dict.fromkeys(range(5), 20)


def test_bad_requests_are_refused_with_a_sentence(spark):
    df = spark.createDataFrame(rows_of(1, 10))
    keyed = ef.keyed(df, "word")
    for attempt, message in [
        (lambda: keyed.balance("w-choice"), "did you mean 'w-choices'"),
        (lambda: keyed.balance("key", partitions=0), "at least 1"),
        (lambda: keyed.balance(ef.grouping.DChoices(), epsilon=0.1), "already has its parameters"),
        (lambda: keyed.agg(), "no aggregate"),
        (lambda: keyed.agg(F.count("*")), "give every aggregate a name"),
        (lambda: keyed.agg(n="value"), "is not an aggregate"),
        (lambda: keyed.agg(word=ef.count()), "two columns 'word'"),
        (lambda: keyed.agg(n=ef.sum("vale")), "did you mean 'value'"),
        (lambda: keyed.agg(n=ef.sum("word")), "word"),
        (lambda: keyed.apply(len), "PerKey"),
    ]:
        with pytest.raises(ef.InputError, match=message):
            attempt()


def test_a_changed_operator_or_key_is_refused_and_other_partitions_are_carried_over(
    spark, tmp_path
):
    table = rows_of(5, 600)
    stream = stream_of(spark, tmp_path / "in", table.slice(0, 300), 3)
    sink, checkpoint = MemorySink(), tmp_path / "ckpt"

    def count(scheme, partitions):
        keyed = ef.keyed(stream, "word").balance(scheme, partitions=partitions)
        run(keyed.agg(n=ef.count()), checkpoint, sink)

    count("key", 3)
    for other in (
        ef.keyed(stream, "word").agg(n=ef.sum("value")),
        ef.keyed(stream, "rare").agg(n=ef.count()),
    ):
        with pytest.raises(ef.InputError, match="another computation"):
            start(other, checkpoint, sink)
    pq.write_table(table.slice(300), tmp_path / "in" / "more.parquet")
    for partitions, scheme in [(5, "key"), (2, "w-choices")]:
        count(scheme, partitions)
        pq.write_table(table.slice(0, 100), tmp_path / "in" / f"{scheme}.parquet")
    count("key", 4)
    whole = pa.concat_tables([table, table.slice(0, 100), table.slice(0, 100)])
    expected = spark.createDataFrame(whole).groupBy("word").count()
    assert answers(spark.createDataFrame(sink.latest("word"))) == answers(expected)
    assert [m["epoch"] for m in ef.read_metrics(checkpoint)][-1] == 3


def test_two_queries_cannot_share_a_checkpoint(spark, tmp_path):
    stream = stream_of(spark, tmp_path / "in", rows_of(6, 100), 3)
    result = ef.keyed(stream, "word").agg(n=ef.count())
    with (
        start(result, tmp_path / "ckpt", now=False),
        pytest.raises(ef.InputError, match="in use by process"),
    ):
        start(result, tmp_path / "ckpt")


@pytest.mark.long
def test_auto_says_which_scheme_and_why_and_changes_its_mind(spark, tmp_path):
    """Two milliseconds of work per row; the hot key comes with the third batch."""
    even = pa.table({"k": list(range(1000))})
    skewed = pa.table({"k": [7] * 900 + list(range(100))})
    (tmp_path / "in").mkdir()
    for i, part in enumerate([even, even, *[skewed] * 6]):
        file = tmp_path / "in" / f"{i}.parquet"
        pq.write_table(part, file)
        os.utime(file, (1_700_000_000 + i, 1_700_000_000 + i))  # Spark takes the oldest file first
    reader = spark.readStream.schema("k long").option("maxFilesPerTrigger", 1)
    keyed = ef.keyed(reader.parquet(str(tmp_path / "in")), "k").balance("auto", partitions=8)
    query = run(keyed.apply(ServiceTime(Aggregates(n=ef.count()), 0.002)), tmp_path / "ckpt")
    chosen = [(m["scheme"], m["reason"]) for m in query.metrics()]
    assert [scheme for scheme, _ in chosen[:3]] == ["key", "key", "key"]
    splitting = [
        i for i, (scheme, _) in enumerate(chosen) if scheme in ("partial-key", "d-choices")
    ]
    assert splitting[0] <= 5
    assert "times its share, a row costs" in chosen[splitting[0]][1]


def test_the_frame_of_a_batch_is_its_output(spark):
    df = in_spark(spark, rows_of(1))
    job = _job(df, "d-choices")
    output = frame_of(df, Stages.of(job, first_plan(job)))
    assert output.columns == ["word", "n"]
