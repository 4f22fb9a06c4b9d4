"""The parts of virtual time: arrivals, clusters, queues, latencies, signals on acknowledgements."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.kernels.mixing import salt
from evenflow.metrics import LatencyHistogram
from evenflow.model import InputError, Signal
from evenflow.simulator import Cluster
from evenflow.simulator.arrivals import CURVES, ArrivalCurve
from evenflow.simulator.cluster import CapacityPlan
from evenflow.simulator.queues import _ROLE, Queues
from evenflow.simulator.signals import Piggyback, signals_of
from virtual_time import eras_of, in_simpy, plan_of

pytestmark = pytest.mark.slow

EQUAL_TO_ROUNDING = 1e-9


# --- arrivals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [*CURVES.values(), (0, 1), (3, 0, 0, 1), (0.1, 0.2, 0.7)])
@pytest.mark.parametrize("messages", [1, 10, 97, 150])
def test_arrival_times_agree_with_the_twin(rates, messages):
    curve = ArrivalCurve(rates, messages)
    times = curve.times(0, messages)
    assert times == pytest.approx(naive.arrival_times(rates, messages), abs=EQUAL_TO_ROUNDING)
    assert (np.diff(times) >= 0).all()
    assert times[-1] < curve.duration == messages


@pytest.mark.parametrize("arrivals", list(CURVES))
def test_arrival_times_depend_on_the_message_alone(arrivals):
    curve = ArrivalCurve(arrivals, messages=1_003)
    whole = curve.times(0, 1_003)
    for cut in (0, 1, 20, 21, 500, 1_002):
        assert np.concatenate((curve.times(0, cut), curve.times(cut, 1_003))).tolist() == (
            whole.tolist()
        )
    just_after = np.nextafter(whole[::7], np.inf)
    for time in [-1.0, 0.0, 0.5, 10.03, 20.06, 515.2, 1_003.0, *whole[::97], *just_after]:
        assert curve.first_at(time) == np.searchsorted(whole, time)


def test_constant_arrivals_are_one_per_unit_of_time():
    assert ArrivalCurve("constant", 10**9).times(10**9 - 3, 10**9).tolist() == [
        999_999_997.0,
        999_999_998.0,
        999_999_999.0,
    ]


@pytest.mark.parametrize(
    ("arrivals", "says"),
    [
        ("daily", "no arrival curve is called 'daily'; known: constant, hourly, bursts"),
        ((0.0, 0.0), "not all 0"),
        ((1.0, -1.0), "at least 0"),
        ((), "not all 0"),
        ((math.nan,), "finite"),
    ],
)
def test_wrong_arrivals_are_refused(arrivals, says):
    with pytest.raises(InputError, match=says):
        Cluster(workers=2, arrivals=arrivals)


# --- clusters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [None, (0, 9), (1, 2), (3, 5), (9, 10), (10, 10)])
def test_total_capacity_is_the_same_for_every_heterogeneity(pair):
    capacities = Cluster(workers=10, utilisation=0.8).capacities(pair)
    assert capacities.sum() == pytest.approx(1 / 0.8)
    strong, times = pair or (0, 1)
    assert capacities[:strong] == pytest.approx(times * capacities[-1] if strong < 10 else 1 / 8)
    assert len(set(capacities[strong:].tolist())) <= 1


def test_a_cluster_is_made_of_plain_values_and_turned_back():
    cell = {
        "utilisation": 0.7,
        "heterogeneity": [3, 5],
        "changes": [[600, [5, 4]], [1200, None]],
        "slots": 24,
        "arrivals": "hourly",
    }
    cluster = Cluster.from_dict(cell, workers=10)
    assert (cluster.workers, cluster.heterogeneity) == (10, (3, 5.0))
    assert cluster.changes == ((600, (5, 4.0)), (1200, None))
    plain = json.loads(json.dumps(cluster.to_dict()))
    assert Cluster.from_dict(plain) == cluster
    assert hash(cluster) == hash(Cluster.from_dict(plain))
    rates = Cluster.from_dict({"arrivals": [1, 2]}, workers=1)
    assert Cluster.from_dict(json.loads(json.dumps(rates.to_dict()))) == rates


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"workers": 0}, "number of workers must be a whole number of at least 1, got 0"),
        ({"utilisation": 0}, "utilisation must be a finite number above 0"),
        ({"heterogeneity": [3]}, r"two numbers, \(machines, times stronger\), got \[3\]"),
        ({"heterogeneity": "35"}, "two numbers"),
        ({"heterogeneity": [11, 5]}, "11 machines cannot be stronger .* there are 10"),
        ({"heterogeneity": [3, 0]}, "times stronger machines are must be a finite number above 0"),
        ({"heterogeneity": [1.5, 2]}, "stronger machines must be a whole number"),
        ({"changes": [[5, [1, 2]], [5, [1, 3]]]}, "in order of their messages"),
        ({"changes": [7]}, r"a change must be \(messages, \(machines, times stronger\)\), got 7"),
        ({"slots": 0}, "slots must be a whole number of at least 1"),
        ({"service": "gamma"}, "one of deterministic, exponential, got 'gamma'"),
        ({"signals": "load"}, "one of utilisation, queue, got 'load'"),
        ({"idle": 0.9}, "busy must be at least idle, got 0.85 and 0.9"),
        ({"queue_capacity": 0}, "queue_capacity must be a whole number"),
        ({"speed": 3}, "a cluster has no 'speed'; it has workers, utilisation"),
    ],
)
def test_wrong_clusters_are_refused(fields, says):
    with pytest.raises(InputError, match=says):
        Cluster.from_dict({"workers": 10, **fields})


def test_a_cluster_needs_workers():
    with pytest.raises(InputError, match="needs a number of workers"):
        Cluster.from_dict({})


def test_capacity_of_a_time_is_that_of_the_twin():
    curve = ArrivalCurve("hourly", 500)
    cluster = Cluster(workers=3, heterogeneity=(1, 4), changes=((90, (2, 3)), (333, None)))
    plan, eras = CapacityPlan(cluster, curve), eras_of(cluster, curve)
    for time in (0.0, 33.3, 120.0, 400.0, 9_999.0):
        twin = [naive.capacity_between(eras, w, 0.0, time) for w in range(3)]
        assert plan.work_until(time) == pytest.approx(twin)


# --- queues --------------------------------------------------------------------------------------


# Multiples of a power of two: floating point is exact, so that equal means equal.
ticks = st.integers(0, 40).map(lambda k: k / 16)
services = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])


@st.composite
def streams(draw):
    n = draw(st.integers(1, 3))
    gaps = draw(st.lists(ticks, min_size=1, max_size=40))
    workers = draw(st.lists(st.integers(0, n - 1), min_size=len(gaps), max_size=len(gaps)))
    changes = sorted(draw(st.sets(ticks.map(lambda t: 8 * t), max_size=2)))
    rows = [draw(st.lists(services, min_size=n, max_size=n)) for _ in range(len(changes) + 1)]
    return workers, np.cumsum(gaps).tolist(), list(zip([*changes, math.inf], rows, strict=True))


@settings(max_examples=150)
@given(streams(), st.data())
def test_queues_agree_with_simpy_event_by_event(stream, data):
    workers, arrivals, eras = stream
    n = len(eras[0][1])
    # Between the ticks: what is there *at* an event depends on the order of its callbacks.
    samples = sorted(data.draw(st.sets(ticks.map(lambda t: 12 * t + 1 / 64), max_size=8)))
    spans, lengths = in_simpy(workers, arrivals, eras, samples)
    queues = Queues(plan_of(eras))
    finishes, measured, done = [], [], 0
    for sample in [*samples, math.inf]:
        until = int(np.searchsorted(arrivals, sample))
        piece = slice(done, until)
        finishes += queues.serve(
            np.array(workers[piece], np.int32), np.array(arrivals[piece])
        ).tolist()
        done = until
        if sample < math.inf:
            measured.append(queues.lengths(sample).tolist())
    assert finishes == [finish for _, finish in spans]
    assert measured == lengths
    assert queues.last_finish == max(finishes)
    # A message's service time is that of the capacity when its service starts.
    for worker, (start, finish) in zip(workers, spans, strict=True):
        assert finish - start == naive.era_at(eras, start)[worker]
    peaks = [max(naive.queue_lengths(workers, arrivals, finishes, n, t)) for t in arrivals]
    assert queues.longest == max(peaks)


def test_a_changed_capacity_holds_for_services_that_start_after_it():
    """Three messages at once: the change comes during the second service."""
    queues = Queues(plan_of([(3.0, [2.0]), (math.inf, [0.5])]))
    finish = queues.serve(np.zeros(3, np.int32), np.zeros(3))
    assert finish.tolist() == [2.0, 4.0, 4.5]
    assert [queues.lengths(t)[0] for t in (0.0, 1.9, 2.0, 3.9, 4.0, 4.5)] == [3, 3, 2, 2, 1, 0]


@settings(max_examples=60)
@given(streams(), st.integers(0, 3), st.integers(1, 9))
def test_exponential_queues_agree_with_their_twin(stream, seed, piece):
    workers, arrivals, eras = stream
    n = len(eras[0][1])
    work = naive.exponential_work([int(salt(seed, _ROLE, w)) for w in range(n)])
    twin = naive.finish_times(workers, arrivals, eras, work)
    queues, finishes = Queues(plan_of(eras), exponential=True, seed=seed), []
    for start in range(0, len(workers), piece):
        now = slice(start, start + piece)
        finishes += queues.serve(np.array(workers[now], np.int32), np.array(arrivals[now])).tolist()
    assert finishes == pytest.approx(twin, abs=EQUAL_TO_ROUNDING)
    for time in (arrivals[-1], arrivals[-1] + 1.3, arrivals[-1] + 99):
        lengths = naive.queue_lengths(workers, arrivals, finishes, n, time)
        assert queues.lengths(time).tolist() == lengths
    peaks = [max(naive.queue_lengths(workers, arrivals, finishes, n, t)) for t in arrivals]
    assert queues.longest == max(peaks)


def test_exponential_service_has_the_mean_of_the_deterministic_one():
    queues = Queues(plan_of([(math.inf, [2.0])]), exponential=True, seed=3)
    arrivals = np.arange(20_000) * 1_000.0  # far apart: nobody waits
    latency = queues.serve(np.zeros(20_000, np.int32), arrivals) - arrivals
    assert latency.mean() == pytest.approx(2.0, rel=0.03)
    assert latency.std() == pytest.approx(2.0, rel=0.05)


# --- latency -------------------------------------------------------------------------------------

latencies = st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=60)


@settings(max_examples=100)
@given(latencies, st.sampled_from([0.0, 0.01, 0.5, 0.95, 0.99, 1.0]), st.integers(1, 60))
def test_a_quantile_is_within_one_percent_of_the_exact_one(values, q, cut):
    histogram = LatencyHistogram()
    for part in (values[:cut], values[cut:]):
        histogram.update(np.array(part))
    exact = np.quantile(values, q, method="inverted_cdf")
    assert histogram.quantile(q) == pytest.approx(exact, rel=0.01)
    assert histogram.max == max(values)
    assert histogram.count == len(values)
    assert histogram.mean == pytest.approx(np.mean(values))


def test_latencies_of_no_messages_and_beyond_the_buckets():
    histogram = LatencyHistogram()
    assert (histogram.quantile(0.5), histogram.mean, histogram.max) == (0.0, 0.0, 0.0)
    histogram.update(np.array([0.0, 1e-30, 1e30]))
    assert histogram.quantile(0.5) < 1e-11
    assert histogram.quantile(1.0) > 1e18
    with pytest.raises(InputError, match="a quantile must lie in"):
        histogram.quantile(1.5)


# --- signals -------------------------------------------------------------------------------------


def test_signals_are_raised_outside_of_the_thresholds():
    loads = np.array([0.0, 0.7499, 0.75, 0.8, 0.85, 0.8501, 7.0])
    assert signals_of(loads, 0.75, 0.85).tolist() == [1, 1, 0, 0, 0, -1, -1]


def test_a_signal_is_not_heard_before_an_acknowledgement():
    acks = Piggyback(workers=1, sources=2, slot=10.0)
    # Two messages in the queue when the slot ends, of source 0 and of source 1.
    acks.take(np.zeros(3, np.int32), np.array([9.0, 13.0, 17.0]), first=1)
    assert acks.arrived(9.5) == {}
    acks.raise_signals(np.array([Signal.DECREASE]))
    assert acks.arrived(12.9) == {}
    assert acks.arrived(13.0) == {0: {0: Signal.DECREASE}}
    assert acks.arrived(16.9) == {}
    assert acks.arrived(99.0) == {1: {0: Signal.DECREASE}}


def test_a_source_that_sends_nothing_to_a_worker_never_learns():
    acks = Piggyback(workers=2, sources=2, slot=10.0)
    acks.raise_signals(np.array([1, -1]))
    for time in np.arange(10.0, 1_000.0):
        # Source 0 sends to worker 0, source 1 to worker 1.
        acks.take(np.array([0, 1], np.int32), np.full(2, time), first=0)
    assert acks.arrived(1e9) == {0: {0: Signal.INCREASE}, 1: {1: Signal.DECREASE}}


def test_an_acknowledgement_carries_the_latest_signal_once():
    acks = Piggyback(workers=1, sources=1, slot=1.0)
    acks.raise_signals(np.array([1]))
    acks.raise_signals(np.array([-1]))
    acks.take(np.zeros(3, np.int32), np.array([2.5, 2.6, 2.7]), first=0)
    assert acks.arrived(2.9) == {0: {0: Signal.DECREASE}}
    assert acks.arrived(9.0) == {}


def test_a_worker_that_has_no_signal_any_more_says_so_once():
    acks = Piggyback(workers=1, sources=1, slot=1.0)
    heard = []
    for slot, signal in enumerate([0, -1, -1, 0, 0, 1], start=1):
        acks.raise_signals(np.array([signal]))
        acks.take(np.zeros(2, np.int32), np.array([slot + 0.5, slot + 0.6]), first=0)
        heard.append(acks.arrived(slot + 0.9).get(0, {}).get(0))
    assert heard == [None, -1, -1, Signal.NEITHER, None, Signal.INCREASE]


@pytest.mark.parametrize("slot", [0.1, 0.3, 1 / 3, 7.77, 1e4 / 3])
def test_no_acknowledgement_is_put_into_the_wrong_slot_by_rounding(slot):
    """One is done just before the end of a slot, the next one with it: only that one has news."""
    for k in range(1, 300):
        end = k * slot
        before = math.nextafter(end, 0)
        acks = Piggyback(workers=1, sources=1, slot=slot)
        acks.take(np.zeros(2, np.int32), np.array([before, end]), first=0)
        assert acks.arrived(before) == {}
        acks.raise_signals(np.array([Signal.INCREASE]))
        assert acks.arrived(end) == {0: {0: Signal.INCREASE}}


@settings(max_examples=50)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1.0, 0.1, 1 / 3]))
def test_signals_travel_as_those_of_the_twin(data, n, sources, slot):
    acks, twin = Piggyback(n, sources, slot), naive.Piggyback()
    now, position, free = 0.0, 0, [0.0] * n
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        for _ in range(data.draw(st.integers(0, 3))):
            workers = data.draw(st.lists(st.integers(0, n - 1), max_size=6))
            finish = []
            for worker in workers:
                # Some are done right on the edge of a slot.
                work = data.draw(st.sampled_from([0.0, 0.05, 0.1, 0.5, 1.0, 2.5]))
                edge = data.draw(st.booleans()) * slot * math.ceil(max(now, free[worker]) / slot)
                free[worker] = max(max(now, free[worker]) + work, edge)
                finish.append(free[worker])
                twin.take(worker, position % sources, free[worker])
                position += 1
            acks.take(
                np.array(workers, np.int32), np.array(finish), (position - len(workers)) % sources
            )
            now = min(now + slot / 4, number * slot)
            if now < number * slot:
                assert acks.arrived(now) == twin.arrived(now)
        now = number * slot
        assert acks.arrived(math.nextafter(now, 0)) == twin.arrived(now, inclusive=False)
        signals = data.draw(st.lists(st.sampled_from([1, 0, -1]), min_size=n, max_size=n))
        acks.raise_signals(np.array(signals))
        twin.raise_signals(signals)
        assert acks.arrived(now) == twin.arrived(now)
    assert acks.arrived(1e9) == twin.arrived(1e9)
