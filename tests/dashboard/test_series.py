"""Columns for charts: few points, and the worst batch still in them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from evenflow.dashboard.batch_summary import BatchSummary
from evenflow.dashboard.series import MOST_EVENTS, columns_of, events_of, select
from evenflow.state.source import topic_offsets

NUMBERS = st.floats(1, 1e6, allow_nan=False)


def summary(batch, **more):
    return BatchSummary.of({"batch": batch, "began": 10.0 * batch, **more})


@given(
    st.lists(st.tuples(NUMBERS, st.integers(0, 10**9), NUMBERS), max_size=60),
    st.integers(-3, 40),
)
def test_the_worst_is_never_smoothed_away_and_sums_stay_sums(values, points):
    batches = [
        summary(
            i,
            began=1.79e9 + 0.125 * i,
            max_over_average=balance,
            rows=rows,
            durations={"tasks": seconds, "sink": 1.0},
        )
        for i, (balance, rows, seconds) in enumerate(values)
    ]
    found = columns_of(batches, points)
    assert found["batches"] == len(values)
    if not values:
        assert found["time"] == []
        return
    assert len(found["time"]) <= max(points, 1)
    assert math.isclose(max(found["balance_max"]), max(b for b, _, _ in values), rel_tol=1e-9)
    assert math.isclose(sum(found["rows"]), sum(r for _, r, _ in values), rel_tol=1e-9)
    assert math.isclose(max(found["seconds_max"]), max(s for _, _, s in values) + 1, rel_tol=1e-9)
    assert found["first"][0] == 0
    assert found["last"][-1] == len(values) - 1
    assert found["time"] == [1.79e9 + 0.125 * first for first in found["first"]]
    assert [low - 1 for low in found["first"][1:]] == found["last"][:-1]
    sizes = [high - low + 1 for low, high in zip(found["first"], found["last"], strict=True)]
    for at, size in enumerate(sizes):
        part = values[found["first"][at] : found["first"][at] + size]
        assert math.isclose(found["balance"][at], sum(b for b, _, _ in part) / size, rel_tol=1e-9)
        assert math.isclose(
            found["steps"]["tasks"][at], sum(s for *_, s in part) / size, rel_tol=1e-9
        )


def test_partitions_that_follow_the_load_are_shown_with_the_reason():
    scaling = {"load": 0.97, "partitions": 8, "reason": "8 partitions instead of 4"}
    plain = {"rows": 100, "max_over_average": 1.0}
    batches = [
        summary(0, planned_partitions=4, scaling=scaling, **plain),
        summary(1, planned_partitions=8, reason=scaling["reason"], scaling={"load": 0.5}, **plain),
    ]
    found = columns_of(batches, points=10)
    assert found["partitions"] == [4, 8]
    assert found["load_max"] == [0.97, 0.5]
    [change] = events_of(batches)["events"]
    assert change["what"] == "4 → 8 partitions"
    assert change["why"] == "8 partitions instead of 4"
    assert batches[0].sizing == "8 partitions instead of 4"
    assert columns_of([summary(0, planned_partitions=4)], 10)["load_max"] is None


def test_a_range_of_time_has_the_batches_that_began_in_it():
    batches = [summary(i) for i in range(10)]
    assert [one.batch for one in select(batches, 20, 40)] == [2, 3, 4]
    assert len(select(batches)) == 10
    assert select(batches, 1000) == []


def test_changes_have_their_reasons_and_a_break_without_rows_hides_none():
    def rows(batch, scheme, partitions, **more):
        parts = [{"partition": i, "rows": 1} for i in range(partitions)]
        return summary(
            batch, scheme=scheme, rows=partitions, max_over_average=1.0, partitions=parts, **more
        )

    batches = [
        rows(0, "key", 4, reason="first"),
        rows(
            1,
            "table",
            4,
            reason="31 % hot",
            planning={"changed": True, "reason": "worker 3 is full"},
        ),
        rows(2, "table", 4, reason="moved", epoch=1, migrated_keys=1, migrated_bytes=2500),
        summary(3, scheme="table", rows=0),
        rows(4, "table", 8, reason="8 partitions instead of 4", dead_letters=2),
    ]
    found = [
        (one["batch"], one["kind"], one["what"], one["why"]) for one in events_of(batches)["events"]
    ]
    assert found == [
        (1, "scheme", "key → table", "31 % hot"),
        (1, "plan", "the routing table changes with the next batch", "worker 3 is full"),
        (2, "move", "1 key moved, 2.5 kB of state", "moved"),
        (4, "partitions", "4 → 8 partitions", "8 partitions instead of 4"),
        (4, "dead", "2 rows set aside", "the operator failed for them"),
    ]


def test_of_very_many_changes_the_newest_are_kept_and_all_are_counted():
    batches = [summary(i, scheme="ab"[i % 2]) for i in range(3 * MOST_EVENTS)]
    found = events_of(batches)
    assert len(found["events"]) == MOST_EVENTS
    assert found["total"] == 3 * MOST_EVENTS - 1
    assert found["events"][-1]["batch"] == 3 * MOST_EVENTS - 1


def test_offsets_of_other_sources_than_kafka_are_no_topics():
    kafka = 'v1\n{}\n{"logOffset":3}\n-\n{"clicks":{"0":12}}\n{"orders":{"1":7}}'
    assert topic_offsets(kafka) == {"clicks": {0: 12}, "orders": {1: 7}}
    assert topic_offsets("") == {}
    assert topic_offsets("v1\n{}\n[1]\nnonsense") == {}
