"""Checkpoints on any store: found with the session's credentials, and the same place for Spark."""

import json

import obstore
import pytest
from obstore.store import from_url
from typer.testing import CliRunner

import evenflow as ef
from evenflow.cli.app import app
from evenflow.spark.locations import spark_address, storage_for
from evenflow.storage import PosixStorage, storage_at
from evenflow_lab.checking.exactly_once.driver import FAILED
from evenflow_lab.checking.exactly_once.processes import Driver, wait_for
from evenflow_lab.checking.exactly_once.stream import add_files, check_all

pytestmark = pytest.mark.spark

SECRET = "hidden-from-everybody"


@pytest.fixture
def hadoop(spark):
    """Sets Hadoop's settings of the session for one test."""
    names = []

    def put(**settings):
        for name, value in settings.items():
            names.append(name.replace("_", "."))
            spark.conf.set(names[-1], value)

    yield put
    for name in names:
        spark.conf.unset(name)


def test_spark_gets_an_address_with_a_scheme(spark, hadoop, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert spark_address(spark, "/data/x y") == "file:///data/x y"
    assert spark_address(spark, "x") == f"file://{tmp_path}/x"
    assert spark_address(spark, "s3://b/x") == "s3a://b/x"
    for address in (
        "file:///data/x",
        "s3a://b/x",
        "gs://b/x",
        "abfss://c@a.dfs.core.windows.net/x",
    ):
        assert spark_address(spark, address) == address
    hadoop(fs_s3_impl="com.amazon.ws.emr.hadoop.fs.EmrFileSystem")
    assert spark_address(spark, "s3://b/x") == "s3://b/x"


def test_a_store_is_reached_with_the_sessions_credentials_unless_others_are_given(spark, hadoop):
    hadoop(
        fs_s3a_access_key="session", fs_s3a_secret_key=SECRET, fs_s3a_endpoint_region="eu-west-1"
    )
    options = dict(storage_for(spark, "s3a://bucket/x").options)
    assert options["access_key_id"] == "session"
    assert (options["secret_access_key"], options["region"]) == (SECRET, "eu-west-1")
    given = {"access_key_id": "mine", "secret_access_key": "also-hidden"}
    options = dict(storage_for(spark, "s3://bucket/x", given).options)
    assert options == {**given, "region": "eu-west-1"}
    assert storage_for(spark, "/data/x", given) == PosixStorage("/data/x")


def test_the_settings_of_a_writer_show_no_credentials(spark):
    rows = spark.readStream.format("rate").load()
    writer = ef.keyed(rows, "value").agg(n=ef.count()).writeStream
    writer.option("storage.secret_access_key", SECRET)
    assert writer._settings.storage_options == {"secret_access_key": SECRET}
    assert SECRET not in repr(writer._settings)


ON_S3 = """
import os
import evenflow as ef
from evenflow.cli.app import main
from evenflow.spark.sinks import read_output
from pyspark.sql import functions as F

taken = {{}}

def take(df, batch):
    taken.update({{row["page"]: tuple(row) for row in df.collect()}})

def write(first, last):
    rows = spark.range(first, last, 1, 2).selectExpr("id % 7 AS page", "id AS ms")
    rows.write.mode("append").parquet(place.s3a("locations/in"))

def run(location, output=None):
    rows = spark.readStream.schema("page long, ms long").option("maxFilesPerTrigger", 2)
    writer = (
        ef.keyed(rows.parquet(place.s3a("locations/in")), "page").balance("key", partitions=2)
        .agg(hits=ef.count(), ms=ef.sum("ms")).writeStream
        .option("checkpointLocation", location).trigger(availableNow=True)
    )
    query = writer.foreachBatch(take).start() if output is None else writer.start(output)
    assert query.awaitTermination(300)
    return query.metrics()

def plain():
    rows = spark.read.parquet(place.s3a("locations/in")).groupBy("page")
    return sorted(map(tuple, rows.agg(F.count("*"), F.sum("ms")).collect()))

write(0, 1000)
(first,) = run(place.uri("locations/ckpt"), place.uri("locations/out"))
assert first["requests"]["tasks"]["writes"] >= 2, first
write(1000, 1500)
again = run(place.s3a("locations/ckpt"), place.s3a("locations/out"))
assert [batch["batch"] for batch in again] == [0, 1]
newest = read_output(spark, place.uri("locations/out")).where("batch = 1").drop("batch")
assert sorted(map(tuple, newest.collect())) == plain()
# A path is local, whatever Spark's default file system is; foreachBatch reads files there.
run({folder!r})
assert sorted(os.listdir({folder!r})) == ["evenflow", "spark"]
assert sorted(taken.values()) == plain()
command = ["run", "--input", place.uri("locations/in"), "--output", place.uri("locations/run")]
command += ["--key", "page", "--aggregate", "hits=count", "--aggregate", "ms=sum:ms", "--json"]
assert main([*command, "--stream", "--checkpoint", place.uri("locations/run-ckpt")]) == 0
rows = read_output(spark, place.uri("locations/run")).where("batch = 0").drop("batch")
assert sorted(map(tuple, rows.select("page", "hits", "ms").collect())) == plain()
print("right")
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_query_on_a_cluster_that_shares_nothing_but_a_bucket(
    on_cluster_with_s3, s3_server, tmp_path
):
    """The same answer as Spark's own, also after a restart; with the bucket as Spark's default file
    system, so that a path without a scheme would be looked for there."""
    place = s3_server.endpoint
    script = ON_S3.format(folder=str(tmp_path / "ckpt"))
    assert on_cluster_with_s3(script, timeout=600).endswith("right\n")
    bucket = from_url(place.uri(""), **place.obstore_arguments)
    found = [entry for listed in obstore.list(bucket) for entry in listed]
    names = [entry["path"] for entry in found if entry["size"]]  # others are marks of directories
    assert not [name for name in names if "ckpt" in name and not name.startswith("locations/")]
    kept = [name for name in names if name.startswith("locations/ckpt/")]
    assert {"locations/ckpt/spark/commits/1", "locations/ckpt/evenflow/identity.json"} <= set(kept)
    for name in kept:
        content = bytes(obstore.get(bucket, name).bytes())
        assert place.secret_key.encode() not in content, name
        assert place.access_key.encode() not in content, name

    options = [f"--storage-option={k}={v}" for k, v in place.storage_options.items()]
    command = ["state", "verify", place.uri("locations/ckpt"), "--json", *options]
    verified = CliRunner().invoke(app, command)
    assert json.loads(verified.output)["intact"], verified.output
    shown = CliRunner().invoke(app, ["state", "show", *command[2:]])
    assert json.loads(shown.output)["keys"] == 7
    metrics = ef.read_metrics(place.uri("locations/ckpt"), place.storage_options)
    assert [batch["rows"] for batch in metrics] == [1000, 500]


@pytest.mark.slow
@pytest.mark.long
def test_a_driver_that_was_frozen_past_its_lease_stops_and_changes_nothing(s3_server, tmp_path):
    """Two drivers on one checkpoint on S3; everything of the first is stopped, and goes on later."""
    from conftest import s3_settings

    place = s3_server.endpoint
    files = tmp_path / "in"
    checkpoint, output = (
        storage_at(place.uri(f"frozen/{name}"), place.storage_options) for name in ("ckpt", "out")
    )
    add_files(files, 0, 6, seed=11)
    settings = s3_settings(place)
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    here = (files, checkpoint.where(), output.where(), "--lease-seconds", 3, *conf)
    with Driver(*here, "--forever") as frozen:
        assert wait_for(lambda: bool(output.list("batch=1/")), frozen, every=0.05)
        frozen.pause()
        done = len(output.list("batch="))
        with Driver(*here) as other:
            code, said = other.wait()
            assert code == 0, said
        assert len(output.list("batch=")) > done
        frozen.resume()
        code, said = frozen.wait()
    assert code == FAILED, said
    assert f"another driver has taken over the checkpoint {checkpoint.where()}" in said
    assert check_all(files, checkpoint, output) == 6
