"""Faults: a test says when the process dies, and which calls fail."""

import pickle

import pytest

from evenflow.storage import MemoryStorage
from evenflow.storage.faults import Crash, Faults, FaultyStorage


@pytest.fixture
def disk():
    storage = MemoryStorage()
    yield storage
    storage.clear()


def some_calls(storage):
    storage.put("a", [b"1"])
    storage.create("b", b"2")
    storage.list("")
    storage.delete("a")


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("call", range(4))
def test_a_crash_comes_before_or_after_the_effect_of_its_call(disk, call, applied):
    faults = Faults(crash_at=call, applied=applied)
    with pytest.raises(Crash, match=f"{'after' if applied else 'before'} call {call}"):
        some_calls(FaultyStorage(disk, faults))
    effects = [[], ["a"], ["a", "b"], ["a", "b"], ["b"]]
    assert disk.list("") == effects[call + applied]
    assert faults.crashed


def test_no_crash_without_that_many_calls(disk):
    faults = Faults(crash_at=4)
    some_calls(FaultyStorage(disk, faults))
    assert faults.log == ["put a", "create b", "list ", "delete a"]
    assert not faults.crashed


def test_a_crash_after_a_call_that_fails_is_a_crash(disk):
    with pytest.raises(Crash):
        FaultyStorage(disk, Faults(crash_at=0, applied=True)).read("missing")


def test_after_a_crash_nothing_can_be_written(disk):
    storage = FaultyStorage(disk, Faults(crash_at=0))
    with pytest.raises(Crash):
        storage.put("a", [b""])
    with pytest.raises(Crash, match="dead already"):
        storage.under("x").put("a", [b""])
    assert disk.list("") == []


def test_a_crash_is_not_an_exception_that_code_may_catch():
    assert not issubclass(Crash, Exception)


def test_folders_and_copies_count_the_same_calls(disk):
    faults = Faults()
    storage = FaultyStorage(disk, faults)
    storage.put("a", [b""])
    storage.under("x").put("b", [b""])
    pickle.loads(pickle.dumps(storage)).put("c", [b""])
    assert faults.calls == 3
    assert disk.list("") == ["a", "c", "x/b"]


def outcomes(disk, faults):
    storage, seen = FaultyStorage(disk, faults), []
    for number in range(400):
        try:
            storage.put(str(number), [b""])
            seen.append("done")
        except OSError as error:
            seen.append(type(error).__name__)
    return seen


def test_seeded_faults_come_at_their_rates_and_again_at_the_same_calls(disk):
    rates = {"errors": 0.1, "lost_replies": 0.05}
    seen = outcomes(disk, Faults(**rates, seed=3))
    assert 20 < seen.count("OSError") < 60
    assert 8 < seen.count("TimeoutError") < 36
    there = {int(name) for name in disk.list("")}
    assert there == {n for n, outcome in enumerate(seen) if outcome != "OSError"}
    assert outcomes(disk, Faults(**rates, seed=3)) == seen
    assert outcomes(disk, Faults(**rates, seed=4)) != seen
