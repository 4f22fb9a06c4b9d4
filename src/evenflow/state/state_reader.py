"""Committed state, looked up by key in all the segments in which it may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.state.container import I64, U64, Container
from evenflow.state.evolution import evolved
from evenflow.state.key_values import Booleans, equal_keys, matched
from evenflow.state.segments import (
    VERSION,
    OwnerFunction,
    Segment,
    key_columns,
    numbers_of,
    open_segment,
    state_columns,
)
from evenflow.storage import Storage, together

_NEVER = np.iinfo(np.int64).min


class _Search:
    """The search for some keys in one segment: first for fingerprints, then for rows.

    Parameters:
        segment: where.
        wanted: the numbers of the keys.
        fingerprints: of these keys.
    """

    def __init__(self, segment: Segment, wanted: I64, fingerprints: U64) -> None:
        self.segment = segment
        self.wanted = wanted
        self._fingerprints = np.unique(fingerprints)
        # Windows of a key share its fingerprint. Asked for one by one, each would be compared with
        # all that is stored of the key; so read those once, and match them by value.
        self.shared = len(self._fingerprints) < len(wanted)
        if not self.shared:
            self._fingerprints = fingerprints

    def find(self, storage: Storage) -> None:
        """Open the segment and look for the fingerprints."""
        self.container = open_segment(storage, self.segment)
        hits = self.container.find(self._fingerprints)
        self.rows = hits.row  #: the numbers of the rows that may answer and are not read yet
        self.query = hits.query if self.shared else self.wanted[hits.query]

    def due(self, version: I64, asked: Booleans) -> I64:
        """Take out the rows to read now: for keys of which no newer row is known or `asked` for."""
        due = np.ones(len(self.rows), bool)
        if not self.shared:
            due = (version[self.query] < self.segment.highest_batch) & ~asked[self.query]
            asked[self.query[due]] = True
        rows, self.due_query = self.rows[due], self.query[due]
        self.rows, self.query = self.rows[~due], self.query[~due]
        return rows


class _Answers:
    """The newest row found so far for every key that was asked for."""

    def __init__(self, fingerprints: U64, keys: pa.Table) -> None:
        if len(fingerprints) != keys.num_rows:
            raise InputError(f"{len(fingerprints)} fingerprints for {keys.num_rows} keys")
        self._fingerprints = fingerprints
        self._keys = keys
        self.version = np.full(len(fingerprints), _NEVER)
        self.owner = np.full(len(fingerprints), -1)  #: who wrote the row
        self._place = np.full(len(fingerprints), -1)
        self._found: list[pa.Table] = []
        self._n_found = 0

    def search(self, storage: Storage, segments: Iterable[tuple[Segment, Booleans]]) -> None:
        """Look into some more segments at once, newest first; for each of them, for which keys."""
        searches = []
        for segment, mine in segments:
            (wanted,) = np.nonzero(mine & (self.version < segment.highest_batch))
            if len(wanted):
                searches.append(_Search(segment, wanted, self._fingerprints[wanted]))
        together(storage, [partial(search.find, storage) for search in searches])
        for search in searches:
            self._check(search.container)
        while searches:
            # Nearly always one round: a second one is for keys whose newest row is not in the newest
            # segment that has their fingerprint, because they collide or came back to an owner.
            asked = np.zeros(len(self._fingerprints), bool)
            due = [(search, search.due(self.version, asked)) for search in searches]
            due = [(search, rows) for search, rows in due if len(rows)]
            tables = together(storage, [partial(one.container.take, rows) for one, rows in due])
            for (search, _), table in zip(due, tables, strict=True):
                self._add(search, table)
            searches = [search for search in searches if len(search.rows)] if due else []

    def _check(self, container: Container) -> None:
        keys = len(key_columns(container.schema.names))
        if keys != self._keys.num_columns:
            raise InputError(
                f"{container.where} has {keys} key columns, but {self._keys.num_columns} were "
                "looked up; start a new checkpoint for a new key"
            )

    def _add(self, search: _Search, rows: pa.Table) -> None:
        names = search.container.schema.names
        keys, state = key_columns(names), state_columns(names)
        query = search.due_query
        if search.shared:
            query, place = matched(self._keys.take(pa.array(search.wanted)), rows.select(keys))
            query, rows = search.wanted[query], rows.take(pa.array(place))
            same = np.ones(len(query), bool)
        else:
            same = equal_keys(rows.select(keys), self._keys.take(pa.array(query)))
        version = numbers_of(rows, VERSION)
        (kept,) = np.nonzero(same & (version > self.version[query]))
        # The newest of one key comes last, and is the one that stays in the arrays.
        kept = kept[np.argsort(version[kept], kind="stable")]
        self.version[query[kept]] = version[kept]
        self.owner[query[kept]] = search.segment.owner
        self._place[query[kept]] = self._n_found + np.arange(len(kept))
        self._n_found += len(kept)
        self._found.append(rows.select(state).take(pa.array(kept)))

    def table(self, schema: pa.Schema) -> tuple[pa.Table, Booleans]:
        found = self._place >= 0
        rows = pa.concat_tables([schema.empty_table(), *(evolved(t, schema) for t in self._found)])
        return rows.combine_chunks().take(pa.array(self._place, mask=~found)), found


class StateReader:
    """Committed state, looked up by key.

    Guarantee: the newest row of a key, in whichever epoch and by whichever owner it was written. The
    cost grows with the keys asked for, not with the keys stored. On a storage whose requests are
    waited for, all segments are read at once, in three rounds: footers, fingerprints, rows.

    Parameters:
        storage: the checkpoint's.
        segments: those of one manifest.
        owners: epoch → function from fingerprints to owners, for every epoch of a segment.
        state_schema: the state columns that are expected; taken from the segments if not given, which
            needs at least one segment.

    Example:
        >>> from evenflow.state.segments import write_segment
        >>> from evenflow.storage import MemoryStorage
        >>> storage = MemoryStorage()
        >>> row = {"__fingerprint": [7], "__version": [4], "k0": ["a"], "hits": [1]}
        >>> segment = write_segment(storage, pa.table(row), owner=0, epochs=[0])
        >>> reader = StateReader(storage, [segment], {0: lambda prints: np.zeros(len(prints), int)})
        >>> state, found = reader.look_up(np.array([7, 8], np.uint64), pa.table({"k0": ["a", "b"]}))
        >>> state["hits"].to_pylist(), found.tolist()
        ([1, None], [True, False])
    """

    def __init__(
        self,
        storage: Storage,
        segments: Sequence[Segment],
        owners: Mapping[int, OwnerFunction],
        state_schema: pa.Schema | None = None,
    ) -> None:
        missing = {epoch for segment in segments for epoch in segment.epochs} - set(owners)
        if missing:
            raise InputError(
                f"segments were written in epochs {sorted(missing)}, but their owners are not given"
            )
        self._storage = storage
        self._segments = sorted(segments, key=lambda segment: -segment.highest_batch)
        self._owners = owners
        self._schema = state_schema

    def look_up(self, fingerprints: U64, keys: pa.Table) -> tuple[pa.Table, Booleans]:
        """The state of every key, in order, nulls where it has none; and whether it has one."""
        state, writer = self.found(fingerprints, keys)
        return state, writer >= 0

    def found(self, fingerprints: U64, keys: pa.Table) -> tuple[pa.Table, I64]:
        """The state of every key, in order, nulls where it has none; and the owner that wrote it,
        or -1."""
        answers = _Answers(fingerprints, keys)
        likely = list(self.likely(fingerprints))
        # What is found in a newer segment needs no look into older ones. But where a request is waited
        # for, to look into all of them at once takes no longer than to look into one.
        at_once = 1 if self._storage.concurrency == 1 else max(len(likely), 1)
        for first in range(0, len(likely), at_once):
            answers.search(self._storage, likely[first : first + at_once])
        return answers.table(self.state_schema())[0], answers.owner

    def likely(self, fingerprints: U64) -> Iterator[tuple[Segment, Booleans]]:
        """Each segment in which some of these may be, newest first, and which."""
        epochs = {epoch for segment in self._segments for epoch in segment.epochs}
        owners = {epoch: self._owners[epoch](fingerprints) for epoch in epochs}
        present = {epoch: set(np.unique(owner).tolist()) for epoch, owner in owners.items()}
        for segment in self._segments:
            asked = [epoch for epoch in segment.epochs if segment.owner in present[epoch]]
            if asked:
                yield (
                    segment,
                    np.logical_or.reduce([owners[epoch] == segment.owner for epoch in asked]),
                )

    def state_schema(self) -> pa.Schema:
        """The state columns."""
        if self._schema is None:
            if not self._segments:
                raise InputError("no segment to take the state's columns from; give state_schema")
            stored = open_segment(self._storage, self._segments[0]).schema
            self._schema = pa.schema([stored.field(name) for name in state_columns(stored.names)])
        return self._schema


def look_up(
    storage: Storage,
    segments: Sequence[Segment],
    fingerprints: U64,
    keys: pa.Table,
    state_schema: pa.Schema | None = None,
) -> tuple[pa.Table, Booleans]:
    """The newest state of every key in any of these segments: `StateReader.look_up` for one owner.

    Parameters:
        storage: the checkpoint's.
        segments: where to look, whoever owns them.
        fingerprints: of the keys.
        keys: the key columns, compared by their order.
        state_schema: the state columns; taken from the segments if not given.
    """
    anywhere = [replace(segment, owner=0, epochs=(0,)) for segment in segments]
    nobody = {0: lambda prints: np.zeros(len(prints), np.int32)}
    return StateReader(storage, anywhere, nobody, state_schema).look_up(fingerprints, keys)
