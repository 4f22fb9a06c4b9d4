"""Before the first batch: every executor answers for itself, and what it lacks is one sentence."""

import json
import socket
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

REFUSED = """
import json
import evenflow as ef
from evenflow.spark.preflight import preflight
from evenflow.storage.posix import PosixStorage

def refused(do, *arguments):
    try:
        do(*arguments)
    except ef.InputError as error:
        return str(error)
    raise AssertionError("not refused")
"""

# /proc/self/cwd is another directory in every process: a path that machines do not share.
ON_A_CLUSTER = (
    REFUSED
    + """
import evenflow, os, sys

shared, here = PosixStorage({shared!r}), PosixStorage("/proc/self/cwd/ckpt")
executors = preflight(spark, [shared, shared])
assert len(executors) == 2, executors
assert len({{executor.directory for executor in executors}}) == 2, executors
assert not os.listdir({shared!r} + "/preflight")

def start():
    rows = spark.readStream.format("rate").load().selectExpr("value AS page")
    result = ef.keyed(rows, "page").balance("key", partitions=2).agg(n=ef.count())
    return result.writeStream.format("noop").option("checkpointLocation", here.where()).start()

said = [refused(start)]
sys.modules["evenflow.spark.preflight"].VERSION = "9.9"
said.append(refused(preflight, spark))
sys.modules["evenflow.spark.preflight"].VERSION = {version!r}
spark.sparkContext.pythonExec = {bare!r}
said.append(refused(preflight, spark, [shared]))
spark.sparkContext.pythonExec = "/no/such/python"
said.append(refused(preflight, spark))
print(json.dumps(said))
"""
)


def test_what_an_executor_lacks_is_one_sentence_that_names_its_host(on_cluster, tmp_path):
    from evenflow import __version__

    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    script = ON_A_CLUSTER.format(shared=str(tmp_path), bare=str(bare), version=__version__)
    not_shared, other_version, without_packages, no_python = json.loads(on_cluster(script))
    host = f"the executor on {socket.gethostname()} (in /"
    assert not_shared.startswith(host)
    assert "does not see what the driver writes to /proc/self/cwd/ckpt" in not_shared
    assert "give a location that the driver and all executors share" in not_shared
    assert not_shared.endswith("(2 of 2 executors fail)")
    assert other_version.startswith(host)
    assert f"has evenflow {__version__}, and the driver 9.9; install the driver's" in other_version
    assert without_packages.startswith(host)
    assert "which does not have pyarrow; install evenflow" in without_packages
    assert "cannot start Python" in no_python
    assert "/no/such/python" in no_python
    for sentence in (not_shared, other_version, without_packages, no_python):
        assert "\n" not in sentence
        assert "Traceback" not in sentence


def test_on_spark_connect_the_server_must_see_what_the_client_sees(connect, tmp_path):
    script = (
        REFUSED
        + f"""
(executor,) = preflight(spark, [PosixStorage({str(tmp_path)!r})])
assert executor.versions["evenflow"] == ef.__version__
print(refused(preflight, spark, [PosixStorage("/proc/self/cwd/ckpt")]))
"""
    )
    assert "does not see what the driver writes to /proc/self/cwd/ckpt" in connect(script)


def test_in_local_mode_nothing_is_run(spark):
    from evenflow.spark.preflight import preflight
    from evenflow.storage.posix import PosixStorage

    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup(None)
    assert preflight(spark, [PosixStorage("/no/such/directory")]) == []
    assert tracker.getJobIdsForGroup(None) == before


@pytest.mark.long
def test_doctor_asks_every_executor_of_a_cluster(cluster, tmp_path):
    command = [sys.executable, "-m", "evenflow.cli", "doctor", "--json", "--master", cluster.url]

    def checks_of(location):
        ended = subprocess.run(
            [*command, "--checkpoint", str(location)],
            capture_output=True,
            text=True,
        )
        return ended.returncode, json.loads(ended.stdout)["checks"]

    code, checks = checks_of(tmp_path / "ckpt")
    assert code == 0, checks
    executors = [check for check in checks if check["name"].startswith("executor on ")]
    assert len(executors) == 2
    assert {check["verdict"] for check in executors} == {"ok"}
    assert checks[-1]["found"] == f"{tmp_path / 'ckpt'}, seen by 2 executors"

    code, checks = checks_of("/proc/self/cwd/ckpt")
    assert code == 1
    assert (checks[-1]["name"], checks[-1]["verdict"]) == ("executors", "problem")
    assert "does not see what the driver writes" in checks[-1]["found"]
