"""One driver at a time; one that was taken over can neither commit nor delete."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from evenflow.model import InputError
from evenflow.model.processes import identity, stopped
from evenflow.state import Checkpoint, CheckpointError, LostLease, Manifest
from evenflow.state.lease import lease_name, new_holder
from evenflow.state.leftovers import drop_uncommitted
from evenflow.state.records import TURNS, Place
from evenflow.storage import MemoryStorage
from evenflow.storage.faults import Faults, FaultyStorage
from state_driver import (
    assert_state_of,
    assert_whole,
    commit_next,
    forget_leases,
    start_driver,
)

IDENTITY = {"key": ["number"]}


class Clock:
    """Seconds that pass when a test says so; whoever sleeps is told first."""

    def __init__(self, on_sleep=lambda: None):
        self.now, self.on_sleep = 0.0, on_sleep

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def storage():
    space = MemoryStorage()
    yield space
    space.clear()


def opened(storage):
    return Checkpoint.open(storage, IDENTITY)


def other_driver(storage, monkeypatch, clock, seconds=30.0):
    """A driver on another machine that has the lease."""
    with monkeypatch.context() as patched:
        stranger = {**identity(), "machine": "another", "host": "node7"}
        patched.setattr("evenflow.state.lease.identity", lambda: stranger)
        checkpoint = opened(storage)
        return checkpoint, checkpoint.acquire(seconds, clock=clock)


# --- who gets it ---------------------------------------------------------------------------------


def test_a_second_driver_of_this_machine_is_refused_and_the_holder_named(tmp_path):
    """And a holder that was killed is known to be gone at once."""
    holder = start_driver(tmp_path)
    assert holder.stdout.readline() == "locked\n"
    checkpoint = Checkpoint.open(tmp_path, IDENTITY)
    with pytest.raises(InputError, match=f"in use by process {holder.pid} on .* since 20"):
        checkpoint.acquire()
    holder.kill()
    holder.communicate()
    checkpoint.acquire(sleep=_must_not_wait).release()


def _must_not_wait(seconds):
    raise AssertionError("it waited")


def test_a_lease_is_held_until_it_is_released(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, IDENTITY)
    since = f"process {os.getpid()} .* since 1970-01-01T00:00:00Z"
    holder = partial(new_holder, lambda: 0.0)
    with checkpoint.acquire(holder=holder), pytest.raises(InputError, match=since):
        Checkpoint.open(tmp_path).acquire()
    lease = checkpoint.acquire(sleep=_must_not_wait)
    lease.release()
    lease.release()
    checkpoint.acquire(sleep=_must_not_wait).release()


def test_a_lease_whose_work_has_ended_is_free_for_its_own_process(storage):
    lease = opened(storage).acquire()
    lease.in_use = lambda: False
    opened(storage).acquire(sleep=_must_not_wait).release()


def test_what_a_killed_driver_leaves_running_is_waited_for(storage, monkeypatch):
    """Its JVM, which notices a moment later, and until then may write to Spark's log."""
    jvm = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clock = Clock()
    with monkeypatch.context() as patched:
        dead = {**identity(), "began": "before"}
        patched.setattr("evenflow.state.lease.identity", lambda: dead)
        opened(storage).acquire(
            clock=clock, holder=partial(new_holder, companion=identity(jvm.pid))
        )
    clock.on_sleep = lambda: jvm.communicate() if clock.now > 5 else None
    opened(storage).acquire(
        clock=clock, sleep=clock.sleep, holder=partial(new_holder, companion=identity())
    ).release()
    assert 5 < clock.now < 6
    # Of a driver that has let go, and of one of this very process, nothing is waited for.
    opened(storage).acquire(sleep=_must_not_wait, holder=partial(new_holder, companion=identity()))
    forget_leases()
    opened(storage).acquire(sleep=_must_not_wait).release()


def test_what_never_ends_is_waited_for_as_long_as_the_lease(storage, monkeypatch, caplog):
    clock = Clock()
    with monkeypatch.context() as patched:
        dead = {**identity(), "began": "before"}
        patched.setattr("evenflow.state.lease.identity", lambda: dead)
        opened(storage).acquire(20.0, clock=clock, holder=partial(new_holder, companion=identity()))
    opened(storage).acquire(clock=clock, sleep=clock.sleep)
    assert 20 <= clock.now < 21
    assert f"process {os.getpid()} of the driver before this one still runs" in caplog.text


def test_a_driver_elsewhere_that_is_silent_for_its_lease_is_taken_over(storage, monkeypatch):
    clock = Clock()
    other_driver(storage, monkeypatch, clock, seconds=30.0)
    opened(storage).acquire(clock=clock, sleep=clock.sleep)
    assert 30.0 <= clock.now < 32.0


@pytest.mark.parametrize("sign", ["beat", "commit"])
def test_a_driver_elsewhere_that_gives_a_sign_of_life_keeps_it(storage, monkeypatch, sign):
    clock = Clock()
    theirs, lease = other_driver(storage, monkeypatch, clock)
    live = {"beat": lease.beat, "commit": lambda: theirs.commit(Manifest(batch=0))}[sign]
    clock.on_sleep = lambda: live() if clock.now > 20 else None
    with pytest.raises(InputError, match=r"in use by process \d+ on node7"):
        opened(storage).acquire(clock=clock, sleep=clock.sleep)
    assert clock.now < 30
    assert not storage.list("evenflow/manifests/0000000001-0001")


def test_a_driver_elsewhere_that_releases_it_is_not_waited_for_longer(storage, monkeypatch):
    clock = Clock()
    _, lease = other_driver(storage, monkeypatch, clock)
    clock.on_sleep = lambda: lease.release() if clock.now > 5 else None
    opened(storage).acquire(clock=clock, sleep=clock.sleep)
    assert clock.now < 10


def test_a_driver_that_died_before_its_first_beat_is_waited_for(storage, monkeypatch):
    clock = Clock()
    other_driver(storage, monkeypatch, clock)
    storage.delete(f"evenflow/{lease_name(1)}")
    opened(storage).acquire(clock=clock, sleep=clock.sleep)
    assert clock.now >= 30


def test_what_another_driver_has_said_of_the_state_meanwhile_is_known(storage):
    """Else one that was held up between opening and acquiring would take for new what is kept."""
    late, other = opened(storage), opened(storage)
    with other.acquire():
        other.carry_over({**IDENTITY, "aggregates": {"users": "users@6"}})
        other.commit(Manifest(batch=0))
    with late.acquire():
        assert late.identity["aggregates"] == {"users": "users@6"}


def test_of_several_that_acquire_at_once_one_does(storage):
    ready, won, lost = threading.Barrier(8), [], []

    def attempt():
        checkpoint = opened(storage)
        ready.wait()
        try:
            won.append(checkpoint.acquire())
        except InputError:
            lost.append(1)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    won[0].release()


# --- what it keeps out ---------------------------------------------------------------------------


def test_a_driver_that_was_taken_over_never_commits(storage, monkeypatch):
    clock = Clock()
    frozen, _ = other_driver(storage, monkeypatch, clock)
    frozen.commit(Manifest(batch=0))
    ours = opened(storage)
    ours.acquire(clock=clock, sleep=clock.sleep)
    clock.now = 0.0  # even if its clock stood still
    with pytest.raises(LostLease, match=r"taken over the checkpoint memory:.*Nothing is lost"):
        frozen.commit(Manifest(batch=1, plan={"theirs": 1}))
    ours.commit(Manifest(batch=1, plan={"ours": 1}))
    for batch in (1, 2, 3):
        with pytest.raises(LostLease):
            frozen.commit(Manifest(batch=batch, plan={"theirs": 1}))
    last = opened(storage).last()
    assert (last.batch, dict(last.plan), last.fence) == (1, {"ours": 1}, 2)


def test_a_driver_that_was_taken_over_says_nothing_of_the_state(storage, monkeypatch):
    clock = Clock()
    frozen, _ = other_driver(storage, monkeypatch, clock)
    ours = opened(storage)
    ours.acquire(clock=clock, sleep=clock.sleep)
    ours.carry_over({**IDENTITY, "version": "ours"})
    clock.now = 0.0  # even if its clock stood still
    with pytest.raises(LostLease):
        frozen.carry_over({**IDENTITY, "version": "theirs"})
    assert opened(storage).identity["version"] == "ours"


def test_not_even_where_the_place_of_its_commit_was_cleared(storage, monkeypatch):
    """Its place is free again then: only what came later shows that it must not count."""
    clock = Clock()
    frozen, _ = other_driver(storage, monkeypatch, clock)
    frozen.commit(Manifest(batch=0))
    ours = opened(storage)
    ours.acquire(clock=clock, sleep=clock.sleep)
    for batch in range(1, 8):
        ours.commit(Manifest(batch=batch))
    ours.retain(2)
    with pytest.raises(LostLease):
        frozen.commit(Manifest(batch=1, plan={"theirs": 1}))
    assert opened(storage).last().batch == 7
    ours.retain(2)
    assert opened(storage).batches() == [6, 7]


def test_not_even_where_a_takeover_before_the_last_has_cleared_it(storage, monkeypatch):
    """Driver 1 wants the place of driver 2's takeover, which a later one has cleared."""
    clock = Clock()
    frozen, _ = other_driver(storage, monkeypatch, clock)
    for _ in range(TURNS + 1):
        opened(storage).acquire(clock=clock, sleep=clock.sleep).abandon()
    left = storage.list("evenflow/manifests/")
    assert left == [f"evenflow/{Place(0, turn).name}" for turn in range(2, TURNS + 2)]
    with pytest.raises(LostLease):
        frozen.commit(Manifest(batch=0, plan={"theirs": 1}))
    assert opened(storage).last() is None
    ours = opened(storage)
    ours.acquire(clock=clock, sleep=clock.sleep)
    ours.commit(Manifest(batch=0, plan={"ours": 1}))
    assert opened(storage).last().plan == {"ours": 1}
    ours.commit(Manifest(batch=1, plan={"ours": 1}))
    ours.retain(1)
    assert storage.list("evenflow/manifests/") == [f"evenflow/{Place(1).name}"]


@pytest.mark.parametrize("takeovers", [1, 5])
def test_not_even_if_its_clock_stood_still_and_old_records_are_dropped(
    storage, monkeypatch, takeovers
):
    """As a virtual machine's does while it is paused: nothing tells it to look before it goes on."""
    clock, paused = Clock(), Clock()
    frozen, _ = other_driver(storage, monkeypatch, paused)
    frozen.commit(Manifest(batch=0))
    for _ in range(takeovers):
        ours = opened(storage)
        ours.acquire(clock=clock, sleep=clock.sleep).abandon()
    ours.commit(Manifest(batch=1, plan={"ours": 1}))
    ours.retain(1)
    with pytest.raises(LostLease):
        frozen.commit(Manifest(batch=1, plan={"theirs": 1}))
    with pytest.raises(LostLease):
        frozen.commit(Manifest(batch=2, plan={"theirs": 1}))
    assert opened(storage).last().plan == {"ours": 1}


def test_nor_by_going_on_from_what_the_other_one_has_committed(storage, monkeypatch):
    """It had not committed yet: the newest manifest is the other driver's, and so is what follows."""
    clock = Clock()
    frozen, _ = other_driver(storage, monkeypatch, clock)
    ours = opened(storage)
    ours.acquire(clock=clock, sleep=clock.sleep)
    ours.commit(Manifest(batch=0, plan={"ours": 1}))
    with pytest.raises(LostLease):
        frozen.last()
    with pytest.raises(LostLease):
        frozen.commit(Manifest(batch=1, plan={"theirs": 1}))
    ours.commit(Manifest(batch=1, plan={"ours": 1}))
    assert opened(storage).last().plan == {"ours": 1}


def test_a_driver_that_was_taken_over_deletes_nothing(storage, monkeypatch):
    clock = Clock()
    frozen, _ = other_driver(storage, monkeypatch, clock)
    for batch in range(3):
        frozen.commit(Manifest(batch=batch))
    storage.put("evenflow/segments/00000-0000000001-0f9a.seg", [b""])
    opened(storage).acquire(clock=clock, sleep=clock.sleep)
    before = storage.list("")
    with pytest.raises(LostLease):
        frozen.retain(1)
    with pytest.raises(LostLease):
        frozen.collect_garbage()
    assert storage.list("") == before


class Stopped(Faults):
    """A driver that stands still before one of its calls, while `meanwhile` happens."""

    def __init__(self, at, meanwhile):
        super().__init__()
        self._at, self._meanwhile = at, meanwhile

    def call(self, what, effect, fails=True):
        if self.calls == self._at:
            self._at = None
            self._meanwhile()
        return super().call(what, effect, fails)


def test_not_even_while_it_clears_what_others_have_left(monkeypatch):
    """Wherever it is stopped, what the other driver commits meanwhile stays."""
    at = 0
    while True:
        disk, clock = MemoryStorage(), Clock()

        def take_over(disk=disk, clock=clock):
            ours = opened(disk)
            ours.acquire(clock=clock, sleep=clock.sleep)
            commit_next(ours)
            commit_next(ours)

        frozen, lease = other_driver(disk, monkeypatch, clock)
        frozen.storage = FaultyStorage(frozen.storage, Stopped(at, take_over))
        with suppress(CheckpointError):  # a `LostLease` is one
            drop_uncommitted(frozen)
        lease.abandon()
        if frozen.storage.faults._at is not None:
            break  # it has no more calls than that
        assert_state_of(opened(disk), 1)
        disk.clear()
        at += 1
    assert at > 3


def test_a_driver_that_was_only_slow_goes_on(storage):
    clock, checkpoint = Clock(), opened(storage)
    checkpoint.acquire(clock=clock)
    checkpoint.commit(Manifest(batch=0))
    clock.now = 100.0
    checkpoint.commit(Manifest(batch=1))
    assert checkpoint.retain(1) == [0]
    assert checkpoint.last().batch == 1


def test_a_copy_in_another_process_commits_under_the_same_number(storage, monkeypatch):
    """As the batches of Spark Connect do, which run on the server."""
    clock = Clock()
    checkpoint, _ = other_driver(storage, monkeypatch, clock)
    copy = pickle.loads(pickle.dumps(checkpoint))
    copy.commit(Manifest(batch=0))
    pickle.loads(pickle.dumps(checkpoint)).commit(Manifest(batch=1))
    assert copy.last().batch == 1
    opened(storage).acquire(clock=clock, sleep=clock.sleep)
    for attempt in (lambda: copy.commit(Manifest(batch=2)), copy.collect_garbage):
        with pytest.raises(LostLease):
            attempt()


def test_a_commit_whose_reply_was_lost_is_ones_own(storage):
    faults = Faults()
    checkpoint = opened(FaultyStorage(storage, faults))
    checkpoint.acquire()
    faults.lost_replies = 1.0
    with pytest.raises(Exception, match="injected loss of reply"):
        checkpoint.commit(Manifest(batch=0))
    faults.lost_replies = 0.0
    checkpoint.commit(Manifest(batch=0))
    assert checkpoint.last() == replace(Manifest(batch=0), fence=1)
    checkpoint.commit(Manifest(batch=1))
    assert checkpoint.batches() == [0, 1]


def test_a_holder_needs_one_request_to_commit(storage):
    faults = Faults()
    checkpoint = opened(FaultyStorage(storage, faults))
    checkpoint.acquire()
    checkpoint.commit(Manifest(batch=0))
    del faults.log[:]
    assert checkpoint.last().batch == 0
    checkpoint.commit(Manifest(batch=1))
    assert faults.log == [f"create {Place(1).name}"]


def test_leases_of_former_drivers_are_cleared(storage):
    for batch in range(4):
        checkpoint = opened(storage)
        with checkpoint.acquire():
            checkpoint.commit(Manifest(batch=batch))
            checkpoint.collect_garbage()
    assert storage.list("evenflow/lease/") == [f"evenflow/{lease_name(4)}"]


@pytest.mark.slow
def test_a_process_that_was_stopped_past_its_lease_ends_when_it_is_continued(tmp_path):
    frozen = start_driver(tmp_path, seconds=1.0)
    assert frozen.stdout.readline() == "locked\n"
    for _ in range(3):
        frozen.stdout.readline()
    frozen.send_signal(signal.SIGSTOP)
    while not stopped({"pid": frozen.pid}):
        time.sleep(0.01)
    checkpoint = Checkpoint.open(tmp_path, IDENTITY)
    with checkpoint.acquire():
        committed = [commit_next(checkpoint) for _ in range(20)]
        frozen.send_signal(signal.SIGCONT)
        _, err = frozen.communicate(timeout=60)
        committed.append(commit_next(checkpoint))
    assert frozen.returncode == 1
    assert "another driver has taken over the checkpoint" in err
    assert committed == list(range(committed[0], committed[0] + 21))
    assert_whole(checkpoint, committed[-1])
