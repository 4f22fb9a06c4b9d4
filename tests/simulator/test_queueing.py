"""The loop in virtual time: a twin message by message, SimPy, and what signals do to a scheme."""

import dataclasses
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import naive
from evenflow.grouping import Scheme, make
from evenflow.model import Feedback, InputError, Signal, Workers
from evenflow.simulator import Cluster, simulate, simulate_queues
from evenflow.simulator.arrivals import ArrivalCurve
from evenflow.simulator.workloads import Zipf
from virtual_time import eras_of, in_simpy

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Eavesdropper(Scheme):
    """Sends source j's messages to worker j; writes down what it hears."""

    name: ClassVar[str] = "eavesdropper"

    def start(self, workers, seed=0, source=0):
        return {"worker": Workers.of(workers).ids[source], "heard": [], "sent": 0}

    def route(self, state, keys, out):
        out[:] = state["worker"]
        state["sent"] += len(keys)

    def observe(self, state, feedback):
        state["heard"].append((feedback.time, state["sent"], dict(feedback.signals)))

    def describe(self, state):
        return {"heard": state["heard"]}


CLUSTERS = {
    "equal": Cluster(workers=4, slots=20),
    "uneven": Cluster(workers=4, heterogeneity=(1, 5), slots=25),
    "one slot": Cluster(workers=3, slots=1),
    "changing": Cluster(
        workers=5, heterogeneity=(2, 4), changes=((500, (1, 8)), (1_100, None)), slots=17
    ),
    "hourly": Cluster(workers=4, heterogeneity=(1, 3), slots=24, arrivals="hourly"),
    "bursts": Cluster(workers=4, heterogeneity=(1, 3), slots=70, arrivals="bursts"),
    "silence": Cluster(workers=4, heterogeneity=(1, 3), slots=30, arrivals=(0, 1, 0, 0, 5, 0)),
    "queue": Cluster(workers=4, heterogeneity=(1, 5), slots=40, signals="queue", queue_capacity=9),
}


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("spec", ["consistent:virtual=6", "shuffle"])
@pytest.mark.parametrize(("sources", "block"), [(1, 7), (3, 20)])
def test_the_loop_agrees_with_its_twin(cluster, spec, sources, block):
    stream, n = Zipf(1.2, keys=50, messages=1_500, seed=6), cluster.workers
    result = simulate_queues(spec, stream, cluster, sources, seed=2, block=block, chunk=333)

    [keys] = stream.chunks(1_500)
    scheme, out = make(spec), np.empty(1, np.int32)
    states = [scheme.start(n, 2, source=source) for source in range(sources)]
    moves, heard = [], 0

    def route(source, i):
        scheme.route(states[source], keys[i : i + 1], out)
        return int(out[0])

    def observe(source, slots, signals):
        nonlocal heard
        heard += len(signals)
        named = {worker: Signal(signal) for worker, signal in signals.items()}
        scheme.observe(states[source], Feedback(float(slots), named))

    def wish(utilisation, queue):
        if cluster.signals == "queue":
            utilisation = queue / cluster.queue_capacity
        moved = [scheme.describe(s)["moves"] for s in states] if "consistent" in spec else [0]
        moves.append(sum(moved))
        return (utilisation < 0.75) - (utilisation > 0.85)

    curve = ArrivalCurve(cluster.arrivals, 1_500)
    times, eras = curve.times(0, 1_500).tolist(), eras_of(cluster, curve)
    messages, timeline = naive.simulate_queues(
        times, eras, n, sources, cluster.slots, block, route, observe, wish
    )
    workers, arrivals, finishes = zip(*messages, strict=True)
    assert list(result.routing.loads) == [workers.count(w) for w in range(n)]
    for slot, twin, moved in zip(result.timeline, timeline, moves[::n], strict=True):
        assert {name: getattr(slot, name) for name in twin} == pytest.approx(twin)
        assert slot.moves == moved
        assert slot.queue_difference == slot.queue_max - slot.queue_min
    latency = np.array(finishes) - arrivals
    assert result.latency_mean == pytest.approx(latency.mean())
    assert result.latency_max == pytest.approx(latency.max())
    assert result.latency_p95 == pytest.approx(
        np.quantile(latency, 0.95, method="inverted_cdf"), rel=0.01
    )
    peaks = [naive.queue_lengths(workers, arrivals, finishes, n, t) for t in times[::3]]
    assert np.max(peaks) <= result.queue_max <= np.max(peaks) + 3
    assert result.throughput == pytest.approx(1_500 / max(finishes))
    if "consistent" in spec and cluster.slots > 1:
        assert heard  # else nothing was tested
        assert result.moves == moves[-1]
        assert result.moves or cluster.heterogeneity is None


def test_shuffle_agrees_with_simpy_through_two_changes_of_capacity():
    cluster = Cluster(
        workers=4, heterogeneity=(1, 5), changes=((400, (2, 4)), (800, (1, 9))), slots=10
    )
    result = simulate_queues("shuffle", Zipf(messages=1_200, seed=1), cluster)
    arrivals = [float(i) for i in range(1_200)]
    eras = eras_of(cluster, ArrivalCurve("constant", 1_200))
    out = np.empty(1_200, np.int32)
    scheme = make("shuffle")
    scheme.route(scheme.start(4), np.zeros(1_200, np.uint64), out)
    # Just before the messages that arrive with the end of the slot.
    samples = [120.0 * k - 1e-6 for k in range(1, 11)]
    spans, lengths = in_simpy(out.tolist(), arrivals, eras, samples)
    latency = [finish - t for (_, finish), t in zip(spans, arrivals, strict=True)]
    assert result.latency_mean == pytest.approx(np.mean(latency))
    assert result.latency_max == pytest.approx(max(latency))
    assert [slot.queue_max for slot in result.timeline] == [max(row) for row in lengths]
    assert [slot.queue_mean for slot in result.timeline] == [np.mean(row) for row in lengths]
    assert result.throughput == pytest.approx(1_200 / max(finish for _, finish in spans))


def test_mean_queue_is_the_area_under_the_queues():
    cluster = Cluster(workers=3, heterogeneity=(1, 4), slots=1)
    result = simulate_queues("key", Zipf(1.0, keys=20, messages=300, seed=2), cluster)
    [keys] = Zipf(1.0, keys=20, messages=300, seed=2).chunks(300)
    out, scheme = np.empty(300, np.int32), make("key")
    scheme.route(scheme.start(3), keys, out)
    arrivals = [float(i) for i in range(300)]
    finishes = naive.finish_times(
        out.tolist(), arrivals, eras_of(cluster, ArrivalCurve("constant", 300))
    )
    moments = np.arange(0.025, max(finishes), 0.05)
    lengths = [naive.queue_lengths(out.tolist(), arrivals, finishes, 3, t) for t in moments]
    assert result.queue_mean == pytest.approx(np.mean(lengths), rel=0.01)
    peaks = [max(naive.queue_lengths(out.tolist(), arrivals, finishes, 3, t)) for t in arrivals]
    assert result.queue_max == max(peaks)


@pytest.mark.parametrize("spec", ["key", "consistent"])
@pytest.mark.parametrize("service", ["deterministic", "exponential"])
def test_result_does_not_depend_on_the_chunk_size(spec, service):
    cluster = Cluster(
        workers=5, heterogeneity=(1, 4), changes=((9_000, (2, 3)),), arrivals="hourly", slots=50,
        service=service,
    )  # fmt: skip
    stream = Zipf(1.1, keys=500, messages=25_000, seed=3)
    results = [
        simulate_queues(spec, stream, cluster, 3, seed=4, chunk=chunk)
        for chunk in (1 << 20, 999, 37)
    ]
    assert results[0] == results[1] == results[2]
    assert len(results[0].timeline) == 50


def test_routing_is_that_of_simulate_without_feedback():
    stream = Zipf(1.3, keys=200, messages=45_000, seed=3)
    result = simulate_queues("partial-key", stream, Cluster(workers=6), sources=3, seed=5)
    assert result.routing == simulate("partial-key", stream, 6, 3, seed=5)


def test_sources_hear_only_of_workers_they_send_to_and_after_the_slot():
    stream = Zipf(messages=1_000)
    cluster = Cluster(workers=4, slots=10)
    result = simulate_queues(Eavesdropper(), stream, cluster, sources=2, block=5)
    heard = result.routing.details["heard"]
    # Worker 0 gets half of the stream: it can serve 0.3 of it, so its queue grows, but it never
    # stops acknowledging. Workers 2 and 3 would like more, but source 0 cannot know.
    assert [(time, signals) for time, _, signals in heard] == [
        (float(slot), {0: Signal.DECREASE}) for slot in range(1, 10)
    ]
    for slot, sent, _ in heard:
        assert slot * 50 < sent <= slot * 50 + 5


def test_length_of_a_stream_that_does_not_know_it_is_counted():
    class Unsure(Zipf):
        def length(self):
            return None

    cluster = Cluster(workers=3, slots=5, arrivals="hourly")
    sure, unsure = (
        simulate_queues("key", kind(messages=4_000, seed=1), cluster) for kind in (Zipf, Unsure)
    )
    assert sure == unsure


@pytest.mark.parametrize(
    ("claimed", "says"), [(900, "more messages than"), (1_100, "has only 1000")]
)
def test_a_workload_that_lies_about_its_length_is_found_out(claimed, says):
    class Liar(Zipf):
        def length(self):
            return claimed

    with pytest.raises(InputError, match=says):
        simulate_queues("key", Liar(messages=1_000), Cluster(workers=3, slots=5))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"cluster": Cluster(2, changes=((1_000, (1, 2)),))}, "after 1000 messages is beyond the"),
        ({"cluster": Cluster(2, slots=1_001)}, "1001 slots for 1000 messages"),
        ({"sources": 0}, "got 0 sources"),
        ({"sources": "2"}, "got '2' sources"),
        ({"block": 0}, "block must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, says):
    given = {"cluster": Cluster(2), "sources": 1, **arguments}
    with pytest.raises(InputError, match=says):
        simulate_queues("consistent", Zipf(messages=1_000), **given)


def test_result_is_strict_json():
    cluster = Cluster(workers=3, heterogeneity=(1, 2), slots=100, arrivals="bursts")
    result = simulate_queues("consistent", Zipf(messages=600), cluster, sources=2)
    row = result.to_dict(loads=True)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["cluster"]["heterogeneity"] == [1, 2.0]
    assert row["grouping"] == "consistent"
    assert sum(row["loads"]) == 600
    assert len(row["timeline"]) == row["slots"] == 100
    assert row["timeline"][-1]["messages"] == 600
    assert set(row["timeline"][0]) == {f.name for f in dataclasses.fields(result.timeline[0])}
    assert any(slot["latency_max"] is None for slot in row["timeline"])
    assert {"imbalance", "replication", "replicas", "worst_window", "latency_p99"} <= row.keys()
    assert "timeline" not in result.to_dict(timeline=False)


def test_progress_ends_at_the_length_of_the_stream():
    seen = []
    simulate_queues("key", Zipf(messages=1_000), Cluster(2), chunk=300, progress=seen.append)
    assert seen == [300, 600, 900, 1_000]


def test_shuffle_on_equal_machines_runs_at_the_given_utilisation():
    for utilisation in (0.5, 0.8):
        cluster = Cluster(workers=5, utilisation=utilisation, slots=10)
        result = simulate_queues("shuffle", Zipf(messages=10_000), cluster)
        slots = [(slot.utilisation_min, slot.utilisation_max) for slot in result.timeline]
        assert slots == [pytest.approx((utilisation, utilisation))] * 10
        assert result.utilisation_mean == pytest.approx(utilisation)
        assert result.queue_max == 1


# --- behaviour -----------------------------------------------------------------------------------


def longest(slots):
    return max(slot.queue_max for slot in slots)


def difference(slots):
    """Largest − smallest utilisation of a worker, on average."""
    return float(np.mean([slot.utilisation_difference for slot in slots]))


def test_on_uneven_machines_queues_grow_for_key_and_shuffle_but_not_for_consistent():
    stream = Zipf(0.9, keys=10_000, messages=500_000, seed=1)
    cluster = Cluster(workers=10, heterogeneity=(3, 5), slots=100)
    for spec in ("key", "shuffle"):
        slots = simulate_queues(spec, stream, cluster, sources=2, seed=1).timeline
        assert longest(slots[50:]) > 1.5 * longest(slots[:50]) > 1_000
        assert difference(slots[50:]) > 1.0
    result = simulate_queues("consistent", stream, cluster, sources=2, seed=1)
    slots = result.timeline
    assert slots[0].utilisation_difference > 1.0
    assert difference(slots[50:]) < 0.3
    assert longest(slots[75:]) < 100
    assert result.throughput > 0.99


def test_consistent_adapts_to_both_changes_of_capacity():
    stream = Zipf(0.9, keys=10_000, messages=600_000, seed=1)
    cluster = Cluster(
        workers=10, heterogeneity=(3, 5), changes=((200_000, (5, 4)), (400_000, (2, 10))), slots=300
    )
    shuffled = simulate_queues("shuffle", stream, cluster, sources=2, seed=1).timeline
    slots = simulate_queues("consistent", stream, cluster, sources=2, seed=1).timeline
    for change in (0, 100, 200):
        settled = slots[change + 60 : change + 100]
        assert slots[change].utilisation_difference > 2 * difference(settled)
        assert difference(settled) < difference(shuffled[change + 60 : change + 100]) / 3
        assert longest(settled) < longest(slots[change : change + 60])
        assert longest(settled) < longest(shuffled[change : change + 100]) / 10
