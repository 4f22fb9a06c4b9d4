"""A Spark of its own that writes to a bucket and keeps a streaming query's checkpoint there."""

import subprocess
import sys

import obstore
from obstore.store import from_url

SCRIPT = """
import sys
from evenflow.spark.session import local_session
from evenflow_lab.checking.s3_endpoint import S3Endpoint
from evenflow_lab.checking.store_jars import s3a_jars

place = S3Endpoint(*sys.argv[1:])
jars = {"spark.jars": ",".join(map(str, s3a_jars())), "spark.sql.shuffle.partitions": 2}
spark = local_session("local[2]", **jars, **place.spark_settings)
spark.range(1000).selectExpr("id % 7 AS k").write.parquet(place.s3a("in"))
counts = spark.readStream.schema("k long").parquet(place.s3a("in")).groupBy("k").count()
writer = counts.writeStream.outputMode("complete").format("memory").queryName("counts")
writer = writer.option("checkpointLocation", place.s3a("checkpoint")).trigger(availableNow=True)
writer.start().awaitTermination()
print(spark.sql("SELECT count(*), sum(count) FROM counts").first())
"""


def run_spark_on(place):
    """Run it, and check the counts and that the checkpoint has its commit.

    Parameters:
        place: the S3Endpoint.
    """
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, place.url, place.bucket],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Row(count(1)=7, sum(count)=1000)" in ended.stdout
    store = from_url(place.uri("checkpoint"), **place.obstore_arguments)
    names = {entry["path"] for listed in obstore.list(store) for entry in listed}
    assert "commits/0" in names
