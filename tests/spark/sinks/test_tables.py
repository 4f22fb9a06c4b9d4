"""Delta and Iceberg themselves, on a Spark that both have a release for."""

import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from evenflow_lab.checking.exactly_once.processes import Driver
from evenflow_lab.checking.exactly_once.stream import Truth, add_files, in_order
from evenflow_lab.checking.table_formats import table_environment

pytestmark = [pytest.mark.spark, pytest.mark.long]

DRIVER = "evenflow_lab.checking.exactly_once.table_driver"
KILLS = int(
    os.environ.get("EVENFLOW_KILLS", "4")
)  # ten take a quarter of an hour on a busy machine


def test_a_driver_killed_between_delivery_and_commit_leaves_every_batch_once(tmp_path):
    add_files(tmp_path / "in", 0, KILLS, seed=28, rows=60, keys=40)
    (tmp_path / "marks").mkdir()
    environment, kills = table_environment(), 0
    while not (tmp_path / "tables.json").exists():
        with Driver(tmp_path, module=DRIVER, environment=environment) as driver:
            code, said = driver.wait()
            assert code in (0, -9), said
            kills += code == -9
            driver.kill(everybody=True)
    assert kills == KILLS
    assert len(list((tmp_path / "marks").iterdir())) == KILLS
    truth, expected = Truth(), []
    for number in range(KILLS):
        touched = truth.add(pq.read_table(tmp_path / "in" / f"{number:05d}.parquet"))
        expected += truth.rows(touched)
    found = json.loads((tmp_path / "tables.json").read_text())
    for table in ("delta", "iceberg"):
        assert in_order(map(tuple, found[table])) == in_order(expected), table


SCRIPT = """
import shutil
import sys
import evenflow as ef
from evenflow.spark.query import QueryFailed
from evenflow.spark.session import local_session
from evenflow.spark.sinks.iceberg import newest_batch
from evenflow_lab.checking.table_formats import table_settings

place = sys.argv[1]
spark = local_session("local[2]", **table_settings(place + "/warehouse"))
spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.web")
spark.range(20).selectExpr("id % 3 AS key", "id").write.parquet(place + "/in")
stream = spark.readStream.schema("key long, id long").parquet(place + "/in")
result = ef.keyed(stream, "key").balance("key", partitions=2).agg(n=ef.count())

def writer(name):
    at = result.writeStream.option("checkpointLocation", f"{place}/{name}")
    return at.trigger(availableNow=True)

def shown(table):
    spark.catalog.refreshTable(table)  # the query has a session, and so a catalog, of its own
    return sorted(tuple(row) for row in spark.table(table).collect())

assert writer("a").toTable("deltas", "delta", partitionBy="key").awaitTermination(300)
print(shown("deltas"), spark.sql("DESCRIBE DETAIL deltas").first().partitionColumns)
assert writer("b").toTable("lake.web.hits", "iceberg", partitionBy="key").awaitTermination(300)
print(shown("lake.web.hits"))
rows = spark.table("lake.web.hits.snapshots").collect()
marked = [row.summary for row in rows if "evenflow.batch" in row.summary]
print([summary["evenflow.batch"] for summary in marked])
print(newest_batch(spark, "lake.web.hits", marked[0]["evenflow.query"])[0])
assert writer("c").toTable("lake.web.hits").awaitTermination(300)  # the format is the table's
print(len(shown("lake.web.hits")))
assert writer("d").format("iceberg").start("lake.web.more").awaitTermination(300)
print(len(shown("lake.web.more")))
for name, table in (("a", "deltas"), ("b", "lake.web.hits")):  # as from a backup before batch 0
    for part in ("spark", "evenflow/manifests", "evenflow/plans"):
        shutil.rmtree(f"{place}/{name}/{part}")
    try:
        writer(name).toTable(table).awaitTermination(300)
    except QueryFailed as error:
        print(str(error).partition(":")[0])
for path, format in ((place + "/x", "iceberg"), (None, "delta")):
    try:
        writer("e").start(path, format)
    except ef.InputError as error:
        print(str(error).partition(";")[0].replace(place, "PLACE"))
"""

PRINTED = """\
[(0, 7), (1, 7), (2, 6)] ['key']
[(0, 7), (1, 7), (2, 6)]
['0']
0
6
3
deltas has batch 0, or a later one, made of other rows
lake.web.hits has batch 0, or a later one, made of other rows
'PLACE/x' is a path, and Iceberg finds its tables in a catalog
format 'delta' needs a place
"""


def test_tables_are_made_and_appended_to_with_the_batch_in_their_history(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=os.environ | table_environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED
