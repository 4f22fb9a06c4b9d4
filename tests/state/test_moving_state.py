"""Keys that change their owner between batches, with their state: the owners' work without Spark."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenflow.engine.work as work
from evenflow.engine.job import FINGERPRINT, REPORT, Job
from evenflow.engine.observing import Reports
from evenflow.engine.plans import moves_of, owners_of, resized
from evenflow.engine.statistics import read_statistics
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import Plan, RoutingTable
from evenflow.model.owners import Owners
from evenflow.operators import Aggregates, count
from evenflow.spark.control_loop import segments_after
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.manifest import Manifest
from evenflow.state.segments import StateReader
from evenflow.state.verification import verify

ROWS = pa.schema([("key", pa.int64())])
JOB = Job(("key",), ROWS, Aggregates(n=count()), None, 3)
KEYS = list(range(12))


def prints(keys: list[int]) -> np.ndarray:
    return fingerprint(pa.array(keys, pa.int64()))


def run_batch(
    root: Path, batch: int, plan: Plan, keys: list[int], monkeypatch: pytest.MonkeyPatch
) -> Reports:
    """One turn of the loop: every owner in this process."""
    checkpoint = Checkpoint.open(root)
    last = checkpoint.last()
    staging = checkpoint.directory / "staging"
    staging.mkdir(exist_ok=True)
    store = work.Store(
        str(checkpoint.segments_directory),
        () if last is None else tuple(last.segments),
        owners_of(last, plan),
        plan.epoch,
        batch,
        str(staging),
        **moves_of(last, plan),
    )
    told = []
    homes = Owners.of(plan)(prints(keys)) if keys else np.zeros(0, np.int32)
    for owner in range(plan.workers):
        mine = [key for key, home in zip(keys, homes, strict=True) if home == owner]
        rows = pa.record_batch(
            {
                FINGERPRINT: pa.array(prints(mine).view(np.int64)),
                "key": pa.array(mine, pa.int64()),
            }
        )
        monkeypatch.setattr(work, "partition", lambda owner=owner: owner)
        for answer in work.OwnerWork(JOB, False, store)(iter([rows] if mine else [])):
            told += answer.column(REPORT).to_pylist()
    reports = Reports.read(told)
    checkpoint.commit(
        Manifest(
            batch=batch,
            plan=plan.to_dict(),
            placements={e: p.to_json() for e, p in store.owners.items() if e != store.superseded},
            segments=segments_after(store, reports),
            output=(),
            metrics={},
        )
    )
    return reports


def counts(root: Path, plan: Plan) -> dict[int, int]:
    """What the committed state says of each key, asked as the next batch would."""
    checkpoint = Checkpoint.open(root)
    last = checkpoint.last()
    assert last is not None
    if not last.segments:
        return {}
    places = {e: Owners.from_json(p) for e, p in last.placements.items()}
    reader = StateReader(checkpoint.segments_directory, last.segments, places)
    found, known = reader.look_up(prints(KEYS), pa.table({"k0": KEYS}))
    column = found.column(0).to_pylist()
    return {key: column[i] for i, key in enumerate(KEYS) if known[i]}


def new_checkpoint(root: Path) -> None:
    Checkpoint.open(root, {"test": "moving"})


tables = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 2), max_size=6)
batches = st.lists(
    st.tuples(
        st.lists(st.sampled_from(KEYS), max_size=12),
        tables,
        st.sampled_from([2, 3, 3, 3, 3, 4]),
    ),
    min_size=1,
    max_size=10,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches)
def test_every_key_keeps_its_state_wherever_tables_and_worker_counts_send_it(
    tmp_path_factory, monkeypatch, batches
):
    root = tmp_path_factory.mktemp("moving")
    new_checkpoint(root)
    plan, expected = Plan("table", 3), Counter()
    for number, (keys, table, workers) in enumerate(batches):
        plan = resized(plan, workers, 0)
        entries = {
            int(prints([key])[0]): worker for key, worker in table.items() if worker < workers
        }
        plan = plan.followed_by(table=RoutingTable(entries))
        run_batch(root, number, plan, keys, monkeypatch)
        expected.update(keys)
        assert counts(root, plan) == dict(expected)
    verdict = verify(root)
    assert not verdict.problems


def test_a_key_that_moves_while_it_has_no_rows_is_with_its_new_owner_at_once(tmp_path, monkeypatch):
    new_checkpoint(tmp_path)
    plan = Plan("table", 2)
    run_batch(tmp_path, 0, plan, [5, 5, 6], monkeypatch)
    owner = int(Owners.of(plan)(prints([5]))[0])
    moved = plan.followed_by(table=RoutingTable({int(prints([5])[0]): 1 - owner}))
    reports = run_batch(tmp_path, 1, moved, [], monkeypatch)
    last = Checkpoint.open(tmp_path).last()
    assert list(last.placements) == [moved.epoch], "nobody needs to know where keys were before"
    told = {r["worker"]: (r["moved_keys"], r["moved_bytes"]) for r in reports.state}
    assert told[1 - owner][0] == 1
    assert told[1 - owner][1] > 0
    assert told[owner] == (0, 0)
    assert counts(tmp_path, moved) == {5: 2, 6: 1}


def test_a_moved_key_leaves_nothing_behind_once_its_old_owner_folds(tmp_path, monkeypatch):
    new_checkpoint(tmp_path)
    plan = Plan("table", 2)
    run_batch(tmp_path, 0, plan, KEYS, monkeypatch)
    places = Owners.of(plan)(prints(KEYS))
    mine = [key for key, place in zip(KEYS, places, strict=True) if place == 0]
    moved = plan.followed_by(table=RoutingTable({int(prints(mine[:1])[0]): 1}))
    run_batch(tmp_path, 1, moved, mine[1:], monkeypatch)  # as many rows as before: they fold
    last = Checkpoint.open(tmp_path).last()
    rows = [segment.rows for segment in last.segments if segment.owner == 0]
    assert rows == [len(mine) - 1]


def test_workers_tell_what_each_key_has_cost(tmp_path, monkeypatch):
    new_checkpoint(tmp_path)
    reports = run_batch(tmp_path, 0, Plan("table", 2), [5, 5, 6], monkeypatch)
    staging = Checkpoint.open(tmp_path).directory / "staging"
    seen = read_statistics([staging / r["counted"] for r in reports.state if r["counted"]])
    rows = dict(zip(seen.keys.tolist(), seen.rows.tolist(), strict=True))
    assert rows == {int(prints([5])[0]): 2.0, int(prints([6])[0]): 1.0}
    assert seen.costs.sum() == 3
    assert (seen.state > 0).all()


def test_a_row_that_its_owner_should_not_have_and_nobody_else_has_is_found(tmp_path, monkeypatch):
    new_checkpoint(tmp_path)
    plan = Plan("table", 2)
    run_batch(tmp_path, 0, plan, KEYS, monkeypatch)
    checkpoint = Checkpoint.open(tmp_path)
    last = checkpoint.last()
    lost = replace(
        plan, table=RoutingTable({int(prints([5])[0]): 1 - int(Owners.of(plan)(prints([5]))[0])})
    )
    checkpoint.commit(replace(last, batch=1, placements={0: Owners.of(lost).to_json()}))
    (problem,) = verify(tmp_path).problems.values()
    assert "belong to another owner" in problem


def test_resizing_moves_only_what_must_move():
    keys = prints(list(range(10_000)))
    plan = Plan("table", 10)
    grown = resized(plan, 11, 0)
    before, after = Owners.of(plan)(keys), Owners.of(grown)(keys)
    assert set(after[before != after].tolist()) == {10}
    assert 0.06 < (before != after).mean() < 0.12
    shrunk = resized(grown, 10, 0)
    back = Owners.of(shrunk)(keys)
    assert set(after[after != back].tolist()) == {10}


def test_a_plan_with_buckets_survives_json():
    plan = resized(Plan("table", 3), 4, 0)
    assert plan.buckets
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    place = Owners.of(plan)
    assert Owners.from_json(json.loads(json.dumps(place.to_json()))) == place
