"""The look at the keys before a batch DataFrame is routed."""

import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.plans import first_plan
from evenflow.engine.survey import Survey, hot_keys, plan_for
from evenflow.grouping import make
from evenflow.kernels.fingerprints import fingerprint
from evenflow.operators import Aggregates, Operator, count
from evenflow.planning.controller import Replanning

ROWS = pa.schema([("k", pa.string())])


class Whole(Operator):
    """Has no merge."""


def surveyed(*partitions):
    survey = Survey(("k",))
    answers = []
    for source, keys in enumerate(partitions):
        rows = pa.record_batch([pa.array(keys, pa.string())], schema=ROWS)
        answers += survey(source, iter([rows] if keys else []))
    return hot_keys(pa.Table.from_batches(answers))


def test_counts_of_all_source_partitions_are_added_up():
    hot = surveyed(["a", "b", "a"], [], ["a", None])
    prints = fingerprint(pa.array(["a", "b", None])).tolist()
    assert [hot.counts[one] for one in prints] == [3, 1, 1]
    assert hot.total == 5


def test_auto_splits_a_hot_key_where_that_can_be_and_moves_it_elsewhere():
    hot = surveyed(["hot"] * 60 + [f"k{i}" for i in range(40)])
    split = Job(("k",), ROWS, KeyedStates(Aggregates(n=count())), None, 4)
    assert plan_for(split, first_plan(split), hot).scheme == "d-choices"
    whole = Job(("k",), ROWS, KeyedStates(Whole()), None, 4)
    plan = plan_for(whole, first_plan(whole), hot)
    assert plan.scheme == "table"
    assert "routing table" in plan.reason


def test_a_planner_given_to_replan_plans_batch_dataframes_too():
    hot = surveyed(["hot"] * 30 + [f"k{i % 20}" for i in range(200)])
    for planner in ("llfd", "mixed"):
        job = Job(
            ("k",), ROWS, KeyedStates(Whole()), make("table"), 4, 0, Replanning(planner, 0.01)
        )
        assert f"by {planner}" in plan_for(job, first_plan(job), hot).reason
