"""Groups larger than a task's memory: a real limit, in a process of its own."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

PROGRAM = """
import resource
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from evenflow.spark import group_calls
from evenflow.spark.conversion import Conversion

kind, megabytes = sys.argv[1:]
ROOM = 60 << 20


def size_of(rows):
    return pd.DataFrame({"n": [len(rows)]}) if kind == "pandas" else pa.table({"n": [len(rows)]})


def size_of_parts(parts):
    yield pa.record_batch({"n": [sum(len(part) for part in parts)]})


def batches(megabytes):
    text = ["x" * 92] * 10_000
    yield pa.record_batch({"k": ["a"] * 3, "v": np.zeros(3), "s": text[:3]})
    for _ in range(megabytes):
        yield pa.record_batch({"k": ["b"] * 10_000, "v": np.random.rand(10_000), "s": text})
    yield pa.record_batch({"k": ["c"] * 3, "v": np.zeros(3), "s": text[:3]})


def limit():
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM,) * 2)


function = size_of_parts if kind == "iterator" else size_of
schema = StructType([StructField("n", LongType())])
settings = Conversion(timezone="UTC")
call = group_calls.GroupFunction(
    function, schema, kind == "pandas", kind == "iterator", False, settings
)
task = group_calls.GroupTask(call, ("k",), ("k", "v", "s"))
list(task(0, batches(1)))
if int(megabytes):
    limit()
else:
    def lacking(*arguments):
        raise MemoryError("no room")
    group_calls.ArrowSlices = group_calls.PandasSlices = lacking
for batch in task(3, batches(int(megabytes) or 1)):
    print(batch.column("n").to_pylist())
"""


def run(kind, megabytes):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, str(megabytes)],
        capture_output=True,
        text=True,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},  # the others keep what is freed
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and RLIMIT_AS")
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_a_group_larger_than_the_memory_is_named(kind):
    ended = run(kind, 250)
    assert ended.returncode
    error = ended.stderr.splitlines()[-1]
    assert 'size_of ran out of memory in partition 3, in the group of the key ["b"]' in error
    assert "more memory" in error


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_where_the_groups_of_a_chunk_need_too_much_the_largest_is_named(kind):
    error = run(kind, 0).stderr.splitlines()[-1]
    assert 'in the group of 10000 rows of the key ["b"]: MemoryError: no room' in error


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and RLIMIT_AS")
def test_a_function_with_iterators_is_given_a_group_larger_than_the_memory():
    ended = run("iterator", 250)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["[3]", "[2500000]", "[3]"]
