"""Every aggregate as a stream under every scheme, without Spark: as all at once on the whole table."""

import math

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make, schemes
from evenflow.operators import Aggregates, Window, on_table
from evenflow.storage.memory import MemoryStorage

BATCHES, ROWS_PER_BATCH = 5, 60
WHOLE = [name for name, scheme in schemes().items() if not scheme.splits_keys]


def rows_of(seed):
    """A hot key, a null key, and columns of many types with nulls and NaN; `serial` counts the rows."""
    rng = np.random.default_rng(seed)
    n = BATCHES * ROWS_PER_BATCH

    def of(values, kind):
        return pa.array([values[i] for i in rng.integers(0, len(values), n)], kind)

    pair = pa.struct([("n", pa.int32()), ("words", pa.list_(pa.string()))])
    pairs = [None, *({"n": i % 5, "words": ["é"] * (i % 3)} for i in range(9))]
    return pa.table(
        {
            "key": of(["hot", "hot", "hot", "a", "", None], pa.string()),
            "serial": pa.array(np.arange(n)),
            "number": of([0.5, -0.0, 0.0, math.nan, None, 7.25], pa.float64()),
            "whole": of([1, 2, 3, None], pa.int16()),
            "word": of(["ä", "", "😀", None], pa.string()),
            "flag": of([True, False, None], pa.bool_()),
            "pair": of(pairs, pair),
            "at": pa.array(np.arange(n) * 10**5, pa.timestamp("us")),
        }
    )


DETERMINED = Aggregates(
    kinds=ef.collect_set("number"),
    exactly=ef.count_distinct("word"),
    about=ef.approx_count_distinct("serial"),
    half=ef.percentile_approx("whole", [0.5, 1.0]),
    when=ef.percentile_approx("at", 0.25),
    newest=ef.max_by("pair", "serial"),
    oldest=ef.min_by("word", "serial"),
    smallest=ef.min_by("word", "whole"),
    spread=ef.stddev("whole"),
    width=ef.var_pop("serial"),
    usual=ef.mode("word"),
    set=ef.count_if("flag"),
    always=ef.bool_and("flag"),
    ever=ef.bool_or("flag"),
)
ORDERED = Aggregates(
    all=ef.collect_list("serial"),
    pairs=ef.collect_list("pair"),
    first=ef.first("serial"),
    last=ef.last("serial"),
    first_pair=ef.first("pair"),
    last_pair=ef.last("pair", ignorenulls=True),
)


def streamed(work, table, scheme, sources=2):
    sink = Tables()
    batches = [table.slice(i * ROWS_PER_BATCH, ROWS_PER_BATCH) for i in range(BATCHES)]
    job = Job(("key",), table.schema, work, make(scheme), 3)
    list(run_stream(job, MemoryStorage(), batches, sink, sources=sources))
    return sink


def texts(table):
    return sorted(str({n: _plain(v) for n, v in row.items()}) for row in table.to_pylist())


def _plain(value):
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.mark.parametrize("scheme", schemes())
def test_aggregates_of_a_stream_are_those_of_all_rows_at_once(scheme):
    table = rows_of(1)
    found = streamed(KeyedStates(DETERMINED), table, scheme).latest("key")
    assert texts(found) == texts(on_table(DETERMINED, table, "key"))


@pytest.mark.parametrize("scheme", ["key", "w-choices"])
def test_aggregates_of_windows_are_those_of_all_rows_at_once(scheme):
    table, window = rows_of(2), Window("at", size=10**7, slide=4 * 10**6)
    sink = streamed(WindowedStates(DETERMINED, window), table, scheme)
    newest = {str((row["key"], row["window"])): row for row in sink.table().to_pylist()}
    expected = on_table(DETERMINED, table, "key", window).to_pylist()
    assert len(newest) == len(expected)
    for row in expected:
        found = newest[str((row["key"], row["window"]))]
        assert {n: str(_plain(found[n])) for n in row} == {
            n: str(_plain(v)) for n, v in row.items()
        }


@pytest.mark.parametrize("scheme", WHOLE)
def test_the_order_of_rows_is_kept_under_schemes_that_do_not_split_keys(scheme):
    table = rows_of(3)
    found = streamed(KeyedStates(ORDERED), table, scheme, sources=1).latest("key")
    assert texts(found) == texts(on_table(ORDERED, table, "key"))


@pytest.mark.parametrize("scheme", ["table", "d-choices", "round-robin-head", "shuffle"])
def test_earlier_batches_come_first_under_every_scheme(scheme):
    table = rows_of(4)
    whole = {row["key"]: row for row in on_table(ORDERED, table, "key").to_pylist()}
    found = streamed(KeyedStates(ORDERED), table, scheme, sources=3).latest("key").to_pylist()
    assert {row["key"] for row in found} == whole.keys()
    for row in found:
        batches = [serial // ROWS_PER_BATCH for serial in row["all"]]
        assert batches == sorted(batches)
        assert (row["first"] // ROWS_PER_BATCH, row["last"] // ROWS_PER_BATCH) == (
            batches[0],
            batches[-1],
        )
        assert sorted(row["all"]) == whole[row["key"]]["all"]
        assert sorted(map(str, row["pairs"])) == sorted(map(str, whole[row["key"]]["pairs"]))
