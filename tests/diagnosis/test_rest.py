"""A running application by Spark's REST interface: the same verdict as from its log."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from evenflow.diagnosis import diagnose
from evenflow.diagnosis.rest import plan_of_text, read_application
from evenflow.model import InputError

LOGS = Path(__file__).parent / "logs"


def events_of(name):
    text = pa.input_stream(str(LOGS / f"{name}.zstd"), compression="zstd").read()
    return [json.loads(line) for line in text.splitlines()]


def as_rest(name):
    """What Spark's REST interface says of the application that wrote a log: path → answer."""
    events, at = events_of(name), "/api/v1/applications/app-1"
    stages, tasks, jobs, plans = {}, {}, [], {}
    for event in events:
        kind = event["Event"].rpartition(".")[2]
        if kind == "SparkListenerJobStart":
            jobs.append({"jobId": event["Job ID"], "stageIds": event["Stage IDs"]})
        elif kind == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            stages[info["Stage ID"]] = {
                "stageId": info["Stage ID"], "attemptId": 0, "name": info["Stage Name"],
                "numTasks": info["Number of Tasks"], "shuffleReadRecords": 0,
            }  # fmt: skip
        elif kind == "SparkListenerTaskEnd":
            info, metrics = event["Task Info"], event["Task Metrics"]
            shuffle = metrics["Shuffle Read Metrics"]
            stages[event["Stage ID"]]["shuffleReadRecords"] += shuffle["Total Records Read"]
            seconds = info["Launch Time"] // 1000
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            tasks.setdefault(event["Stage ID"], []).append(
                {
                    "taskId": info["Task ID"], "index": info["Index"], "status": "SUCCESS",
                    "launchTime": f"{moment}.{info['Launch Time'] % 1000:03d}GMT",
                    "duration": info["Finish Time"] - info["Launch Time"],
                    "executorId": info["Executor ID"], "host": info["Host"],
                    "taskMetrics": {
                        "executorRunTime": metrics["Executor Run Time"],
                        "jvmGcTime": metrics["JVM GC Time"],
                        "memoryBytesSpilled": metrics["Memory Bytes Spilled"],
                        "diskBytesSpilled": metrics["Disk Bytes Spilled"],
                        "inputMetrics": {
                            "bytesRead": metrics["Input Metrics"]["Bytes Read"],
                            "recordsRead": metrics["Input Metrics"]["Records Read"],
                        },
                        "shuffleReadMetrics": {
                            "recordsRead": shuffle["Total Records Read"],
                            "localBytesRead": shuffle["Local Bytes Read"],
                            "remoteBytesRead": shuffle["Remote Bytes Read"],
                        },
                    },
                }
            )  # fmt: skip
        elif "physicalPlanDescription" in event:
            plans[event["executionId"]] = event["physicalPlanDescription"]
    ran = [job["jobId"] for job in jobs]
    return {
        "/api/v1/applications": [{"id": "app-1", "name": name}],
        f"{at}/environment": {"sparkProperties": [["spark.app.name", name]]},
        f"{at}/stages": list(stages.values()),
        f"{at}/jobs": jobs,
        f"{at}/sql": [
            {"id": number, "planDescription": plan, "successJobIds": ran[1:] if number else ran[:1]}
            for number, plan in plans.items()
        ],
        **{f"{at}/stages/{number}/0/taskList": found for number, found in tasks.items()},
    }


@pytest.fixture
def served():
    """Serves answers by path; gives the address."""
    servers = []

    def serve(answers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                found = answers.get(self.path.partition("?")[0])
                body = json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", ["hot-key-in-a-grouped-function", "spill", "uneven-input-files"])
def test_the_verdict_is_that_of_the_log(served, name):
    live, log = diagnose(served(as_rest(name))), diagnose(LOGS / f"{name}.zstd")
    assert live.kind == "live application"
    assert live.cause == log.cause
    assert [one.stage for one in live.findings] == [one.stage for one in log.findings]
    assert live.findings[0].keys == log.findings[0].keys


def test_keys_of_a_join_are_named_where_all_shuffles_have_them(served):
    [main, *_] = diagnose(served(as_rest("hot-key-in-a-join"))).findings
    assert (main.cause, main.keys) == ("hot key", ("page",))


def test_a_plan_as_text_is_a_tree():
    plans = [e["physicalPlanDescription"] for e in events_of("null-keys") if "sparkPlanInfo" in e]
    root, shuffles = plan_of_text(plans[-1], 1000)
    assert root["nodeName"].startswith("OverwriteByExpression")
    assert {keys for _, _, keys in shuffles} == {("page",)}


def test_what_is_not_spark_is_one_sentence(served):
    with pytest.raises(InputError, match="answers 404 Not Found; is this Spark"):
        read_application(served({}))
    with pytest.raises(InputError, match="has no application"):
        read_application(served({"/api/v1/applications": []}))
    several = {"/api/v1/applications": [{"id": "a"}, {"id": "b"}]}
    with pytest.raises(InputError, match=r"has 2 applications; name one: .*/history/a"):
        read_application(served(several))
    with pytest.raises(InputError, match="does not answer as Spark does"):
        read_application("http://127.0.0.1:9")


LIVE = """\
from pathlib import Path
from evenflow.spark.session import local_session
from evenflow_lab.benchmarks.diagnosis.planted import FAULTS
import evenflow as ef

fault = FAULTS["hot-key-in-a-grouped-function"]
settings = {**fault.settings, "spark.ui.enabled": "true", "spark.ui.port": "0"}
spark = local_session("local[4]", "live", preload=True, **settings)
fault.run(spark, Path("."))
address = spark.sparkContext.uiWebUrl
found = ef.diagnose(address)
[stage] = [row for row in found.tables[0].rows if row["key"] == "page"]
print("live:", stage["tasks"], stage["rows"] > 50)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.long
def test_a_real_application_answers(tmp_path):
    ran = subprocess.run([sys.executable, "-c", LIVE], capture_output=True, text=True, cwd=tmp_path)
    assert "live: 16 True" in ran.stdout, ran.stderr[-2000:]
