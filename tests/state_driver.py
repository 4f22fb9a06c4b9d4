"""A driver of its own: commits batch after batch until it is killed. Run by the tests of state."""

import os
import subprocess
import sys
from pathlib import Path

from evenflow.model.owners import Owners
from evenflow.state import Checkpoint, CheckpointError, Manifest, look_up
from evenflow.state.lease import SECONDS, _living
from state_rows import fingerprints, keys_of, write_batch

WORKERS = 2


def numbers_of(batch):
    """The keys that a batch touches: some again and again, some new."""
    return sorted({(batch * batch * 7 + i * 13) % (40 + 3 * batch) for i in range(20)})


def commit_next(checkpoint, source=None):
    """One batch, as the control loop does it."""
    last = checkpoint.last()
    batch = 0 if last is None else last.batch + 1
    segments = write_batch(checkpoint, last, batch, numbers_of(batch), WORKERS)
    checkpoint.commit(
        Manifest(
            batch=batch,
            plan={"scheme": "key"},
            owners={0: Owners(WORKERS).to_json()},
            segments=segments,
            source=source or {},
        )
    )
    if batch % 3 == 2:
        checkpoint.retain(4)
        checkpoint.collect_garbage()
    return batch


def expected_state(batch):
    """Key → the batch that touched it last."""
    return {n: b for b in range(batch + 1) for n in numbers_of(b)}


def assert_state_of(checkpoint, batch):
    """The committed state is exactly that of `batch`."""
    last = checkpoint.last()
    assert last.batch == batch
    expected = expected_state(batch)
    asked = range(max(expected) + 10)
    state, _ = look_up(checkpoint.storage, last.segments, fingerprints(asked), keys_of(asked))
    assert state["at"].to_pylist() == [expected.get(n) for n in asked]


def assert_whole(checkpoint, batch):
    """The committed state is exactly that of `batch`, and every file is whole."""
    from evenflow.state.verification import verify

    assert_state_of(checkpoint, batch)
    assert verify(checkpoint.location).problems == {}


def forget_leases():
    """As if whoever holds a lease in this process had died."""
    for lease in list(_living.values()):
        lease.abandon()


def child(code, *arguments, **options):
    """A Python process that can import the tests' own modules."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, *code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def start_driver(path, seconds=SECONDS):
    """A process that commits until it is killed; it says `locked` first, then each batch."""
    return child([__file__], path, 10**6, seconds)


def main(path, most, seconds):
    checkpoint = Checkpoint.open(path, {"key": ["number"]})
    with checkpoint.acquire(seconds) as lease:
        lease.keep_beating()
        print("locked", flush=True)
        for _ in range(most):
            try:
                print(commit_next(checkpoint), flush=True)
            except CheckpointError:
                checkpoint.confirm()  # as the loop does
                raise


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
