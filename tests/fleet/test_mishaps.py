"""What goes wrong around a fleet: forgetful functions, failing queries, damaged files, executors."""

import json
import os
import sys
import time
import types

import pytest

from evenflow.fleet import leases, node, starting
from evenflow.fleet.config import QuerySpec
from evenflow.fleet.folder import Assignment, SharedFolder
from evenflow.fleet.leases import Lease
from evenflow.fleet.node import Node, Running
from evenflow.model import InputError
from pretended_fleet import Pretended

CUT = ['{"what": "dr', "", "[1, 2]", "null", '"text"', "\0" * 40, '{"what": [' * 5000]


class Query:
    """A stand-in for Spark's."""

    def __init__(self, spark, checkpoint, stops=True):
        self.spark, self.checkpoint, self.stops = spark, checkpoint, stops
        self.runId, self.isActive = f"run {len(spark.started)}", True
        self.status = {"isTriggerActive": False}
        spark.started.append(self)

    @property
    def _jsq(self):
        found = types.SimpleNamespace(resolvedCheckpointRoot=lambda: f"file:{self.checkpoint}")
        return types.SimpleNamespace(streamingQuery=lambda: found)

    def stop(self):
        self.isActive = not self.stops

    def exception(self):
        return None


class Session:
    """A stand-in for a session: what a node asks of it."""

    def __init__(self, master="local[1]"):
        self.started = []
        self.sparkContext = types.SimpleNamespace(master=master, applicationId="app-1")

    @property
    def streams(self):
        return types.SimpleNamespace(active=[q for q in self.started if q.isActive])


@pytest.fixture
def jobs(monkeypatch):
    """The module of the queries' functions; locks of the driver alone, as there is no JVM."""
    module = types.ModuleType("mishap_jobs")
    monkeypatch.setitem(sys.modules, "mishap_jobs", module)
    channel = types.SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(leases, "_java_lock", lambda spark, file: channel)
    monkeypatch.setattr(node, "TaskTime", lambda spark, run: None)
    return module


def running(session, tmp_path, grace=60.0):
    spec = QuerySpec("q", "mishap_jobs:start", str(tmp_path / "ckpt"))
    return Running(spec, session, lambda batch: None, 1.0, 10, tmp_path / "ckpt", grace)


def is_free(tmp_path):
    lease = Lease.acquire(tmp_path / "ckpt", Session())
    if lease is not None:
        lease.release()
    return lease is not None


def test_a_function_that_forgets_to_return_its_query_does_not_leave_it_running(jobs, tmp_path):
    session, elsewhere = Session(), Query(Session(), "/elsewhere")
    session.started.append(elsewhere)

    def start(spark, checkpoint):
        Query(spark, f"{checkpoint}/spark")

    jobs.start = start
    query = running(session, tmp_path)
    query.start(lambda: True)
    assert [one.isActive for one in session.started] == [True, False]
    assert query.state == "failed"
    assert "mishap_jobs:start returned None" in query.error
    assert "return the query" in query.error
    assert is_free(tmp_path)


def test_nor_does_one_that_fails_after_it_has_started_it(jobs, tmp_path):
    session = Session()

    def start(spark, checkpoint):
        Query(spark, checkpoint)
        raise KeyError("later")

    jobs.start = start
    query = running(session, tmp_path)
    query.start(lambda: True)
    assert not session.streams.active
    assert query.error == "KeyError: 'later'"
    assert is_free(tmp_path)


def test_a_query_that_cannot_be_stopped_keeps_its_lease(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "_STOP_SECONDS", 0.0)
    session = Session()

    def start(spark, checkpoint):
        Query(spark, checkpoint, stops=False)

    jobs.start = start
    query = running(session, tmp_path)
    query.start(lambda: True)
    assert query.state == "failed"
    assert "still runs" in query.error
    assert not is_free(tmp_path)
    query.stop()
    assert query.state == "failed", "it is not stopped, whatever is wanted"
    assert not is_free(tmp_path)
    session.started[0].stops = True
    query.stop()
    assert not session.streams.active
    assert is_free(tmp_path)


# --- executors that outlive their driver ---------------------------------------------------------


def killed(tmp_path, master):
    """A driver that held the lease and was killed: its locks are gone, what it wrote is not."""
    lease = Lease.acquire(tmp_path / "ckpt", Session(master))
    os.close(lease._python)


@pytest.mark.parametrize(
    ("master", "evenflow", "waits"),
    [
        ("spark://far:7077", False, True),
        ("spark://far:7077", True, False),
        ("local[2]", False, False),
    ],
)
def test_after_a_drivers_death_a_query_waits_for_its_executors(
    jobs, tmp_path, monkeypatch, master, evenflow, waits
):
    """Those of an evenflow query are fenced by its checkpoint, and local ones end with their driver."""
    if evenflow:
        (tmp_path / "ckpt" / "evenflow").mkdir(parents=True)
        (tmp_path / "ckpt" / "evenflow" / "identity.json").write_text("{}")
    killed(tmp_path, master)
    session, now = Session("spark://far:7077"), time.monotonic()
    jobs.start = lambda spark, checkpoint: Query(spark, checkpoint)
    query = running(session, tmp_path, grace=60.0)
    query.start(lambda: True)
    assert query.state == ("waiting" if waits else "running")
    if waits:
        assert "executors of app-1" in query.error
        assert not is_free(tmp_path), "nobody else may start it meanwhile"
        monkeypatch.setattr(time, "monotonic", lambda: now + 61)
        query.start(lambda: True)
    assert query.state == "running"
    query.stop()
    assert is_free(tmp_path)


def test_after_a_clean_end_there_is_no_wait_and_a_query_taken_away_meanwhile_lets_go(
    jobs, tmp_path
):
    session = Session("spark://far:7077")
    jobs.start = lambda spark, checkpoint: Query(spark, checkpoint)
    for _ in range(2):
        query = running(session, tmp_path)
        query.start(lambda: True)
        assert query.state == "running"
        query.stop()
    killed(tmp_path, "spark://far:7077")
    query = running(session, tmp_path)
    query.start(lambda: True)
    assert query.state == "waiting"
    query.stop()
    assert is_free(tmp_path)


# --- one failing query ---------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["failed", "starting", "running"])
def test_a_failing_query_does_not_stop_the_placement_of_the_others(tmp_path, monkeypatch, state):
    """It fails, is started again, runs for a moment and fails: always the same one."""
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    fleet.coordinator._unsettled = 0
    fleet.burst({"x": 0, "y": 0, "z": 1})
    fleet.report("a", "b")
    report = fleet.folder.reports()["b"]
    report["queries"]["w"].update(state=state, failures=3, known=time.time() - 1000)
    fleet.folder.report("b", report)
    fleet.coordinator.round()
    where = fleet.folder.assignment().queries
    assert where["x"] != where["y"]
    assert where["w"] == "b"


# --- damaged files -------------------------------------------------------------------------------


@pytest.mark.parametrize("content", CUT, ids=str.__len__)
def test_a_damaged_request_is_refused_and_the_next_one_answered(tmp_path, monkeypatch, content):
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    fleet.report("a", "b")
    damaged = fleet.folder.ask(what="drain", node="a")
    damaged.write_text(content)
    good = fleet.folder.ask(what="drain", node="b")
    fleet.coordinator.round()
    assert not good.exists()
    assert fleet.folder.assignment().draining == ("b",)
    assert damaged.exists(), "somebody may just be writing it"
    os.utime(damaged, (0, 0))
    fleet.coordinator.round()
    assert not damaged.exists()
    assert "not a request" in fleet.folder.refusal(damaged.with_suffix(".refused"))


@pytest.mark.parametrize("content", [*CUT, '{"epoch": "7"}', '{"draining": 3}'], ids=str.__len__)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_damaged_assignment_is_rebuilt(tmp_path, monkeypatch, content, restarted):
    fleet = Pretended(tmp_path, monkeypatch, 'initial = "none"\nalgorithm = "none"')
    fleet.coordinator.round()
    fleet.report("a", "b")
    fleet.folder.ask(what="move", query="x", node="b")
    fleet.coordinator.round()
    before = fleet.folder.assignment()
    fleet.report("a", "b")
    (fleet.folder.path / "assignment.json").write_text(content)
    with pytest.raises(InputError, match=r"assignment\.json is damaged"):
        fleet.folder.assignment()
    if restarted:
        fleet.coordinator = type(fleet.coordinator)(fleet.fleet, "fleet.toml")
    fleet.coordinator.round()
    after = fleet.folder.assignment()
    assert (after.queries, after.incarnations) == (before.queries, before.incarnations)
    assert after.epoch > before.epoch
    assert fleet.started == ["a", "b"]


def test_a_node_keeps_its_assignment_while_the_file_is_damaged(tmp_path, monkeypatch):
    fleet = Pretended(tmp_path, monkeypatch)
    session = Session()
    monkeypatch.setattr(node, "_listener", lambda on_progress: None)
    monkeypatch.setattr(
        Session, "streams", types.SimpleNamespace(addListener=lambda one: None, active=[])
    )
    fleet.folder.assign(Assignment(1, {"x": "a"}, {"a": 1}))
    a = Node(fleet.fleet, "a", 1, session)
    a.read_assignment()
    assert a._wanted() == {"x"}
    assert a._still_wanted("x")
    (fleet.folder.path / "assignment.json").write_text('{"ep')
    a.read_assignment()
    assert a._wanted() == {"x"}
    assert not a._still_wanted("x"), "nothing is started on a doubt"


@pytest.mark.parametrize(
    "content", [*CUT, '{"pid": 1}', '{"queries": {"x": 5}, "time": "late"}'], ids=str.__len__
)
def test_a_damaged_report_counts_as_none_and_starts_no_second_node(tmp_path, monkeypatch, content):
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    fleet.report("a", "b")
    starts = fleet.folder.path / "starts.jsonl"
    starts.write_text(starts.read_text().replace('"time": 1', '"time": 0') + '5\n{"node": "a"}\n')
    (fleet.folder.path / "nodes" / "a.json").write_text(content)
    assert set(fleet.folder.reports()) == {"b"}
    fleet.coordinator.round()
    assert fleet.started == ["a", "b"]
    os.utime(fleet.folder.path / "nodes" / "a.json", (0, 0))
    fleet.coordinator.round()
    assert fleet.started == ["a", "b", "a"]


def test_lines_of_a_journal_that_are_not_objects_are_passed_over(tmp_path):
    folder = SharedFolder(tmp_path)
    (tmp_path / "moves.jsonl").write_bytes(
        b'{"n": 1}\n5\n[]\n\xff\xfe\n{"n"\n{"n": 2}\n' + b"[" * 9999
    )
    assert folder.lines("moves.jsonl") == [{"n": 1}, {"n": 2}]


# --- on Spark ------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_a_query_without_a_handle_is_stopped_before_its_lease_is_free(
    spark, tmp_path, monkeypatch
):
    module = types.ModuleType("forgetful_jobs")
    monkeypatch.setitem(sys.modules, "forgetful_jobs", module)

    def start(spark, checkpoint):
        rows = spark.readStream.format("rate").load()
        rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()

    module.start = start
    checkpoint = tmp_path / "a checkpoint"
    spec = QuerySpec("q", "forgetful_jobs:start", str(checkpoint))
    query = Running(spec, spark, lambda batch: None, 1.0, 10, checkpoint)
    before = {one.id for one in spark.streams.active}
    query.start(lambda: True)
    assert {one.id for one in spark.streams.active} == before
    assert "return the query" in query.error
    lease = Lease.acquire(checkpoint, spark)
    assert lease is not None
    lease.release()
    assert json.loads((checkpoint / "metadata").read_text())["id"], "it had been started"
