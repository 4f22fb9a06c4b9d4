"""Functions and operators whose states end, on Spark: append mode, several rows per key, refusals."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.expiring_states import ExpiringStates
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.operators.windows import Window
from evenflow.spark.event_time import Watermark
from evenflow.spark.jobs import build_job
from evenflow.spark.keyed import Keyed
from spark_streams import BEGIN, MINUTE, rows_of, stream_of

F = pytest.importorskip("pyspark.sql.functions")

TTL = 5 * MINUTE


def pretended(streaming, **delays):
    """A DataFrame as far as the kind of work depends on it, without Spark."""
    fields = [
        SimpleNamespace(name=name, metadata={} if delay is None else {_DELAY: delay})
        for name, delay in delays.items()
    ]
    return SimpleNamespace(isStreaming=streaming, schema=SimpleNamespace(fields=fields))


_DELAY = "spark.watermarkDelayMs"


def counted(key, rows, state):
    return {"n": (state["n"] if state else 0) + len(rows["v"])}


def test_what_a_ttl_comes_to_and_what_is_refused():
    stream = Keyed(pretended(True, k=None, ts=None, v=None), ("k",))
    marked = Keyed(pretended(True, k=None, ts=60_000, v=None), ("k",))
    timed = ef.PerKey(counted, "n bigint", ttl="5 minutes", timeMode="eventTime", columns=["v"])
    work = marked._work(timed, "append")
    assert isinstance(work, ExpiringStates)
    assert (work.append, work.late, work.operator.event_time) == (True, 60_000_000, "ts")
    assert work.closes_without_rows
    rows = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    job = build_job(rows, ("k",), work, scheme=make("key"), partitions=2, seed=0, replanning=None)
    assert job.rows.names == ["k", "v", "ts"]
    assert job.output_schema().names == ["k", "n"]
    assert pickle.loads(pickle.dumps(job)).identity() == job.identity()
    given = replace(stream, watermark=Watermark("ts", 5))._work(timed, "update")
    assert (given.append, given.late) == (False, 5)
    plain = ef.PerKey(counted, "n bigint", ttl="5 minutes")
    assert stream._work(plain, None).in_processing_time
    assert type(Keyed(pretended(False), ("k",))._work(plain, None)) is KeyedStates
    for keyed, operator, mode, message in (
        (stream, timed, None, "goes by event time, which needs a watermark"),
        (stream, ef.PerKey(counted, "n int", ttl="soon"), None, "is not a duration"),
        (stream, ef.PerKey(counted, "n int", ttl="1 day", timeMode="no"), None, "timeMode is"),
        (replace(stream, windows=Window("ts", 5, 5)), plain, None, "leave one of the two out"),
        (stream, ef.PerKey(counted, "n int"), "append", "or give the operator a ttl"),
    ):
        with pytest.raises(ef.InputError, match=message):
            keyed._work(operator, mode)


@pytest.mark.spark
def test_a_function_with_a_ttl_puts_out_its_keys_when_they_end(spark, tmp_path):
    """In event time and append mode, in files of a few minutes, against plain Python."""

    def longest(key, rows, state):  # in here, so that tasks need not import this file
        n = (state["n"] if state else 0) + len(rows["ts"])
        return {"n": n, "last": int(rows["ts"].astype("int64").max())}

    def lines(key, state):
        return [{"nth": i, "of": state["n"]} for i in range(min(state["n"], 2))]

    table = rows_of(5, 240, disorder=1)
    keyed = ef.keyed(stream_of(spark, tmp_path / "in", table, 4), "word").balance("key", 2)
    function = {"emit": lines, "output": "nth int, of bigint", "columns": ["ts"]}
    visits = ef.PerKey(
        longest, "n bigint, last bigint", ttl="5 minutes", timeMode="eventTime", **function
    )
    timed = keyed.withWatermark("ts", "1 minute")
    result = timed.apply(visits).writeStream.outputMode("append")
    result = result.option("checkpointLocation", tmp_path / "ckpt").trigger(availableNow=True)
    assert result.start(str(tmp_path / "out")).awaitTermination(300)
    found = sorted(
        (row["batch"], str(row["word"]), row["nth"], row["of"])
        for row in spark.read.parquet(str(tmp_path / "out")).collect()
    )
    assert found == expected(table.slice(0, 120).to_pylist(), 30)


def expected(rows, size):
    """What keys put out in which batch: (batch, key, number, rows of the key)."""
    states, made, late, closed, newest = {}, [], 0, 0, 0
    for batch in range(len(rows) // size + 1):  # the last one has no rows
        some = rows[batch * size : (batch + 1) * size]
        times = [None if r["ts"] is None else _micros(r["ts"]) for r in some]
        before = {key for key, (_, until) in states.items() if until <= closed}
        for row, t in zip(some, times, strict=True):
            if t is not None and t <= late:
                continue
            n, until = states.get(row["word"], (0, 0))
            end = 0 if t is None else -(-t // 1000) * 1000 + TTL
            states[row["word"]] = (n + 1, max(until, end))
        for key, (
            n,
            until,
        ) in states.items():  # rows without a time alone live from the watermark on
            if until == 0:
                states[key] = (n, closed + TTL)
        for key in sorted(before, key=str):
            if states[key][1] <= closed:
                n, _ = states.pop(key)
                made += [(batch, str(key), i, n) for i in range(min(n, 2))]
        newest = max([newest, *(t for t in times if t is not None)])
        late, closed = closed, max(closed, (newest - MINUTE) // 1000 * 1000)
    return sorted(made)


def _micros(moment):
    return BEGIN + round((moment.timestamp() - BEGIN / 1e6) * 1e6)
