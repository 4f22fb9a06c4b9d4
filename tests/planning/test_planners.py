"""The planners of mixed routing: the paper's example, its theorems, and the transcription of its
pseudo-code as twin."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.kernels.lazy_order import Rows, new_order, settle
from evenflow.model import InputError
from evenflow.planning import make_planner
from evenflow.planning.assigning import assign, by_state, prepare, workers_after
from evenflow.planning.llfd import LLFD
from evenflow.planning.min_mig import MinMig
from evenflow.planning.min_table import MinTable
from evenflow.planning.mixed import MOST_TRIALS, WORTH, Mixed, trials
from evenflow.planning.protocol import Constraints, Statistics
from evenflow_lab.literal import planning as literal
from evenflow_lab.rivals.mixed_brute_force import MixedBruteForce
from naive_planning import (
    LITERAL,
    instances,
    overload_of,
    shuffled,
    workers_of,
)

pytestmark = pytest.mark.slow

# Figure 4: k1 … k6; d1 has k1, k2 and k5, d2 the others; the table has (k3, d2) and (k5, d1).
FIGURE_4 = Statistics.of(
    costs=[7, 4, 2, 1, 5, 1],
    worker=[0, 0, 1, 1, 0, 1],
    home=[0, 0, 0, 1, 1, 1],
    keys=[1, 2, 3, 4, 5, 6],
)
BALANCED = Constraints(2, theta=0.0, table_limit=2)


# --- Figure 4 -------------------------------------------------------------------------------------


def test_figure_4_llfd_ends_even_with_four_entries():
    plan = LLFD().plan(FIGURE_4, BALANCED)
    assert plan.loads().tolist() == [10, 10]
    assert plan.table().entries == {1: 1, 3: 1, 4: 0, 5: 0}
    assert plan.failures() == ["the routing table has 4 entries, 2 above its limit of 2"]


def test_figure_4_min_table_ends_even_with_two_entries():
    plan = MinTable().plan(FIGURE_4, BALANCED)
    assert plan.loads().tolist() == [10, 10]
    assert plan.table().entries == {2: 1, 4: 0}
    assert plan.failures() == []


def test_figure_4_steps_of_llfd():
    keys = literal.Keys.of(FIGURE_4)
    trial = literal.start(keys, BALANCED, literal.highest_cost_first(keys), set())
    assert trial.load == {0: 16, 1: 4}
    literal.prepare(trial)
    assert trial.load == {0: 9, 1: 4}
    assert trial.candidates == [(-7, 1)]
    literal.llfd(trial)
    assert trial.steps == [
        ("exchanged", 1, 1, (3,)),  # k1 goes to d2, k3 makes room
        ("refused", 3, 0, ()),  # the red cross: nothing on d1 is smaller than k3
        ("exchanged", 3, 1, (4,)),  # k3 stays on d2, k4 makes room
        ("fits", 4, 0, ()),
    ]
    assert trial.on == {0: {2, 5, 4}, 1: {1, 3, 6}}


def test_figure_4_steps_of_min_table():
    keys = literal.Keys.of(FIGURE_4)
    trial = literal.start(keys, BALANCED, literal.highest_cost_first(keys), {3, 5})
    assert trial.load == {0: 13, 1: 7}
    literal.prepare(trial)
    assert trial.load == {0: 6, 1: 7}
    assert trial.candidates == [(-7, 1)]
    literal.llfd(trial)
    assert trial.steps == [
        ("exchanged", 1, 0, (2,)),
        ("exchanged", 2, 1, (4,)),
        ("fits", 4, 0, ()),
    ]
    assert trial.on == {0: {1, 3, 4}, 1: {2, 5, 6}}


@pytest.mark.parametrize(("beta", "first"), [(0.5, 2), (1.5, 1)])
def test_a_smaller_beta_prefers_the_key_with_less_state(beta, first):
    """§III-B: with β = 0.5, k2 gains higher priority than k1; with more than 1, k1 does."""
    keys = literal.Keys.of(FIGURE_4)
    order = literal.largest_gamma_first(keys, beta)
    assert min((1, 2), key=order) == first


# --- the twin -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(LITERAL))
@given(instance=instances())
@settings(max_examples=150)
def test_kernels_plan_as_the_pseudo_code_does(name, instance):
    statistics, constraints = instance
    trial = LITERAL[name](statistics, constraints)
    plan = make_planner(name).plan(statistics, constraints)
    assert plan.worker.tolist() == workers_of(trial, statistics)
    assert plan.details["unfit"] == trial.unfit


@given(instances(), st.sampled_from([0.0, 1.0, 1.5, 2.0]))
@settings(max_examples=150)
def test_every_trial_of_mixed_is_that_of_the_pseudo_code(instance, beta):
    statistics, constraints = instance
    expected = literal.mixed(statistics, constraints, beta, MOST_TRIALS)
    room = prepare(statistics, constraints, by_cost=False, beta=beta)
    found = list(trials(room))
    assert len(found) == len(expected)
    for assignment, trial in zip(found, expected, strict=True):
        assert workers_after(room, assignment).tolist() == workers_of(trial, statistics)
        assert assignment.table_size == trial.table_size()
        assert assignment.migration == trial.migration()
        assert assignment.overload == pytest.approx(overload_of(trial)) if len(statistics) else True


@given(instances(most_keys=12))
@settings(max_examples=60)
def test_brute_force_keeps_the_best_of_all_trials_of_the_pseudo_code(instance):
    statistics, constraints = instance
    plan = MixedBruteForce().plan(statistics, constraints)
    everything = literal.mixed_brute_force(statistics, constraints)
    kept = [
        trial.migration()
        for trial in everything
        if trial.table_size() <= constraints.table_limit
        and overload_of(trial) <= constraints.theta + 1e-9
    ]
    assert plan.details["trials"] == len(everything)
    if kept:
        stays = statistics.worker < constraints.workers
        moved = float(statistics.state[plan.moved() & stays].sum())
        assert plan.feasible()
        assert moved <= min(kept)
        if plan.details["by"] == "mixed-bf":
            assert moved == min(kept)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=300),
    st.lists(st.integers(0, 299), max_size=5),
    st.integers(0, 2**32),
)
def test_lazy_order_settles_what_is_read(pairs, places, seed):
    priority, cost = np.array(pairs, np.float64).T
    key = np.random.default_rng(seed).permutation(len(pairs)).astype(np.uint64)
    rows = Rows(np.ascontiguousarray(cost), key, np.zeros(0, np.int64), 1.0)
    order = new_order(np.array([len(pairs)]))
    order.priority[:], order.row[:] = priority, np.arange(len(pairs))
    expected = sorted(range(len(pairs)), key=lambda r: (-priority[r], -cost[r], key[r]))
    for place in places:
        if place < len(pairs):
            settle(rows, order, 0, place)
            assert order.row[: place + 1].tolist() == expected[: place + 1]
    settle(rows, order, 0, len(pairs) - 1)
    assert order.row.tolist() == expected


@pytest.mark.parametrize("shape", ["rising", "falling", "alike", "organ pipe", "random"])
def test_lazy_order_of_many_rows(shape):
    n = 20_000
    values = {
        "rising": np.arange(n),
        "falling": -np.arange(n),
        "alike": np.zeros(n),
        "organ pipe": -np.abs(np.arange(n) - n // 2),
        "random": np.random.default_rng(1).random(n),
    }[shape].astype(np.float64)
    rows = Rows(np.ones(n), np.arange(n, dtype=np.uint64), np.zeros(0, np.int64), 1.0)
    order = new_order(np.array([n]))
    order.priority[:], order.row[:] = values, np.arange(n)
    settle(rows, order, 0, 100)
    expected = np.lexsort((np.arange(n), -values))
    assert order.row[:101].tolist() == expected[:101].tolist()
    settle(rows, order, 0, n - 1)
    assert order.row.tolist() == expected.tolist()


@given(instances(most_keys=8), st.lists(st.integers(1, 9), min_size=8, max_size=8), st.booleans())
@settings(max_examples=100)
def test_rows_of_several_keys_go_where_single_keys_would(instance, counts, by_cost):
    """What the compact representation needs: a row of m keys is as good as m rows."""
    rows, constraints = instance
    rank = np.argsort(np.argsort(rows.keys)).astype(np.uint64)
    counts = np.array(counts[: len(rows)], np.int64)
    of = np.repeat(np.arange(len(rows)), counts)
    number = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    keys = rank[of] * np.uint64(100) + number.astype(np.uint64)
    single = Statistics.of(rows.costs[of], rows.worker[of], rows.home[of], rows.state[of], keys)

    room = prepare(rows, constraints, by_cost, counts=counts)
    found = assign(room)
    one_by_one = prepare(single, constraints, by_cost)
    expected = assign(one_by_one)

    tally = np.zeros((len(rows), constraints.workers), np.int64)
    np.add.at(tally, (np.arange(len(rows)), room.place), counts)
    np.subtract.at(tally, (found.rows, room.place[found.rows]), found.amounts)
    np.add.at(tally, (found.rows, found.workers), found.amounts)
    want = np.zeros_like(tally)
    np.add.at(want, (of, workers_after(one_by_one, expected)), 1)
    assert tally.tolist() == want.tolist()
    assert found.table_size == expected.table_size
    assert found.migration == expected.migration
    assert found.unfit == expected.unfit


# --- guarantees -----------------------------------------------------------------------------------


@given(instances())
def test_assign_places_each_key_at_most_once(instance):
    statistics, constraints = instance
    for by_cost in (True, False):
        room = prepare(statistics, constraints, by_cost)
        for moved_back in (room.loose[:0], room.loose):
            found = assign(room, moved_back)
            assert len(np.unique(found.rows)) == len(found.rows)


@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.02, 0.2]),
)
@settings(max_examples=150)
def test_assign_does_not_depend_on_the_order_of_the_rows(costs, n, seed, theta):
    """With costs whose sums are not exact."""
    random = np.random.default_rng(seed)
    k = len(costs)
    home, state = random.integers(0, n, k), random.random(k)
    now = np.where(random.random(k) < 0.3, random.integers(0, n, k), home)
    statistics = Statistics.of(costs, now, home, state, random.permutation(k))
    other, order = shuffled(statistics, seed + 1)
    for planner in (LLFD(), MinTable(), MinMig(), Mixed(), MixedBruteForce()):
        constraints = Constraints(n, theta, table_limit=3)
        plan, again = planner.plan(statistics, constraints), planner.plan(other, constraints)
        assert plan.worker[order].tolist() == again.worker.tolist()


@given(instances())
def test_assign_keeps_the_limit_if_no_key_is_unfit(instance):
    statistics, constraints = instance
    for planner in (LLFD(), MinTable(), MinMig()):
        plan = planner.plan(statistics, constraints)
        if not plan.details["unfit"]:
            assert plan.overload() <= constraints.theta + 1e-9


@given(instances(leaving=False), st.integers(0, 2**32))
def test_min_table_depends_on_costs_and_homes_not_on_where_keys_are(instance, seed):
    statistics, constraints = instance
    n = constraints.workers
    elsewhere = np.random.default_rng(seed).integers(0, n, len(statistics))
    moved = Statistics.of(
        statistics.costs, elsewhere, statistics.home, statistics.state, statistics.keys
    )
    plan = MinTable().plan(statistics, constraints)
    assert plan.worker.tolist() == MinTable().plan(moved, constraints).worker.tolist()


@given(instances(even_state=True), st.sampled_from([0.5, 1.0, 1.5, 3.0]))
def test_min_mig_plans_as_llfd_where_all_states_are_alike(instance, beta):
    plan, other = MinMig(beta).plan(*instance), LLFD().plan(*instance)
    assert plan.worker.tolist() == other.worker.tolist()


@given(instances())
def test_mixed_keeps_all_constraints_if_a_trial_does(instance):
    statistics, constraints = instance
    kept = [
        trial
        for trial in literal.mixed(statistics, constraints, most_trials=MOST_TRIALS)
        if trial.table_size() <= constraints.table_limit
        and overload_of(trial) <= constraints.theta + 1e-9
    ]
    if kept:
        assert Mixed().plan(statistics, constraints).feasible()


@given(instances())
def test_mixed_exceeds_its_limits_by_no_greater_a_part_than_min_table(instance):
    statistics, constraints = instance

    def excess(plan):
        load = (1 + plan.overload()) / (1 + constraints.theta) - 1
        table = (plan.table_size() - constraints.table_limit) / max(constraints.table_limit, 1)
        return max(load, 0) + max(table, 0)

    plan = Mixed().plan(statistics, constraints)
    best = excess(MinTable().plan(statistics, constraints))
    granted = WORTH if plan.details["by"] == "staying" else 1
    assert granted * excess(plan) <= best + 1e-6


@given(instances(most_keys=14))
def test_brute_force_never_moves_more_state_than_mixed(instance):
    plan, brute = Mixed().plan(*instance), MixedBruteForce().plan(*instance)
    assume(plan.feasible())
    assert brute.feasible()
    assert brute.migration_bytes() <= plan.migration_bytes()


# --- what cannot be kept --------------------------------------------------------------------------


@pytest.mark.parametrize("planner", [LLFD(), MinTable(), MinMig(), Mixed(), MixedBruteForce()])
def test_one_key_above_the_limit_is_named(planner):
    statistics = Statistics.of([100, 1, 1, 1, 1], worker=[0, 0, 0, 1, 1])
    plan = planner.plan(statistics, Constraints(2, theta=0.1))
    [failure] = plan.failures()
    assert "above its share where θmax allows 10.0%" in failure
    assert "one key alone costs 100, 74.8% above any worker's limit" in failure
    # Nothing but the large key needs to stand on its worker.
    assert plan.loads().max() <= 102


@pytest.mark.parametrize("planner", [LLFD(), MinTable(), MinMig()])
def test_a_table_limit_of_nothing_is_named(planner):
    statistics = Statistics.of([5, 5, 1, 1], worker=[0, 0, 1, 1])
    plan = planner.plan(statistics, Constraints(2, theta=0.2, table_limit=0))
    assert plan.failures() == ["the routing table has 1 entries, 1 above its limit of 0"]


@pytest.mark.parametrize("planner", [Mixed(), MixedBruteForce()])
def test_mixed_keeps_a_table_limit_of_nothing_and_names_the_load(planner):
    statistics = Statistics.of([5, 5, 1, 1], worker=[0, 0, 1, 0], home=[0, 0, 1, 1])
    plan = planner.plan(statistics, Constraints(2, theta=0.2, table_limit=0))
    assert plan.table_size() == 0
    assert plan.failures() == ["worker 0 is 66.7% above its share where θmax allows 20.0%"]


def test_a_table_that_is_too_small_is_filled_as_far_as_it_goes():
    """θmax needs about 30 entries; with ten, the ten relieve the fullest workers."""
    random = np.random.default_rng(1)
    home = np.where(random.random(300) < 0.4, 0, random.integers(0, 6, 300))
    statistics = Statistics.of(random.integers(5, 10, 300), home)
    free = Mixed().plan(statistics, Constraints(6, theta=0.05, table_limit=300))
    assert free.feasible()
    assert free.table_size() > 60
    tight = Mixed().plan(statistics, Constraints(6, theta=0.05, table_limit=40))
    assert tight.table_size() <= 40
    assert free.overload() < tight.overload() < tight.constraints.overload(statistics.loads(6))
    assert "above its share" in tight.failures()[0]
    assert tight.details["by"] == "relaxed"


def test_keys_of_workers_that_leave_go_home_unless_that_is_too_much():
    statistics = Statistics.of([4, 4, 4, 4], worker=[0, 1, 2, 2], home=[0, 1, 0, 1])
    plan = Mixed().plan(statistics, Constraints(2, theta=0.0))
    assert plan.worker.tolist() == [0, 1, 0, 1]
    crowded = Statistics.of([4, 4, 4, 4], worker=[0, 1, 2, 2], home=[0, 1, 0, 0])
    plan = Mixed().plan(crowded, Constraints(2, theta=0.0))
    assert plan.loads().tolist() == [8, 8]
    assert plan.feasible()


def test_costs_far_apart_and_far_from_one_are_added_up_exactly():
    for unit in (1e-200, 1e-30, 1.0, 1e200):
        statistics = Statistics.of(unit * np.array([7, 4, 5, 2, 1, 1]), worker=[0, 0, 0, 1, 1, 1])
        plan = LLFD().plan(statistics, Constraints(2, theta=0.0))
        assert plan.loads() == pytest.approx([10 * unit, 10 * unit])


@pytest.mark.parametrize("name", ["min-mig", "mixed", "mixed-bf"])
def test_a_negative_beta_is_refused(name):
    with pytest.raises(InputError, match="β must be a finite number of at least 0, got -1"):
        make_planner(name, beta=-1)


def test_eta_is_the_smallest_state_first():
    statistics = Statistics.of([1, 2, 1, 9], [1, 1, 1, 0], [0, 0, 0, 0], state=[5, 3, 3, 0])
    room = prepare(statistics, Constraints(2), by_cost=False)
    assert by_state(room).tolist() == [2, 1, 0]
