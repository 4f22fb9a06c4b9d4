"""The engine under a simulated stream: tables that are replanned between batches."""

from evenflow.planning.controller import Replanning
from evenflow.simulator.replanning import simulate_replanning
from evenflow.simulator.workloads import Zipf

STREAM = Zipf(exponent=1.0, keys=2_000, messages=120_000, seed=3)


def test_a_skewed_stream_is_balanced_after_a_few_plans():
    intervals = list(simulate_replanning(STREAM, 6, 20_000))
    assert [i.rows for i in intervals] == [20_000] * 6
    assert intervals[0].table_size == 0
    assert intervals[0].changed
    assert "above its share" in intervals[0].reason
    assert intervals[-1].max_over_average < 1.1 < intervals[0].max_over_average
    assert intervals[1].moved_keys > 0
    assert intervals[1].moved_bytes > 0


def test_the_same_stream_gives_the_same_intervals():
    assert list(simulate_replanning(STREAM, 4, 40_000)) == list(
        simulate_replanning(STREAM, 4, 40_000)
    )


def test_nothing_moves_where_everything_is_tolerated():
    calm = simulate_replanning(STREAM, 4, 40_000, Replanning(theta=5.0))
    assert all(not i.changed and not i.moved_keys for i in calm)


def test_a_table_keeps_its_limit():
    intervals = list(simulate_replanning(STREAM, 6, 20_000, limit=5))
    assert all(i.table_size <= 5 for i in intervals)
