"""What all tests share: hypothesis' settings, a Spark session, a cluster, a broker, an S3 server."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from hypothesis import settings

from connect_server import CONNECT_PREAMBLE, connect_server

# The same examples in every run; and no deadline: the first call of a kernel may compile it.
settings.register_profile("evenflow", derandomize=True, deadline=None)
# Fresh ones, for `make test-random`: a failure prints how to repeat it.
settings.register_profile("random", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("evenflow")

# A shell starts background jobs with SIGINT ignored, and their children inherit that: tests that
# interrupt a process would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Much of a short Java process is its second compiler at work on code that will hardly be used: the
# many drivers that tests start, and kill, do without it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

NO_CHROMIUM = "there is no Chromium on this machine"

CLUSTER_PREAMBLE = """\
from evenflow.spark.session import local_session

spark = local_session({url!r}, **{settings!r})
"""

SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": 4}


@pytest.fixture(scope="session", autouse=True)
def compiled_code():
    """Compiled code stays where it is, also under tests that name another cache."""
    from evenflow.kernels.jit import cache_directory

    cache_directory()


@pytest.fixture(scope="session")
def spark():
    """The local Spark session of all tests of a process, with two threads."""
    _skip_without_spark()
    from evenflow.spark.session import local_session

    session = local_session("local[2]", "evenflow tests", **SETTINGS, **_kafka_connector())
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect(tmp_path_factory):
    """Runs a script with `spark`, a Spark Connect session; gives what it printed.

    One Python process cannot have a classic session and a Connect session. So the server, started
    once, is a process of its own, and every script is one more: `connect("print(spark.version)")`.
    A script that fails fails the test, with what it said on standard error.
    """
    _skip_without_spark()
    pytest.importorskip("grpc")
    with connect_server(**SETTINGS) as url:
        yield _scripts(tmp_path_factory, "connect", CONNECT_PREAMBLE.format(url=url))


@pytest.fixture(scope="session")
def cluster():
    """The one standalone cluster of all tests: two workers with a core each.

    They share nothing but what a test names, and the compiled kernels, which take long to make.
    """
    _skip_without_spark()
    from evenflow.kernels.jit import cache_directory
    from evenflow.spark.standalone_cluster import StandaloneCluster

    kernels = {"EVENFLOW_CACHE_DIR": str(cache_directory().parents[1])}
    with StandaloneCluster.start(2, cores=1, environment=kernels) as started:
        yield started


@pytest.fixture(scope="session")
def on_cluster(cluster, tmp_path_factory):
    """Runs a script with `spark`, a session on the cluster; gives what it printed.

    A process of its own, because one process cannot have two classic sessions.
    """
    preamble = CLUSTER_PREAMBLE.format(url=cluster.url, settings=SETTINGS)
    return _scripts(tmp_path_factory, "cluster", preamble)


@pytest.fixture(scope="session")
def on_cluster_with_s3(cluster, s3_server, tmp_path_factory):
    """Runs a script with `spark`, a session on the cluster whose default file system is the bucket of
    `place`, an S3 server: executors and driver share nothing but that; gives what it printed."""
    place = s3_server.endpoint
    settings = {**SETTINGS, **s3_settings(place), "spark.hadoop.fs.defaultFS": place.s3a("")}
    preamble = CLUSTER_PREAMBLE.format(url=cluster.url, settings=settings)
    preamble += f"from evenflow_lab.checking.s3_endpoint import S3Endpoint\nplace = {place!r}\n"
    return _scripts(tmp_path_factory, "cluster-s3", preamble)


def s3_settings(place):
    """Spark's settings for `s3a://`."""
    from evenflow_lab.checking.store_jars import s3a_jars

    return {**place.spark_settings, "spark.jars": ",".join(map(str, s3a_jars()))}


@pytest.fixture(scope="session")
def broker():
    """The one Kafka broker of all tests, started when the first of them asks; topics are their own.

    Where it cannot be had, the tests that need it fail. They are skipped only where the environment
    variable EVENFLOW_OFFLINE says that this machine cannot fetch it.
    """
    pytest.importorskip("confluent_kafka")
    from evenflow.model import InputError
    from evenflow.spark.jars import OFFLINE
    from evenflow_lab.checking.broker import Broker

    try:
        started = Broker.start()
    except InputError as error:
        if os.environ.get(OFFLINE):
            pytest.skip(f"{OFFLINE} is set: {error}")
        raise
    with started:
        yield started


@pytest.fixture(scope="session")
def s3_server():
    """The one S3 server of all tests of a process, in memory; paths in its bucket are their own."""
    pytest.importorskip("moto")
    from evenflow_lab.checking.s3_server import S3Server

    with S3Server.start() as started:
        yield started


@pytest.fixture(scope="session")
def hdfs_server():
    """The one HDFS of all tests of a process; paths in it are their own. It takes some ten seconds.

    As for `broker`, tests are skipped only where EVENFLOW_OFFLINE is set and it was not fetched before.
    """
    pytest.importorskip("requests")
    _skip_without_spark()  # whose Ivy fetches it
    from evenflow.model import InputError
    from evenflow.spark.jars import OFFLINE
    from evenflow_lab.checking.hdfs_server import HdfsServer

    try:
        started = HdfsServer.start()
    except InputError as error:
        if os.environ.get(OFFLINE):
            pytest.skip(f"{OFFLINE} is set: {error}")
        raise
    with started:
        yield started


def _scripts(tmp_path_factory, name, preamble):
    """Runs scripts as processes; one that fails fails the test, with what it said on standard error."""

    def run(script: str, timeout: float = 240) -> str:
        folder = tmp_path_factory.mktemp(name)
        path = folder / "script.py"
        path.write_text(preamble + textwrap.dedent(script))
        ended = subprocess.run(
            [sys.executable, path], cwd=folder, capture_output=True, text=True, timeout=timeout
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def _kafka_connector():
    """Spark's setting for its Kafka connector; none on a machine that says that it is offline."""
    from evenflow.kafka.artifacts import connector_jars
    from evenflow.model import InputError
    from evenflow.spark.jars import OFFLINE

    try:
        return {"spark.jars": ",".join(str(jar) for jar in connector_jars())}
    except InputError:
        if os.environ.get(OFFLINE):
            return {}
        raise


def pytest_terminal_summary(terminalreporter):
    """Say in the last lines what was not tested, where a browser is missing."""
    every = terminalreporter.stats.get("skipped", [])
    skipped = [report for report in every if NO_CHROMIUM in str(report.longrepr)]
    if skipped:
        terminalreporter.section("not tested", sep="-")
        terminalreporter.write_line(
            f"{len(skipped)} tests of the live page were skipped, because {NO_CHROMIUM}: install it, "
            "as with `apt-get install chromium`, or set EVENFLOW_CHROMIUM to its path"
        )


def _skip_without_spark():
    pytest.importorskip("pyspark.sql")
    from evenflow.model import InputError
    from evenflow.spark.java import find_java

    try:
        find_java()
    except InputError as error:
        pytest.skip(str(error))
