"""Keys of files, DataFrames and counted tables; the dry run beside the engine itself."""

from __future__ import annotations

import json
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow as ef
from evenflow.diagnosis.dry_run import dry_run
from evenflow.diagnosis.key_figures import figures_of_files
from evenflow.model import InputError


def zipf_pages(rows=20_000, exponent=1.4, seed=1):
    return np.minimum(np.random.default_rng(seed).zipf(exponent, rows), 3_000)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    numbers = zipf_pages()
    table = pa.table({"page": [f"page-{i}" for i in numbers], "even": np.arange(len(numbers))})
    pq.write_table(table, folder / "pages.parquet")
    return folder / "pages.parquet"


def test_a_hot_key_is_named_with_what_each_scheme_makes_of_it(pages):
    found = ef.diagnose(pages, "page", partitions=8, seconds_per_row=0.001)
    assert found.cause == "hot key"
    assert found.needs_evenflow
    assert "page-1, has" in found.answer
    trials = {row["scheme"]: row for row in found.to_dict()["tables"]["dry run"]}
    assert trials["key"]["predicted s"] > 2 * trials["d-choices"]["predicted s"]
    assert trials["key"]["replicas"] < trials["d-choices"]["replicas"]
    assert trials["table, mixed"]["needs merge"] is False


def test_keys_that_are_all_distinct_need_no_evenflow(pages):
    found = ef.diagnose(pages, "even", partitions=8)
    assert found.cause == "nothing"
    assert found.answer.startswith("You don't need Evenflow: ")
    assert not found.remedies


def test_one_key_that_must_stay_whole_cannot_be_helped(tmp_path):
    pq.write_table(pa.table({"k": ["only"] * 500}), tmp_path / "one.parquet")
    whole = ef.diagnose(tmp_path / "one.parquet", "k", partitions=4, mergeable=False)
    assert whole.answer.startswith("Evenflow would not help as it is: ")
    assert not whole.needs_evenflow
    split = ef.diagnose(tmp_path / "one.parquet", "k", partitions=4)
    assert split.needs_evenflow


def test_null_keys_are_named(tmp_path):
    pq.write_table(pa.table({"k": [None] * 600 + list(range(400))}), tmp_path / "n.parquet")
    assert ef.diagnose(tmp_path / "n.parquet", "k", partitions=8).cause == "null keys"


def test_a_directory_of_files_is_read_as_one(tmp_path, pages):
    rows = pq.read_table(pages)
    (tmp_path / "all").mkdir()
    for number in range(3):
        part = rows.slice(number * 7_000, 7_000)
        pq.write_table(part, tmp_path / "all" / f"part-{number}.parquet")
    (tmp_path / "all" / "_SUCCESS").touch()
    one, several = (ef.diagnose(path, "page", partitions=8) for path in (pages, tmp_path / "all"))
    assert one.tables == several.tables


@settings(max_examples=20)
@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=60))
def test_the_hottest_keys_are_those_that_python_counts(tmp_path_factory, keys):
    path = tmp_path_factory.mktemp("any") / "rows.parquet"
    pq.write_table(pa.table({"k": pa.array(keys, pa.string())}), path)
    found = figures_of_files(path, ("k",))
    counts = sorted((keys.count(key) for key in set(keys)), reverse=True)[:10]
    assert [count for _, count in found.hottest] == counts
    assert found.rows == len(keys)


def test_without_rows_or_columns_it_is_one_clear_line(tmp_path):
    (tmp_path / "none.csv").write_text("page\n")
    with pytest.raises(InputError, match="has columns but no rows"):
        ef.diagnose(tmp_path / "none.csv", "page")
    with pytest.raises(InputError, match="has no column 'pgae'"):
        ef.diagnose(tmp_path / "none.csv", "pgae")
    with pytest.raises(InputError, match="there is no file"):
        ef.diagnose(tmp_path / "nothing.csv", "page")
    with pytest.raises(InputError, match="takes a DataFrame, a path or an address, got int"):
        ef.diagnose(3, "page")


def test_json_is_strict_and_complete(pages):
    found = ef.diagnose(pages, "page", partitions=1)
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert set(json.loads(text)) >= {"answer", "cause", "findings", "remedies", "tables", "notes"}


@pytest.mark.spark
class TestOnSpark:
    def test_a_dataframe_has_the_same_keys_as_its_file(self, spark, pages):
        of_file = ef.diagnose(pages, "page", partitions=8)
        of_frame = ef.diagnose(spark.read.parquet(str(pages)), "page", partitions=8)
        assert of_frame.cause == of_file.cause == "hot key"
        hottest = [
            [(row["rows"], row["share"]) for row in found.tables[0].rows[:3]]
            for found in (of_file, of_frame)
        ]
        assert hottest[0] == hottest[1]

    def test_the_dry_run_of_key_is_what_the_engine_does(self, spark, pages):
        """Both place a key by its fingerprint: the fullest partition is the same, to the row."""
        from pyspark.sql import Observation

        loads = Observation()
        clicks = ef.keyed(spark.read.parquet(str(pages)), "page").balance("key", partitions=8)
        from evenflow.operators import Aggregates, count

        clicks.compute(Aggregates(n=count()), loads=loads).collect()
        [key, *_] = dry_run(figures_of_files(pages, ("page",)).workload, 20_000, 8)
        assert max(loads.get.values()) == round(key.fullest * 20_000 / 8)

    def test_expressions_compound_and_odd_keys(self, spark):
        from pyspark.sql import functions as F

        rows = spark.range(2_000).selectExpr("id % 3 AS `a.b`", "if(id % 2 = 0, null, id) AS c")
        assert ef.diagnose(rows, "a.b", "c", partitions=4).cause == "nothing"
        assert ef.diagnose(rows, F.col("c"), partitions=8).cause == "null keys"

    def test_an_empty_dataframe_and_a_stream_are_refused(self, spark):
        with pytest.raises(InputError, match="has no rows"):
            ef.diagnose(spark.range(0), "id")
        with pytest.raises(InputError, match="of a running query, give the checkpoint location"):
            ef.diagnose(spark.readStream.format("rate").load(), "value")
        with pytest.raises(InputError, match="needs the key columns"):
            ef.diagnose(spark.range(3))


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=y>',
    "a\x1b[31mb",
    "\u202ebidi",
    "&amp;",
]


@pytest.mark.parametrize("key", HOSTILE)
def test_keys_stay_text_on_the_page_and_on_the_terminal(tmp_path, key):
    pq.write_table(pa.table({"k": [key] * 60 + list(string.ascii_letters)}), tmp_path / "h.parquet")
    found = ef.diagnose(tmp_path / "h.parquet", "k", partitions=4)
    page = found.to_html()
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "\x1b" not in str(found)
    assert key == "&amp;" or key not in page


def test_the_page_needs_nothing_from_outside(pages):
    page = ef.diagnose(pages, "page", partitions=8).to_html()
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == 1
