"""What follows from a look at the keys before rows are routed."""

import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.plans import first_plan
from evenflow.engine.survey import plan_for, survey_of
from evenflow.grouping import make
from evenflow.kernels.fingerprints import fingerprint
from evenflow.operators import Aggregates, Operator, count
from evenflow.operators.service_time import ServiceTime
from evenflow.planning.controller import Replanning

ROWS = pa.schema([("k", pa.string())])


class Whole(Operator):
    """Has no merge."""


def surveyed(keys):
    return survey_of(pa.table({"k": keys}, schema=ROWS), ("k",))


def test_every_key_is_counted_null_too():
    survey = surveyed(["a", "b", "a", "a", None])
    prints = fingerprint(pa.array(["a", "b", None])).tolist()
    assert [survey.hot.counts[one] for one in prints] == [3, 1, 1]
    assert (survey.hot.total, survey.keys) == (5, 3)


def test_auto_splits_a_hot_key_where_that_can_be_and_moves_others_away_from_it():
    survey = surveyed((["hot"] * 60 + [f"k{i}" for i in range(40)]) * 100)
    work = ServiceTime(Aggregates(n=count()), 0.0)
    split = Job(("k",), ROWS, KeyedStates(work), None, 4)
    assert plan_for(split, first_plan(split), survey).scheme == "d-choices"
    whole = Job(("k",), ROWS, KeyedStates(Whole()), None, 4)
    plan = plan_for(whole, first_plan(whole), survey)
    assert plan.scheme == "table"
    assert "routing table" in plan.reason


def test_auto_keeps_to_the_hash_where_the_work_is_known_to_be_cheap_or_the_keys_are_even():
    survey = surveyed((["hot"] * 60 + [f"k{i}" for i in range(40)]) * 100)
    cheap = Job(("k",), ROWS, KeyedStates(Aggregates(n=count())), None, 4)
    assert plan_for(cheap, first_plan(cheap), survey).scheme == "key"
    even = surveyed([f"k{i}" for i in range(2000)] * 10)
    whole = Job(("k",), ROWS, KeyedStates(Whole()), None, 4)
    plan = plan_for(whole, first_plan(whole), even)
    assert (plan.scheme, plan.table.entries) == ("key", {})


def test_a_planner_given_to_replan_plans_batch_dataframes_too():
    survey = surveyed(["hot"] * 30 + [f"k{i % 20}" for i in range(200)])
    for planner in ("llfd", "mixed"):
        replanning = Replanning(planner, 0.01)
        for scheme in (make("table"), None):
            job = Job(("k",), ROWS, KeyedStates(Whole()), scheme, 4, 0, replanning)
            assert f"by {planner}" in plan_for(job, first_plan(job), survey).reason
