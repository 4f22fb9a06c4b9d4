"""The checkpoint: what is committed stays, whatever happens to the process, the disk or the file."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cli.app import main
from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.state import (
    AlreadyCommitted,
    Checkpoint,
    CheckpointError,
    DamagedState,
    Manifest,
    Segment,
    look_up,
    write_segment,
)
from evenflow.state.checkpoint import local_path
from evenflow.state.durable import write_whole
from evenflow.state.manifest import dump, load
from evenflow.state.verification import contents, verify
from state_driver import WORKERS, commit_next, numbers_of
from state_rows import fingerprints, keys_of, numbered

TESTS = Path(__file__).parents[1]
IDENTITY = {"key": ["page"], "operator": "count", "seed": 0}


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint.open(tmp_path, IDENTITY)


def child(code, *arguments, **options):
    """A Python process that can import the tests' own modules."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, *code, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def expected_state(batch):
    """Key → the batch that touched it last."""
    return {n: b for b in range(batch + 1) for n in numbers_of(b)}


def assert_state(checkpoint, batch):
    """The committed state is exactly that of `batch`, and every file is whole."""
    last = checkpoint.last()
    assert last.batch == batch
    expected = expected_state(batch)
    asked = range(max(expected) + 10)
    state, _ = look_up(
        checkpoint.segments_directory, last.segments, fingerprints(asked), keys_of(asked)
    )
    assert state["at"].to_pylist() == [expected.get(n) for n in asked]
    verdict = verify(checkpoint.directory.parent)
    assert verdict.problems == {}


# --- identity ------------------------------------------------------------------------------------


def test_what_differs_is_told_and_what_is_stored_stays(tmp_path, checkpoint):
    again = Checkpoint.open(tmp_path, {**IDENTITY, "operator": "sum"})
    assert again.identity == checkpoint.identity
    assert again.differences(IDENTITY) == []
    changed = {"key": ["page"], "operator": "sum", "state": {"n": "long"}}
    assert again.differences(changed) == [
        'operator: "count" in the checkpoint, "sum" now',
        "seed: 0 in the checkpoint, nothing now",
        'state: nothing in the checkpoint, {"n": "long"} now',
    ]
    again.carry_over(changed)
    assert Checkpoint.open(tmp_path).differences(changed) == []


def test_a_directory_that_is_no_checkpoint_is_refused_for_reading(tmp_path):
    with pytest.raises(InputError, match=r"not a checkpoint.*identity\.json"):
        Checkpoint.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_batches_without_an_identity_are_not_begun_anew(tmp_path, checkpoint):
    checkpoint.commit(Manifest(batch=0))
    (checkpoint.directory / "identity.json").unlink()
    with pytest.raises(CheckpointError, match="holds committed batches"):
        Checkpoint.open(tmp_path, IDENTITY)


@pytest.mark.parametrize("path", ["s3://bucket/x", "hdfs:///x", "dbfs:/x", "abfss://a@b/c", ""])
def test_paths_elsewhere_are_refused(path):
    with pytest.raises(InputError, match="give"):
        local_path(path)


@pytest.mark.parametrize("path", ["/a/b", "file:/a/b", "file:///a/b", Path("/a/b")])
def test_local_paths_in_every_spelling(path):
    assert local_path(path) == Path("/a/b")


def test_another_format_is_refused(tmp_path, checkpoint):
    checkpoint.commit(Manifest(batch=0, format=2))
    with pytest.raises(InputError, match="format 2"):
        checkpoint.last()


# --- commit --------------------------------------------------------------------------------------


def test_a_manifest_survives_its_file(tmp_path):
    segment = write_segment(tmp_path, numbered(range(3), 4), 1, [0, 2])
    manifest = Manifest(
        batch=4,
        run="r",
        plan={"hot": {"7": 3}},
        placements={0: Owners(2).to_json(), 2: Owners(3, 1, {2**64 - 1: 2}).to_json()},
        segments=[segment],
        output=[{"file": "x", "rows": 3}],
        metrics={"seconds": 0.1 + 0.2, "text": "é\u2028\x00"},
    )
    assert load(dump(manifest)) == manifest
    assert manifest.epoch == 2
    assert isinstance(load(dump(manifest)).segments[0], Segment)


def test_a_manifest_that_exists_is_never_changed(checkpoint):
    assert checkpoint.last() is None
    one = Manifest(batch=0, plan={"a": 1})
    checkpoint.commit(one)
    checkpoint.commit(one)
    with pytest.raises(AlreadyCommitted, match="batch 0 is already committed"):
        checkpoint.commit(replace(one, plan={"a": 2}))
    assert checkpoint.last() == one
    assert [f.name for f in (checkpoint.directory / "manifests").iterdir()] == ["0000000000.json"]


def test_a_batch_that_is_long_gone_is_not_committed_again(checkpoint):
    for batch in range(5):
        checkpoint.commit(Manifest(batch=batch))
    checkpoint.retain(2)
    with pytest.raises(AlreadyCommitted, match="long ago"):
        checkpoint.commit(Manifest(batch=1))
    assert checkpoint.batches() == [3, 4]


def test_of_many_that_commit_at_once_one_succeeds(checkpoint):
    outcomes = []

    def attempt(number):
        try:
            checkpoint.commit(Manifest(batch=0, plan={"number": number}))
            outcomes.append(number)
        except AlreadyCommitted:
            outcomes.append(None)

    threads = [threading.Thread(target=attempt, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (number for number in outcomes if number is not None)
    assert len(outcomes) == 8
    assert checkpoint.last().plan == {"number": winner}


def test_values_that_json_cannot_hold_are_not_committed(checkpoint):
    with pytest.raises(ValueError, match="JSON"):
        checkpoint.commit(Manifest(batch=0, metrics={"x": float("nan")}))
    assert checkpoint.last() is None


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    def parts():
        yield b"half"
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_whole(tmp_path / "x", parts())
    assert list(tmp_path.iterdir()) == []


# --- lock ----------------------------------------------------------------------------------------


def test_a_second_process_is_refused_and_told_who_holds_the_lock(tmp_path):
    """And the kernel lets go of the lock when its holder is killed."""
    holder = child([TESTS / "state_driver.py"], tmp_path, 10**6)
    assert holder.stdout.readline() == "locked\n"
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    with pytest.raises(InputError, match=f"in use by process {holder.pid} on .* since 20"):
        checkpoint.lock()
    holder.kill()
    holder.communicate()
    checkpoint.lock().release()


def test_a_lock_is_held_until_it_is_released(tmp_path, checkpoint):
    since = f"process {os.getpid()} .* since 1970-01-01T00:00:00Z"
    with checkpoint.lock(clock=lambda: 0.0), pytest.raises(InputError, match=since):
        Checkpoint.open(tmp_path).lock()
    lock = checkpoint.lock()
    lock.release()
    lock.release()
    checkpoint.lock().release()


# --- kill ----------------------------------------------------------------------------------------


def kill_at_random(tmp_path, kills, seed):
    """Start a driver, kill it at a random moment, look: `kills` times over one checkpoint."""
    chance = random.Random(seed)
    committed = -1
    for _ in range(kills):
        driver = child([TESTS / "state_driver.py"], tmp_path, 10**6)
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
            assert_state(checkpoint, committed)
    return committed


@pytest.mark.slow
def test_a_killed_driver_leaves_exactly_the_last_committed_state(tmp_path):
    committed = kill_at_random(tmp_path, kills=8, seed=3)
    checkpoint = Checkpoint.open(tmp_path)
    for _ in range(4):
        committed = commit_next(checkpoint)
    assert_state(checkpoint, committed)
    checkpoint.retain(1)
    checkpoint.collect_garbage()
    named = {segment.file for segment in checkpoint.last().segments}
    assert set(os.listdir(checkpoint.segments_directory)) == named
    assert os.listdir(checkpoint.directory / "manifests") == [f"{committed:010d}.json"]


DIES_AT_A_STEP = textwrap.dedent(
    """
    import builtins, os, pyarrow, signal, sys
    from evenflow.state import Checkpoint, durable
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
                assert_state(checkpoint, batch)
        kills += codes.count(-signal.SIGKILL)
        if not any(codes):  # a batch has no more calls of this kind than that
            break
    _, err = forker.communicate()
    assert (forker.returncode, err) == (0, "")
    assert not any(codes)
    assert kills >= 2
    assert_state(checkpoint, commit_next(checkpoint))


# --- retention and garbage -----------------------------------------------------------------------


def test_old_versions_stay_readable_as_long_as_they_are_kept(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    for _ in range(30):
        commit_next(checkpoint)
    assert len(checkpoint.batches()) <= 4 + 2
    for batch in checkpoint.batches():
        manifest = Checkpoint.open(tmp_path).manifest(batch)
        expected = expected_state(batch)
        state, _ = look_up(
            checkpoint.segments_directory,
            manifest.segments,
            fingerprints(list(expected)),
            keys_of(expected),
        )
        assert state["at"].to_pylist() == list(expected.values())


def test_garbage_is_what_no_kept_manifest_names_and_no_running_batch_writes(tmp_path, checkpoint):
    directory = checkpoint.segments_directory
    old, new, lost, failed, running = (
        write_segment(directory, numbered(range(5), batch), 0, [0]) for batch in (0, 1, 0, 1, 2)
    )
    unfinished = [f"{lost.file}.1234.tmp", f"{running.file}.1234.tmp"]
    for name in [*unfinished, "notes.txt"]:
        (directory / name).touch()
    assert checkpoint.collect_garbage() == []  # nothing is committed: everything may be under way
    checkpoint.commit(Manifest(batch=0, segments=[old]))
    checkpoint.commit(Manifest(batch=1, segments=[new]))
    (checkpoint.directory / "manifests" / "0000000001.json.77.tmp").touch()
    assert checkpoint.collect_garbage() == sorted(
        [lost.file, failed.file, unfinished[0], "0000000001.json.77.tmp"]
    )
    kept = {old.file, new.file, running.file, unfinished[1], "notes.txt"}
    assert set(os.listdir(directory)) == kept
    assert checkpoint.retain(1) == [0]
    assert checkpoint.collect_garbage() == [old.file]
    assert checkpoint.retain(1) == []


def test_nothing_is_collected_while_a_manifest_cannot_be_read(tmp_path, checkpoint):
    old = write_segment(checkpoint.segments_directory, numbered(range(5), 0), 0, [0])
    checkpoint.commit(Manifest(batch=0, segments=[old]))
    checkpoint.commit(Manifest(batch=1))
    checkpoint.manifest_file(0).write_text("{}")
    with pytest.raises(DamagedState, match=r"0000000000\.json"):
        Checkpoint.open(tmp_path).collect_garbage()
    assert os.listdir(checkpoint.segments_directory) == [old.file]


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
    assert not [name for name in os.listdir(checkpoint.segments_directory) if name.endswith("tmp")]
    assert_state(checkpoint, commit_next(checkpoint))


def test_a_read_only_checkpoint_stops_with_a_clear_error_and_resumes_after(tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    commit_next(checkpoint)
    directories = [checkpoint.segments_directory, checkpoint.directory / "manifests"]
    prepare = ""
    if os.getuid() == 0:  # root may write everywhere: be somebody else, who may pass to the files
        prepare = "import os; os.setuid(65534)"
        for directory in (tmp_path, *tmp_path.parents):
            if directory.stat().st_uid == 0 and "pytest" in str(directory):
                directory.chmod(0o755)
    for directory in directories:
        directory.chmod(0o555)
    said = in_child(tmp_path, prepare)
    assert f"cannot write {checkpoint.segments_directory}" in said
    assert "let this user write there" in said
    for directory in directories:
        directory.chmod(0o755)
    assert_state(checkpoint, commit_next(checkpoint))


def test_a_checkpoint_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot create"):
        Checkpoint.open(tmp_path / "file", IDENTITY)


# --- damage --------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data(), st.integers(1, 255))
def test_a_flipped_byte_in_a_manifest_is_detected(data, xor):
    segment = Segment("00000-0000000001-ab.seg", 0, (0,), 1, 2, 3, 1, 1)
    content = bytearray(
        dump(Manifest(batch=1, plan={"x": 1.5}, segments=[segment], metrics={"a": "é"}))
    )
    content[data.draw(st.integers(0, len(content) - 1))] ^= xor
    with pytest.raises(DamagedState, match="somewhere"):
        load(bytes(content), "somewhere")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"content": {}}'])
def test_what_is_no_manifest_is_named(tmp_path, checkpoint, content):
    checkpoint.commit(Manifest(batch=0))
    checkpoint.manifest_file(0).write_bytes(content)
    with pytest.raises(DamagedState, match=r"0000000000\.json is damaged"):
        Checkpoint.open(tmp_path).last()


@settings(max_examples=60)
@given(data=st.data(), xor=st.integers(1, 255))
def test_verify_names_every_file_with_a_flipped_byte(small_checkpoint, data, xor):
    files = sorted(
        file for file in small_checkpoint.rglob("*") if file.is_file() and file.name != "lock"
    )
    hurt = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True))
    before = {file: file.read_bytes() for file in hurt}
    try:
        for file in hurt:
            content = bytearray(before[file])
            content[data.draw(st.integers(0, len(content) - 1))] ^= xor
            file.write_bytes(content)
        found = verify(small_checkpoint)
        manifests = [file for file in hurt if file.parent.name == "manifests"]
        # A segment that only damaged manifests name cannot be known to be one.
        known = {
            segment.file
            for batch in Checkpoint(small_checkpoint / "evenflow", {}).batches()
            if (file := Checkpoint(small_checkpoint / "evenflow", {}).manifest_file(batch))
            not in manifests
            for segment in load(file.read_bytes()).segments
        }
        expected = {f for f in hurt if f.suffix != ".seg" or f.name in known}
        assert set(found.problems) >= {str(file) for file in expected}
        assert not found.intact or not expected
    finally:
        for file, content in before.items():
            file.write_bytes(content)


@pytest.fixture(scope="module")
def small_checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("small")
    checkpoint = Checkpoint.open(path, {"key": ["number"]})
    for _ in range(6):
        commit_next(checkpoint)
    return path


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "swapped"])
def test_verify_names_a_segment_that_is_not_what_it_was(tmp_path, how):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    for _ in range(3):
        commit_next(checkpoint)
    one, two = checkpoint.last().segments[:2]
    file = checkpoint.segments_directory / one.file
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    else:
        other = (checkpoint.segments_directory / two.file).read_bytes()
        file.write_bytes({"empty": b"", "cut": content[:-1], "swapped": other}[how])
    assert list(verify(tmp_path).problems) == [str(file)]


def segment_of(checkpoint, numbers, owner, **changes):
    segment = write_segment(checkpoint.segments_directory, numbered(numbers, 3), owner, [0])
    return replace(segment, **changes)


@pytest.mark.parametrize(
    ("owner", "changes", "message"),
    [
        (1, {}, "belong to another owner"),
        (0, {"rows": 7}, "instead of 7"),
        (0, {"lowest_batch": 0, "highest_batch": 2}, "other batches"),
        (0, {"epochs": (0, 4)}, "epochs \\[4\\]"),
    ],
)
def test_verify_checks_what_the_manifest_says_of_a_segment(checkpoint, owner, changes, message):
    numbers = [n for n in range(50) if Owners(WORKERS)(fingerprints([n]))[0] == 0]
    segment = segment_of(checkpoint, numbers, owner, **changes)
    places = {0: Owners(WORKERS).to_json()}
    checkpoint.commit(Manifest(batch=3, placements=places, segments=[segment]))
    (what,) = verify(checkpoint.directory.parent).problems.values()
    assert re.search(message, what)


def test_verify_finds_a_key_that_is_there_twice(checkpoint):
    segment = segment_of(checkpoint, [1, 1], 0)
    places = {0: Owners(1).to_json()}
    checkpoint.commit(Manifest(batch=3, placements=places, segments=[segment]))
    (what,) = verify(checkpoint.directory.parent).problems.values()
    assert "two rows for one key" in what


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["state", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_show_says_what_is_in_a_checkpoint(run, small_checkpoint):
    code, out, err = run("show", small_checkpoint, "--json")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert shown == contents(small_checkpoint)
    assert shown["batches"]["last"] == 5
    assert shown["keys"] == len(expected_state(5))
    assert shown["rows"] == sum(owner["rows"] for owner in shown["owners"]) >= shown["keys"]
    assert [owner["owner"] for owner in shown["owners"]] == [0, 1]
    assert shown["plan"] == {"scheme": "key"}
    code, out, _ = run("show", small_checkpoint)
    assert code == 0
    assert "batch 5 is committed" in out
    assert f"{shown['keys']} keys" in out


def test_show_before_the_first_batch(run, tmp_path, checkpoint):
    assert json.loads(run("show", tmp_path, "--json")[1])["keys"] == 0
    assert "no batch" in run("show", tmp_path)[1]


def test_show_lists_hot_keys(run, tmp_path, checkpoint):
    hot = [{"key": '["\u001b[31mx"]', "lower": 3, "upper": 5}]
    checkpoint.commit(Manifest(batch=0, metrics={"hot_keys": hot}))
    assert json.loads(run("show", tmp_path, "--json")[1])["hot_keys"] == hot
    out = run("show", tmp_path)[1]
    assert "lower 3, upper 5" in out
    assert "\x1b" not in out


def test_verify_exits_with_0_if_all_is_well_and_1_if_not(run, tmp_path):
    checkpoint = Checkpoint.open(tmp_path, {"key": ["number"]})
    commit_next(checkpoint)
    code, out, err = run("verify", tmp_path)
    assert (code, err) == (0, "")
    assert "all is well" in out
    assert json.loads(run("verify", tmp_path, "--json")[1])["intact"] is True
    file = checkpoint.segments_directory / checkpoint.last().segments[0].file
    file.write_bytes(file.read_bytes()[:-1])
    code, out, err = run("verify", tmp_path)
    assert code == 1
    assert str(file) in err
    assert "1 damaged" in out
    code, out, _ = run("verify", tmp_path, "--json")
    assert code == 1
    assert [problem["file"] for problem in json.loads(out)["problems"]] == [str(file)]
    code, _, err = run("show", tmp_path)
    assert code == 2
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "verify"])
def test_what_is_no_checkpoint_is_refused_in_one_line(run, tmp_path, command):
    code, out, err = run(command, tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "is not a checkpoint" in err
    assert err.count("\n") == 1
