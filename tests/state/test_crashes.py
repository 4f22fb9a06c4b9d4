"""What is committed stays, whatever happens to the process or the disk."""

import os
import random
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from evenflow.state import Checkpoint, CheckpointError
from evenflow.state.records import Place
from evenflow.storage import MemoryStorage
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from state_driver import (
    assert_state_of,
    assert_whole,
    child,
    commit_next,
    forget_leases,
    start_driver,
)

pytestmark = pytest.mark.slow

# --- kill ----------------------------------------------------------------------------------------


def kill_at_random(tmp_path, kills, seed):
    """Start a driver, kill it at a random moment, look: `kills` times over one checkpoint."""
    chance = random.Random(seed)
    committed = -1
    for _ in range(kills):
        driver = start_driver(tmp_path)
        assert driver.stdout.readline() == "locked\n"
        time.sleep(chance.uniform(0, 0.12))
        driver.send_signal(signal.SIGKILL)
        out, err = driver.communicate()
        assert err == ""
        said = [int(line) for line in out.splitlines() if line.strip()]
        checkpoint = Checkpoint.open(tmp_path)
        last = checkpoint.last()
        assert said == list(range(committed + 1, committed + 1 + len(said)))
        # Killed between commit and word of it: one more may be there, never one less.
        seen = -1 if last is None else last.batch
        assert seen in (committed + len(said), committed + len(said) + 1)
        committed = seen
        if last is not None:
            assert_whole(checkpoint, committed)
    return committed


@pytest.mark.slow
def test_a_killed_driver_leaves_exactly_the_last_committed_state(tmp_path):
    committed = kill_at_random(tmp_path, kills=8, seed=3)
    checkpoint = Checkpoint.open(tmp_path)
    for _ in range(4):
        committed = commit_next(checkpoint)
    assert_whole(checkpoint, committed)
    checkpoint.retain(1)
    checkpoint.collect_garbage()
    named = {segment.file for segment in checkpoint.last().segments}
    assert set(os.listdir(checkpoint.storage.where("segments"))) == named
    assert os.listdir(checkpoint.storage.where("manifests")) == [Path(Place(committed).name).name]


DIES_AT_A_STEP = textwrap.dedent(
    """
    import builtins, os, pyarrow, signal, sys
    from evenflow.state import Checkpoint
    from evenflow.storage import durable
    from state_driver import commit_next

    def dying(real):
        def call(*arguments, **named):
            global left
            left -= 1
            if left < 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **named)
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call

    class File:
        def __init__(self, file): self.file = file
        def __enter__(self): return self
        def __exit__(self, *_): self.file.close()
        def __getattr__(self, name): return getattr(self.file, name)
        def write(self, part): return dying(self.file.write)(part)

    path, step = sys.argv[1:]
    pyarrow.table({"x": [1]}).take([0])  # what Arrow imports late is imported once, not in every fork
    if step == "write":
        durable.open = lambda *arguments: File(builtins.open(*arguments, buffering=0))
    else:
        setattr(os, step, dying(getattr(os, step)))
    for line in sys.stdin:
        left, after = map(int, line.split())
        victim = os.fork()
        if not victim:
            commit_next(Checkpoint.open(path))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]), flush=True)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["write", "fsync", "rename", "link", "unlink"])
def test_killed_at_every_step_of_a_batch(tmp_path, step):
    """A process kills itself just before and just after each call of one kind, in turn."""
    Checkpoint.open(tmp_path, {"key": ["number"]})
    forker = child(["-c", DIES_AT_A_STEP], tmp_path, step, stdin=subprocess.PIPE)
    batch, kills = -1, 0
    for left in range(100):
        codes = []
        for after in (1,) if step == "write" else (0, 1):
            forker.stdin.write(f"{left} {after}\n")
            forker.stdin.flush()
            codes.append(int(forker.stdout.readline()))
            checkpoint = Checkpoint.open(tmp_path)
            last = checkpoint.last()
            grown = (-1 if last is None else last.batch) - batch
            assert grown in ([1] if codes[-1] == 0 else [0, 1])
            if last is not None:
                batch = last.batch
                assert_whole(checkpoint, batch)
        kills += codes.count(-signal.SIGKILL)
        if not any(codes):  # a batch has no more calls of this kind than that
            break
    _, err = forker.communicate()
    assert (forker.returncode, err) == (0, "")
    assert not any(codes)
    assert kills >= 2
    assert_whole(checkpoint, commit_next(checkpoint))


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_at_every_storage_call_in_turn_loses_and_doubles_nothing(applied):
    disk, identity = MemoryStorage(), {"key": ["number"]}
    call, batch = 0, -1
    while True:
        faults = Faults(crash_at=call, applied=applied)
        try:
            checkpoint = Checkpoint.open(FaultyStorage(disk, faults), identity)
            lease = checkpoint.acquire()
            for _ in range(3):  # the third collects garbage
                commit_next(checkpoint)
            lease.release()
            break
        except Crash:
            call += 1
        finally:
            forget_leases()
        survivor = Checkpoint.open(disk, identity)
        survivor.acquire().release()
        last = survivor.last()
        if last is not None:
            assert batch <= last.batch <= batch + 3
            batch = last.batch
            assert_state_of(survivor, batch)
    assert call > 40
    assert_state_of(Checkpoint.open(disk), batch + 3)
    disk.clear()


@pytest.mark.parametrize("seed", range(5))
def test_errors_and_lost_replies_of_the_storage_lose_and_double_nothing(seed):
    disk, identity, faults = MemoryStorage(), {"key": ["number"]}, Faults(seed=seed)
    checkpoint = Checkpoint.open(FaultyStorage(disk, faults), identity)
    faults.errors = faults.lost_replies = 0.05
    batch, failed = -1, 0
    for _ in range(60):
        try:
            assert commit_next(checkpoint) == batch + 1
        except CheckpointError:
            failed += 1
        last = Checkpoint.open(disk).last()
        if last is not None:
            assert last.batch in (batch, batch + 1)
            batch = last.batch
            assert_state_of(Checkpoint.open(disk), batch)
    assert failed > 10
    assert batch > 10
    disk.clear()


# --- full disk, read-only directory --------------------------------------------------------------


def in_child(path, prepare):
    """Commit batches in a child process after `prepare`; what it raised, as text."""
    code = textwrap.dedent(
        """
        import sys
        from evenflow.state import Checkpoint, CheckpointError
        from state_driver import commit_next
        checkpoint = Checkpoint.open(sys.argv[1])
        """
    )
    code += prepare
    code += textwrap.dedent(
        """
        try:
            while True:
                commit_next(checkpoint)
        except CheckpointError as error:
            print(error)
        """
    )
    process = child(["-c", code], path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return out


@pytest.mark.parametrize("limit", [300, 1500, 4000])
def test_a_full_disk_stops_with_a_clear_error_and_resumes_after(tmp_path, limit):
    """A limit on the size of a file stands for the disk: it fails in the midst of a write as well."""
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    said = in_child(
        tmp_path,
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))",
    )
    assert "cannot write" in said
    assert "make room" in said
    assert str(tmp_path) in said
    assert not checkpoint.storage.unfinished("")
    assert_whole(checkpoint, commit_next(checkpoint))


def test_a_read_only_checkpoint_stops_with_a_clear_error_and_resumes_after(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    commit_next(checkpoint)
    directories = [Path(checkpoint.storage.where(name)) for name in ("segments", "manifests")]
    prepare = ""
    if os.getuid() == 0:  # root may write everywhere: be somebody else, who may pass to the files
        prepare = "import os; os.setuid(65534)"
        for directory in (tmp_path, *tmp_path.parents):
            if directory.stat().st_uid == 0 and "pytest" in str(directory):
                directory.chmod(0o755)
    for directory in directories:
        directory.chmod(0o555)
    said = in_child(tmp_path, prepare)
    assert f"cannot write {directories[0]}" in said
    assert "let this user write there" in said
    for directory in directories:
        directory.chmod(0o755)
    assert_whole(checkpoint, commit_next(checkpoint))


def test_a_checkpoint_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot create"):
        Checkpoint.open(tmp_path / "file", {"key": ["number"]})
