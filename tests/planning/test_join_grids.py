"""Grids for the hot keys of a join: every pair meets once, and the fullest task has little more than
its share."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.planning.join_grids import Grid, JoinKey, plan_join

COUNTS = st.one_of(st.integers(0, 3), st.integers(0, 10**6))
SIDES = st.lists(st.tuples(COUNTS, COUNTS), max_size=12)


def keys_of(sides):
    return [JoinKey(i, left, right, float(left) * right) for i, (left, right) in enumerate(sides)]


@given(SIDES, st.integers(1, 40), st.tuples(st.booleans(), st.booleans()), st.integers(0, 10**6))
def test_every_pair_of_rows_meets_in_exactly_one_cell(sides, partitions, splits, others):
    keys = keys_of(sides)
    total = sum(one.load for one in keys) + others
    plan = plan_join(keys, total, partitions, splits=splits)
    for grid in plan.grids.values():
        assert len(set(grid.partitions)) == len(grid.partitions) == grid.rows * grid.columns
        assert all(0 <= cell < partitions for cell in grid.partitions)
        assert splits[0] or grid.rows == 1
        assert splits[1] or grid.columns == 1
        for row in range(grid.rows):
            to_left = cells_of(grid, row)
            for column in range(grid.columns):
                to_right = cells_of(grid.transposed(), column)
                assert len(set(to_left) & set(to_right)) == 1


def cells_of(grid, part):
    """Where a row goes, as `salting.placed` slices it."""
    return grid.partitions[part * grid.columns : (part + 1) * grid.columns]


@given(SIDES, st.integers(1, 40))
def test_the_plan_is_a_pure_function_of_the_counts_in_any_order(sides, partitions):
    keys = keys_of(sides)
    total = sum(one.load for one in keys)
    assert plan_join(keys, total, partitions) == plan_join(keys[::-1], total, partitions)


def test_a_key_with_a_third_of_one_side_leaves_the_fullest_task_below_1_3_times_the_average():
    for partitions in (2, 8, 24, 200):
        for right in (1, 7, 3000):
            hot = JoinKey(1, 30_000, right, 30_000.0 * right)
            plan = plan_join([hot], hot.load + 140_000, partitions)
            assert plan.fullest <= 1.3
            assert loads_of(plan, [hot], 140_000) <= 1.3


def test_two_hot_sides_make_a_grid_that_copies_fewer_rows_than_a_split_of_one_side():
    hot = JoinKey(1, 10_000, 10_000, 1e8)
    grid = plan_join([hot], hot.load * 1.01, 64).grids[1]
    assert grid.rows > 1
    assert grid.columns > 1
    copied = hot.left * grid.columns + hot.right * grid.rows
    assert copied < (hot.left + hot.right * 64) / 2


def test_keys_that_are_not_hot_go_by_hash():
    keys = [JoinKey(i, 10, 1, 10.0) for i in range(100)]
    plan = plan_join(keys, 2.1e6, 8)
    assert plan.grids == {}
    assert plan.plain == plan.fullest == 1.0


def test_rows_without_a_key_count_as_a_hot_spot_of_the_plain_join():
    plan = plan_join([], 1000.0, 8, spread=300.0)
    assert plan.plain == 2.4
    assert plan.fullest == 1.0


def test_an_empty_join_has_no_grids():
    assert plan_join([], 0.0, 4).grids == {}


def test_a_grid_seen_from_the_other_side_has_the_same_cells():
    grid = Grid(2, 3, (10, 11, 12, 13, 14, 15))
    assert grid.transposed() == Grid(3, 2, (10, 13, 11, 14, 12, 15))
    assert grid.transposed().transposed() == grid


def loads_of(plan, keys, others):
    """The fullest task, in multiples of the average, from the cells themselves."""
    loads = np.full(plan.partitions, others / plan.partitions)
    for one in keys:
        grid = plan.grids[one.key]
        cell = one.left / grid.rows + one.right / grid.columns
        loads[list(grid.partitions)] += cell + one.pairs / (grid.rows * grid.columns)
    return loads.max() / loads.mean()
