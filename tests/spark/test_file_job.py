"""What `evenflow run` refuses before Spark starts, and what it goes on with."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import evenflow as ef
from evenflow.spark.file_job import FileJob
from evenflow.spark.sinks import ParquetSink
from evenflow.state.checkpoint import Checkpoint
from evenflow.storage import storage_at


@pytest.fixture
def job(tmp_path):
    pq.write_table(pa.table({"page": ["a"]}), tmp_path / "clicks.parquet")
    return FileJob(str(tmp_path / "clicks.parquet"), ("page",), {"n": ef.count()})


def test_a_query_killed_in_its_first_batch_goes_on(job, tmp_path):
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    assert not job.check(str(output), str(checkpoint))
    begun = Checkpoint.open(str(checkpoint), {"key": ["page"]})
    (output / "_evenflow/staging").mkdir(parents=True)  # killed before it took the output
    assert not job.check(str(output), str(checkpoint))
    sink = ParquetSink(storage_at(output))
    sink.claim(begun.query)
    sink.staging(sink.storage).put("staging/0000000000-00000-aa.parquet", [b"half"])
    assert job.check(str(output), str(checkpoint))


def test_the_output_of_another_query_is_not_gone_on_with(job, tmp_path):
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"
    Checkpoint.open(str(checkpoint), {"key": ["page"]})
    ParquetSink(storage_at(output)).claim("another")
    with pytest.raises(ef.InputError, match="is not empty"):
        job.check(str(output), str(checkpoint))
