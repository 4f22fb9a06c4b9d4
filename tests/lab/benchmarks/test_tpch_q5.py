"""The continuous TPC-H Q5 of the examples gives what Spark's own batch query gives."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "tpch_q5.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("tpch_q5", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tpch_q5"] = module  # where its dataclass is looked for
    spec.loader.exec_module(module)
    yield module
    del sys.modules["tpch_q5"]


@pytest.mark.long
def test_q5_over_sliding_windows_is_sparks_own(spark, tmp_path, example):
    streams = example.make_streams(tmp_path, scale=0.002, intervals=4)
    found = example.run_continuously(spark, streams, tmp_path, partitions=3)
    expected = example.run_at_once(spark, streams)
    assert example.answers(found) == example.answers(expected)
    assert len({row[0] for row in example.answers(found)}) > 1
    assert found.num_rows > 10


def test_the_hot_keys_of_the_streams_are_others_in_every_interval(tmp_path, example):
    streams = example.make_streams(tmp_path, scale=0.002, intervals=4)
    hottest = []
    for file in sorted(streams.items.iterdir()):
        keys, counts = np.unique(pq.read_table(file)["supplier"].to_numpy(), return_counts=True)
        hottest.append(keys[counts.argmax()])
        assert counts.max() > 2 * np.median(counts)
    assert len(set(hottest)) > 1


def test_more_files_an_interval_hold_the_same_rows(tmp_path, example):
    made = {}
    for files in (1, 3):
        folder = tmp_path / str(files)
        folder.mkdir()
        made[files] = example.make_streams(folder, scale=0.002, intervals=2, files=files)
    for name in ("orders", "items"):
        one, three = (getattr(made[files], name) for files in (1, 3))
        assert len(list(three.iterdir())) == 3 * len(list(one.iterdir()))
        assert pq.read_table(one).equals(pq.read_table(three))
