"""Metrics against their slow twins, however the stream is chunked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.metrics import (
    ImbalanceTracker,
    ReplicationTracker,
    WorkerNumbers,
    WorstSlidingWindow,
    WorstWindow,
    fair_shares,
    imbalance,
)
from evenflow.model import InputError, Workers

modest = settings(max_examples=60, deadline=None)


@st.composite
def streams(draw):
    """(roster, worker numbers, the chunks that they come in)"""
    n = draw(st.integers(1, 6))
    weights = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=n, max_size=n))
    numbers = draw(st.lists(st.integers(0, n - 1), max_size=80))
    cuts = sorted(draw(st.lists(st.integers(0, len(numbers)), max_size=5)))
    chunks = np.split(np.array(numbers, np.int32), cuts)
    return Workers.numbered(n, weights), numbers, chunks


@modest
@given(streams(), st.integers(1, 12))
def test_imbalance_tracker_agrees_with_its_twin_at_every_sample(stream, every):
    roster, numbers, chunks = stream
    shares = fair_shares(roster)
    tracker = ImbalanceTracker(roster, every)
    for chunk in chunks:
        tracker.update(chunk)
    positions = list(range(every, len(numbers) + 1, every))
    if numbers and len(numbers) % every:
        positions.append(len(numbers))
    expected = [naive.imbalance(numbers[:position], shares) for position in positions]
    timeline = tracker.timeline()
    assert [position for position, _ in timeline] == positions
    assert [value for _, value in timeline] == pytest.approx(expected, abs=1e-12)
    assert tracker.mean == pytest.approx(np.mean(expected) if expected else 0.0, abs=1e-12)
    assert tracker.loads.tolist() == [numbers.count(w) for w in range(len(roster))]


def test_imbalance_is_the_papers_for_equal_workers():
    assert imbalance(np.array([61, 39, 0, 0])) == pytest.approx(0.61 - 1 / 4)
    assert imbalance(np.array([5, 5])) == 0
    assert imbalance(np.array([0, 0])) == 0


@modest
@given(streams(), st.integers(1, 12))
def test_worst_windows_agree_with_their_twin(stream, window):
    roster, numbers, chunks = stream
    shares = fair_shares(roster)
    tumbling, sliding = WorstWindow(roster, window), WorstSlidingWindow(roster, window)
    for chunk in chunks:
        tumbling.update(chunk)
        sliding.update(chunk)
    for metric, step in ((tumbling, window), (sliding, 1)):
        expected = naive.worst_window(numbers, shares, window, step)
        if expected is None:
            assert metric.value is None
        else:
            assert metric.value == pytest.approx(expected)


def test_worst_sliding_window_sees_a_burst_that_lies_across_two_tumbling_windows():
    numbers = np.array([0, 1] * 15, np.int32)
    numbers[15:25] = 0
    tumbling, sliding = WorstWindow(2, window=10), WorstSlidingWindow(2, window=10)
    tumbling.update(numbers)
    sliding.update(numbers)
    assert tumbling.value < sliding.value == 2.0


def test_worst_window_forgives_the_first_window():
    worst, sliding = WorstWindow(2, window=10), WorstSlidingWindow(2, window=10)
    numbers = np.array([0] * 10 + [0, 1] * 10, np.int32)
    worst.update(numbers)
    sliding.update(numbers)
    assert worst.value == sliding.value == 1.0


@modest
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]), st.integers(0, 3)), max_size=60
    ),
    st.integers(0, 60),
)
def test_replication_agrees_with_its_twin(messages, cut):
    keys, numbers = [k for k, _ in messages], [w for _, w in messages]
    tracker = ReplicationTracker(workers=4)
    for part in (slice(0, cut), slice(cut, None)):
        tracker.update(np.array(keys[part], np.uint64), np.array(numbers[part], np.int32))
    distinct, pairs = naive.replication(keys, numbers)
    assert (tracker.keys, tracker.pairs) == (distinct, pairs)
    assert tracker.replication == (pairs / distinct if distinct else 1.0)


@pytest.mark.parametrize("keys", [1, 300, 40_000])
def test_replication_is_exact_while_its_tables_grow(keys):
    random = np.random.default_rng(keys)
    stream = random.integers(0, keys, 120_000, np.uint64)
    workers = random.integers(0, 70, len(stream), np.int32)
    tracker = ReplicationTracker(workers=70)
    for start in range(0, len(stream), 7_001):
        tracker.update(stream[start : start + 7_001], workers[start : start + 7_001])
    assert (tracker.keys, tracker.pairs) == naive.replication(stream.tolist(), workers.tolist())


def test_replication_memory_is_bounded_by_keys_and_pairs():
    tracker = ReplicationTracker(workers=10)
    stream = np.arange(200_000, dtype=np.uint64)
    tracker.update(stream, (stream % np.uint64(10)).astype(np.int32))
    tables = (tracker._key_words, tracker._key_numbers, tracker._pair_words)
    assert sum(table.nbytes for table in tables) <= 96 * tracker.keys + 64 * tracker.pairs
    before = [table.nbytes for table in tables]
    for _ in range(3):
        tracker.update(stream, (stream % np.uint64(10)).astype(np.int32))
    tables = (tracker._key_words, tracker._key_numbers, tracker._pair_words)
    assert [table.nbytes for table in tables] == before


@modest
@given(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=8), st.randoms())
def test_worker_numbers_follow_the_rosters_order_across_gaps(ids, random):
    ids = list(ids)
    random.shuffle(ids)
    routed = np.array([random.choice(ids) for _ in range(20)], np.int32)
    assert WorkerNumbers(Workers(tuple(ids))).of(routed).tolist() == [
        ids.index(worker) for worker in routed.tolist()
    ]


@pytest.mark.parametrize("roster", [Workers.numbered(3), Workers((0, 2, 5))])
@pytest.mark.parametrize("stranger", [-1, 3, 99])
def test_worker_numbers_refuse_a_worker_that_is_not_live(roster, stranger):
    with pytest.raises(InputError, match=f"worker {stranger}, which is not one of the 3"):
        WorkerNumbers(roster).of(np.array([0, stranger], np.int32))
