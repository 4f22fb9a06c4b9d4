"""Readj and SMALOPS' best fit: their twins, their guarantees, what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_best_fit
import naive_readj
from evenflow.model import InputError
from evenflow.planning import make_planner
from evenflow.planning.best_fit import BestFit
from evenflow.planning.protocol import Constraints, Planner, Statistics
from evenflow_lab.rivals.readj import Readj

FIGURE_4 = Statistics.of(
    costs=[7, 4, 2, 1, 5, 1], worker=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
)


def skewed(seed, keys, workers, listed=0.2, most=2**40, leaving=0):
    """Whole costs of a heavy tail, so that sums are exact and ties rare; some keys not at home."""
    rng = np.random.default_rng(seed)
    costs = np.minimum(np.floor(1e5 * rng.pareto(1, keys)), most)
    home = rng.integers(0, workers, keys)
    away = rng.random(keys) < listed
    worker = np.where(away, rng.integers(0, workers + leaving, keys), home)
    return Statistics.of(costs, worker, home, state=rng.integers(1, 100, keys))


instances = st.builds(
    lambda seed, keys, workers, leaving: (skewed(seed, keys, workers, leaving=leaving), workers),
    st.integers(0, 10**6),
    st.integers(1, 24),
    st.integers(1, 6),
    st.integers(0, 1),
)


@pytest.mark.parametrize("planner", [Readj(), Readj(sigma=0.1), BestFit(), BestFit(hot=0)])
def test_rivals_are_planners_with_a_live_worker_for_every_key(planner):
    assert isinstance(planner, Planner)
    for seed in range(20):
        seen = skewed(seed, 200, 5, leaving=2)
        proposal = planner.plan(seen, Constraints(5, theta=0.05))
        assert proposal.planner == planner.name
        assert proposal.worker.dtype == np.int32
        assert proposal.worker.min() >= 0
        assert proposal.worker.max() < 5
        again = planner.plan(seen, Constraints(5, theta=0.05))
        assert again.worker.tolist() == proposal.worker.tolist()


@pytest.mark.parametrize("planner", [Readj(), Readj(sigma=0.1), BestFit(), BestFit(hot=0)])
@pytest.mark.parametrize("costs", [[], [0.0, 0.0], [3.0]])
def test_rivals_take_little_or_nothing(planner, costs):
    proposal = planner.plan(Statistics.of(costs, [0] * len(costs)), Constraints(3))
    assert len(proposal.worker) == len(costs)


@pytest.mark.parametrize("planner", [Readj(), BestFit()])
def test_rivals_move_nothing_where_all_is_well(planner):
    seen = Statistics.of(costs=[5, 5, 5, 5], worker=[0, 1, 2, 3])
    assert not planner.plan(seen, Constraints(4)).moved().any()


@pytest.mark.parametrize("name", ["readj", "readj:sigma=0.2,trials=3", "best-fit:hot=0.01"])
def test_rivals_are_made_by_name(name):
    assert make_planner(name).name == name.partition(":")[0]


# --- Readj ----------------------------------------------------------------------------------------


@given(instances, st.sampled_from([0.0, 0.05, 0.3]), st.sampled_from([0.001, 0.3]))
def test_readj_twin(instance, theta, sigma):
    seen, n = instance
    got = Readj(sigma=sigma).plan(seen, Constraints(n, theta))
    expected, gains = naive_readj.readj(
        seen.costs.tolist(), seen.worker.tolist(), seen.home.tolist(), [1.0] * n, theta, sigma
    )
    assert got.worker.tolist() == expected
    assert got.details["steps"] == len(gains)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 20))
def test_readj_twin_with_weights_and_many_equal_costs(seed, n, keys):
    """Ties may be broken differently; what is gained by the first step may not differ."""
    rng = np.random.default_rng(seed)
    costs, weights = rng.integers(0, 6, keys).astype(float), rng.uniform(0.5, 2, n)
    worker = rng.integers(0, n, keys)
    seen, constraints = Statistics.of(costs, worker), Constraints(n, 0.0, weights=tuple(weights))
    relative = weights * n / weights.sum()
    limits = costs.sum() * relative / n * (1 + 1e-12)
    large = [k for k in range(keys) if costs[k] > 0]
    gain, *_ = naive_readj.best_exchange(costs.tolist(), worker.tolist(), large, relative, limits)
    proposal = Readj(sigma=1e-9).plan(seen, constraints)
    assert (proposal.details["steps"] == 0) == (gain <= 1e-6 * costs.sum() / n)
    assert proposal.overload() <= constraints.overload(seen.loads(n)) + 1e-9


@given(instances, st.sampled_from([0.0, 0.1]))
def test_guarantee_no_exchange_raises_the_highest_load(instance, theta):
    seen, n = instance
    gone_home = np.where(seen.worker >= n, seen.home, seen.worker)
    before = np.bincount(gone_home, seen.costs, n)
    limit = Constraints(n, theta).limits(float(before.sum())).max()
    after = Readj(sigma=1e-6).plan(seen, Constraints(n, theta)).loads()
    # Keys that return may fill their home up to the limit, never beyond.
    assert after.max() <= max(before.max(), limit) * (1 + 1e-9)


def test_readj_moves_keys_home_where_that_overloads_nobody():
    seen = Statistics.of(costs=[4, 4, 1, 1], worker=[0, 1, 1, 1], home=[0, 1, 0, 1])
    proposal = Readj(sigma=1.0).plan(seen, Constraints(2, theta=0.1))
    assert proposal.table_size() == 0
    assert proposal.loads().tolist() == [5, 5]
    # Where the home would be overloaded, the key stays away.
    seen = Statistics.of(costs=[5, 4, 1], worker=[0, 1, 1], home=[0, 1, 0])
    assert Readj(sigma=1.0).plan(seen, Constraints(2, theta=0.0)).table_size() == 1


def test_readj_does_not_balance_figure_4():
    """k5 goes home, and then no move and no swap of 7, 4 against 5, 2, 1, 1 carries over exactly 1.
    LLFD, which puts back several keys for one, ends at 10 and 10."""
    proposal = Readj().plan(FIGURE_4, Constraints(2, theta=0.0))
    assert proposal.loads().tolist() == [11, 9]
    assert not proposal.feasible()


def test_readj_finds_no_plan_with_large_keys_alone_where_small_ones_are_needed():
    seen = Statistics.of(costs=[10] * 4 + [1] * 10, worker=[0] * 2 + [1] * 2 + [0] * 10)
    constraints = Constraints(2, theta=0.05)
    coarse = Readj(sigma=0.3).plan(seen, constraints)
    assert not coarse.feasible()
    assert "above its share" in coarse.reason()
    assert Readj(sigma=0.01).plan(seen, constraints).feasible()
    searched = Readj().plan(seen, constraints)
    assert searched.feasible()
    assert searched.details["trial"] > 1


@given(instances)
def test_the_search_for_sigma_is_no_worse_than_any_that_it_tried(instance):
    seen, n = instance
    constraints = Constraints(n, theta=0.1)
    best = Readj(trials=8).plan(seen, constraints)
    few = Readj(trials=3).plan(seen, constraints)
    assert (len(best.failures()), max(best.overload(), 0.1)) <= (
        len(few.failures()),
        max(few.overload(), 0.1),
    )


def test_readj_looks_at_no_more_keys_than_it_may():
    seen = Statistics.of(costs=np.arange(1, 101), worker=[0] * 100)
    details = Readj(most_keys=10).plan(seen, Constraints(4, theta=0.0)).details
    assert 0 < details["keys"] <= 10


@pytest.mark.parametrize(
    "wrong", [{"sigma": 0.0}, {"sigma": np.nan}, {"trials": 0}, {"most_keys": 0}]
)
def test_readj_refuses_bad_parameters(wrong):
    with pytest.raises(InputError):
        Readj(**wrong)


# --- best fit -------------------------------------------------------------------------------------


@given(
    instances,
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.sampled_from([(np.inf, None), (20.0, None), (1e9, 1e-5), (1e9, 10.0)]),
    st.booleans(),
)
def test_best_fit_twin(instance, theta, hot, state_rule, weighted):
    seen, n = instance
    bandwidth, t_msg = state_rule
    # Powers of two: shares of whole numbers, and their sums, are then exact.
    weights = [2.0 ** (w % 2) for w in range(n)] if weighted and n in (1, 2, 4) else [1.0] * n
    planner = BestFit(hot, 10.0, bandwidth, t_msg)
    got = planner.plan(seen, Constraints(n, theta, weights=tuple(weights)))
    expected, moves = naive_best_fit.best_fit(
        seen.costs.tolist(),
        seen.state.tolist(),
        seen.worker.tolist(),
        seen.home.tolist(),
        weights,
        theta,
        hot,
        10.0,
        bandwidth,
        t_msg,
    )
    assert got.worker.tolist() == expected
    for _, _, _, before, after in moves:
        assert after < before


def test_guarantee_only_hot_keys_of_overloaded_workers_move():
    for seed in range(50):
        seen = skewed(seed, 300, 6)
        proposal = BestFit(hot=0.005).plan(seen, Constraints(6, theta=0.1))
        hot = seen.costs >= 0.005 * seen.costs.sum()
        sizes = np.bincount(seen.worker[hot], seen.costs[hot], 6)
        overloaded = sizes > 1.1 * sizes.mean()
        moved = proposal.moved()
        assert hot[moved].all()
        assert overloaded[seen.worker[moved]].all()


def test_guarantee_every_move_shrinks_the_load_distance():
    """Two workers: each move brings the one down and the other up, and never past each other."""
    for seed in range(50):
        seen = skewed(seed, 60, 2, listed=0.0, most=10**6)
        before, after = seen.loads(2), BestFit(hot=0).plan(seen, Constraints(2, 0.0)).loads()
        assert abs(after[0] - after[1]) <= abs(before[0] - before[1])


def test_best_fit_moves_light_hot_keys_first_and_stops_within_theta():
    seen = Statistics.of(costs=[30, 6, 5, 4, 15], worker=[0, 0, 0, 0, 1])
    proposal = BestFit(hot=0).plan(seen, Constraints(2, theta=0.3))
    assert np.flatnonzero(proposal.moved()).tolist() == [2, 3]
    assert proposal.loads().tolist() == [36, 24]


def test_best_fit_chooses_the_target_that_comes_nearest_to_the_average():
    """Equation 3: of two that could take the key, the fuller one, for it fits more closely."""
    seen = Statistics.of(costs=[20, 4, 6, 10], worker=[0, 0, 1, 2])
    proposal = BestFit(hot=0).plan(seen, Constraints(4, theta=0.0))
    assert proposal.worker.tolist() == [0, 1, 1, 2]


def test_best_fit_leaves_a_key_that_would_only_change_places():
    seen = Statistics.of(costs=[30, 1], worker=[0, 1])
    proposal = BestFit(hot=0).plan(seen, Constraints(2, theta=0.0))
    assert not proposal.moved().any()
    assert proposal.details["too_far"] == 1
    assert "one key alone" in proposal.reason()


def test_the_interval_rule_moves_no_more_state_than_can_arrive():
    seen = Statistics.of(costs=[4] * 20, worker=[0] * 20, state=[100.0] * 20)
    for bandwidth, moved in ((1e9, 10), (30.0, 3), (9.9, 0)):
        proposal = BestFit(hot=0, bandwidth=bandwidth).plan(seen, Constraints(2, theta=0.0))
        assert int(proposal.moved().sum()) == moved
        assert proposal.migration_bytes() <= 10 * bandwidth


def test_equation_4_refuses_nearly_every_hot_key():
    """A finding: 100 messages in 10 s out of 1000, to a worker with half as many, and state for
    nothing: 1/50 − 100/1000 is below 0. Only all but empty workers may take a hot key."""
    seen = Statistics.of(costs=[100] * 10 + [100] * 5, worker=[0] * 10 + [1] * 5, state=[0.0] * 15)
    constraints = Constraints(2, theta=0.0)
    by_interval = BestFit(hot=0).plan(seen, constraints)
    by_equation = BestFit(hot=0, message_seconds=50e-6).plan(seen, constraints)
    assert int(by_interval.moved().sum()) == 2
    assert int(by_equation.moved().sum()) == 0
    assert by_equation.details["too_much_state"] == 10
    empty = Statistics.of(costs=[100] * 10, worker=[0] * 10, state=[0.0] * 10)
    first_only = BestFit(hot=0, message_seconds=50e-6).plan(empty, constraints)
    assert int(first_only.moved().sum()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"hot": -0.1},
        {"hot": 1.1},
        {"hot": np.nan},
        {"interval": 0.0},
        {"bandwidth": 0.0},
        {"bandwidth": np.nan},
        {"message_seconds": -1.0},
    ],
)
def test_best_fit_refuses_bad_parameters(wrong):
    with pytest.raises(InputError):
        BestFit(**wrong)
