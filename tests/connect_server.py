"""A Spark Connect server in a process of its own, for tests."""

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager

SERVER = """
import json, sys
from evenflow.spark.session import local_session
spark = local_session("local[2]", "evenflow connect tests", **json.loads(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()  # until the test's end closes it, or the test process is gone
spark.stop()
"""

CONNECT_PREAMBLE = """\
import pyarrow as pa
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote({url!r}).getOrCreate()
"""


@contextmanager
def connect_server(**conf):
    """The address of a server that runs as long as the `with` does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = conf | {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
    }
    kept = ("SPARK_SUBMIT_OPTS",)  # the quick compiler, as for every other JVM of the tests
    environment = {n: v for n, v in os.environ.items() if n in kept or not n.startswith("SPARK_")}
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    try:
        assert server.stdout.readline() == "ready\n", "the Spark Connect server did not start"
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stdin.close()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
