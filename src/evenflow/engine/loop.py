"""The loop of a checkpointed query: batches in sequence, each of them committed once.

    source ─▶ route ─▶ shuffle ─▶ work ─▶ merge ─▶ output
                ▲                    │ statistics
                └──── new plan ◀── plan ◀── observe

One turn is one batch. What a query does with a batch is a `Program`; what all queries do around it is
here: the sequence of batches, the commit, metrics, cleaning up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from evenflow.engine.batch_log import log_batch
from evenflow.engine.event_time import Watermarks
from evenflow.model import InputError
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.journal import begin_closing, forget_plans, is_closing, of_batches
from evenflow.state.manifest import Manifest
from evenflow.state.metrics import compact_metrics, put_metrics
from evenflow.state.source import Source, check_same_log, check_same_rows
from evenflow.storage import Storage
from evenflow.storage.requests import Requests, counting

COLLECT_EVERY = 16  #: batches between two collections of garbage
GRACE = 600.0  #: seconds that garbage stays for tasks and readers that may still be at work with it

Metrics = Mapping[str, Any]


class Steps:
    """How long each step of a batch took."""

    def __init__(self) -> None:
        self.began = time.time()
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True)
class Outcome:
    """What a batch has come to, ready to be committed.

    Parameters:
        manifest: what the next batch starts from.
        staged: (storage, name) of files that are of no use once it is committed.
        committed: called after the commit.
    """

    manifest: Manifest
    staged: Sequence[tuple[Storage, str]] = ()
    committed: Callable[[], object] = lambda: None


class Program(Protocol):
    """What a query does with each of its batches."""

    @property
    def name(self) -> str | None:
        """The name of the query, for the log."""
        ...

    def run(
        self,
        checkpoint: Checkpoint,
        last: Manifest | None,
        rows: Any,
        batch: int,
        steps: Steps,
        source: Source,
    ) -> Outcome:
        """Compute a batch from its rows and the manifest before it, and deliver its output.

        Guarantee: run again, it gives the same state and output.
        """
        ...


def _no_log(batch: int) -> Source:
    return Source()


def _without_rows(rows: Any) -> Any:
    return rows.slice(0, 0)


@dataclass(frozen=True)
class Loop:
    """Turns one batch after the other into state and output, each exactly once.

    Parameters:
        program: what happens in a batch.
        checkpoint: all that must outlive the driver.
        on_batch: called with the metrics of each batch, after it was committed.
        keep: how many old versions of the state stay.
        grace: seconds that garbage stays, for tasks and readers that may still be at work with it.
        source_of: says which rows a batch has; the default for sources that have no log.
        clock: gives seconds, for the grace of garbage.
        without_rows: makes an empty batch of a batch's rows; the default is for tables of Arrow's.
    """

    program: Program
    checkpoint: Checkpoint
    on_batch: Callable[[Metrics], object] | None = None
    keep: int = 10
    source_of: Callable[[int], Source] = field(default=_no_log)
    clock: Callable[[], float] = time.monotonic
    staged: set[Storage] = field(default_factory=set)  #: where files of batches may be left behind
    grace: float = GRACE
    without_rows: Callable[[Any], Any] = _without_rows
    begun: set[bool] = field(default_factory=set)  #: True once it was called with rows

    def __call__(self, rows: Any, batch: int) -> None:
        """Run a batch of the source.

        Parameters:
            rows: of the batch.
            batch: its number, as the source counts.
        """
        with counting() as requests:
            last, source = self.checkpoint.last(), self.source_of(batch)
            if last is not None and last.source_batch >= batch:
                _check_committed(self.checkpoint, batch, source)
                return  # the driver died before Spark knew
            _check_sequence(self.checkpoint, last, batch, source)
            last = self._end_closing(last, rows)
            closings = 0 if last is None else last.closings
            self._run(rows, last, source, closings, requests)

    def close(self, no_rows: Any) -> bool:
        """Run one more batch, without rows, if the last one let event time pass something that is put
        out then; whether it did. As Spark does when a stream has no more rows for now.

        Parameters:
            no_rows: an empty batch.
        """
        last = self.checkpoint.last()
        if last is None or not Watermarks.after(last.event_time).waiting:
            return False
        if not begin_closing(self.checkpoint.storage, last.batch + 1):
            return False
        self._close(last, no_rows)
        return True

    def _close(self, last: Manifest, no_rows: Any) -> None:
        with counting() as requests:
            self._run(no_rows, last, Source.from_json(last.source), last.closings + 1, requests)

    def _end_closing(self, last: Manifest | None, rows: Any) -> Manifest | None:
        """Run the batch without rows that an earlier driver has begun and not committed: what it has
        delivered must not be taken for the output of these rows."""
        storage = self.checkpoint.storage
        if last is not None and not self.begun and is_closing(storage, last.batch + 1):
            self._close(last, self.without_rows(rows))
            last = self.checkpoint.last()
        self.begun.add(True)
        return last

    def _run(
        self, rows: Any, last: Manifest | None, source: Source, closings: int, requests: Requests
    ) -> None:
        steps = Steps()
        checkpoint = self.checkpoint
        batch = 0 if last is None else last.batch + 1
        try:
            outcome = self.program.run(checkpoint, last, rows, batch, steps, source)
        except Exception:
            checkpoint.confirm()  # a driver that was taken over says that, whatever it stumbled over
            raise
        manifest = replace(outcome.manifest, source=source.to_json(), closings=closings)
        checkpoint.commit(manifest)
        steps.done("commit")
        for storage in {storage for storage, _ in outcome.staged}:
            storage.delete(*(name for of, name in outcome.staged if of == storage))
            self.staged.add(storage)
        outcome.committed()
        metrics = {
            **outcome.manifest.metrics,
            "began": steps.began,
            "durations": steps.seconds,
        }
        if self.program.name is not None:
            metrics["name"] = self.program.name
        if checkpoint.storage.concurrency > 1:
            made_by_tasks = outcome.manifest.metrics.get("requests", {})
            metrics["requests"] = {"driver": requests.to_dict(), **made_by_tasks}
        put_metrics(checkpoint.storage, metrics)
        if batch % COLLECT_EVERY == COLLECT_EVERY - 1:
            self._clean_up(batch)
        log_batch(metrics, self.program.name)
        if self.on_batch is not None:
            self.on_batch(metrics)

    def _clean_up(self, batch: int) -> None:
        """Drop what batches up to this one, which is committed, have left behind."""
        checkpoint = self.checkpoint
        checkpoint.retain(self.keep)
        checkpoint.collect_garbage(self.grace, self.clock)
        forget_plans(checkpoint.storage, batch)
        compact_metrics(checkpoint.storage)
        for storage in {checkpoint.storage, *self.staged}:
            storage.delete(*of_batches(storage.list("staging/"), "staging/", batch))


def _check_committed(checkpoint: Checkpoint, batch: int, source: Source) -> None:
    manifests = checkpoint.manifests().values()
    committed = next((one.source for one in manifests if one.source_batch == batch), None)
    check_same_rows(batch, source, committed, checkpoint.location)


def _check_sequence(
    checkpoint: Checkpoint, last: Manifest | None, batch: int, source: Source
) -> None:
    expected = 0 if last is None else last.source_batch + 1
    if batch != expected:
        raise InputError(
            f"Spark is at batch {batch} and the state in {checkpoint.storage.where()} is at batch "
            f"{expected}: one of the two was changed by hand; restore the whole checkpoint location, "
            "or start with a new one"
        )
    check_same_log(batch, source, {} if last is None else last.source, checkpoint.location)
