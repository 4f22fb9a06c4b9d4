"""Which work a job's tasks do: on keys, on keys in windows, or on pairs of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from evenflow.engine.job import Job
from evenflow.engine.join_work import JoinWork
from evenflow.engine.windowed_work import WindowOwnerWork, WindowSplitWork
from evenflow.engine.work import OwnerWork, SplitWork, Store
from evenflow.model.owners import Owners

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def split_work(job: Job, owners: Owners, store: Store | None) -> Work:
    """What a worker does whose keys may have other workers, too."""
    kind = SplitWork if job.window is None else WindowSplitWork
    return kind(job, owners, store)


def owner_work(job: Job, split: bool, store: Store | None) -> Work:
    """What an owner of keys does."""
    if job.joins:
        return JoinWork(job, store)
    return (OwnerWork if job.window is None else WindowOwnerWork)(job, split, store)
