"""A fleet of Spark applications: configuration, loads, leases, and a real one that is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.app import main
from evenflow.fleet import processes
from evenflow.fleet.config import read_config
from evenflow.fleet.coordinator import coordinator_lives
from evenflow.fleet.decision import unevenness, worthwhile
from evenflow.fleet.folder import Assignment, SharedFolder
from evenflow.model import InputError
from evenflow.placement.protocol import Nodes, Observed, Proposal
from evenflow_lab.checking.fleet_feed import Feed, config
from pretended_fleet import NODES, Pretended, written

QUERY = '[[queries]]\nname = "q"\nfunction = "jobs:counted"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[fleet", "is not valid TOML"),
        ("[flet]\n", "unknown table 'flet'"),
        ("", "there is no node"),
        (NODES + '[[nodes]]\nname = "a"\n', "two nodes called 'a'"),
        ('[[nodes]]\nname = "../a"\n', "a name consists of"),
        (NODES + QUERY + 'node = "c"\n', "no node 'c'"),
        (NODES + QUERY + "movable = false\n", "set the node it runs on"),
        (NODES + QUERY.replace("jobs:", "jobs."), "must be 'module:name'"),
        (NODES + QUERY + 'colour = "red"\n', "unknown setting 'colour'"),
        (NODES + '[[queries]]\nname = "q"\n', "'function' is missing"),
        ("[fleet]\nsample = -1\n" + NODES, "sample must be above 0"),
        ("[fleet]\nsamples = 2.5\n" + NODES, "samples must be of type int"),
        ('[fleet]\nalgorithm = "corr"\n' + NODES, "placement algorithm"),
        ('[fleet]\nfence = "no"\n' + NODES, "fence must be"),
        (NODES + QUERY + QUERY.replace('"q"', '"r"').replace("\n[", "\n["), None),
    ],
)
def test_a_configuration_is_checked_before_anything_starts(tmp_path, text, says):
    path = written(tmp_path, text)
    if says is None:
        assert len(read_config(path).queries) == 2
        return
    with pytest.raises(InputError, match=says):
        read_config(path)


def test_the_commands_refuse_a_fleet_that_is_not_there(tmp_path, capsys):
    path = written(tmp_path, NODES + QUERY)
    assert main(["fleet", "status", "-c", str(tmp_path / "no.toml")]) == 2
    assert "cannot read" in capsys.readouterr().err
    assert main(["fleet", "move", "q", "c", "-c", str(path)]) == 2
    assert "no node 'c'" in capsys.readouterr().err
    assert main(["fleet", "move", "q", "b", "-c", str(path)]) == 2
    assert "no coordinator is running" in capsys.readouterr().err
    assert main(["fleet", "down", "-c", str(path)]) == 2
    assert "there is no fleet" in capsys.readouterr().err
    assert main(["fleet", "status", "-c", str(path), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert [node["alive"] for node in printed["nodes"]] == [False, False]


def test_files_are_there_whole_or_not_at_all(tmp_path):
    folder = SharedFolder(tmp_path)
    folder.make()
    assert folder.assignment() is None
    now = Assignment(3, {"q": "a"}, {"a": 1}, ("b",), True)
    folder.assign(now)
    assert folder.assignment() == now
    folder.append("moves.jsonl", {"n": 1})
    with open(tmp_path / "moves.jsonl", "a") as file:
        file.write('{"n": 2')  # cut off
    assert folder.lines("moves.jsonl") == [{"n": 1}]


def test_queries_that_burst_together_are_put_apart(tmp_path, monkeypatch):
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    assert fleet.started == ["a", "b"]
    fleet.coordinator._unsettled = 0
    fleet.burst({"x": 0, "y": 0, "z": 1, "w": 1})
    fleet.report("a", "b")
    fleet.coordinator.round()
    where = fleet.folder.assignment().queries
    assert where["x"] != where["y"]
    assert where["z"] != where["w"]
    moves = fleet.folder.lines("moves.jsonl")
    assert len(moves) == 2
    assert all("cor-glb" in move["reason"] for move in moves)


def test_nothing_is_placed_before_a_window_in_which_all_ran(tmp_path, monkeypatch):
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    fleet.burst({"x": 0, "y": 0, "z": 1, "w": 1})
    fleet.report("a", "b")
    fleet.coordinator.round()
    assert not fleet.folder.lines("moves.jsonl")
    fleet.coordinator._unsettled -= 10
    fleet.behind = {"z": 20.0}  # a long batch of z is under way
    fleet.report("a", "b")
    fleet.coordinator.round()
    assert not fleet.folder.lines("moves.jsonl")
    fleet.behind = {}
    fleet.report("a", "b")
    fleet.coordinator.round()
    assert len(fleet.folder.lines("moves.jsonl")) == 2


def test_without_load_there_is_no_first_placement(tmp_path, monkeypatch):
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    fleet.coordinator._unsettled = 0
    fleet.report("a", "b")
    fleet.coordinator.round()
    assert fleet.coordinator._decided_at > 0
    assert not fleet.folder.assignment().placed
    assert not fleet.folder.lines("moves.jsonl")


@given(
    st.integers(2, 4).flatmap(
        lambda n: st.lists(
            st.tuples(
                st.integers(0, n - 1),
                st.integers(0, n - 1),
                st.lists(st.floats(0, 1), min_size=3, max_size=3),
            ),
            min_size=1,
            max_size=8,
        ).map(lambda rows: (n, rows))
    ),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_moves_are_the_proposals_few_and_worth_it(drawn, most, gain):
    n, rows = drawn
    seen = Observed.of([row[2] for row in rows], node=[row[0] for row in rows])
    proposal = Proposal(seen, Nodes(n), np.array([row[1] for row in rows], np.int32))
    chosen = worthwhile(proposal, most, gain)
    moved = chosen.moved()
    assert moved.sum() <= most
    assert np.array_equal(chosen.node[moved], proposal.node[moved])
    if moved.any():
        now = unevenness(proposal, seen.node)
        assert unevenness(chosen) < now
        assert unevenness(chosen) <= (1 - gain) * now + 1e-9


def test_a_dead_nodes_queries_go_elsewhere_and_it_is_killed_first(tmp_path, monkeypatch):
    fleet = Pretended(tmp_path, monkeypatch, 'initial = "none"\nalgorithm = "none"')
    fleet.coordinator.round()
    fleet.report("a", "b")
    fleet.coordinator.round()
    assert not fleet.killed
    fleet.report("b")
    fleet.report("a", silent=100.0)
    fleet.coordinator.round()
    assert fleet.killed == [os.getpid()]
    now = fleet.folder.assignment()
    assert set(now.queries.values()) == {"b"}
    assert now.incarnations == {"a": 2, "b": 1}
    assert fleet.started == ["a", "b", "a"]


def test_a_drained_node_gets_nothing_until_it_is_used_again(tmp_path, monkeypatch):
    fleet = Pretended(tmp_path, monkeypatch)
    fleet.coordinator.round()
    fleet.report("a", "b")
    request = fleet.folder.ask(what="drain", node="b")
    fleet.coordinator.round()
    assert not request.exists()
    assert set(fleet.folder.assignment().queries.values()) == {"a"}
    refused = fleet.folder.ask(what="move", query="x", node="b")
    fleet.report("a", "b")
    fleet.coordinator.round()
    assert "is being drained" in fleet.folder.refusal(refused.with_suffix(".refused"))
    fleet.folder.ask(what="undrain", node="b")
    fleet.coordinator.round()
    assert fleet.folder.assignment().draining == ()


def test_a_second_coordinator_is_kept_out(tmp_path, monkeypatch):
    from evenflow.fleet.coordinator import _only_one

    folder = SharedFolder(tmp_path)
    folder.make()
    assert not coordinator_lives(folder)
    with _only_one(folder):
        assert coordinator_lives(folder)
        with pytest.raises(InputError, match="another coordinator"), _only_one(folder, 0.1):
            pass
    assert not coordinator_lives(folder)


def test_a_process_is_known_by_when_it_began():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = processes.identity(child.pid)
    assert processes.alive(process)
    assert not processes.alive({**process, "began": "1"})
    assert processes.alive({**process, "machine": "elsewhere"}) is None
    child.kill()
    child.wait()
    assert processes.alive(process) is False


@pytest.mark.spark
@pytest.mark.slow
def test_the_time_of_tasks_is_counted_once_and_for_their_own_query(spark):
    from evenflow.fleet.task_time import TaskTime

    def slept(batches):
        time.sleep(0.4)
        yield from batches

    context = spark.sparkContext
    mine, other = TaskTime(spark, "mine"), TaskTime(spark, "other")
    context.setJobGroup("mine", "")
    try:
        spark.range(1).coalesce(1).mapInArrow(slept, "id long").collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    spent = []

    def all_spent():  # Spark's books are a moment behind
        spent.append(mine.spent())
        return sum(spent) >= 0.4

    wait_for(all_spent, 10)
    assert mine.spent() == 0.0
    assert other.spent() == 0.0


@pytest.mark.spark
@pytest.mark.slow
def test_at_most_one_application_has_the_lease_of_a_checkpoint(spark, tmp_path):
    from evenflow.fleet.leases import Lease

    lease = Lease.acquire(tmp_path, spark)
    assert lease is not None
    assert Lease.acquire(tmp_path, spark) is None
    lease.release()
    again = Lease.acquire(tmp_path, spark)
    assert again is not None
    again.release()
    # Another process that has only one of the two locks keeps us out, too.
    for name, take in (
        ("lease.python", "fcntl.flock(f, fcntl.LOCK_EX)"),
        ("lease.java", "fcntl.lockf(f, fcntl.LOCK_EX)"),
    ):
        script = (
            f"import fcntl, sys; f = open(sys.argv[1], 'r+'); {take}; print(1, flush=True); input()"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        other.stdout.readline()
        assert Lease.acquire(tmp_path, spark) is None, name
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        free = Lease.acquire(tmp_path, spark)
        assert free is not None, name
        free.release()


KINDS = {"c1": "counted", "t1": "totals", "c2": "counted"}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_fleet_survives_the_death_of_a_node_and_of_the_coordinator(tmp_path):
    """Real processes: a query is moved, a node and the coordinator are killed, a node is stopped for a
    while (not dead, only slow); in the end every query has put out what was sent, exactly once."""
    path = config(
        tmp_path, 2, KINDS, {"c1": "a", "t1": "a", "c2": "b"},
        initial="none", algorithm="none", dead_after=4.0, fence="wait",
    )  # fmt: skip
    feed = Feed(tmp_path, {"c1": 0.0, "t1": 0.3, "c2": 0.6})
    for name in KINDS:
        feed.add(name, 20)

    def fleet(*words):
        ended = subprocess.run(
            [sys.executable, "-m", "evenflow.cli", "fleet", *words, "-c", str(path), "--json"],
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr + logs(tmp_path)
        return json.loads(ended.stdout)

    try:
        seen = fleet("up")
        feed.start()
        assert {query["state"] for query in seen["queries"]} == {"running"}
        fleet("move", "c1", "b")
        node = {one["name"]: one for one in fleet("status")["nodes"]}
        os.killpg(node["a"]["pid"], signal.SIGKILL)
        for pid in pids("evenflow.fleet.coordinator", path):
            os.kill(pid, signal.SIGKILL)
        seen = fleet("up")
        assert any("no sign of life" in move["reason"] for move in seen["moves"])
        wait_for(lambda: [one["incarnation"] for one in status(path)["nodes"]] == [2, 1])
        # Slow, not dead: its queries are given to the other node, which must wait for the leases.
        os.killpg(node["b"]["pid"], signal.SIGSTOP)
        wait_for(lambda: all(q["node"] == "a" for q in status(path)["queries"]))
        held = [q for q in status(path)["queries"] if q["state"] != "running"]
        assert held, "queries of a stopped node ran elsewhere while it still had their leases"
        os.killpg(node["b"]["pid"], signal.SIGCONT)
        wait_for(lambda: all(q["state"] == "running" for q in status(path)["queries"]))
        feed.stop()
        wait_for(lambda: not feed.wrong(KINDS))
    finally:
        feed.stop()
        ended = subprocess.run(
            [sys.executable, "-m", "evenflow.cli", "fleet", "down", "-c", str(path)],
            capture_output=True,
        )
        for kind in ("evenflow.fleet.node", "evenflow.fleet.coordinator"):
            for pid in pids(kind, path):
                os.kill(pid, signal.SIGKILL)
    assert ended.returncode == 0, logs(tmp_path)
    assert not feed.wrong(KINDS)
    batches = [
        json.loads(line)["batch"]
        for line in (tmp_path / "run" / "progress" / "t1.jsonl").read_text().splitlines()
    ]
    assert len(batches) == len(set(batches)), "a batch was done twice"
    assert np.all(np.diff(batches) > 0)


def status(path):
    from evenflow.fleet.status import status

    return status(read_config(path))


def wait_for(what, seconds=90.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.3)


def pids(module, path):
    """Processes of this fleet."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if module.encode() in words and os.fsencode(path) in words:
                found.append(int(entry.name))
    return found


def logs(folder):
    return "".join(
        f"\n--- {log.name}\n{log.read_text(errors='replace')[-3000:]}"
        for log in sorted((folder / "run" / "logs").glob("*.log"))
    )


def test_a_checkpoint_on_a_store_keeps_its_address_and_has_its_locks_in_the_fleets_folder(tmp_path):
    file = tmp_path / "fleet.toml"
    file.write_text(
        '[[nodes]]\nname = "a"\n'
        '[[queries]]\nname = "x"\nfunction = "m:f"\ncheckpoint = "s3://bucket/x"\n'
        '[[queries]]\nname = "y"\nfunction = "m:f"\ncheckpoint = "y"\n'
    )
    fleet = read_config(file)
    assert fleet.query("x").checkpoint == "s3://bucket/x"
    assert fleet.locks("x") == fleet.folder / "leases" / "x"
    assert fleet.locks("y") == tmp_path / "y"
