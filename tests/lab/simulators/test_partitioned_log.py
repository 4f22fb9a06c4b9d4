"""The log in virtual time, and what a moved key costs in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_partitioned_log
from evenflow.model import InputError
from evenflow.planning.hot_keys import Moves
from evenflow.simulator import simulate, simulate_queues
from evenflow.simulator.cluster import Cluster
from evenflow.simulator.schemes import make_scheme
from evenflow.simulator.workloads import Zipf
from evenflow_lab.simulators.hand_over import HandOvers
from evenflow_lab.simulators.hot_key_gateway import Smalops
from evenflow_lab.simulators.partitioned_log import PartitionedLog, _first_come, simulate_log
from evenflow_lab.workloads import Smalops as Stream

FEW = Stream(messages=60_000, keys=5_000, minute=60_000, shift=0)


@st.composite
def scenarios(draw):
    """(service, hand-over, events): messages and moves of a few keys on three partitions."""
    events, place, now = [], {}, 0
    for _ in range(draw(st.integers(1, 40))):
        now += draw(st.integers(0, 6))
        key = draw(st.integers(0, 3))
        if draw(st.booleans()):
            target = draw(st.integers(0, 2))
            if target != place.get(key, 0):
                events.append(("move", float(now), key, place.get(key, 0), target))
                place[key] = target
        else:
            events.append(("message", float(now), key, place.get(key, 0)))
    return float(draw(st.integers(1, 9))), draw(st.sampled_from([0.0, 0.5, 7.0, 30.0])), events


def begun(service, hand_over, events):
    """What `HandOvers` makes of the events: when each message begins."""
    held, free = HandOvers(hand_over), np.zeros(3)
    messages = [e for e in events if e[0] == "message"]
    arrivals, begins = [], []

    def process(until):
        stop = -np.inf
        while stop < until:
            stop, joined = held.joined(until)
            begin = np.empty(len(joined.time))
            _first_come(joined.time, joined.partition, joined.work, service, free, begin)
            real = joined.work > 0
            arrivals.extend(
                zip(joined.key[real].tolist(), joined.arrived[real].tolist(), strict=True)
            )
            begins.extend(begin[real].tolist())
            held.done(joined, begin)

    for what, time, key, partition, *_ in events:
        process(time)
        if what == "move":
            held.move(key, partition, time, float(free[partition]))
        else:
            held.put(np.array([key], np.uint64), np.array([partition], np.int32), np.array([time]))
    process(np.inf)
    assert len(begins) == len(messages)
    return sorted(zip(arrivals, begins, strict=True)), held


@given(scenarios())
def test_hand_overs_cost_what_their_twin_says(scenario):
    service, hand_over, events = scenario
    twin = naive_partitioned_log.Log(service, hand_over)
    for number, (what, time, key, partition, *_) in enumerate(events):
        if what == "move":
            twin.move(key, partition, time)
        else:
            twin.message(number, key, partition, time)
    twin.run(np.inf)
    expected = sorted(
        ((events[number][2], events[number][1]), begin) for number, begin in twin.begin.items()
    )
    got, held = begun(service, hand_over, events)
    assert got == expected
    assert held.waited >= 0


@given(scenarios())
def test_guarantee_a_keys_messages_are_processed_in_the_order_of_their_arrival(scenario):
    service, hand_over, events = scenario
    got, _ = begun(service, hand_over, events)
    by_key = {}
    for (key, arrived), begin in got:
        by_key.setdefault(key, []).append((arrived, begin))
    for pairs in by_key.values():
        begins = [begin for _, begin in sorted(pairs)]
        assert begins == sorted(begins)


def test_a_message_waits_for_the_old_consumer_and_for_the_word_of_it():
    """Three messages of 10 s each on partition 0; the key moves at 2 s, and one comes at 3 s."""
    events = [("message", 0.0, 1, 0), ("message", 0.0, 1, 0), ("message", 1.0, 1, 0)]
    events += [("move", 2.0, 1, 0, 1), ("message", 3.0, 1, 1)]
    got, held = begun(10.0, 5.0, events)
    assert got[-1] == ((1, 3.0), 35.0)
    assert (held.held, held.most, held.waited, held.longest) == (1, 1, 32.0, 32.0)


# --- the whole log --------------------------------------------------------------------------------


def test_queuing_delays_without_moves_are_those_of_first_come_first_served():
    log = PartitionedLog(partitions=3, rate=1_000.0, service=2.5e-3)
    result = simulate_log("key", FEW, log, seed=4)
    assert result.messages == 60_000
    assert result.log.utilisation == pytest.approx(0.8333, abs=1e-3)
    # One queue in which everything waits for a single server, by Pollaczek and Khinchine.
    alone = simulate_log("shuffle", FEW, PartitionedLog(1, 1_000.0, 0.5e-3), seed=4)
    assert alone.mean == pytest.approx(0.5e-3 * 0.5 / (2 * 0.5), rel=0.05)


def test_a_fixed_cost_keeps_a_consumer_as_busy_as_processing_does():
    processing, fixed = (
        simulate_log("key", FEW, PartitionedLog(3, 1_000.0, service, fixed=rest), seed=4)
        for service, rest in ((2.5e-3, 0.0), (0.5e-3, 2e-3))
    )
    assert fixed.percentiles == processing.percentiles
    assert fixed.log.utilisation == pytest.approx(processing.log.utilisation)
    assert fixed.mean > simulate_log("key", FEW, PartitionedLog(3, 1_000.0, 0.5e-3), seed=4).mean


def test_the_result_does_not_depend_on_chunks_and_repeats_itself(monkeypatch):
    log = PartitionedLog(partitions=4, rate=10_000.0, service=3e-4)
    spec = "smalops:window=5000,interval=5000,threshold=0.002"
    one = simulate_log(spec, FEW, log, seed=2)
    monkeypatch.setattr("evenflow_lab.simulators.partitioned_log._CHUNK", 777)
    other = simulate_log(spec, FEW, log, seed=2)
    assert one == other
    assert one.details["moves"] > 0


def test_smalops_evens_out_what_hashing_does_not_and_never_splits_a_key():
    log = PartitionedLog(partitions=5, rate=10_000.0, service=3.5e-4)
    hashed = simulate_log("key", FEW, log, seed=1)
    moved = simulate_log("smalops:window=5000,interval=5000,threshold=0.001", FEW, log, seed=1)
    assert moved.max_load < hashed.max_load
    assert moved.percentiles[99] < hashed.percentiles[99]
    figures = moved.to_dict()
    assert figures["hot_keys_most"] <= figures["hot_keys_ever"]
    assert len(moved.timeline) == 2
    assert sum(moment.messages for moment in moved.timeline) == 60_000
    assert sum(moment.moves for moment in moved.timeline) == figures["moves"]


def test_a_slow_hand_over_is_paid_for():
    longest = [
        simulate_log(
            "smalops:window=5000,interval=5000,threshold=0.001",
            FEW,
            PartitionedLog(5, 10_000.0, 1e-4, hand_over=seconds),
        ).longest
        for seconds in (0.0, 0.5)
    ]
    assert longest[0] < 0.5 <= longest[1]


# --- the gateway as a scheme of the simulator -----------------------------------------------------


def test_smalops_can_be_simulated_by_name():
    stream = Zipf(exponent=1.0, keys=1_000, messages=100_000, seed=3)
    spec = "smalops:window=10000,interval=10000,threshold=0.001"
    by_hash, smalops = (simulate(name, stream, 10) for name in ("key", spec))
    assert smalops.imbalance < by_hash.imbalance
    assert smalops.grouping == "smalops"
    assert smalops.details["moves"] > 0
    queues = simulate_queues(spec, stream, Cluster(workers=10, utilisation=0.5, slots=10))
    assert queues.routing.details["moves"] == smalops.details["moves"]


def test_smalops_is_one_gateway():
    with pytest.raises(InputError, match="1 source"):
        simulate("smalops", Zipf(messages=1_000), 10, sources=2)
    with pytest.raises(InputError, match="start 'smalops' again"):
        Smalops().resize(Smalops().start(3), 4)


def test_messages_go_where_the_twin_policy_says_whatever_the_chunks():
    scheme = make_scheme("smalops:window=900,interval=600,step=100,threshold=0.01")
    keys = next(iter(FEW.chunks(5_000)))
    one, other = np.empty(5_000, np.int32), np.empty(5_000, np.int32)
    scheme.route(scheme.start(4, seed=1), keys, one)
    state = scheme.start(4, seed=1)
    for begin in range(0, 5_000, 37):
        scheme.route(state, keys[begin : begin + 37], other[begin : begin + 37])
    assert one.tolist() == other.tolist()
    # By the policy's own hands.
    policy, expected = scheme.policy(4, seed=1), []
    hot = policy.start()
    for begin in range(0, 5_000, 100):
        if begin:
            hot, _ = policy.detect(hot) if begin % 900 == 0 else policy.detect_early(hot)
        if begin and begin % 600 == 0:
            hot, _ = policy.decide(hot)
        where = dict(zip(hot.keys.tolist(), hot.partition.tolist(), strict=True))
        part = keys[begin : begin + 100]
        homes = policy.homes(part).tolist()
        expected += [where.get(k, h) for k, h in zip(part.tolist(), homes, strict=True)]
        hot = policy.count(hot, part)
    assert one.tolist() == expected


def test_moves_of_one_moment_are_reported_from_where_the_key_was_to_where_it_ends():
    from evenflow.planning.hot_keys_state import at_once

    moves = Moves(
        np.array([5, 6, 7, 5, 6], np.uint64),
        np.array([0, 0, 0, 1, 1], np.int32),
        np.array([1, 1, 1, 2, 0], np.int32),
        np.array([0, 0, 0, 1, 1], np.int8),
    )
    net = at_once(moves)
    assert net.keys.tolist() == [5, 7]
    assert net.source.tolist() == [0, 0]
    assert net.target.tolist() == [2, 1]
    assert net.reason.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partitions": 0}, "partitions"),
        ({"rate": 0.0}, "rate"),
        ({"service": -1.0}, "service"),
        ({"fixed": -1.0}, "fixed cost"),
        ({"hand_over": -1.0}, "hand-over"),
    ],
)
def test_bad_logs_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        PartitionedLog(**({"partitions": 2, "rate": 1.0, "service": 1.0} | given))
