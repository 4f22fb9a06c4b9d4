"""From one batch's plan to the next: what the user has changed, and what was written down."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.engine.plans import first_plan, next_plan, parameters_of, scheme_of
from evenflow.grouping import make
from evenflow.grouping.greedy_d import GreedyD
from evenflow.model import InputError, Plan
from evenflow.operators import Aggregates, count
from evenflow.planning.controller import Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.journal import fixed_plan
from evenflow.state.manifest import Manifest
from evenflow.state.metrics import read_metrics
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage

ROWS = pa.table({"k": [f"key {i % 7}" for i in range(60)]})
JOB = Job(("k",), ROWS.schema, KeyedStates(Aggregates(n=count())), make("greedy-d", d=5), 4)


def test_a_plan_keeps_the_schemes_parameters():
    plan = first_plan(JOB)
    assert (plan.scheme, plan.parameters) == ("greedy-d", {"d": 5})
    assert Plan.from_dict(plan.to_dict()) == plan
    assert scheme_of(JOB, plan) is JOB.scheme


def test_a_batch_that_is_tried_again_routes_by_the_parameters_of_its_first_try():
    other = replace(JOB, scheme=make("greedy-d", d=2))
    storage = MemoryStorage()
    plan = fixed_plan(storage, 0, next_plan(JOB, None, 4))
    again = fixed_plan(storage, 0, next_plan(other, None, 4))
    assert again == plan
    assert scheme_of(other, again) == GreedyD(d=5)


def test_other_parameters_count_from_the_next_batch_on():
    last = Manifest(batch=0, plan=first_plan(JOB).to_dict())
    plan = next_plan(replace(JOB, scheme=make("greedy-d", d=2)), last, 4)
    assert plan.parameters == {"d": 2}
    assert plan.reason == "asked for"
    assert next_plan(JOB, last, 4) == first_plan(JOB)


def test_a_restart_with_other_parameters_does_not_change_a_batch_that_was_begun():
    """Killed after its plan was written down and before it was committed."""
    storage = MemoryStorage()
    calls = Faults()
    list(run_stream(JOB, FaultyStorage(MemoryStorage(), calls), [ROWS]))
    (fixed,) = [i for i, call in enumerate(calls.log) if call.startswith("create plans/")]
    dying = FaultyStorage(storage, Faults(crash_at=fixed, applied=True))
    with pytest.raises(Crash):
        list(run_stream(JOB, dying, [ROWS]))
    other = replace(JOB, scheme=make("greedy-d", d=1))
    (first, second) = run_stream(other, storage, [ROWS, ROWS])
    assert first["replication"] > 1, "routed by d = 5, as when it was begun"
    assert second["replication"] == 1
    assert Plan.from_dict(Checkpoint.open(storage).last().plan).parameters == {"d": 1}


def test_a_scheme_whose_parameters_cannot_be_written_down_is_refused():
    @dataclass(frozen=True)
    class Odd:
        name = "odd"
        choose: object = object()

    with pytest.raises(InputError, match="'odd' has a parameter that cannot be written down"):
        parameters_of(Odd())


def drifting(batches: int) -> list[pa.Table]:
    """Few rows, so that an overload becomes certain only over several batches; later others are hot."""
    chance = np.random.default_rng(3)
    shares = 1 / np.arange(1, 101) ** 0.7
    ranks = chance.choice(100, (batches, 300), p=shares / shares.sum())
    ranks[batches // 2 :] += 50
    return [pa.table({"k": [f"key {rank}" for rank in row]}) for row in ranks.tolist()]


def test_a_query_that_is_restarted_after_every_batch_plans_as_one_that_is_not():
    """What the controller has learned is in the checkpoint, not in the driver."""
    replanning = Replanning(memory=0.95, theta=0.05)
    job = replace(JOB, scheme=make("table"), partitions=3, replanning=replanning)
    stream, whole, parts = drifting(24), MemoryStorage(), MemoryStorage()
    followed, restarted = [], []
    for _ in run_stream(job, whole, stream):
        followed.append(Checkpoint.open(whole).last().plan)
    for number, rows in enumerate(stream):
        list(run_stream(job, parts, [rows], first=number))
        restarted.append(Checkpoint.open(parts).last().plan)
    late = [plan for plan in followed if "for some time" in plan["reason"]]
    assert any(plan["table"] for plan in late), "no change needed the memory of several batches"
    assert restarted == followed
    assert [m["planning"] for m in read_metrics(parts.under("evenflow"))] == [
        m["planning"] for m in read_metrics(whole.under("evenflow"))
    ]


def test_a_scheme_that_plans_itself_places_keys_by_the_counts_of_the_batches_before():
    drift = [[0] * 50 + [1] * 25 + list(range(2, 27)), [30] * 50 + [31] * 25 + list(range(2, 27))]
    batches = [pa.table({"k": [f"key {i}" for i in half]}) for half in drift for _ in range(3)]
    scheme = make("key-isolator", heavy_per_worker=0.5)
    job = Job(("k",), ROWS.schema, KeyedStates(Aggregates(n=count())), scheme, 4)
    storage, sink = MemoryStorage(), Tables()
    ran = [dict(m) for m in run_stream(job, storage, batches, sink, sources=2)]
    assert [m["table_size"] for m in ran] == [0, 2, 2, 2, 2, 2]
    assert ran[2]["max_over_average"] <= 2.0 == 4 * 0.5  # the hottest key alone
    assert sum(m["migrated_keys"] for m in ran) > 0
    counted = {row["k"]: row["n"] for row in sink.latest("k").to_pylist()}
    rows = pa.concat_tables(batches)["k"].to_pylist()
    assert counted == {key: rows.count(key) for key in set(rows)}
    last = Plan.from_dict(Checkpoint.open(storage).last().plan)
    assert "keys counted" in last.reason
