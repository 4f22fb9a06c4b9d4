"""Operator networks in virtual time: against twins, and what the loop around them does."""

import numpy as np
import pytest

from evenflow.model import InputError
from evenflow.placement import make_placer
from evenflow.placement.protocol import Nodes, Proposal
from evenflow_lab.simulators.input_streams import (
    InputStreams,
    at_level,
    on_off,
    periodic,
    spread_offsets,
)
from evenflow_lab.simulators.operator_networks import OperatorNetwork
from evenflow_lab.simulators.operator_queues import LATENCY, TUPLES, WORK, OperatorQueues
from evenflow_lab.simulators.placed_network import Schedule, run_network
from naive_operator_networks import by_hand, in_simpy


def a_network(kind, seed):
    if kind == "chains":
        return OperatorNetwork.chains(3, 4, cost=0.01, selectivity=(0.5, 1.8), seed=seed)
    if kind == "trees":
        return OperatorNetwork.trees(2, 3, cost=0.01, selectivity=(0.6, 1.4), seed=seed)
    # One stream shared by two operators, whose results are joined again.
    return OperatorNetwork.of(
        [0.01, 0.02, 0.005, 0.01], [1.3, 0.7, 1.0, 0.0], [[1, 2], [3], [3], []], [0, 0]
    )


def arrivals_of(network, seed, until=20.0, rate=25.0):
    streams = periodic(
        np.full(len(network.inputs), rate / len(network.inputs)),
        spread_offsets(len(network.inputs), seed),
        period=4.0,
        ratio=4.0,
        until=until,
    )
    return streams.arrivals(until, seed)


# --- queues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chains", "trees", "shared"])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_latencies_as_by_hand_also_while_operators_move(kind, seed):
    network, random = a_network(kind, seed), np.random.default_rng(seed)
    where, speeds = random.integers(0, 3, len(network)), np.array([1.0, 0.7, 2.0])
    times, streams = arrivals_of(network, seed)
    moves = []
    for i in range(8):
        operator = int(random.integers(len(network)))
        moves.append((2.0 * i + 1.37, operator, int(random.integers(3)), 2.0 * i + 2.05))
    expected = by_hand(network, where, speeds, zip(times, streams, strict=True), moves, 30.0, seed)
    queues = OperatorQueues(network, where, speeds, seed)
    queues.arrive(times, streams)
    for time, operator, node, back in moves:
        queues.run(time)
        queues.suspend([operator], [node])
        assert queues.suspended[operator]
        queues.run(back)
        queues.resume([operator], back)
    queues.run(30.0)
    sums = queues.take_sums()
    assert sums[TUPLES] == len(expected)
    if expected:
        latencies, services = np.array(expected).T
        assert sums[LATENCY] == pytest.approx(latencies.sum(), rel=1e-9)
        assert sums[WORK] == pytest.approx(services.sum(), rel=1e-9)
    assert queues.take_sums().tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["chains", "trees"])
def test_the_same_latencies_as_in_simpy(kind):
    network = a_network(kind, 1)
    where, speeds = np.arange(len(network)) % 3, np.array([1.0, 0.7, 2.0])
    times, streams = arrivals_of(network, 1)
    expected = in_simpy(network, where, speeds, list(zip(times, streams, strict=True)), 15.0)
    queues = OperatorQueues(network, where, speeds)
    queues.arrive(times, streams)
    queues.run(15.0)
    sums = queues.take_sums()
    assert sums[TUPLES] == len(expected) > 100
    assert sums[LATENCY] == pytest.approx(sum(expected), rel=1e-9)


def test_nothing_depends_on_how_far_run_goes_at_a_time():
    network = a_network("chains", 2)
    times, streams = arrivals_of(network, 2)
    totals = []
    for steps in (1, 97):
        queues = OperatorQueues(network, np.arange(len(network)) % 2, [1.0, 1.0])
        queues.arrive(times, streams)
        total = np.zeros(3)
        for i in range(steps):
            queues.run(20.0 * (i + 1) / steps)
            total += queues.take_sums()
        totals.append((total.round(9).tolist(), queues.busy.round(9).tolist(), queues.waiting()))
    assert totals[0] == totals[1]


def test_memory_grows_with_the_tuples_that_wait():
    network = OperatorNetwork.chains(1, 2, cost=1.0, selectivity=(1.0, 1.0))
    queues = OperatorQueues(network, [0, 0], [1.0])
    times = np.linspace(0, 1, 10_000)
    queues.arrive(times, np.zeros(10_000, np.int32))
    queues.run(100.0)
    assert queues.waiting() == pytest.approx(10_000 - queues.take_sums()[TUPLES])
    queues.run(1e6)
    assert queues.waiting() == 0
    assert queues.busy[0] == pytest.approx(20_000)


def test_one_operator_is_an_m_d_1_queue():
    """Average latency of M/D/1: s (1 + u / 2(1 − u))."""
    network = OperatorNetwork.chains(1, 1, cost=0.01, selectivity=(1.0, 1.0))
    streams = InputStreams((np.array([4_000.0]),), (np.array([80.0]),))
    times, stream = streams.arrivals(4_000.0, seed=3)
    queues = OperatorQueues(network, [0], [1.0])
    queues.arrive(times, stream)
    queues.run(4_000.0)
    sums = queues.take_sums()
    assert sums[LATENCY] / sums[TUPLES] == pytest.approx(0.01 * (1 + 0.8 / 0.4), rel=0.03)


# --- networks and streams -------------------------------------------------------------------------


def test_gains_follow_selectivities():
    network = a_network("shared", 0)
    assert network.gains().tolist() == [[1, 1], [1.3, 1.3], [1.3, 1.3], [0.91 + 1.3] * 2]
    assert network.queries().tolist() == [0, 0, 0, 0]
    assert OperatorNetwork.chains(3, 2).queries().tolist() == [0, 0, 1, 1, 2, 2]
    trees = OperatorNetwork.trees(2, 3, selectivity=(1.0, 1.0))
    assert trees.queries().tolist() == [0] * 7 + [1] * 7
    assert trees.gains()[6].tolist() == [0.5] * 4 + [0] * 4  # two joins, each halving


def test_measured_loads_are_the_ideal_ones():
    """What nodes were busy is what the loads said, where nothing is overloaded."""
    network = a_network("trees", 1)
    times, streams = arrivals_of(network, 1, until=400.0, rate=20.0)
    queues = OperatorQueues(network, np.arange(len(network)) % 4, np.ones(4))
    queues.arrive(times, streams)
    queues.run(401.0)
    rates = np.bincount(streams, minlength=len(network.inputs)) / 400.0
    loads = network.loads(rates[:, None])[:, 0]
    expected = np.bincount(np.arange(len(network)) % 4, loads, 4)
    np.testing.assert_allclose(queues.busy / 400.0, expected, rtol=0.05)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"cost": [0.0, 1.0]}, "above 0"),
        ({"selectivity": [1.0, -1.0]}, "not negative"),
        ({"selectivity": [1.0]}, "2 costs, but 1 selectivities"),
        ({"targets": [[], [0]]}, "operator 1 feeds 0"),
        ({"inputs": [2]}, "inputs must name operators, 0 to 1"),
    ],
)
def test_wrong_networks_are_refused(change, complaint):
    good = {"cost": [1, 1], "selectivity": [1, 1], "targets": [[1], []], "inputs": [0]}
    with pytest.raises(InputError, match=complaint):
        OperatorNetwork.of(**{**good, **change})


def test_periodic_streams_alternate_and_keep_their_average():
    streams = periodic([30.0, 90.0], [0.25, 0.5], period=10.0, ratio=4.0, until=40.0)
    assert streams.ends[0][:2].tolist() == [2.5, 7.5]
    assert streams.rates[0][:2].tolist() == [48.0, 12.0]
    assert streams.rates[1][0] == pytest.approx(36.0)
    np.testing.assert_allclose(streams.averages(40.0), [30.0, 90.0])
    times, stream = streams.arrivals(40.0, seed=1)
    assert (np.diff(times) >= 0).all()
    assert (stream == 0).sum() == pytest.approx(1200, rel=0.1)
    high = times[(stream == 0)] % 10
    assert ((high < 2.5) | (high >= 7.5)).mean() == pytest.approx(0.8, abs=0.04)


def test_on_off_streams_are_idle_half_of_the_time_and_some_are_opposites():
    streams = on_off(np.full(8, 10.0), 5.0, 5.0, independent=2, until=2_000.0, seed=1)
    np.testing.assert_allclose(streams.averages(2_000.0), 10.0, rtol=0.25)
    grid = np.arange(0, 2_000, 0.5) + 0.01
    active = np.array(
        [streams.rates[s][np.searchsorted(streams.ends[s], grid)] > 0 for s in range(8)]
    )
    correlation = np.corrcoef(active)
    assert np.isclose(correlation[2:, :2], -1).any()
    assert (np.abs(correlation[2:, :2]) < 0.3).any()
    times, stream = streams.arrivals(100.0, seed=1)
    gaps = np.diff(times[stream == 0])
    assert np.isclose(gaps, 0.05).mean() > 0.9  # evenly, at twice the average


def test_streams_change_at_a_moment():
    low = periodic([10.0], [0.3], period=10.0, ratio=4.0, until=60.0)
    both = low.then(low.scaled(2.0), at=30.0)
    assert both.averages(30.0)[0] == pytest.approx(low.averages(30.0)[0])
    later = both.averages(60.0)[0] * 60 - both.averages(30.0)[0] * 30
    assert later / 30 == pytest.approx(20.0)
    assert (np.diff(both.ends[0]) > 0).all()


def test_the_level_is_that_of_all_nodes():
    network = OperatorNetwork.chains(4, 5, seed=2)
    streams = periodic([1.0, 2.0, 1.0, 1.5], spread_offsets(4, 1), 10.0, 4.0, until=60.0)
    scaled = at_level(streams, network.cost @ network.gains(), nodes=2, level=0.7, until=60.0)
    loads = network.loads(scaled.averages(60.0)[:, None])
    assert loads.sum() == pytest.approx(1.4)


# --- the loop -------------------------------------------------------------------------------------


def a_run(initial=None, pairwise=None, connected=True, level=0.8, seed=1, **times):
    n = 4
    network = OperatorNetwork.chains(n, 5, cost=0.005, seed=seed)
    schedule = Schedule(**{"warm_up": 12.0, "duration": 20.0, **times})
    streams = periodic(np.ones(n), spread_offsets(n, seed), 10.0, 4.0, schedule.end)
    streams = at_level(streams, network.cost @ network.gains(), n, level, schedule.end)
    where = network.queries() if connected else np.arange(len(network)) % n
    make = [None if name is None else make_placer(name) for name in (initial, pairwise)]
    return run_network(network, streams, Nodes(n), where, *make, schedule, seed)


def test_the_result_depends_on_the_arguments_alone():
    first, second = (a_run("cor-glb", "cor-se-imp") for _ in range(2))
    assert first.to_dict(timeline=True) == second.to_dict(timeline=True)
    assert (first.where == second.where).all()
    assert a_run("cor-glb", "cor-se-imp", seed=2).latency != first.latency


def test_correlation_based_placement_calms_a_connected_plan():
    connected, placed = a_run(), a_run("cor-glb")
    assert placed.latency_ratio < connected.latency_ratio / 2
    assert placed.deviation < connected.deviation / 2
    assert placed.minimum <= placed.deviation
    assert placed.correlation > connected.correlation
    assert connected.moves == 0
    assert placed.moves > 5
    assert placed.level == pytest.approx(0.8, rel=0.1)


def test_the_global_algorithm_is_asked_once_and_the_pairwise_one_in_every_period():
    asked = []

    class Asked:
        name, symbol, from_scratch = "asked", "ASKED", True

        def __init__(self, what):
            self.what = what

        def propose(self, observed, nodes):
            asked.append((self.what, observed.series.shape[1], observed.period))
            return Proposal(observed, nodes, observed.node)

    network = OperatorNetwork.chains(2, 2, cost=0.01)
    streams = periodic([10.0, 10.0], [0.0, 0.5], 10.0, 4.0, until=20.0)
    schedule = Schedule(warm_up=10.0, duration=6.0, window=5.0, samples=5, pairwise_from=13.0)
    run_network(network, streams, Nodes(2), [0, 0, 1, 1], Asked("global"), Asked("pair"), schedule)
    # Ticks are numbered from 0, and the last of all needs no decision.
    assert asked == [("global", 5, 9), ("pair", 5, 12), ("pair", 5, 13), ("pair", 5, 14)]


def test_overloaded_nodes_give_load_away_in_the_warm_up():
    network = OperatorNetwork.chains(2, 5, cost=0.01, selectivity=(1.0, 1.0))
    streams = InputStreams((np.array([60.0]),) * 2, (np.array([15.0]),) * 2)
    schedule = Schedule(warm_up=20.0, duration=10.0)
    crowded = run_network(network, streams, Nodes(2), np.zeros(10, int), schedule=schedule)
    assert crowded.moves == 0  # of those that count
    assert set(crowded.where.tolist()) == {0, 1}
    calm = InputStreams((np.array([60.0]),) * 2, (np.array([5.0]),) * 2)
    stays = run_network(network, calm, Nodes(2), np.zeros(10, int), schedule=schedule)
    assert set(stays.where.tolist()) == {0}


def test_a_longer_migration_costs_latency():
    quick, slow = (a_run("llf-glb", level=0.5, migration=m, duration=10.0) for m in (0.0, 5.0))
    assert slow.latency > quick.latency + 0.05
    assert slow.tuples < quick.tuples  # some are still waiting


def test_measuring_can_begin_later():
    everything, later = a_run("cor-glb"), a_run("cor-glb", measured_from=22.0)
    assert later.tuples < everything.tuples
    assert len(later.timeline) == len(everything.timeline) == 32
    assert later.timeline[0].time == -11.0


def test_wrong_runs_are_refused():
    with pytest.raises(InputError, match="shorter than the statistics window"):
        Schedule(warm_up=5.0)
    network = OperatorNetwork.chains(2, 2)
    one = InputStreams((np.array([60.0]),), (np.array([15.0]),))
    with pytest.raises(InputError, match="2 inputs, but there are 1 streams"):
        run_network(network, one, Nodes(2), [0, 0, 1, 1])
    both = InputStreams(one.ends * 2, one.rates * 2)
    with pytest.raises(InputError, match="4 operators, but 2 nodes given"):
        run_network(network, both, Nodes(2), [0, 1])
    with pytest.raises(InputError, match="3 independent streams, but there are 2"):
        on_off([1.0, 1.0], 5.0, 5.0, 3, 10.0, 1)
