"""The hash table against a dict, and the selection kernels against a plain look at every load."""

from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.kernels import selection
from evenflow.kernels.hash_table import EMPTY, find, new_table, remove, table_length
from evenflow.kernels.mixing import mix

quick = settings(max_examples=60)


def keys_at_home(length, homes, n):
    """`n` keys whose first choice of place, in a table of that length, is one of `homes`."""
    candidates = map(np.uint64, count())
    return list(islice((key for key in candidates if int(mix(key)) % length in homes), n))


# All want the last two places or the first one of a table of 8: they collide, and they wrap round.
CROWDED = keys_at_home(8, {6, 7, 0}, 12)


def put(table, key, slot):
    place = find(*table, key)
    table[0][place], table[1][place] = key, slot


def assert_holds(table, expected, pool):
    assert naive.table_contents(*table) == expected
    for key in pool:
        place = find(*table, key)
        assert table[1][place] == expected.get(int(key), EMPTY)
        assert int(key) not in expected or table[0][place] == key


@pytest.mark.parametrize(
    ("capacity", "length"), [(0, 4), (1, 4), (2, 8), (3, 16), (4, 16), (5, 32), (1000, 4096)]
)
def test_a_table_leaves_three_quarters_of_its_places_free(capacity, length):
    assert table_length(capacity) == length
    table_keys, table_slots = new_table(capacity)
    assert len(table_keys) == len(table_slots) == length >= 4 * capacity
    assert (table_slots == EMPTY).all()


@quick
@given(
    st.lists(st.tuples(st.sampled_from(["put", "remove"]), st.integers(0, 11)), max_size=60),
    st.sampled_from([4, 7]),  # half full, as promised to callers, and all but full
)
def test_a_crowded_table_is_a_dict(operations, most):
    table, expected = new_table(4), {}
    for slot, (operation, i) in enumerate(operations):
        key = CROWDED[i]
        if operation == "remove":
            remove(*table, key)
            expected.pop(int(key), None)
        elif len(expected) < most or int(key) in expected:
            put(table, key, slot)
            expected[int(key)] = slot
        assert_holds(table, expected, CROWDED)


def test_a_table_that_lives_long_is_a_dict_and_keeps_no_traces_of_what_is_gone():
    rng = np.random.default_rng(1)
    pool = np.concatenate([rng.integers(0, 2**64, 60, np.uint64), np.arange(4, dtype=np.uint64)])
    table, expected = new_table(len(pool)), {}
    for slot, key in enumerate(rng.choice(pool, 3000)):
        if int(key) in expected:
            remove(*table, key)
            del expected[int(key)]
        else:
            put(table, key, slot)
            expected[int(key)] = slot
    assert 10 < len(expected) < len(pool)
    assert_holds(table, expected, pool)
    for key in pool:
        remove(*table, key)
    assert (table[1] == EMPTY).all()


def test_key_0_is_a_key_like_others():
    # A free place holds a key of 0 too: only its slot tells that it is free.
    table, zero = new_table(2), np.uint64(0)
    assert table[1][find(*table, zero)] == EMPTY
    put(table, zero, 5)
    assert table[1][find(*table, zero)] == 5
    remove(*table, zero)
    assert naive.table_contents(*table) == {}


def members_of(words):
    """A set of workers as a set of numbers."""
    return set(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist())


def set_of(members, n):
    bits = np.zeros(selection.words_for(n), np.uint64)
    for worker in members:
        selection.add_to_set(bits, np.uint64(worker))
    return bits


class Selection:
    """Loads with their board and levels, beside a plain list of the same loads."""

    def __init__(self, loads, cursor=0):
        self.twin, self.cursor = list(loads), cursor
        self.loads = np.array(loads, np.int64)
        self.board, self.levels = selection.new_board(self.loads, cursor)
        self.places = {}  # where the last search in a set ended

    def take_least_of_all(self):
        expected = naive.least_of_set(self.twin, range(len(self.twin)), self.cursor)
        assert selection.take_least_of_all(self.loads, self.board, self.levels) == expected
        self.twin[expected] += 1
        self.cursor = expected

    def take_least_of_set(self, members):
        expected = naive.least_of_set(self.twin, members, 0)
        bits, place = set_of(members, len(self.twin)), self.places.get(frozenset(members), 0)
        chosen, place = selection.take_least_of_set(
            self.loads, self.board, self.levels, bits, np.uint64(place)
        )
        assert chosen == expected
        self.places[frozenset(members)] = place
        self.twin[expected] += 1

    def send_to(self, worker):
        self.loads[worker] += 1
        selection.note_increment(self.loads, self.board, self.levels, np.uint64(worker))
        self.twin[worker] += 1

    def assert_true(self):
        assert self.loads.tolist() == self.twin
        least = min(self.twin)
        assert self.board[selection.LEAST] == least
        assert self.board[selection.CURSOR] == self.cursor
        assert self.board[selection.OVERFLOWN] or max(self.twin) <= least + selection.LEVELS
        rows = self.levels.reshape(selection.LEVELS, -1)
        for level, workers in naive.levels(self.twin).items():
            assert members_of(rows[level % selection.LEVELS]) == workers


# One word of workers and several, full ones and not; loads within the levels and far above them.
rosters = st.sampled_from([1, 2, 3, 63, 64, 65, 130]).flatmap(
    lambda n: st.lists(st.sampled_from([0, 0, 1, 5, 62, 63, 64, 65, 200]), min_size=n, max_size=n)
)


@quick
@given(st.data())
def test_the_board_stays_true_and_finds_the_least_of_all_and_of_a_set(data):
    loads = data.draw(rosters)
    worker = st.integers(0, len(loads) - 1)
    chosen = Selection(loads, cursor=data.draw(worker))
    chosen.assert_true()
    for kind in data.draw(st.lists(st.sampled_from(["all", "set", "one"]), max_size=15)):
        if kind == "all":
            chosen.take_least_of_all()
        elif kind == "set":
            chosen.take_least_of_set(data.draw(st.sets(worker, min_size=1, max_size=5)))
        else:
            chosen.send_to(data.draw(worker))
        chosen.assert_true()


@pytest.mark.parametrize("n", [2, 3, 70])
def test_the_board_stays_true_when_one_worker_runs_far_ahead_and_the_rest_catch_up(n):
    rng = np.random.default_rng(n)
    chosen = Selection([0] * n, cursor=n - 1)
    for step in range(200):
        chosen.send_to(0 if step < 150 else int(rng.integers(n)))
    chosen.assert_true()
    assert max(chosen.twin) >= min(chosen.twin) + selection.LEVELS, "nobody ran ahead"
    for step in range(600):
        if step % 3 == 0:
            chosen.take_least_of_set(set(rng.integers(0, n, 3).tolist()))
        else:
            chosen.take_least_of_all()
        if step % 7 == 0:
            chosen.assert_true()


def test_taking_the_least_of_all_keeps_loads_within_one_of_each_other():
    chosen = Selection([0] * 7, cursor=3)
    for _ in range(100):
        chosen.take_least_of_all()
    assert sorted(chosen.loads.tolist()) == [14] * 5 + [15] * 2


@quick
@given(st.lists(st.integers(-5, 5), max_size=70))
def test_sort_descending_sorts(values):
    array = np.array(values, np.int64)
    selection.sort_descending(array)
    assert array.tolist() == sorted(values, reverse=True)


@quick
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40),
)
def test_take_less_loaded_is_its_twin(loads, pairs):
    mine, twin = np.array(loads, np.int64), list(loads)
    for a, b in pairs:
        a, b = a % len(loads), b % len(loads)
        chosen = selection.take_less_loaded(mine, np.uint64(a), np.uint64(b))
        assert chosen == naive.take_less_loaded(twin, a, b)
        assert mine.tolist() == twin
