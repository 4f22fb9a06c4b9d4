"""A cluster on this machine: workers of their own, a keyed stream on it, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenflow.model import InputError
from evenflow.spark.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYED_STREAM = """
import os
import evenflow as ef

folder = {folder!r}
(spark.range(1000).selectExpr("id % 7 AS page", "id AS ms").repartition(3)
    .write.parquet(folder + "/in"))

def run():
    rows = spark.readStream.schema("page long, ms long").option("maxFilesPerTrigger", 1)
    query = (
        ef.keyed(rows.parquet(folder + "/in"), "page").balance({scheme!r}, partitions=3)
        .agg(hits=ef.count(), ms=ef.sum("ms"))
        .writeStream.option("checkpointLocation", folder + "/ckpt").trigger(availableNow=True)
        .start(folder + "/out")
    )
    query.awaitTermination()
    return query.metrics()

assert len(run()) == 3
spark.range(1000, 2000).selectExpr("id % 7 AS page", "id AS ms").write.mode("append").parquet(
    folder + "/in")
run()
out = spark.read.parquet(folder + "/out")
last = out.groupBy("page").max("hits", "ms").collect()
want = spark.range(2000).selectExpr("id % 7 AS page", "id AS ms").groupBy("page").agg(
    {{"*": "count", "ms": "sum"}}).collect()
assert sorted(map(tuple, last)) == sorted((r["page"], r["count(1)"], r["sum(ms)"]) for r in want), last
print("right")
"""


def soon(condition, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def processes_with(words: str) -> list[int]:
    """Whose command line or environment has these words: all processes of a cluster have its folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "environ"):
            try:
                if words.encode() in (entry / file).read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_keyed_stream_on_executors_that_share_one_directory(on_cluster, tmp_path):
    script = KEYED_STREAM.format(folder=str(tmp_path), scheme="key")
    assert on_cluster(script) == "right\n"


@pytest.mark.long
def test_a_split_stream_on_executors_that_share_one_directory(on_cluster, tmp_path):
    script = KEYED_STREAM.format(folder=str(tmp_path), scheme="d-choices")
    assert on_cluster(script) == "right\n"


@pytest.mark.long
def test_every_worker_has_directories_of_its_own(on_cluster, cluster):
    printed = on_cluster("""
        import json, os

        def describe(batches):
            import tempfile, time
            import pyarrow as pa

            time.sleep(0.5)
            names = ["HOME", "TMPDIR", "SPARK_LOCAL_DIRS"]
            where = [os.environ[n] for n in names] + [os.getcwd(), tempfile.gettempdir()]
            yield pa.record_batch({"where": [json.dumps(where)]})

        rows = spark.range(0, 2, 1, 2).mapInArrow(describe, "where string").collect()
        print(json.dumps([json.loads(row["where"]) for row in rows]))
    """)
    one, other = json.loads(printed)
    assert not set(one) & set(other)
    for where in (one, other):
        (worker,) = {Path(path).relative_to(cluster.folder).parts[0] for path in where}
        assert worker in ("worker-1", "worker-2")


@pytest.mark.parametrize(
    "sign", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_when_the_command_ends_no_process_and_no_file_is_left(sign):
    with subprocess.Popen(
        [sys.executable, "-m", "evenflow.cli", "cluster", "up", "--workers", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        described = json.loads(command.stdout.readline())
        assert described["master"].startswith("spark://127.0.0.1:")
        assert [node["name"] for node in described["nodes"]] == ["master", "worker-1"]
        assert {node["pid"] for node in described["nodes"]} <= set(
            processes_with(described["folder"])
        )
        os.kill(described["nodes"][1]["pid"], signal.SIGSTOP)  # a paused one must end, too
        command.send_signal(sign)
        assert command.wait(60) == (0 if sign is signal.SIGTERM else -sign)
    assert soon(lambda: not processes_with(described["folder"]))
    assert soon(lambda: not os.path.exists(described["folder"]))


@pytest.mark.long
def test_a_worker_is_killed_paused_and_started_again_alone(tmp_path):
    script = tmp_path / "script.py"
    with StandaloneCluster.start(2, cores=1, folder=tmp_path / "kept") as cluster:
        script.write_text(f"""
from evenflow.spark.session import local_session
spark = local_session({cluster.url!r})
spark.range(0, 2, 1, 2).count()
print("ready", flush=True)
input()
print(spark.range(0, 4, 1, 4).count(), flush=True)
""")
        with subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as driver:
            assert driver.stdout.readline() == "ready\n"
            assert soon(lambda: all(len(pids) == 1 for pids in cluster.executor_pids().values()))
            first, second = cluster.workers
            (lost,) = first.executor_pids()
            first.kill()
            assert not first.running
            assert second.running
            assert soon(lambda: not Path(f"/proc/{lost}/cmdline").read_bytes())  # gone, or a zombie
            second.pause()
            assert second.running
            second.resume()
            first.restart()
            assert first.running
            driver.stdin.write("\n")
            driver.stdin.close()
            assert driver.stdout.read() == "4\n"
    assert not processes_with(str(tmp_path / "kept"))
    assert (tmp_path / "kept" / "worker-1" / "log").is_file()


def test_what_cannot_be_started_is_refused_in_one_sentence(cluster):
    with pytest.raises(InputError, match="memory takes a size"):
        StandaloneCluster.start(memory="much")
    port = int(cluster.url.rpartition(":")[2])
    with pytest.raises(
        InputError, match="the master did not start: its port is taken; give another"
    ):
        StandaloneCluster.start(1, port=port)
