"""What the tasks of one batch begin with: committed state, owners, watermarks, and where to write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from evenflow.engine.dead_letters import LetterBox
from evenflow.engine.event_time import Moment, Watermarks
from evenflow.model.owners import Owners
from evenflow.model.split_keys import SplitKeys
from evenflow.state.segments import Segment
from evenflow.storage import Storage


class Retiring(NamedTuple):
    """A segment whose rows are no longer to be found by owners of the past.

    Parameters:
        file: of the segment.
        epochs: of the owners that it no longer names once the batch is done.
    """

    file: str
    epochs: tuple[int, ...]


class Batch(NamedTuple):
    """A batch of a streaming query: everything but its rows.

    Parameters:
        number: of the batch.
        storage: the checkpoint's: segments, and the tasks' reports.
        output: where the files of the output are written.
        segments: the committed state.
        owners: epoch → who owned which key.
        epoch: the one that holds in this batch.
        watermarks: how far event time had come, for state that expires.
        moment: when the batch began, in milliseconds, by the source's log; None if it does not say.
        moment_before: when the batch before it did.
        due: which keys are to be looked at when.
        arriving: keys whose owner changes now, with or without rows.
        superseded: the epoch that `epoch` replaces, because all of its moves are made.
        retiring: rows that are written again by their owners, so that owners of the past can go.
        count_keys: whether tasks report what each key has cost.
        attempt: of the batch; a report of an earlier one, maybe under another plan, is not read.
        letters: for rows that the operator fails for; None to stop at the first of them.
        split: the keys of a join that several tasks share.
    """

    number: int
    storage: Storage
    output: Storage
    segments: tuple[Segment, ...]
    owners: Mapping[int, Owners]
    epoch: int
    watermarks: Watermarks = Watermarks()
    moment: Moment = None
    moment_before: Moment = None
    due: tuple[Segment, ...] = ()
    arriving: tuple[int, ...] = ()
    superseded: int | None = None
    retiring: Retiring | None = None
    count_keys: bool = False
    attempt: int = 0
    letters: LetterBox | None = None
    split: SplitKeys = SplitKeys()

    def owners_after(self) -> dict[int, Owners]:
        """Epoch → owners once this batch is done."""
        owners = dict(self.owners)
        if self.superseded is not None:
            owners[self.superseded] = owners[self.epoch]
        return owners

    def epochs_after(self, segments: Iterable[Segment]) -> tuple[int, ...]:
        """The epochs of a segment that this batch makes from some others."""
        old = {epoch for segment in segments for epoch in segment.epochs} - {self.superseded}
        return tuple(sorted({self.epoch, *old}))

    def under_new_epoch(self, segments: Iterable[Segment]) -> list[Segment]:
        """The segments as the next batch knows them, if this one has made all moves of an epoch."""
        return [
            replace(segment, epochs=self.epochs_after([segment]))
            if self.superseded in segment.epochs
            else segment
            for segment in segments
        ]

    def staged(self, name: str) -> str:
        """The name of a file of this batch that goes away after it."""
        return f"staging/{self.number:010d}-{name}"

    def report_of(self, partition: int) -> str:
        """Where a task reports that cannot do so among its rows."""
        return self.staged(f"work-{self.attempt}-{partition:05d}.json")
