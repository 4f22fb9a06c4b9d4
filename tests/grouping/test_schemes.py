"""Every grouping scheme against its slow twin, message by message."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import naive
import naive_rivals
from evenflow.checks.streams import standard_streams
from evenflow.grouping import make
from evenflow.grouping.capacity import shares_of
from evenflow.grouping.d_choices import DUE, FORGIVE, LONGEST, SHORTEST
from evenflow.grouping.dealing import dealt, redeal
from evenflow.grouping.optimal_choices import find_optimal_choices
from evenflow.kernels.mixing import salt
from evenflow.kernels.selection import sort_descending
from evenflow.model import Feedback, InputError, RoutingTable, Workers
from evenflow.simulator.workloads import Zipf

quick = settings(max_examples=40)

ROSTERS = (Workers((5,)), Workers.numbered(2), Workers((9, 3, 0, 40, 17, 4, 1000)))
UNEVEN = Workers((3, 8, 1, 6), weights=(1.0, 2.0, 3.0, 4.0))


def routed(scheme, state, keys):
    """Where `keys` go, in two batches: what is learned from the first counts in the second."""
    keys, out = np.asarray(keys, np.uint64), np.empty(len(keys), np.int32)
    for batch in (slice(len(keys) // 3), slice(len(keys) // 3, None)):
        scheme.route(state, keys[batch], out[batch])
    return out.tolist()


# --- the twins, by name ---------------------------------------------------------------------------


def first_turn(workers, seed, source):
    return int(salt(seed, source)) % len(workers)


def head_of(scheme, workers):
    return naive.Head(len(workers), scheme.theta, scheme.sightings, scheme.counters, scheme.literal)


def key(scheme, workers, seed, source):
    return naive.KeyGrouping(workers.ids, seed)


def shuffle(scheme, workers, seed, source):
    return naive.ShuffleGrouping(workers.ids, first_turn(workers, seed, source))


def partial_key(scheme, workers, seed, source):
    return naive.GreedyD(workers.ids, int(salt(seed)), d=2)


def two_choices(scheme, workers, seed, source):
    return naive.TwoChoices(workers.ids, int(salt(seed, source)))


def greedy_d(scheme, workers, seed, source):
    return naive.GreedyD(workers.ids, int(salt(seed)), scheme.d)


def w_choices(scheme, workers, seed, source):
    first = first_turn(workers, seed, source)
    return naive.WChoices(workers.ids, int(salt(seed)), first, head_of(scheme, workers))


def round_robin_head(scheme, workers, seed, source):
    first = first_turn(workers, seed, source)
    return naive.RoundRobinHead(workers.ids, int(salt(seed)), first, head_of(scheme, workers))


def random_choices(scheme, workers, seed, source):
    shares = shares_of(workers).tolist()
    capacities = naive.Capacities(shares, scheme.epsilon, scheme.lag())
    return naive.RandomChoices(workers.ids, int(salt(seed)), capacities)


def bounded_hashing(scheme, workers, seed, source):
    fresh = scheme.start(workers, seed, source)
    ring = list(zip(fresh.places.tolist(), fresh.owners.tolist(), strict=True))
    shares = shares_of(workers).tolist()
    capacities = naive.Capacities(shares, scheme.epsilon, scheme.lag())
    return naive.BoundedHashing(workers.ids, int(salt(seed)), capacities, ring)


def consistent(scheme, workers, seed, source):
    held = naive.dealt(scheme.virtual * len(workers), shares_of(workers).tolist())
    owners = [w for w, n in zip(workers.ids, held, strict=True) for _ in range(n)]
    shares = [1 / len(owners)] * len(owners)
    capacities = naive.Capacities(shares, scheme.epsilon, scheme.lag())
    fresh = scheme.start(workers, seed, source).placement
    circle = list(zip(fresh.places.tolist(), fresh.owners.tolist(), strict=True))
    return naive.ConsistentGrouping(owners, int(salt(seed)), capacities, scheme.time_slot, circle)


def table(scheme, workers, seed, source, entries=None):
    counts = naive.dealt(64 * len(workers), shares_of(workers).tolist())
    buckets = [w for w, n in zip(workers.ids, counts, strict=True) for _ in range(n)]
    return naive.TableRouting(buckets, seed, entries or {})


def fish(scheme, workers, seed, source):
    fresh = scheme.start(workers, seed, source)
    ring = list(zip(fresh.ring.places.tolist(), fresh.ring.owners.tolist(), strict=True))
    shares = shares_of(workers).tolist()
    return naive_rivals.Fish(workers.ids, int(salt(seed)), shares, ring, scheme)


def dalton(scheme, workers, seed, source):
    return naive_rivals.Dalton(workers.ids, int(salt(seed)), int(salt(seed, source)), scheme)


# With a larger θ and fewer sightings counts are halved within the tests' short streams, too.
TWINS = {
    "key": key,
    "shuffle": shuffle,
    "partial-key": partial_key,
    "two-choices": two_choices,
    "greedy-d": greedy_d,
    "greedy-d:d=1": greedy_d,
    "greedy-d:d=9": greedy_d,
    "w-choices": w_choices,
    "w-choices:theta=0.1,sightings=8": w_choices,
    "w-choices:theta=0.3,sightings=2.5,counters=2": w_choices,
    "w-choices:literal=true": w_choices,
    "w-choices:literal=true,theta=0.1,counters=2": w_choices,
    "round-robin-head": round_robin_head,
    "round-robin-head:theta=0.1,sightings=8": round_robin_head,
    "round-robin-head:literal=true": round_robin_head,
    "random-choices": random_choices,
    "random-choices:patience=0": random_choices,
    "random-choices:literal=true": random_choices,
    "random-choices:epsilon=0.5,patience=3": random_choices,
    "bounded-hashing": bounded_hashing,
    "bounded-hashing:points=5,epsilon=0.5,literal=true": bounded_hashing,
    "consistent": consistent,
    "consistent:virtual=3,epsilon=0.25,patience=0": consistent,
    "consistent:literal=true": consistent,
    "consistent:virtual=3,epsilon=0.25,circle=true": consistent,
    "table": table,
    "key-isolator": table,  # no counts have arrived
    "fish": fish,
    "fish:epoch=40,interval=25,counters=20,alpha=0.5": fish,
    "fish:epoch=30,interval=70,counters=3,theta=0.2,points=1,utilisation=0.5": fish,
    "dalton": dalton,
    "dalton:slide=20,slides=2,epsilon=0.5": dalton,
    "dalton:slide=9,slides=1,learning_rate=0.6": dalton,
}


@pytest.mark.parametrize("spec", TWINS)
def test_route_is_its_twin(spec):
    scheme = make(spec)
    rosters = [*ROSTERS[:2], UNEVEN] if scheme.weighted else ROSTERS[:2]
    # Head schemes take messages in blocks of 512.
    for stream in standard_streams(600 if hasattr(scheme, "theta") else 250):
        cases = [*((roster, stream.keys[:100]) for roster in rosters), (ROSTERS[2], stream.keys)]
        for workers, keys in cases:
            twin = TWINS[spec](scheme, workers, 3, 1)
            got = routed(scheme, scheme.start(workers, seed=3, source=1), keys)
            assert got == [twin.route(k) for k in keys.tolist()], stream


@pytest.mark.parametrize("spec", TWINS)
@settings(max_examples=15)
@given(
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9, unique=True),
    st.integers(0, 2**63 - 1),
    st.integers(0, 100),
    st.lists(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1), max_size=80),
)
@example([0, 1, 2, 3, 4], 0, 0, [0] * 11)  # 3 / (1.5 · 0.2) is below 10 in floating point
def test_route_is_its_twin_for_any_roster_seed_source_and_keys(spec, ids, seed, source, keys):
    scheme, workers = make(spec), Workers(tuple(ids))
    twin = TWINS[spec](scheme, workers, seed, source)
    got = routed(scheme, scheme.start(workers, seed, source), keys)
    assert got == [twin.route(k) for k in keys]


def test_w_choices_is_its_twin_where_a_set_of_workers_takes_two_words():
    # Loads run apart by more than the levels that the kernel keeps, and come together again: first
    # a few keys that are not hot yet, then one that is.
    scheme, workers = make("w-choices:theta=0.2,sightings=100"), Workers.numbered(70)
    keys = [*[1, 2, 3] * 30, *[4] * 1500, *range(10, 500), *[5, 6] * 2000]
    twin = w_choices(scheme, workers, 2, 0)
    assert routed(scheme, scheme.start(workers, seed=2), keys) == [twin.route(k) for k in keys]


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("epsilon", [0.01, 0.25, 1.0])
def test_literal_random_choices_is_the_papers_algorithm(n, epsilon):
    scheme = make("random-choices", epsilon=epsilon, literal=True)
    for stream in standard_streams(250):
        keys, load = stream.keys.tolist(), [0] * n
        expected = [
            naive.power_of_random_choices(k, int(salt(9)), m, n, load, epsilon)
            for m, k in enumerate(keys, start=1)
        ]
        assert routed(scheme, scheme.start(n, seed=9), keys) == expected, stream


@pytest.mark.parametrize("spec", ["random-choices", "bounded-hashing", "consistent"])
def test_capacities_follow_a_long_stream_as_the_twins_do(spec):
    # Long enough for patience to be bounded by itself, not by the slack.
    scheme, workers = make(spec, epsilon=0.25, patience=2), Workers.numbered(4, [1, 1, 2, 4])
    [keys] = Zipf(exponent=1.0, keys=50, messages=5000, seed=1).chunks(5000)
    twin = TWINS[spec](scheme, workers, 1, 0)
    got = routed(scheme, scheme.start(workers, seed=1), keys)
    assert got == [twin.route(k) for k in keys.tolist()]


@quick
@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.sampled_from(UNEVEN.ids), max_size=20),
    st.lists(st.integers(0, 2**64 - 1), max_size=20),
)
def test_table_routing_is_its_twin(entries, others):
    scheme = make("table", limit=20)
    state = scheme.start(UNEVEN, seed=4)
    scheme.observe(state, Feedback(plan=RoutingTable(dict.fromkeys(others, 3))))
    scheme.observe(state, Feedback(plan=RoutingTable(entries)))  # replaces the one before
    keys = [*entries, *others]
    twin = table(scheme, UNEVEN, 4, 0, entries)
    assert routed(scheme, state, keys) == [twin.route(k) for k in keys]
    assert scheme.table(state) == entries


# --- d-choices ------------------------------------------------------------------------------------


def drifting(messages, stretch, exponent, keys, seed):
    [stream] = Zipf(exponent, keys, messages, seed, drift=stretch).chunks(messages)
    return stream


# Workers, parameters, stream, and how many different values of d it must show.
D_CHOICES = {
    "d between 2 and n": (12, {}, drifting(4000, 2000, 1.2, 500, 1), 4),
    "two words of workers": (70, {"theta": 0.02}, drifting(2000, 1000, 1.2, 100, 2), 4),
    "all workers": (6, {"theta": 0.1}, drifting(1200, 400, 2.0, 50, 3), 2),
    "one worker": (1, {}, drifting(300, 300, 1.0, 50, 4), 1),
    "hot keys in bursts": (20, {"sightings": 5}, np.repeat(drifting(60, 30, 0.5, 40, 5), 50), 4),
    "counters change hands": (
        10, {"counters": 2, "sightings": 4}, drifting(1500, 500, 1.4, 100, 6), 4,
    ),
    "fixed, and slots change hands": (
        12, {"theta": 0.1, "counters": 2, "sightings": 5, "choices": 5},
        np.repeat(np.arange(60, dtype=np.uint64), 25), 1,
    ),
    "fixed at more than all": (3, {"choices": 7}, drifting(500, 500, 1.4, 100, 8), 1),
    "different workers": (12, {"distinct": True}, drifting(4000, 2000, 1.2, 500, 1), 4),
    "different workers, all but one": (
        6, {"distinct": True, "choices": 5, "theta": 0.1}, drifting(900, 300, 1.4, 50, 9), 1,
    ),
    "different workers of two words": (
        70, {"theta": 0.02, "distinct": True}, drifting(2000, 1000, 1.2, 100, 2), 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", D_CHOICES)
def test_d_choices_sends_each_message_to_a_least_loaded_worker_of_its_set(case):
    n, parameters, keys, different = D_CHOICES[case]
    scheme, ids = make("d-choices", **parameters), tuple(range(100, 100 + n))
    state = scheme.start(Workers(ids), seed=7)
    shortest, longest, slack = state.plan[[SHORTEST, LONGEST, FORGIVE]].tolist()

    def best_d(shares):
        d = scheme.choices or find_optimal_choices(np.array(shares), n, scheme.epsilon)
        return min(d, n)

    head = head_of(scheme, ids)
    twin = naive.DChoices(
        ids, int(salt(7)), head, best_d, (shortest, longest), slack, scheme.distinct
    )
    twin.d = min(scheme.choices or 2, n)
    found = set()
    for i, k in enumerate(keys.tolist()):
        allowed = twin.allowed(k)
        [worker] = routed(scheme, state, keys[i : i + 1])
        assert worker - 100 in allowed, f"message {i}"
        twin.send_to(worker - 100)
        assert state.base.loads.tolist() == twin.loads, f"message {i}"
        assert scheme.describe(state)["d"] == twin.d, f"message {i}"
        found.add(twin.d)
    assert len(found) >= different, "too easy a stream"
    assert sum(twin.loads) > len(keys) or n <= 3, "no load has ever been lifted"


# Workers, parameters and stream. Short streams: the twin computes d for every message of a hot key.
LITERAL = {
    "d between 2 and n": (12, {}, drifting(3000, 1500, 1.2, 500, 1)),
    "two words of workers": (70, {"theta": 0.02}, drifting(1500, 750, 1.2, 100, 2)),
    "all workers": (6, {"theta": 0.1}, drifting(1200, 400, 2.0, 50, 3)),
    "one worker": (1, {}, drifting(300, 300, 1.0, 50, 4)),
    "keys that come and go": (20, {}, np.repeat(drifting(60, 30, 0.5, 40, 5), 50)),
    "counters change hands": (10, {"counters": 2}, drifting(1500, 500, 1.4, 100, 6)),
    "a share near a whole number of workers": (
        10, {}, np.tile(np.array([1, 1, 1, 2, 3, 4, 5, 6, 7, 8], np.uint64), 150),
    ),
    "a large ε": (30, {"epsilon": 0.01}, drifting(3000, 3000, 1.6, 300, 7)),
    "fixed": (12, {"choices": 5}, drifting(500, 500, 1.4, 100, 8)),
}  # fmt: skip


@pytest.mark.parametrize("case", LITERAL)
def test_literal_d_choices_computes_d_for_every_message_of_a_hot_key(case):
    n, parameters, keys = LITERAL[case]
    scheme, ids = make("d-choices", literal=True, **parameters), tuple(range(100, 100 + n))
    state = scheme.start(Workers(ids), seed=7)

    def best_d(shares):
        return min(scheme.choices or naive.find_optimal_choices(shares, n, scheme.epsilon), n)

    twin = naive.LiteralDChoices(ids, int(salt(7)), head_of(scheme, ids), best_d)
    for i, k in enumerate(keys.tolist()):
        allowed = twin.allowed(k)
        [worker] = routed(scheme, state, keys[i : i + 1])
        assert worker - 100 in allowed, f"message {i}"
        twin.send_to(worker - 100)
        assert state.base.loads.tolist() == twin.loads, f"message {i}"
        assert scheme.describe(state)["d"] == twin.d, f"message {i}"
    assert sum(twin.loads) == len(keys), "a load has been lifted"


def test_literal_d_choices_computes_d_only_where_it_may_change():
    scheme = make("d-choices", literal=True)
    state, keys = scheme.start(50, seed=7), drifting(110_000, 110_000, 1.4, 10_000, 1)
    routed(scheme, state, keys[:100_000])
    computed, due = 0, 0
    for i in range(100_000, 110_000):
        routed(scheme, state, keys[i : i + 1])
        computed += state.plan[DUE] != due
        due = state.plan[DUE]
    assert 2 < computed < 2_000  # some 8 000 of the messages are of hot keys


def test_literal_and_distinct_exclude_each_other():
    with pytest.raises(InputError, match="collide"):
        make("d-choices:literal=true,distinct=true")


# --- how many choices -----------------------------------------------------------------------------


@quick
@example([1.0], 0.4, 10, 0.5)  # ⌈p₁·n⌉ itself suffices
@given(
    st.lists(st.floats(1e-4, 1), max_size=12),
    st.floats(0.01, 1),
    st.integers(1, 60),
    st.sampled_from([1e-6, 1e-4, 1e-2, 0.5]),
)
def test_find_optimal_choices_is_its_twin(weights, head, n, epsilon):
    shares = np.array(weights) / max(sum(weights), 1e-9) * head
    expected = naive.find_optimal_choices(shares.tolist(), n, epsilon)
    assert find_optimal_choices(shares, n, epsilon) == expected


@pytest.mark.parametrize("n", [50, 100])
def test_find_optimal_choices_is_its_twin_on_the_papers_distributions(n):
    found = []
    for z in range(1, 21):
        p = Zipf(exponent=z / 10, keys=10_000).probabilities()
        hot = p[p >= 1 / (5 * n)]
        found.append(find_optimal_choices(hot, n))
        assert found[-1] == naive.find_optimal_choices(hot.tolist(), n, 1e-4)
        assert found[-1] >= math.ceil(p[0] * n) or found[-1] == n
    assert min(found) == 2
    assert n / 2 < max(found) < n  # Figure 4: never all workers at these scales


def test_find_optimal_choices_takes_shares_in_any_order():
    assert find_optimal_choices(np.array([0.01, 0.3, 0.02]), 50) == find_optimal_choices(
        np.array([0.3, 0.02, 0.01]), 50
    )


# --- dealing out ----------------------------------------------------------------------------------

proportions = st.lists(st.floats(0.001, 1), min_size=1, max_size=8).map(
    lambda parts: [part / sum(parts) for part in parts]
)


@quick
@example(10, [0.02, 0.02, 0.02, 0.02, 0.02, 0.46, 0.44])  # the small ones' one is taken off others
@given(st.integers(0, 200), proportions)
def test_dealt_is_its_twin(total, shares):
    counts = dealt(total, np.array(shares))
    assert counts.tolist() == naive.dealt(total, shares)
    assert counts.min() >= 1
    assert counts.sum() == max(total, len(shares))


@quick
@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.permutations(range(10)), st.data())
def test_redeal_is_its_twin_and_changes_as_few_places_as_can_be(owners, workers, data):
    parts = data.draw(proportions)
    shares = dict(zip(workers[: len(parts)], parts, strict=True))
    after = np.array(owners, np.int32)
    redeal(after, shares)
    assert after.tolist() == naive.redeal(owners, shares)
    due = dict(zip(shares, naive.dealt(len(owners), parts), strict=True))
    assert {worker: after.tolist().count(worker) for worker in shares} == due
    kept = sum(min(owners.count(worker), due[worker]) for worker in shares)
    assert sum(a == b for a, b in zip(owners, after.tolist(), strict=True)) == kept


@quick
@given(st.lists(st.floats(-1, 1), max_size=120))
def test_sort_descending_is_its_twin(values):
    array = np.array(values)
    sort_descending(array)
    assert array.tolist() == naive.sort_descending(values)
