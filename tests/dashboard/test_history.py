"""What the page knows of a query: only what is committed, the newest first, within bounds."""

import numpy as np
import pytest

from evenflow.dashboard import history as module
from evenflow.dashboard.batch_summary import BatchSummary, loads_of
from evenflow.dashboard.history import QueryHistory
from evenflow.dashboard.liveness import Liveness
from evenflow.dashboard.overview import batch_of
from evenflow.state import Checkpoint
from evenflow.state.metrics import put_metrics
from evenflow.storage import storage_at
from recorded_batches import batch_metrics, write_checkpoint


def history_of(path, **more):
    return QueryHistory(str(path), storage_at(path), **more)


def test_only_what_is_committed_is_read_and_nothing_is_written(tmp_path):
    checkpoint = write_checkpoint(tmp_path, 12, 4)
    # A batch in progress: its plan and its segments are there, its manifest and metrics are not.
    checkpoint.storage.put("plans/0000000012.json", [b"{}"])
    checkpoint.storage.put("segments/00000-0000000012-0f9a.seg", [b"half"])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    history = history_of(tmp_path)
    assert not history.poll()
    assert history.error is None
    assert [one.batch for one in history.summaries()] == list(range(12))
    assert history.checkpoint().last().batch == 11
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_new_batches_come_before_old_ones_that_are_not_read_yet(tmp_path):
    write_checkpoint(tmp_path, 40, 4)
    ticks = iter(range(10_000))
    history = history_of(tmp_path, clock=lambda: float(next(ticks)))
    assert history.poll(seconds=3)
    assert history.reading > 0
    assert history.newest().batch == 39
    rng = np.random.default_rng(0)
    put_metrics(storage_at(tmp_path).under("evenflow"), batch_metrics(40, 4, rng, name="hits"))
    history.poll(seconds=0)
    assert history.newest().batch == 40
    assert history.name == "hits"
    while history.poll(seconds=50):
        pass
    assert history.known() == 41
    assert history.reading == 0


def test_memory_is_bounded_and_what_is_oldest_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "KEPT", 20)
    monkeypatch.setattr(module, "HOT_KEPT", 5)
    monkeypatch.setattr(module, "LOADS_KEPT", 32)
    write_checkpoint(tmp_path, 60, 4)
    history = history_of(tmp_path)
    history.poll()
    assert [one.batch for one in history.summaries()] == list(range(40, 60))
    assert history.loads(59) is not None
    assert history.loads(51) is None
    found = batch_of(history, 50)
    assert found["partition_loads"] is None
    assert found["hot_keys"] is None
    assert batch_of(history, 3) is None


def test_a_batch_has_its_partitions_busiest_first_those_without_rows_too(tmp_path):
    storage = Checkpoint.open(tmp_path, {}).storage
    partitions = [
        {"partition": 2, "rows": 10, "keys": 1, "seconds": 0.5},
        {"partition": 0, "rows": 30, "keys": 2, "seconds": 1.5},
    ]
    metrics = {"batch": 0, "rows": 40, "max_over_average": 3.0, "partitions": partitions}
    metrics["state"] = [{"partition": 3, "state_bytes": 700}]
    put_metrics(storage, metrics)
    history = history_of(tmp_path)
    history.poll()
    found = batch_of(history, -1)
    assert found["partitions"] == 4
    assert found["partition_loads"]["partition"] == [0, 2, 1, 3]
    assert found["partition_loads"]["rows"] == [30, 10, 0, 0]
    assert found["partition_loads"]["state"] == [0, 0, 0, 700]


def test_a_place_without_a_checkpoint_and_a_store_that_fails_are_said_in_a_sentence(tmp_path):
    history = history_of(tmp_path / "nowhere")
    history.poll()
    assert history.error.startswith("There is no checkpoint at ")
    write_checkpoint(tmp_path / "nowhere", 2, 3)
    history.poll()
    assert history.error is None
    assert history.known() == 2

    class Failing:
        def __getattr__(self, name):
            raise OSError("the disk is gone")

    failing = history_of(tmp_path)
    failing._reader._storage = Failing()
    failing.poll()
    assert failing.error == "The disk is gone."


@pytest.mark.parametrize(
    "metrics",
    [
        {"batch": 1},
        {"batch": 1, "rows": "many", "durations": [1], "hot_keys": 7, "partitions": {"a": 1}},
        {
            "batch": 1,
            "rows": 5,
            "hot_keys": [3],
            "partitions": [None, {"partition": -4, "rows": 5}],
        },
        {"batch": 1, "rows": float("nan"), "max_over_average": float("inf"), "began": None},
        {"batch": 1, "rows": 1, "partitions": [{"partition": 10**12, "rows": 10**30}]},
        {
            "batch": 1,
            "rows": 1,
            "max_over_average": 1e18,
            "partitions": [{"partition": 0, "rows": 1}],
        },
        {"batch": 1, "planning": "x", "migrated_keys": True, "state": [{"partition": 0.5}]},
    ],
)
def test_whatever_a_file_of_metrics_says_there_is_a_summary(metrics):
    summary = BatchSummary.of(metrics)
    assert summary.batch == 1
    assert all(np.isfinite([summary.balance, summary.rows, summary.began, *summary.hottest]))
    assert len(loads_of(metrics)) <= 1 << 17


def test_a_gateway_s_batch_has_its_messages_and_moves():
    durations = {"messages": 1.5, "decide": 0.5}
    metrics = {"batch": 2, "rows": 9, "moves": 3, "hot_keys": 4, "away": 5, "sizes": [1, 2]}
    summary = BatchSummary.of({**metrics, "durations": durations})
    assert (summary.scheme, summary.moved_keys, summary.table_size) == ("gateway", 3, 5)
    assert summary.seconds == 2.0


def test_a_driver_counts_as_silent_only_after_its_lease_s_whole_time(tmp_path, monkeypatch):
    from evenflow.dashboard import liveness

    now, lease = [0.0], {"seconds": 30.0, "beat": 0, "holder": {}}
    monkeypatch.setattr(liveness, "newest_lease", lambda storage: dict(lease) if lease else None)
    watching = Liveness(storage_at(tmp_path), clock=lambda: now[0])
    assert watching.look()[0] == "waiting"  # nobody knows yet whether it beats
    now[0], lease["beat"] = 5.0, 1
    assert watching.look()[0] == "running"
    now[0] = 34.0
    assert watching.look()[0] == "running"
    now[0] = 36.0
    assert watching.look()[0] == "silent"
    lease["beat"] = 2
    assert watching.look()[0] == "running"
    lease["released"] = True
    assert watching.look()[0] == "stopped"


def test_a_query_of_this_machine_runs_until_it_is_stopped(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {})
    watching = Liveness(checkpoint.storage)
    assert watching.look() == ("waiting", "")
    lease = checkpoint.acquire()
    state, who = watching.look()
    assert state == "running" or lease.fence  # before its first beat there is no lease to see
    lease.beat()
    assert watching.look()[0] == "running"
    assert "process" in watching.look()[1] or who
    lease.release()
    assert watching.look()[0] == "stopped"
