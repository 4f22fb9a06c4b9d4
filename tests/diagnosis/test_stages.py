"""The figures of a stage beside plain Python, and causes on applications that are made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.diagnosis.application import COLUMNS, Application, Stage
from evenflow.diagnosis.applications import busy_seconds, diagnose_application
from evenflow.diagnosis.plans import Shuffle
from evenflow.diagnosis.rules import CAUSES
from evenflow.diagnosis.stages import (
    busy_slots,
    figures_of,
    lost_seconds,
    makespan,
    skew_score,
)

SECONDS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=40)


@given(SECONDS, st.integers(1, 12))
def test_makespan_is_that_of_slots_that_take_the_next_task(seconds, slots):
    free = [0.0] * slots
    for one in seconds:
        first = free.index(min(free))
        free[first] += one
    assert makespan(seconds, slots) == pytest.approx(max(free))


@given(SECONDS, st.integers(1, 12))
def test_lost_time_is_never_negative_nor_more_than_the_whole(seconds, slots):
    found = lost_seconds(np.array(seconds), slots, float(np.mean(seconds)))
    assert 0 <= found <= makespan(seconds, slots) + 1e-9


@given(st.floats(0.01, 100), st.integers(1, 40), st.integers(1, 12))
def test_even_tasks_lose_nothing_whatever_the_number_of_slots(one, tasks, slots):
    assert lost_seconds(np.full(tasks, one), slots, one) == pytest.approx(0, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=30))
def test_busy_slots_are_the_most_tasks_at_one_moment(tasks):
    launched, seconds = (np.array(column, float) for column in zip(*tasks, strict=True))
    naive = max(sum(b <= at < b + s for b, s in tasks) for at in range(75))
    assert busy_slots(launched, seconds) == naive


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30))
def test_the_score_is_flinks_and_between_0_and_100(values):
    found = skew_score(np.array(values))
    assert 0 <= found <= 100
    average = sum(values) / len(values)
    if average > 0:
        naive = 100 * sum(abs(one - average) for one in values) / len(values) / average
        assert found == pytest.approx(min(naive, 100), abs=0.06)


SHUFFLE = Shuffle(("page",), 8, "applyInPandas", "FlatMapGroupsInPandas", reads=1)


def stage(
    seconds, number=1, slots=4, rows=None, executor=None, began=100.0, shuffle=SHUFFLE, **more
):
    """A stage whose tasks start as soon as a slot is free."""
    n = len(seconds)
    free, launched = [began] * slots, []
    for one in seconds:
        slot = free.index(min(free))
        launched.append(free[slot])
        free[slot] += one
    tasks = {name: np.zeros(n) for name in COLUMNS}
    tasks |= {"launched": np.array(launched), "seconds": np.array(seconds, float)}
    tasks |= {"run_seconds": tasks["seconds"], "partition": np.arange(n, dtype=float)}
    tasks["shuffle_rows"] = np.array(rows if rows is not None else [100] * n, float)
    tasks["shuffle_bytes"] = 10 * tasks["shuffle_rows"]
    tasks["executor"] = np.array(executor if executor is not None else [0] * n, float)
    tasks |= {name: np.array(values, float) for name, values in more.items()}
    names = tuple(map(str, range(8)))
    shuffles = () if shuffle is None else (shuffle,)
    return Stage(number, 0, "", n, tasks, names, names, shuffles, (), {1: 1})


#: so that what follows is not the first that its executors do
WARM = stage([1.0] * 8, number=0, began=0.0, executor=[0, 1, 2, 3] * 2)


def verdict(*stages):
    return diagnose_application(Application("made up", "", "4.3", (WARM, *stages), {}))


EIGHT = [1.0] * 8
LONG = [1.0, 1, 1, 1, 9, 1, 1, 1]


def test_each_cause_by_what_defines_it():
    hot = [100, 100, 100, 100, 900, 100, 100, 100]
    null_at = SHUFFLE.partitions and 42 % 8
    at_null = [9.0 if i == null_at else 1.0 for i in range(8)]
    null_rows = [900 if i == null_at else 100 for i in range(8)]
    made = {
        "hot key": stage(LONG, rows=hot),
        "null keys": stage(at_null, rows=null_rows),
        "costly rows": stage(LONG),
        "slow machine": stage([9, 1, 1, 1, 9, 1, 1, 1] * 2, executor=[1, 0, 2, 3] * 4),
        "spill": stage(EIGHT, spilled_disk=[500] * 8),
        "garbage collection": stage(EIGHT * 2, gc_seconds=[0.4] * 16),
        "uneven ranges": stage(
            LONG, rows=hot, shuffle=Shuffle(("n",), 8, "sort", "Sort", by_range=True, reads=1)
        ),
        "input files": stage(LONG, rows=[0] * 8, shuffle=None, input_rows=hot, input_bytes=hot),
    }
    assert {name: verdict(one).cause for name, one in made.items()} == {name: name for name in made}
    assert set(made) == set(CAUSES)


def test_a_job_on_rdds_has_no_plan_and_still_a_hot_key():
    found = verdict(stage(LONG, rows=[100, 100, 100, 100, 900, 100, 100, 100], shuffle=None))
    assert found.cause == "hot key"
    assert found.findings[0].keys == ()
    assert "a hot key in a shuffle: " in found.answer


def test_nulls_are_not_claimed_where_partition_numbers_say_nothing():
    at_null = [9.0 if i == 42 % 8 else 1.0 for i in range(8)]
    rows = [900 if i == 42 % 8 else 100 for i in range(8)]
    joined = Shuffle(("page",), 200, "applyInPandas", "", reads=1)
    inner = Shuffle(("page",), 8, "join", "SortMergeJoin", reads=1)
    assert verdict(stage(at_null, rows=rows, shuffle=joined)).cause == "hot key"
    assert verdict(stage(at_null, rows=rows, shuffle=inner)).cause == "hot key"


def test_a_straggler_that_costs_little_is_not_named():
    quick = stage([0.01] * 7 + [0.09])
    assert verdict(quick).cause == "nothing"
    beside_a_long_stage = stage([20.0] * 40, number=2, began=300.0)
    assert verdict(stage([1.0] * 7 + [4.0]), beside_a_long_stage).cause == "nothing"


def test_python_that_starts_is_not_a_slow_machine_nor_costly_rows():
    starts = [0, 0, 0, 0, 8, 0, 0, 0]
    assert verdict(stage(LONG, start_seconds=starts)).cause == "nothing"


def test_executors_that_all_start_slowly_are_not_costly_rows():
    slow_start = stage([55, 54, 53, 56, 1, 1, 1, 1, 1], executor=[0, 1, 2, 3, 0, 1, 2, 3, 0])
    found = diagnose_application(Application("made up", "", "4.3", (slow_start,), {}))
    assert found.cause == "nothing"


def test_one_costly_task_does_not_make_its_machine_slow():
    found = verdict(stage(LONG * 2, executor=[0, 1, 2, 3] * 4))
    assert found.cause == "costly rows"


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 9))
def test_any_application_gets_an_answer(seconds, slots):
    made = stage([one / 10 for one in seconds], slots=slots)
    found = verdict(made)
    assert found.answer.endswith(".")
    assert found.to_html()
    figures = figures_of(Application("", "", "", (made,), {}))
    assert busy_seconds(figures) <= sum(seconds) / 10 + 1e-6


def test_stages_that_waited_at_the_same_time_lose_no_more_than_that_time():
    one, many = (
        verdict(*(stage(LONG, number=number, began=100.0) for number in range(1, n)))
        for n in (2, 30)
    )
    assert one.answer == many.answer
    assert "(6.0 of 12.0 s are lost)" in one.answer


def test_overlapping_stages_are_busy_once():
    figures = figures_of(Application("", "", "", (stage([2.0], 1), stage([3.0], 2)), {}))
    assert busy_seconds(figures) == pytest.approx(3.0)
