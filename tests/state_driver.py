"""A driver of its own: commits batch after batch until it is killed. Run by the tests of state."""

import sys

from evenflow.model.owners import Owners
from evenflow.state import Checkpoint, Manifest
from state_rows import write_batch

WORKERS = 2


def numbers_of(batch):
    """The keys that a batch touches: some again and again, some new."""
    return sorted({(batch * batch * 7 + i * 13) % (40 + 3 * batch) for i in range(20)})


def commit_next(checkpoint):
    """One batch, as the control loop does it."""
    last = checkpoint.last()
    batch = 0 if last is None else last.batch + 1
    segments = write_batch(checkpoint, last, batch, numbers_of(batch), WORKERS)
    checkpoint.commit(
        Manifest(
            batch=batch,
            plan={"scheme": "key"},
            placements={0: Owners(WORKERS).to_json()},
            segments=segments,
        )
    )
    if batch % 3 == 2:
        checkpoint.retain(4)
        checkpoint.collect_garbage()
    return batch


def main(path, most):
    checkpoint = Checkpoint.open(path, {"key": ["number"]})
    with checkpoint.lock():
        print("locked", flush=True)
        for _ in range(most):
            print(commit_next(checkpoint), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
