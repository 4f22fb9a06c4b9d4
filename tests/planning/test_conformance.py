"""What the protocol promises, asked of every planner that is found, whoever wrote it."""

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.planning import make_planner, planners
from evenflow.planning.protocol import Constraints, Planner, Statistics
from naive_planning import instances, shuffled

pytestmark = pytest.mark.slow

every_planner = pytest.mark.parametrize("planner", [make_planner(name) for name in planners()])
COLUMNS = ("keys", "costs", "state", "worker", "home")


def hot(seed=3, k=2_000, n=7):
    """A skewed instance with some keys away from home, as streams have them."""
    random = np.random.default_rng(seed)
    costs = random.permutation(np.arange(1, k + 1) ** -0.85)
    home = random.integers(0, n, k)
    now = np.where(random.random(k) < 0.02, random.integers(0, n, k), home)
    return Statistics.of(costs, now, home, costs * random.uniform(0.5, 2, k))


@every_planner
def test_a_planner_is_frozen_named_configuration(planner):
    assert isinstance(planner, Planner)
    assert planners()[planner.name] is type(planner)
    assert planner.symbol
    assert dataclasses.is_dataclass(planner)
    assert type(planner).__dataclass_params__.frozen
    assert pickle.loads(pickle.dumps(planner)) == planner


@every_planner
@given(instance=instances(most_keys=14))
@settings(max_examples=40)
def test_a_proposal_has_a_live_worker_for_every_key(planner, instance):
    statistics, constraints = instance
    plan = planner.plan(statistics, constraints)
    assert plan.statistics is statistics
    assert plan.constraints == constraints
    assert plan.planner == planner.name
    assert plan.worker.shape == (len(statistics),)
    assert plan.worker.dtype == np.int32
    assert ((plan.worker >= 0) & (plan.worker < constraints.workers)).all()


@every_planner
@given(instance=instances(most_keys=14))
@settings(max_examples=25)
def test_the_same_statistics_give_the_same_proposal_and_are_left_alone(planner, instance):
    statistics, constraints = instance
    before = pickle.dumps(statistics)
    plan = planner.plan(statistics, constraints)
    assert pickle.dumps(statistics) == before
    again = pickle.loads(pickle.dumps(planner)).plan(pickle.loads(before), constraints)
    assert again.worker.tolist() == plan.worker.tolist()


@every_planner
@given(instance=instances(most_keys=14), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_the_order_of_rows_does_not_matter(planner, instance, seed):
    statistics, constraints = instance
    other, order = shuffled(statistics, seed)
    plan, again = planner.plan(statistics, constraints), planner.plan(other, constraints)
    assert plan.worker[order].tolist() == again.worker.tolist()


@every_planner
def test_the_table_is_exactly_the_keys_away_from_home(planner):
    statistics = hot()
    plan = planner.plan(statistics, Constraints(7, theta=0.1))
    away = plan.worker != statistics.home
    assert plan.table().entries == dict(
        zip(statistics.keys[away].tolist(), plan.worker[away].tolist(), strict=True)
    )


@every_planner
def test_failures_tell_the_truth(planner):
    """Feasible is what loads and table, added up anew, say."""
    for theta, limit in ((0.5, 3000), (0.02, 3000), (0.02, 3), (0.0, 0)):
        statistics, constraints = hot(), Constraints(7, theta, limit)
        plan = planner.plan(statistics, constraints)
        loads = [float(statistics.costs[plan.worker == d].sum()) for d in range(7)]
        even = max(loads) * 7 <= sum(loads) * (1 + theta) * (1 + 1e-9)
        short = int((plan.worker != statistics.home).sum()) <= limit
        assert plan.feasible() == (even and short)
        assert len(plan.failures()) == (not even) + (not short)


@every_planner
def test_nothing_moves_where_all_is_even_and_at_home(planner):
    statistics = Statistics.of([3, 2, 1] * 4, worker=np.repeat([0, 1, 2, 3], 3))
    plan = planner.plan(statistics, Constraints(4, theta=0.05))
    assert not plan.moved().any()
    assert plan.feasible()


@every_planner
def test_many_small_keys_are_spread_within_the_limit(planner):
    """No planner may fail where any key may go anywhere and the smallest step is tiny."""
    random = np.random.default_rng(5)
    home = np.minimum(random.geometric(0.3, 3_000) - 1, 5)
    statistics = Statistics.of(random.integers(1, 4, 3_000), home)
    plan = planner.plan(statistics, Constraints(6, theta=0.1, table_limit=3_000))
    assert plan.overload() < Constraints(6).overload(statistics.loads(6))


@every_planner
@pytest.mark.parametrize("n", [1, 3])
def test_no_keys_at_all(planner, n):
    plan = planner.plan(Statistics.of([], []), Constraints(n))
    assert len(plan.worker) == 0
    assert plan.feasible()


@every_planner
def test_one_worker_has_everything(planner):
    plan = planner.plan(Statistics.of([5, 0, 2], [0, 1, 0], [0, 0, 0]), Constraints(1, theta=0.0))
    assert plan.worker.tolist() == [0, 0, 0]
    assert plan.feasible()


@every_planner
def test_keys_without_cost_or_state_are_planned_too(planner):
    zero = Statistics.of([0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], state=[0, 0, 0, 0])
    plan = planner.plan(zero, Constraints(2, theta=0.0))
    assert plan.feasible()
    mixed = Statistics.of([4, 4, 0, 0], [0, 0, 0, 0], state=[0, 7, 0, 7])
    plan = planner.plan(mixed, Constraints(2, theta=0.0))
    assert plan.loads().tolist() == [4, 4]
    assert plan.worker[2:].tolist() == [0, 0]


@every_planner
def test_a_home_that_is_no_worker_is_refused(planner):
    with pytest.raises(InputError, match="a key's home is worker 4, but there are 3"):
        planner.plan(Statistics.of([1, 1], [0, 0], [0, 4]), Constraints(3))
