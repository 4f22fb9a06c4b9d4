"""Committed state as tables that people read: keys and state columns under their own names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.layout import stored
from evenflow.engine.routing import fingerprints_of
from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.operators.grouping_rows import group_rows
from evenflow.operators.state_variables import empty_rows
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.compaction import newest
from evenflow.state.evolution import evolved
from evenflow.state.expiry import Expiry
from evenflow.state.key_values import matched
from evenflow.state.manifest import Manifest
from evenflow.state.segments import (
    FINGERPRINT,
    VERSION,
    OwnerFunction,
    Segment,
    fingerprints_in,
    key_columns,
    open_segment,
    own_key_columns,
    read_segment,
    state_columns,
)
from evenflow.state.whole_keys import rows_of_fingerprints
from evenflow.storage import Storage, together

BATCH = "_batch"  #: the column that says which batch wrote a row
KEY = "key"  #: of a manifest's metrics: the key columns, in their order
_PREFIX = stored("")
_EXPIRES, _WINDOW, _START = "_expires", "_window_end", "_window_start"


@dataclass(frozen=True)
class StoredState:
    """The state after one committed batch.

    Guarantee: what `partitions` times `rows` returns is every key once, with the state that the batch
    left; nothing of a batch in progress, nothing that has expired or moved away.

    Parameters:
        storage: the checkpoint's.
        manifest: of the batch.
        identity: of the checkpoint.
    """

    storage: Storage
    manifest: Manifest
    identity: Mapping[str, Any]

    @classmethod
    def of(cls, checkpoint: Checkpoint, batch: int | None = None) -> StoredState:
        """The state after a batch that is kept; None for the one that was committed last."""
        manifest = checkpoint.last() if batch is None else checkpoint.manifest(batch)
        if manifest is None:
            raise InputError(f"{checkpoint.location}: no batch has been committed yet")
        if not manifest.segments:
            raise InputError(
                f"{checkpoint.location}: there is no keyed state after batch {manifest.batch}"
            )
        return cls(checkpoint.storage, manifest, checkpoint.identity)

    @property
    def partitions(self) -> int:
        """How many owners share the keys."""
        return self._owners[self._epoch].partitions

    @property
    def _epoch(self) -> int:
        assert self.manifest.epoch is not None
        return self.manifest.epoch

    @cached_property
    def _owners(self) -> dict[int, Owners]:
        return {epoch: Owners.from_json(one) for epoch, one in self.manifest.owners.items()}

    @cached_property
    def _stored_schema(self) -> pa.Schema:
        latest = max(self.manifest.segments, key=lambda segment: segment.highest_batch)
        return open_segment(self.storage, latest).schema

    @cached_property
    def _names(self) -> dict[str, str]:
        """Stored column → its name for people."""
        keys, own, states = self._columns
        found = dict(zip(keys, self._key_names(keys), strict=True))
        found |= {name: f"_{name}" for name in own}
        for name in states:
            plain = name.removeprefix(_PREFIX)
            found[name] = plain if plain not in found.values() else f"state_{plain}"
        if self._expires is not None:
            found[self._expires] = _WINDOW if "window" in self.identity else _EXPIRES
            if self._expires.startswith("w") and len(own) > 1:
                found[own[1]] = _START
        return {**found, VERSION: BATCH}

    @cached_property
    def _columns(self) -> tuple[list[str], list[str], list[str]]:
        """The user's key columns, the work's own, and those of the state, as they are stored."""
        names = self._stored_schema.names
        n = len(self.identity.get("key", {}))
        keys = key_columns(names)
        own = [*keys[n:], *own_key_columns(names)]
        return keys[:n], own, [name for name in state_columns(names) if name not in own]

    def _key_names(self, keys: list[str]) -> list[str]:
        """The user's key columns. The identity has them in no order: where it matters, and no batch of
        this version has said it, they keep their stored names."""
        return key_names_of(self.manifest, self.identity) or keys

    @cached_property
    def _expires(self) -> str | None:
        """The column that says when a row expires; None for state that does not."""
        if all(segment.expires is None for segment in self.manifest.segments):
            return None
        _, own, states = self._columns
        return own[0] if own else states[0]

    @property
    def _expiry(self) -> Expiry | None:
        """What has expired after this batch."""
        if self._expires is None:
            return None
        return Expiry(self._expires, self.manifest.event_time.get("closed"))

    def schema(self) -> pa.Schema:
        """The columns of `rows`."""
        return self._readable(self._stored_schema.empty_table()).schema

    def rows(self, owner: int, ended: bool = False) -> pa.Table:
        """The keys of one owner, with their state and the batch that wrote it.

        Parameters:
            owner: 0 … `partitions` − 1.
            ended: whether to list keys whose state has ended or was cleared, with nulls, as long as
                something is stored of them.
        """
        now = self._owners[self._epoch]

        def part(segment: Segment) -> pa.Table:
            if set(segment.epochs) == {self._epoch}:
                return read_segment(self.storage, segment)
            container = open_segment(self.storage, segment)
            prints = container.fingerprints()
            (own,) = np.nonzero(now(prints) == owner)
            rows = container.take(own)
            return rows.add_column(0, FINGERPRINT, pa.array(prints[own].view(np.int64)))

        chosen = [
            segment
            for segment in self.manifest.segments
            if segment.owner == owner or set(segment.epochs) != {self._epoch}
        ]
        tables = together(self.storage, [partial(part, segment) for segment in chosen])
        if not tables:
            return self.schema().empty_table()
        schema = pa.schema([(FINGERPRINT, pa.int64()), *self._stored_schema])
        table = newest(pa.concat_tables([evolved(one, schema) for one in tables]))
        table = table.filter(pa.array(now(fingerprints_in(table)) == owner))
        table = table if ended else without_ended(table, self._columns[2], self.identity)
        return self._readable(table if self._expiry is None else self._expiry.alive(table))

    def rows_like(self, keys: pa.Table) -> pa.Table:
        """The rows of some keys, in no order; those without state are missing.

        Parameters:
            keys: the key columns, with the names of `key_schema`.
        """
        (batch,) = keys.combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], keys.schema)
        ]
        prints = fingerprints_of(batch, tuple(self.key_schema().names))
        owners: dict[int, OwnerFunction] = dict(self._owners)
        segments = self.manifest.segments
        schema = pa.schema([self._stored_schema.field(name) for name in self._columns[2]])
        found = rows_of_fingerprints(self.storage, segments, owners, np.unique(prints), schema)
        if found is None:
            return self.schema().empty_table()
        found = without_ended(found, self._columns[2], self.identity)
        alive = found if self._expiry is None else self._expiry.alive(found)
        table = self._readable(alive)
        of, _ = _matches(table.select(keys.column_names), keys)
        return table.take(pa.array(of))

    def key_schema(self) -> pa.Schema:
        """The user's key columns."""
        n = len(self.identity.get("key", {}))
        return pa.schema([self.schema().field(i) for i in range(n)])

    @property
    def key_width(self) -> int:
        """How many columns, from the first one on, tell the rows apart: key, and window if any."""
        keys, own, _ = self._columns
        return len(keys) + len(own)

    def _readable(self, table: pa.Table) -> pa.Table:
        names = [name for part in self._columns for name in part] + [VERSION]
        columns = [_plain(table.column(name)) for name in names]
        found = pa.table(columns, names=[self._names[name] for name in names])
        for name in (_WINDOW, _START, _EXPIRES):
            if name in found.column_names:
                at = found.column_names.index(name)
                moments = found.column(at).combine_chunks().view(pa.timestamp("us"))
                found = found.set_column(at, name, moments.cast(pa.timestamp("us", "UTC")))
        return found


def without_ended(table: pa.Table, states: Sequence[str], identity: Mapping[str, Any]) -> pa.Table:
    """Stored rows without those of keys whose state has ended by itself, or was cleared.

    Parameters:
        states: the columns of the state.
        identity: of the checkpoint. Only work that has timers or a TTL keeps such rows; elsewhere,
            nulls may be all that there is to know of a key.
    """
    if "time" not in identity:
        return table
    ended = empty_rows(table.select(states))
    return table.filter(pa.array(~ended)) if ended.any() else table


def key_names_of(manifest: Manifest | None, identity: Mapping[str, Any]) -> list[str] | None:
    """The key columns in their order; None if there are several and no batch of this version has said
    which is which: an identity has them sorted by name."""
    known = None if manifest is None else manifest.metrics.get(KEY)
    if isinstance(known, list) and known:
        return [str(name) for name in known]
    given = list(identity.get("key", {}))
    return given if len(given) == 1 else None


def changes(before: StoredState | None, after: StoredState, owner: int) -> pa.Table:
    """The keys of an owner whose state was written after an earlier batch, with what it was before.

    Parameters:
        before: the state after the earlier batch; None for nothing.
        after: the later one.
        owner: of `after`.

    Returns a table with the columns of the keys, `before` and `after`, two structs; `before` is null
    for a key that is new.
    """
    rows = after.rows(owner, ended=True)
    since = -1 if before is None else before.manifest.batch
    rows = rows.filter(pa.array(rows.column(BATCH).to_numpy() > since))
    n = after.key_width
    keys = rows.select(range(n))
    state = [name for name in rows.column_names[n:] if name != BATCH]
    old = rows.schema.empty_table()
    if before is not None and rows.num_rows:
        old = before.rows_like(keys.select(after.key_schema().names))
    place = np.full(rows.num_rows, -1)
    of, at = matched(keys, old.select(keys.column_names))
    place[of] = at
    taken = old.take(pa.array(place, mask=place < 0))
    known = pa.array(place < 0)
    columns = {
        "before": _struct(taken, state, known),
        "after": _struct(rows, state, None),
    }
    return pa.table({**dict(zip(keys.column_names, keys.columns, strict=True)), **columns})


def _struct(table: pa.Table, names: list[str], missing: pa.Array | None) -> pa.Array:
    arrays = [_one(table.column(name)) for name in names]
    return pa.StructArray.from_arrays(arrays, names, mask=missing)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _matches(rows: pa.Table, keys: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(row, key) of every row that has one of the keys."""
    _, first = group_rows(keys.columns)
    return matched(rows, keys.take(pa.array(first)))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without the large types, which Spark has not."""
    kind = _narrow(column.type)
    return column if kind == column.type else column.cast(kind)


def _narrow(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_narrow(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_narrow(field.type)) for field in kind])
    return kind
