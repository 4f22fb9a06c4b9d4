"""A running application by Spark's REST interface, turned into the events of a log."""

from __future__ import annotations

import calendar
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

from evenflow.diagnosis.application import Application, Recorder
from evenflow.diagnosis.plans import partitioning
from evenflow.model import InputError

_TIMEOUT = 20.0  # seconds
_TASKS_AT_ONCE = 10_000
_READ = "records read"
_LINE = re.compile(r"^([\s:|+*-]*)(\S.*?)\s*\((\d+)\)\s*$")
_DETAIL = re.compile(r"^\((\d+)\) ")
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"


def read_application(address: str) -> Application:
    """The application behind the address of Spark's web interface, or of its history server.

    Guarantee: only read. What its REST interface does not say (which operator of several belongs to a
    stage) stays open.

    Parameters:
        address: http://driver:4040, or that of one application: http://history:18080/history/app-1.
    """
    base, wanted = _base(address)
    found = _get(f"{base}/applications")
    if not isinstance(found, list) or not found:
        raise InputError(f"{address!r} has no application of Spark")
    names = [str(one["id"]) for one in found]
    name = wanted or names[0]
    if wanted is None and len(names) > 1:
        raise InputError(
            f"{address!r} has {len(names)} applications; name one: {address}/history/{names[0]}"
        )
    recorder = Recorder()
    for event in _events(f"{base}/applications/{quote(name)}", found, name):
        recorder.take(event)
    return recorder.application(
        address, ("the application is running: this is what it has done so far",)
    )


def _base(address: str) -> tuple[str, str | None]:
    """The address of the REST interface, and the application that is named.

    Example:
        >>> _base("http://h:18080/history/app-1/jobs/")
        ('http://h:18080/api/v1', 'app-1')
    """
    before, _, rest = address.rstrip("/").partition("/history/")
    before = before.partition("/api/v1")[0].rstrip("/")
    before = re.sub(r"/(jobs|stages|storage|environment|executors|SQL)$", "", before)
    return f"{before}/api/v1", rest.split("/")[0] or None


def _get(address: str) -> Any:
    try:
        with urlopen(address, timeout=_TIMEOUT) as answer:
            return json.load(answer)
    except HTTPError as error:
        raise InputError(f"{address} answers {error.code} {error.reason}; is this Spark?") from None
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"{address} does not answer as Spark does: {reason}; give the address of the driver's web "
            "interface, such as http://driver:4040, while the application runs"
        ) from None


def _events(at: str, known: list[Mapping[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    yield {
        "Event": "SparkListenerApplicationStart",
        "App Name": next((one.get("name") for one in known if one["id"] == name), name),
    }
    settings = dict(_get(f"{at}/environment").get("sparkProperties") or ())
    yield {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": settings}
    stages = _get(f"{at}/stages")
    jobs = {int(job["jobId"]): set(job["stageIds"]) for job in _get(f"{at}/jobs")}
    counters: dict[int, list[int]] = {}
    for event, of_stages in _plans(at, jobs):
        yield event
        for stage, counter in of_stages:
            counters.setdefault(stage, []).append(counter)
    for stage in stages:
        number, attempt = int(stage["stageId"]), int(stage["attemptId"])
        yield {
            "Event": "SparkListenerStageSubmitted",
            "Stage Info": {
                "Stage ID": number,
                "Stage Attempt ID": attempt,
                "Stage Name": stage["name"],
                "Number of Tasks": stage["numTasks"],
            },
        }
        shuffled = bool(stage.get("shuffleReadRecords") or stage.get("shuffleReadBytes"))
        for task in _tasks(f"{at}/stages/{number}/{attempt}"):
            if task.get("status") == "RUNNING":
                yield _started(number, task)
            else:
                yield _task(number, attempt, task, counters.get(number, []) if shuffled else [])


def _tasks(at: str) -> Iterator[Mapping[str, Any]]:
    offset = 0
    while True:
        found = _get(f"{at}/taskList?offset={offset}&length={_TASKS_AT_ONCE}")
        yield from found
        offset += len(found)
        if len(found) < _TASKS_AT_ONCE:
            return


def _started(stage: int, task: Mapping[str, Any]) -> dict[str, Any]:
    launched = _milliseconds(str(task["launchTime"]))
    return {
        "Event": "SparkListenerTaskStart",
        "Stage ID": stage,
        "Task Info": {"Task ID": task["taskId"], "Launch Time": launched},
    }


def _task(stage: int, attempt: int, task: Mapping[str, Any], counters: list[int]) -> dict[str, Any]:
    metrics = task.get("taskMetrics")
    launched = _milliseconds(str(task["launchTime"]))
    ended = task.get("status") == "SUCCESS"
    figures: dict[str, Any] = {}
    if metrics and ended:
        read, shuffle = metrics["inputMetrics"], metrics["shuffleReadMetrics"]
        figures = {
            "Executor Run Time": metrics["executorRunTime"],
            "JVM GC Time": metrics["jvmGcTime"],
            "Memory Bytes Spilled": metrics["memoryBytesSpilled"],
            "Disk Bytes Spilled": metrics["diskBytesSpilled"],
            "Input Metrics": {
                "Bytes Read": read["bytesRead"], "Records Read": read["recordsRead"]
            },
            "Shuffle Read Metrics": {
                "Total Records Read": shuffle["recordsRead"],
                "Local Bytes Read": shuffle["localBytesRead"],
                "Remote Bytes Read": shuffle["remoteBytesRead"],
            },
        }  # fmt: skip
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Task Info": {
            "Index": task["index"],
            "Partition ID": task.get("partitionId", task["index"]),
            "Launch Time": launched,
            "Finish Time": launched + int(task.get("duration") or 0),
            "Executor ID": task["executorId"],
            "Host": task["host"],
            "Failed": not ended,
            "Accumulables": [{"ID": one, "Metadata": "sql", "Update": 0} for one in counters],
        },
        "Task Metrics": figures,
    }


def _milliseconds(text: str) -> int:
    """2026-08-01T10:00:00.123GMT → milliseconds since 1970."""
    moment, _, fraction = text.removesuffix("GMT").removesuffix("Z").partition(".")
    seconds = calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%S"))
    return seconds * 1000 + int((fraction or "0")[:3].ljust(3, "0"))


def _plans(
    at: str, jobs: Mapping[int, set[int]]
) -> Iterator[tuple[dict[str, Any], list[tuple[int, int]]]]:
    """The plan of each query as an event, and which stages may read from which of its shuffles."""
    try:
        queries = _get(f"{at}/sql?details=true&planDescription=true&length=1000")
    except InputError:  # a Spark without SQL
        return
    for query in queries:
        number = int(query["id"])
        plan, shuffles = plan_of_text(str(query.get("planDescription") or ""), 1000 * (number + 1))
        if plan is None:
            continue
        ran = [
            int(job)
            for key in ("runningJobIds", "successJobIds", "failedJobIds")
            for job in query.get(key) or ()
        ]
        stages = sorted({stage for job in ran for stage in jobs.get(job, ())})
        # A join has two shuffles; where they belong to several operators, it stays open, unless all
        # have the same keys.
        of_one = len({user for _, user, _ in shuffles}) == 1
        if not of_one and len({keys for _, _, keys in shuffles}) > 1:
            shuffles = []
        pairs = [(stage, counter) for stage in stages for counter, _, _ in shuffles]
        yield {"Event": _SQL, "executionId": number, "sparkPlanInfo": plan}, pairs


def plan_of_text(
    text: str, first: int
) -> tuple[dict[str, Any] | None, list[tuple[int, int, tuple[str, ...]]]]:
    """A plan as `explain("formatted")` prints it, as a tree; and its hash shuffles, each with a
    counter, the operator above it and the keys.

    Parameters:
        text: the description.
        first: numbers from here on stand for the counters that the text does not have.
    """
    arguments = _arguments(text)
    root: dict[str, Any] | None = None
    above: list[tuple[int, dict[str, Any]]] = []
    shuffles: list[tuple[int, int, tuple[str, ...]]] = []
    for line in text.partition("\n\n")[0].splitlines():
        if "Initial Plan" in line:
            break
        match = _LINE.match(line)
        if match is None:
            continue
        depth, name, number = len(match[1]), match[2].lstrip("* "), int(match[3])
        while above and above[-1][0] >= depth:
            above.pop()
        node: dict[str, Any] = {
            "nodeName": name,
            "simpleString": f"{name} {arguments.get(number, '')}",
            "children": [],
            "metrics": [],
        }
        if name == "Exchange" and "hashpartitioning" in node["simpleString"]:
            counter = first + number
            node["metrics"] = [{"name": _READ, "accumulatorId": counter}]
            users = [one for _, one in above if not one["nodeName"].startswith(_PLUMBING)]
            keys, _, _ = partitioning(node["simpleString"])
            shuffles.append((counter, id(users[-1]) if users else 0, keys))
        if above:
            above[-1][1]["children"].append(node)
        elif root is None:
            root = node
        above.append((depth, node))
    return root, shuffles


_PLUMBING = ("Sort", "Project", "AQEShuffleRead", "ShuffleQueryStage", "Filter")


def _arguments(text: str) -> dict[int, str]:
    found: dict[int, str] = {}
    number = None
    for line in text.splitlines():
        if match := _DETAIL.match(line):
            number = int(match[1])
        elif number is not None and line.startswith(("Arguments: ", "Join type: ")):
            found[number] = f"{found.get(number, '')} {line.partition(': ')[2]}".strip()
    return found
