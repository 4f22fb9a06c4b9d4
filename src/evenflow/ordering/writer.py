"""The writer: the headers of messages, and the markers of a move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.ordering.headers import (
    FIRST,
    I32,
    LAST,
    MESSAGE,
    NO_SET,
    U64,
    Header,
    Headers,
    marker_column,
    pack,
    set_number,
)


class Record(NamedTuple):
    """One record to append to a log."""

    partition: int
    key: bytes
    value: bytes | None
    headers: Headers


class Place(NamedTuple):
    """Where a tracked key is, and its current message set."""

    partition: int
    set: int


@dataclass
class Writer:
    """Assigns every message its partition and headers, and writes two markers per move.

    Append the records to the log in the order returned; the order between partitions does not matter.
    A key has one writer at a time.

    Guarantee: in every partition, positions (epoch, sequence) are strictly increasing; every move of a
    key begins a message set with a larger number; and the markers of an epoch precede its messages.

    Parameters:
        writer: this writer's number, unique among the writers of a log.
        partitions: of the log.
        home: the partition of a key that is not tracked, usually by a hash.
        epoch: the first epoch, above every epoch of earlier runs of this writer, for example the time
            in milliseconds. To rewrite an earlier run, begin where it began: readers drop what they
            have seen.
        table: where tracked keys are, from an earlier run.

    Example:
        >>> writer = Writer(writer=7, partitions=2, home=lambda key: 0)
        >>> writer.message(b"a", b"1").partition
        0
        >>> [(marker.partition, marker.value) for marker in writer.move(b"a", 1)]
        [(0, None), (1, None)]
        >>> writer.message(b"a", b"2").partition
        1

    Paper: SMALOPS, §II, Figures 3 and 4. There the markers are headers of the last message before the
    move and the first one after it, but a message is known to be the last only when the next one
    arrives. Here both markers are records of their own, written when the move is decided.
    """

    writer: int
    partitions: int
    home: Callable[[bytes], int]
    epoch: int = 0
    table: dict[bytes, Place] = field(default_factory=dict)
    _sequences: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.writer < 2**64:
            raise InputError(f"a writer's number has 64 bits, got {self.writer}")
        if self.partitions < 1:
            raise InputError(f"a log has at least one partition, got {self.partitions}")
        set_number(self.epoch, 0)  # checks the epoch
        self._sequences = [0] * self.partitions

    def message(self, key: bytes, value: bytes | None) -> Record:
        """A message, for the partition where its key is."""
        partition, set_id = self.table.get(key) or Place(self.home(key), NO_SET)
        sequence = self._next(partition)
        headers = pack(Header(MESSAGE, self.writer, self.epoch, sequence, set_id))
        return Record(partition, key, value, headers)

    def move(self, key: bytes, to: int) -> list[Record]:
        """The two markers that move a key, in a new epoch; none if it is there already."""
        return self.moves([(key, to)])

    def moves(self, moves: Iterable[tuple[bytes, int]]) -> list[Record]:
        """The markers that move several keys in order, in one new epoch.

        A key that moves home is no longer tracked.
        """
        self.epoch += 1
        records = []
        for number, (key, to) in enumerate(moves):
            if not 0 <= to < self.partitions:
                raise InputError(
                    f"a key cannot move to partition {to}: the log has {self.partitions} partitions"
                )
            home = self.home(key)
            source, previous = self.table.get(key, Place(home, NO_SET))
            if source == to:
                continue
            new = set_number(self.epoch, number)
            for partition, kind, other in ((source, LAST, to), (to, FIRST, source)):
                sequence = self._next(partition)
                header = Header(kind, self.writer, self.epoch, sequence, new, other, previous)
                records.append(Record(partition, key, None, pack(header)))
            if to == home:
                self.table.pop(key, None)
            else:
                self.table[key] = Place(to, new)
        return records

    def all_home(self) -> list[Record]:
        """The markers that move every tracked key home. Written last by a writer that saves no state,
        they let its next run begin with an empty table."""
        return self.moves([(key, self.home(key)) for key in self.table])

    def _next(self, partition: int) -> int:
        sequence = self._sequences[partition]
        self._sequences[partition] = sequence + 1
        return sequence


class BatchMarkers(NamedTuple):
    """The markers of one epoch, to be written before its messages: one row per marker.

    Rows are in the order in which each partition must receive them. `move` is the row of a marker's
    move. `counts` is the number of markers per partition: the sequence of its messages begins there.
    `sets` is the message set that each *move* begins.
    """

    partition: I32
    move: np.ndarray
    headers: pa.ListArray
    counts: U64
    sets: U64


def batch_markers(
    writer: int, epoch: int, source: I32, target: I32, previous: U64, partitions: int
) -> BatchMarkers:
    """The markers of an epoch's moves, vectorised.

    Guarantee: the same records as from `Writer.moves`, given the same moves.

    Parameters:
        writer: the writer's number.
        epoch: the batch.
        source: where each key comes from.
        target: where it goes; differs from `source`.
        previous: its previous message set, 0 if it was not tracked.
        partitions: of the log.

    Example:
        >>> both = batch_markers(7, 3, np.array([0], np.int32), np.array([1], np.int32),
        ...                      np.zeros(1, np.uint64), partitions=2)
        >>> both.partition.tolist(), both.counts.tolist()
        ([0, 1], [1, 1])
    """
    moves = len(source)
    if moves:
        set_number(epoch, moves - 1)
    if (np.asarray(source) == np.asarray(target)).any():
        raise InputError("a key cannot move to the partition where it is; leave such moves out")
    sets = np.uint64(set_number(epoch, 0)) + np.arange(moves, dtype=np.uint64)
    partition = np.stack((source, target), axis=1).reshape(-1).astype(np.int32)
    other = np.stack((target, source), axis=1).reshape(-1).astype(np.int32)
    kind = np.tile(np.array([LAST, FIRST], np.uint8), moves)
    move = np.repeat(np.arange(moves), 2)
    counts = np.bincount(partition, minlength=partitions).astype(np.uint64)
    # A marker's number is its rank among the markers of its partition, in the order of the moves.
    order = np.argsort(partition, kind="stable")
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
    sequence = np.empty(len(partition), np.uint64)
    sequence[order] = np.arange(len(partition)) - np.repeat(starts, counts.astype(np.int64))
    headers = marker_column(
        kind, writer, epoch, sequence, sets[move], other, np.asarray(previous, np.uint64)[move]
    )
    return BatchMarkers(partition, move, headers, counts, sets)
