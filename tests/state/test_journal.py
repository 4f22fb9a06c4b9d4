"""Plans that are fixed before a batch, and requests for another number of partitions."""

import pytest

from evenflow.model import Plan
from evenflow.state import CheckpointError, DamagedState
from evenflow.state.journal import (
    begin_closing,
    fixed_plan,
    forget_plans,
    is_closing,
    request_partitions,
    requested_partitions,
    withdraw_plan,
)
from evenflow.state.manifest import seal
from evenflow.storage import MemoryStorage
from evenflow.storage.faults import Crash, Faults, FaultyStorage


@pytest.fixture
def storage():
    storage = MemoryStorage()
    yield storage
    storage.clear()


def test_a_plan_is_fixed_by_the_first_try_of_its_batch(storage):
    first, second = Plan("key", 4), Plan("d-choices", 8)
    assert fixed_plan(storage, 3, first) == first
    assert fixed_plan(storage, 3, second) == first
    assert fixed_plan(storage, 4, second) == second


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_while_a_plan_is_fixed_leaves_it_fixed_or_not(storage, applied):
    first, second = Plan("key", 4), Plan("key", 8)
    dying = FaultyStorage(storage, Faults(crash_at=0, applied=applied))
    with pytest.raises(Crash):
        fixed_plan(dying, 0, first)
    assert fixed_plan(storage, 0, second) == (first if applied else second)


def test_a_plan_whose_reply_was_lost_is_ones_own(storage):
    with pytest.raises(CheckpointError, match=r"cannot write .*plans/0000000000\.json"):
        fixed_plan(FaultyStorage(storage, Faults(lost_replies=1.0)), 0, Plan("key", 4))
    assert fixed_plan(storage, 0, Plan("key", 4)) == Plan("key", 4)


def test_a_damaged_plan_is_named(storage):
    fixed_plan(storage, 0, Plan("key", 4))
    storage.put("plans/0000000000.json", [storage.read("plans/0000000000.json")[:-2]])
    with pytest.raises(DamagedState, match=r"plans/0000000000\.json"):
        fixed_plan(storage, 0, Plan("key", 4))


def test_a_batch_without_rows_stays_one_whatever_becomes_of_its_plan(storage):
    assert not is_closing(storage, 3)
    assert begin_closing(storage, 3)
    assert fixed_plan(storage, 3, Plan("key", 4)) == Plan("key", 4)
    assert fixed_plan(storage, 3, Plan("key", 8)) == Plan("key", 4)
    withdraw_plan(storage, 3)
    assert begin_closing(storage, 3)
    assert fixed_plan(storage, 3, Plan("key", 8)) == Plan("key", 8)
    assert is_closing(storage, 3)


def test_a_batch_that_was_begun_with_rows_keeps_them(storage):
    fixed_plan(storage, 3, Plan("key", 4))
    assert not begin_closing(storage, 3)
    withdraw_plan(storage, 3)
    assert begin_closing(storage, 3)


def test_plans_of_committed_batches_are_forgotten(storage):
    forget_plans(storage, 3)
    for batch in range(5):
        fixed_plan(storage, batch, Plan("key", 4))
    forget_plans(storage, 3)
    assert storage.list("plans/") == ["plans/0000000003.json", "plans/0000000004.json"]


def test_requested_partitions_count_until_it_is_started_with_another_number(storage):
    assert requested_partitions(storage, 4) == 4
    request_partitions(storage, 8, instead_of=4)
    assert requested_partitions(storage, 4) == 8
    assert requested_partitions(storage, 6) == 6
    request_partitions(storage, 2, instead_of=4)
    assert requested_partitions(storage, 4) == 2


def test_a_number_may_be_handed_to_the_load_and_taken_back(storage):
    assert requested_partitions(storage, "auto") == "auto"
    request_partitions(storage, 8, instead_of="auto")
    assert requested_partitions(storage, "auto") == 8
    assert requested_partitions(storage, 6) == 6
    request_partitions(storage, "auto", instead_of=6)
    assert requested_partitions(storage, 6) == "auto"
    assert requested_partitions(storage, "auto") == "auto"


@pytest.mark.parametrize("partitions", ["many", 0, 2.5, None])
def test_a_damaged_request_is_named(storage, partitions):
    storage.put("partitions.json", [seal({"partitions": partitions, "instead_of": 4})])
    with pytest.raises(DamagedState, match="partitions"):
        requested_partitions(storage, 4)
