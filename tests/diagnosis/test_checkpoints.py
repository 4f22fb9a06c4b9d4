"""Checkpoints: of uneven and even queries, empty, being written, and what is none."""

from __future__ import annotations

import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, count
from evenflow.state.checkpoint import FOLDER, Checkpoint
from evenflow.storage import PosixStorage

ROWS = pa.schema([("page", pa.string())])


def ran(folder, batches, scheme="key", partitions=4):
    """A checkpoint that a query has left, without Spark."""
    job = Job(
        ("page",), ROWS, KeyedStates(Aggregates(n=count())), make(scheme), partitions, 0, None
    )
    tables = [pa.table({"page": pages}, schema=ROWS) for pages in batches]
    list(run_stream(job, PosixStorage(str(folder)), iter(tables)))
    return folder


SKEWED = ["home"] * 300 + [f"page-{i}" for i in range(100)]
EVEN = [f"page-{i}" for i in range(4000)]


def test_a_hot_key_is_named_with_the_scheme_that_splits_it(tmp_path):
    found = ef.diagnose(ran(tmp_path / "ckpt", [SKEWED, SKEWED]))
    assert (found.kind, found.cause) == ("checkpoint", "hot key")
    assert '["home"]' in found.answer
    assert 'ef.keyed(df, "page").balance("auto", partitions=4)' in found.remedies[0].code


def test_an_even_query_has_nothing_wrong(tmp_path):
    found = ef.diagnose(ran(tmp_path / "ckpt", [EVEN]))
    assert found.cause == "nothing"
    assert found.answer.startswith("Nothing is wrong: ")


def test_a_split_hot_key_has_nothing_wrong_either(tmp_path):
    found = ef.diagnose(ran(tmp_path / "ckpt", [SKEWED * 5] * 2, "shuffle"))
    assert found.cause == "nothing"


def test_an_empty_checkpoint_says_that_there_is_nothing_yet(tmp_path):
    Checkpoint.open(PosixStorage(str(tmp_path / "ckpt")), {"key": {"page": "string"}})
    found = ef.diagnose(tmp_path / "ckpt")
    assert found.answer.startswith("There is nothing to diagnose yet: no batch has been committed")


def test_a_checkpoint_that_is_being_written_gives_what_is_committed(tmp_path):
    """A manifest whose metrics have not been put yet, a leftover of a batch, a metrics file that is
    not there any more when it is read: the batches before are the answer."""
    folder = ran(tmp_path / "ckpt", [SKEWED, SKEWED])
    inside = folder / FOLDER
    (inside / "metrics" / "0000000001.json").unlink()
    (inside / "metrics" / "0000000002.json.tmp").write_text('{"batch": 2, "ro')
    found = ef.diagnose(folder)
    assert found.cause == "hot key"
    assert [row["batch"] for row in found.tables[0].rows] == [0]


def test_what_is_neither_log_nor_checkpoint_is_refused(tmp_path):
    with pytest.raises(InputError, match="neither a Spark event log nor a checkpoint"):
        ef.diagnose(tmp_path)
    with pytest.raises(InputError, match="there is no"):
        ef.diagnose(tmp_path / "nothing")


@pytest.mark.long
@pytest.mark.spark
def test_the_checkpoint_of_a_query_on_spark(spark, tmp_path):
    rows = spark.range(2000).selectExpr("if(id % 4 > 0, 'home', string(id)) AS page")
    rows.write.json(str(tmp_path / "incoming"))
    stream = spark.readStream.schema("page string").json(str(tmp_path / "incoming"))
    query = (
        ef.keyed(stream, "page").balance("key", partitions=4).agg(n=ef.count()).writeStream
        .format("noop").option("checkpointLocation", str(tmp_path / "ckpt"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    found = ef.diagnose(tmp_path / "ckpt")
    assert found.cause == "hot key"
    assert "page" in found.remedies[0].code
