"""Bugs that the simulation must find: each puts one mistake into the product, or into what it rests on.

A bug is a function that is given pytest's `monkeypatch`. It may return a store in place of the model's.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

import evenflow.engine.due_keys as due_keys
import evenflow.engine.kept_rows as kept_rows
import evenflow.engine.loop as loop
import evenflow.engine.processor_states as processor_states
import evenflow.engine.program as program
import evenflow.engine.task as task
import evenflow.kafka.consumer_changelog as consumer_changelog
import evenflow.kafka.consumer_partition as consumer_partition
import evenflow.kafka.consumer_topics as consumer_topics
import evenflow.kafka.gateway_source as gateway_source
import evenflow.state.checkpoint as checkpoint
import evenflow.state.leftovers as leftovers
from evenflow.engine.expiring_states import ExpiringStates
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.loop import Loop
from evenflow.engine.task import Task
from evenflow.kafka.consumer_config import ConsumerConfig
from evenflow.kafka.consumer_loading import Loader
from evenflow.kafka.consumer_transaction import Transactions
from evenflow.ordering import Reader
from evenflow.spark.sinks.parquet import ParquetSink, complete_batches
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.records import place_after
from evenflow_lab.checking.simulation import queries
from evenflow_lab.checking.simulation.kinds import LIGHT
from evenflow_lab.checking.simulation.schedule import CONSUMERS
from evenflow_lab.checking.simulation.store import Store


def skipped_fence(monkeypatch):
    """A commit takes whatever place comes next, and does not ask whose turn it is."""

    def commit(self, manifest):
        newest = self._find_newest()
        place = place_after(*newest)
        manifest = checkpoint.replace(manifest, fence=self._fence)
        if place.batch == manifest.batch:
            self.storage.create(place.name, checkpoint.content_of_record(manifest))
        self._known[place] = manifest
        self._newest = (place, manifest)

    monkeypatch.setattr(Checkpoint, "commit", commit)


def taken_over_and_going_on(monkeypatch):
    """A driver that was taken over before its first commit goes on from the other one's batches."""

    def last(self):
        if self._newest is not None and isinstance(self._newest[1], checkpoint.Manifest):
            return self._newest[1]
        records = map(self.record, reversed(self.places()))
        return next((r for r in records if isinstance(r, checkpoint.Manifest)), None)

    real = Checkpoint._place_of

    def place_of(self, manifest, newest):
        if newest is not None and newest[0].batch < manifest.batch:
            return checkpoint.Place(manifest.batch)
        return real(self, manifest, newest)

    monkeypatch.setattr(Checkpoint, "last", last)
    monkeypatch.setattr(Checkpoint, "_place_of", place_of)


def leftovers_by_an_old_answer(monkeypatch):
    """A new driver asks what is committed, and only then looks what there is to delete."""

    def drop(found, *staged):
        found.confirm()
        last = found.last()
        latest = -1 if last is None else last.batch
        names = found.storage.list("segments/")
        found.storage.delete(*(name for name in names if not leftovers.is_over(name, latest)))

    monkeypatch.setattr(queries, "drop_uncommitted", drop)


def takeovers_are_cleared(monkeypatch):
    """Only the record that counts stays of each batch, so a place that was taken is free again."""

    def retain(self, keep=10):
        found = self._all_places()
        kept = checkpoint.counting(found)[-keep - 1 :]
        self.storage.delete(*(place.name for place in found if place not in kept))

    monkeypatch.setattr(checkpoint, "TURNS", 1)
    monkeypatch.setattr(Checkpoint, "retain", retain)


class ForgetfulStore(Store):
    """Segments are written and not synced."""

    def write(self, name, content):
        super().write(name, content)
        if "/segments/" in name:
            self.unsynced[name] = None


def missing_sync(monkeypatch):
    """A segment is not durable when its write returns."""
    return ForgetfulStore


def one_batch_too_many_is_skipped(monkeypatch):
    """The loop takes the batch after the last committed one for committed."""
    real = Loop._run

    def run(self, rows, last, *others):
        if last is None or last.batch % 2:
            real(self, rows, last, *others)

    monkeypatch.setattr(Loop, "_run", run)


def uncommitted_by_one(monkeypatch):
    """A new driver takes what the last committed batch has written for uncommitted."""
    real = leftovers.is_over
    monkeypatch.setattr(leftovers, "is_over", lambda name, latest: real(name, latest - 1))


def hand_over_without_waiting(monkeypatch):
    """A key that moved is handled at once, before its old owner is done with it."""

    def reader(effects, snapshot, buffering):
        return Reader(effects, snapshot, buffering=False)

    monkeypatch.setattr(consumer_partition, "Reader", reader)


def open_transactions_are_not_waited_for(monkeypatch):
    """A partition's next owner reads the changelog up to the first open transaction only."""
    real = consumer_changelog.end_offsets

    def ends(*arguments):
        return {partition: min(end, 1) for partition, end in real(*arguments).items()}

    monkeypatch.setattr(consumer_changelog, "end_offsets", ends)
    monkeypatch.setattr(Loader, "_note_mismatch", lambda *arguments: None)


def retried_without_looking(monkeypatch):
    """A transaction whose end nobody knows is retried as if it had surely been without effect."""
    real = Transactions._abort

    def abort(self, error, asked):
        real(self, error, False)

    monkeypatch.setattr(Transactions, "_abort", abort)


def skipping_by_number(monkeypatch):
    """A batch whose number is committed is skipped, whichever rows it has."""
    monkeypatch.setattr(loop, "_check_committed", lambda *arguments: None)


def dropping_after_a_restore(monkeypatch):
    """A sink that has a batch of this number keeps it, whichever rows it was made of."""
    real = ParquetSink._copy

    def copy(self, output):
        if output.batch not in complete_batches(self.storage):
            real(self, output)

    monkeypatch.setattr(ParquetSink, "_copy", copy)


def moved_state_stays_behind(monkeypatch):
    """A new routing table moves a key, and not the state that the key has without new rows."""
    monkeypatch.setattr(Task, "_arriving", lambda self, new: None)


def late_by_an_old_watermark(monkeypatch):
    """A batch closes windows by the watermark of the batch before, as a driver that forgot would."""
    real = program.Watermarks.after

    def after(event_time):
        found = real(event_time)
        return found._replace(closed=found.late)

    monkeypatch.setattr(program.Watermarks, "after", after)


def a_last_batch_is_forgotten(monkeypatch):
    """A driver that finds a last batch begun and not committed goes on with the next rows."""
    monkeypatch.setattr(Loop, "_end_closing", lambda self, last, rows: last)


def timers_stay_behind(monkeypatch):
    """A new routing table moves a key with its state, and not the entries of its timers."""
    real = processor_states.new_looks
    monkeypatch.setattr(
        processor_states, "new_looks", lambda keys, old, new, arriving: real(keys, old, new, ())
    )


def what_is_over_lives_on(monkeypatch):
    """Rows that come after the end of their key's state find it, if nobody looked at the key before."""
    monkeypatch.setattr(ExpiringStates, "look_up", KeyedStates.look_up)


def what_is_forgotten_is_dropped(monkeypatch):
    """A key without state leaves at once, although an older version of it may lie elsewhere."""

    def dropped(batch, partition, table):
        empty = [
            table.column(name).is_valid() for name in due_keys.state_columns(table.schema.names)
        ]
        return table.filter(reduce(due_keys.pa.compute.or_, empty))

    monkeypatch.setattr(task, "without_forgotten", dropped)


def parts_without_a_past(monkeypatch):
    """The parts of a split key know only the rows that came since there are parts."""
    monkeypatch.setattr(kept_rows, "every_pair", lambda number, group: 2 * (np.zeros(0, np.int64),))


def lanes_without_topic(monkeypatch):
    """The partitions of two source topics share their lanes."""
    monkeypatch.setattr(gateway_source, "source_number", lambda topic, partition: partition)


def control_records_expire(monkeypatch):
    """The control topic has the broker's retention, and a gap in it is skipped."""
    real = ConsumerConfig.control_settings
    monkeypatch.setattr(consumer_topics, "_CONTROL", {"cleanup.policy": "delete"})
    monkeypatch.setattr(Loader, "_refuse_gaps", lambda *arguments: None)
    monkeypatch.setattr(
        ConsumerConfig,
        "control_settings",
        lambda self, group: {**real(self, group), "auto.offset.reset": "earliest"},
    )


_STOPPED = ("freeze", "frozen clock", "second driver", "crash")

#: bug → the kind of work that it is looked for in, and the faults, if not all of them
BUGS = {
    skipped_fence: (LIGHT, None),
    missing_sync: (LIGHT, None),
    one_batch_too_many_is_skipped: (LIGHT, None),
    uncommitted_by_one: (LIGHT, None),
    hand_over_without_waiting: (CONSUMERS, None),
    open_transactions_are_not_waited_for: (CONSUMERS, None),
    retried_without_looking: (CONSUMERS, None),
    skipping_by_number: (LIGHT, None),
    dropping_after_a_restore: (LIGHT, None),
    moved_state_stays_behind: ("moved", None),
    late_by_an_old_watermark: ("windows, append", None),
    a_last_batch_is_forgotten: ("windows, append", None),
    timers_stay_behind: ("timers", None),
    what_is_over_lives_on: ("endings", None),
    what_is_forgotten_is_dropped: ("timers", None),
    parts_without_a_past: ("joins, outer", None),
    lanes_without_topic: (CONSUMERS, None),
    control_records_expire: (CONSUMERS, None),
    # What the simulation has found itself, put back. These are rare: only drivers that are stopped.
    taken_over_and_going_on: (LIGHT, _STOPPED),
    leftovers_by_an_old_answer: (LIGHT, _STOPPED),
    takeovers_are_cleared: (LIGHT, ("frozen clock", "crash")),
}
