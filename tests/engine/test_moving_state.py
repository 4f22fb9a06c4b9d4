"""Keys that change their owner between batches, with their state: the owners' work without Spark."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.engine import plans
from evenflow.engine.batch import Batch
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.key_costs import read_costs
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.layout import FINGERPRINT, REPORT
from evenflow.engine.output import Tables
from evenflow.engine.plans import EPOCHS, moves_of, owners_of, resized
from evenflow.engine.program import segments_after
from evenflow.engine.reports import Reports
from evenflow.engine.work import OwnerTask
from evenflow.grouping import make
from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import Plan, RoutingTable
from evenflow.model.owners import Owners
from evenflow.operators import Aggregates, count
from evenflow.planning.seen import Seen
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.journal import request_partitions
from evenflow.state.manifest import Manifest
from evenflow.state.state_reader import StateReader
from evenflow.state.verification import verify
from evenflow.storage.memory import MemoryStorage

ROWS = pa.schema([("key", pa.int64())])
JOB = Job(("key",), ROWS, KeyedStates(Aggregates(n=count())), None, 3)
KEYS = list(range(12))


def prints(keys: list[int]) -> np.ndarray:
    return fingerprint(pa.array(keys, pa.int64()))


def run_batch(root: Path | MemoryStorage, number: int, plan: Plan, keys: list[int]) -> Reports:
    """One turn of the loop: every owner in this process."""
    checkpoint = Checkpoint.open(root)
    last = checkpoint.last()
    batch = Batch(
        number,
        checkpoint.storage,
        checkpoint.storage,
        () if last is None else tuple(last.segments),
        owners_of(last, plan),
        plan.epoch,
        **moves_of(last, plan),
    )
    returned = []
    homes = Owners.of(plan)(prints(keys)) if keys else np.zeros(0, np.int32)
    for owner in range(plan.partitions):
        mine = [key for key, home in zip(keys, homes, strict=True) if home == owner]
        rows = pa.record_batch(
            {
                FINGERPRINT: pa.array(prints(mine).view(np.int64)),
                "key": pa.array(mine, pa.int64()),
            }
        )
        for answer in OwnerTask(JOB, False, batch)(owner, iter([rows] if mine else [])):
            returned += answer.column(REPORT).to_pylist()
    reports = Reports.read(returned)
    checkpoint.commit(
        Manifest(
            batch=number,
            plan=plan.to_dict(),
            owners={e: p.to_json() for e, p in batch.owners.items() if e != batch.superseded},
            segments=segments_after(batch, reports),
            output=(),
            metrics={},
        )
    )
    return reports


def counts(root: Path | MemoryStorage) -> dict[int, int]:
    """What the committed state says of each key, asked as the next batch would."""
    checkpoint = Checkpoint.open(root)
    last = checkpoint.last()
    assert last is not None
    if not last.segments:
        return {}
    places = {e: Owners.from_json(p) for e, p in last.owners.items()}
    reader = StateReader(checkpoint.storage, last.segments, places)
    found, known = reader.look_up(prints(KEYS), pa.table({"k0": KEYS}))
    column = found.column(0).to_pylist()
    return {key: column[i] for i, key in enumerate(KEYS) if known[i]}


def new_checkpoint(root: Path | MemoryStorage) -> None:
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


@pytest.mark.parametrize("kept", [0, 1, EPOCHS], ids="{} epochs kept".format)
@settings(max_examples=40)
@given(batches)
def test_every_key_keeps_its_state_wherever_tables_and_partition_counts_send_it(kept, batches):
    with mock.patch.object(plans, "EPOCHS", kept):
        _check_every_key_keeps_its_state(batches)


def _check_every_key_keeps_its_state(batches):
    root = MemoryStorage()
    new_checkpoint(root)
    plan, expected = Plan("table", 3), Counter()
    for number, (keys, table, partitions) in enumerate(batches):
        plan = resized(plan, partitions, 0)
        entries = {
            int(prints([key])[0]): owner for key, owner in table.items() if owner < partitions
        }
        plan = plan.followed_by(table=RoutingTable(entries))
        run_batch(root, number, plan, keys)
        expected.update(keys)
        assert counts(root) == dict(expected)
    verdict = verify(root)
    assert not verdict.problems
    root.clear()


def test_a_key_that_moves_while_it_has_no_rows_is_with_its_new_owner_at_once(tmp_path):
    new_checkpoint(tmp_path)
    plan = Plan("table", 2)
    run_batch(tmp_path, 0, plan, [5, 5, 6])
    owner = int(Owners.of(plan)(prints([5]))[0])
    moved = plan.followed_by(table=RoutingTable({int(prints([5])[0]): 1 - owner}))
    reports = run_batch(tmp_path, 1, moved, [])
    last = Checkpoint.open(tmp_path).last()
    assert list(last.owners) == [moved.epoch], "nobody needs to know where keys were before"
    found = {r["partition"]: (r["moved_keys"], r["moved_bytes"]) for r in reports.state}
    assert found[1 - owner][0] == 1
    assert found[1 - owner][1] > 0
    assert found[owner] == (0, 0)
    assert counts(tmp_path) == {5: 2, 6: 1}


def test_a_moved_key_leaves_nothing_behind_once_its_old_owner_compacts(tmp_path):
    new_checkpoint(tmp_path)
    plan = Plan("table", 2)
    run_batch(tmp_path, 0, plan, KEYS)
    places = Owners.of(plan)(prints(KEYS))
    mine = [key for key, place in zip(KEYS, places, strict=True) if place == 0]
    moved = plan.followed_by(table=RoutingTable({int(prints(mine[:1])[0]): 1}))
    run_batch(tmp_path, 1, moved, mine[1:])  # as many rows as before: compacted
    last = Checkpoint.open(tmp_path).last()
    rows = [segment.rows for segment in last.segments if segment.owner == 0]
    assert rows == [len(mine) - 1]


def test_tasks_report_what_each_key_has_cost(tmp_path):
    new_checkpoint(tmp_path)
    reports = run_batch(tmp_path, 0, Plan("table", 2), [5, 5, 6])
    storage = Checkpoint.open(tmp_path).storage
    names = [r["costs"] for r in reports.state if r["costs"]]
    seen = read_costs(storage, names, Seen.nothing())
    rows = dict(zip(seen.keys.tolist(), seen.rows.tolist(), strict=True))
    assert rows == {int(prints([5])[0]): 2.0, int(prints([6])[0]): 1.0}
    assert seen.costs.sum() == 3
    assert (seen.state > 0).all()


def test_a_row_that_its_owner_should_not_have_and_nobody_else_has_is_found(tmp_path):
    new_checkpoint(tmp_path)
    plan = Plan("table", 2)
    run_batch(tmp_path, 0, plan, KEYS)
    checkpoint = Checkpoint.open(tmp_path)
    last = checkpoint.last()
    lost = replace(
        plan, table=RoutingTable({int(prints([5])[0]): 1 - int(Owners.of(plan)(prints([5]))[0])})
    )
    checkpoint.commit(replace(last, batch=1, owners={0: Owners.of(lost).to_json()}))
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


def test_the_owners_of_the_past_are_forgotten_however_often_a_query_is_resized():
    """A manifest names the epochs that some row of state still needs, not all that ever were."""
    storage, chance = MemoryStorage(), np.random.default_rng(4)
    schema = pa.schema([("k", pa.int64())])
    job = Job(("k",), schema, KeyedStates(Aggregates(n=count())), make("table"), 4)
    sink, sent, epochs = Tables(), [], []

    def stream():
        for number in range(120):
            if number % 4 == 0:
                wanted = (4, 3, 5)[number // 4 % 3]
                request_partitions(storage.under("evenflow"), wanted, 4)
            sent.append(chance.integers(0, 60, 40))
            yield pa.table([sent[-1]], schema=schema)

    for _ in run_stream(job, storage, stream(), sink):
        epochs.append(len(Checkpoint.open(storage).last().owners))
    found = {row["k"]: row["n"] for row in sink.latest("k").to_pylist()}
    counted = np.bincount(np.concatenate(sent), minlength=60)
    assert found == {k: int(n) for k, n in enumerate(counted) if n}
    # 30 numbers of partitions there were; rows of keys that moved away may need one of a few of them.
    assert max(epochs) <= EPOCHS + 2, epochs


def test_rows_that_nobody_touches_are_written_again_before_their_owners_are_forgotten():
    """The keys of the first batch never come again, and the query is resized 50 times."""
    storage, schema = MemoryStorage(), pa.schema([("k", pa.int64())])
    job = Job(("k",), schema, KeyedStates(Aggregates(n=count())), make("table"), 4)
    sink, epochs = Tables(), []

    def stream():
        for number in range(150):
            if number % 3 == 0:
                request_partitions(storage.under("evenflow"), (4, 3, 5)[number // 3 % 3], 4)
            keys = range(2000) if number == 0 else range(10_000 + number, 10_040 + number)
            yield pa.table([list(keys)], schema=schema)
        yield pa.table([list(range(2000))], schema=schema)

    for _ in run_stream(job, storage, stream(), sink):
        epochs.append(len(Checkpoint.open(storage).last().owners))
    latest = {row["k"]: row["n"] for row in sink.latest("k").to_pylist()}
    assert all(latest[key] == 2 for key in range(2000))
    assert max(epochs) <= EPOCHS + 8, epochs  # one segment of the past is written again per batch
    assert verify(storage).intact
