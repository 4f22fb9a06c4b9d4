"""A query that goes on from its checkpoint, perhaps as a newer version of what has made it."""

from __future__ import annotations

import logging
from typing import NoReturn

from evenflow.engine.job import Job
from evenflow.engine.stored_state import key_names_of
from evenflow.model import InputError
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.manifest import FORMAT, Manifest

_LOG = logging.getLogger("evenflow.query")


def resumed(job: Job, checkpoint: Checkpoint) -> Job:
    """The job, as it goes on with a checkpoint; `InputError` if its state does not fit.

    Guarantee: a start that is repeated, after a crash for instance, comes to the same. Until the first
    batch is committed, the version before may be started again, and goes on as if nothing had been.
    """
    differences = checkpoint.differences(job.identity())
    last = checkpoint.last() if checkpoint.identity.get("format") == FORMAT else None
    if not differences:
        _check_order(job, checkpoint, last)
        return job
    found = None
    if checkpoint.identity.get("format") == FORMAT:
        found = job.resumed(checkpoint.identity, 0 if last is None else last.batch + 1)
    if found is None:
        refuse(checkpoint, differences)
    _check_order(job, checkpoint, last)
    job, identity, changes = found
    if checkpoint.differences(identity):
        checkpoint.carry_over(identity)
        for change in changes:
            _LOG.warning("%s: %s", checkpoint.location, change)
    return job


def _check_order(job: Job, checkpoint: Checkpoint, last: Manifest | None) -> None:
    """Refuse key columns in another order: (x, y) would go on with what is kept of (y, x)."""
    before = key_names_of(last, checkpoint.identity)
    if before is not None and before != list(job.key):
        raise InputError(
            f"the key was {', '.join(before)} in the checkpoint {checkpoint.location} and is "
            f"{', '.join(job.key)} now; give the columns in the order they had, or start with a "
            "checkpoint location of its own"
        )


def refuse(checkpoint: Checkpoint, differences: list[str]) -> NoReturn:
    """Refuse the checkpoint of another computation."""
    raise InputError(
        f"the checkpoint {checkpoint.location} was made by another computation "
        f"({'; '.join(differences)}); start this one with a checkpoint location of its own"
    )
