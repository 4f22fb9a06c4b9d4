"""An executor with an empty disk: compiled code reaches it with the tasks."""

import subprocess
import sys

import pytest

from conftest import CLUSTER_PREAMBLE, SETTINGS
from evenflow.spark.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNTS = """
import evenflow as ef

folder = {folder!r}
rows = spark.range(300).selectExpr("id % 7 AS page", "cast(id % 5 AS string) AS user")
rows.write.parquet(folder + "/in")

def check(found, key):
    want = {{r[key]: r["count"] for r in rows.groupBy(key).count().collect()}}
    assert {{r[key]: r["n"] for r in found}} == want, found

for scheme in {schemes!r}:
    for key in ("page", "user"):
        check(ef.keyed(rows, key).balance(scheme, partitions=3).agg(n=ef.count()).collect(), key)
        stream = spark.readStream.schema(rows.schema).parquet(folder + "/in")
        place = folder + "/" + scheme + key
        (ef.keyed(stream, key).balance(scheme, partitions=3).agg(n=ef.count())
            .writeStream.option("checkpointLocation", place + "-ckpt").trigger(availableNow=True)
            .start(place).awaitTermination())
        check(spark.read.parquet(place).collect(), key)
kinds = rows.selectExpr("*", "cast(page AS decimal(9, 2)) AS price")
users = ef.keyed(kinds, "page").balance("auto", partitions=2).agg(
    n=ef.approx_count_distinct("user"), m=ef.approx_count_distinct("price")).collect()
assert {{(r["n"], r["m"]) for r in users}} == {{(5, 1)}}, users
spark.stop()
"""


def compiled_on(tmp_path, schemes, **settings):
    """The files of compiled code on an executor that began without any, after it has counted."""
    with StandaloneCluster.start(1, cores=1) as cluster:
        preamble = CLUSTER_PREAMBLE.format(url=cluster.url, settings={**SETTINGS, **settings})
        script = tmp_path / "script.py"
        script.write_text(preamble + COUNTS.format(folder=str(tmp_path), schemes=schemes))
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return sorted(file.name for file in cluster.folder.rglob("*.compiled"))


@pytest.mark.parametrize("preload", [False, True])
def test_an_executor_with_an_empty_disk_compiles_nothing(tmp_path, preload):
    daemon = {"spark.python.daemon.module": "evenflow.spark.worker_daemon"} if preload else {}
    assert compiled_on(tmp_path, ("key", "d-choices", "table"), **daemon) == []


def test_an_executor_with_another_processor_compiles_for_itself(tmp_path):
    processor = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+sse2"}
    settings = {f"spark.executorEnv.{name}": value for name, value in processor.items()}
    assert compiled_on(tmp_path, ("partial-key",), **settings)
