"""What a controller remembers: bounded, the same after a restart, and true to the loads."""

import numpy as np
import pytest

from evenflow.model import InputError
from evenflow.planning.memory import KEYS, KEYS_PER_WORKER, MOST_KEYS, Memory
from evenflow.planning.seen import Seen

WORKERS = 12


def seen_of(keys: int, seed: int = 0) -> Seen:
    chance = np.random.default_rng(seed)
    rows = 1e6 / np.arange(1, keys + 1) ** 0.9
    prints = chance.integers(0, 2**63, keys).astype(np.uint64)
    return Seen.of(prints, rows, rows * chance.uniform(0.5, 2, keys), chance.uniform(0, 99, keys))


@pytest.mark.parametrize("keys", [0, 1, KEYS, KEYS + 1, 100_000, 500_000])
@pytest.mark.parametrize("workers", [1, WORKERS, 1000])
def test_it_is_bounded_and_stays_the_same_through_json(keys, workers):
    seen = seen_of(keys)
    worker = (seen.keys % np.uint64(workers)).astype(np.int32)
    memory = Memory.of(seen, worker, workers, predicted=0.125)
    assert len(memory.past) <= min(MOST_KEYS, max(KEYS, KEYS_PER_WORKER * workers))
    again = Memory.from_json(memory.to_json())
    assert again.predicted == 0.125
    for name in ("keys", "rows", "costs", "state"):
        assert (getattr(again.past, name) == getattr(memory.past, name)).all(), name
    assert len(str(memory.to_json())) < 27 * len(memory.past) + 200


def test_of_more_keys_than_fit_the_heaviest_are_kept_and_every_workers_load_to_one_percent():
    seen = seen_of(300_000)
    worker = (seen.keys % np.uint64(WORKERS)).astype(np.int32)
    past = Memory.of(seen, worker, WORKERS, None).past
    assert (np.diff(past.keys.astype(object)) > 0).all()
    heaviest = seen.keys[np.argsort(-seen.costs)[: KEYS // 2]]
    assert np.isin(heaviest, past.keys).all()
    loads = np.bincount(worker, seen.costs)
    kept = np.bincount((past.keys % np.uint64(WORKERS)).astype(np.int32), past.costs)
    assert np.abs(kept - loads).max() < 0.01 * loads.mean()


def test_keys_without_cost_do_not_crowd_others_out():
    seen = seen_of(10_000)
    idle = Seen(seen.keys, seen.rows, np.zeros(len(seen)), seen.state)
    assert len(Memory.of(idle, np.zeros(10_000, np.int32), 1, None).past) <= KEYS


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": -1},
        {"keys": 10**12},
        {"keys": "2"},
        {"keys": 2},
        {"columns": "not base64!"},
        {"columns": "AAAA"},
        {"columns": 5},
        {"predicted": "soon"},
        {"predicted": float("nan")},
        {"predicted": None, "columns": None},
    ],
)
def test_what_is_not_a_memory_is_refused_in_one_sentence(wrong):
    plain = Memory.of(seen_of(5), np.zeros(5, np.int32), 1, None).to_json()
    with pytest.raises(InputError, match="not what a controller remembers"):
        Memory.from_json({**plain, **wrong})


def test_from_nothing_nothing_is_remembered():
    assert len(Memory.from_json({}).past) == 0
