"""All that is stored of some keys, of which each may have many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from evenflow.state.compaction import newest
from evenflow.state.container import I64, U64
from evenflow.state.evolution import evolved
from evenflow.state.key_values import Booleans, equal_keys
from evenflow.state.segments import (
    FINGERPRINT,
    VERSION,
    OwnerFunction,
    Segment,
    key_columns,
    open_segment,
    own_key_columns,
)
from evenflow.state.state_reader import StateReader
from evenflow.storage import Storage, together

_NUMBER = "__number"  # of the key that was asked for


def rows_of_fingerprints(
    storage: Storage,
    segments: Sequence[Segment],
    owners: Mapping[int, OwnerFunction],
    fingerprints: U64,
    schema: pa.Schema | None = None,
) -> pa.Table | None:
    """The newest rows of all keys with these fingerprints, as segments hold them; None if there are
    none.

    Parameters:
        storage: the checkpoint's.
        segments: those of one manifest.
        owners: epoch → function from fingerprints to owners.
        fingerprints: of the keys, each once.
        schema: the state columns of today; those of the newest rows if not given.
    """
    found = _found(storage, segments, owners, fingerprints, schema)
    return None if found is None else found.drop_columns([_NUMBER])


def rows_of_keys(
    storage: Storage,
    segments: Sequence[Segment],
    owners: Mapping[int, OwnerFunction],
    fingerprints: U64,
    keys: pa.Table,
    schema: pa.Schema | None = None,
) -> tuple[I64, pa.Table] | None:
    """All that is stored of some keys: (numbers of the keys, rows); None if there is nothing.

    Guarantee: the cost grows with the rows of the keys that are asked for, not with the rows stored.
    Of a row that lies in several segments, because its key has moved, one version comes.

    Parameters:
        storage: the checkpoint's.
        segments: those of one manifest.
        owners: epoch → function from fingerprints to owners.
        fingerprints: of the keys.
        keys: the key columns, fewer than the stored rows have: the first of theirs.
        schema: the state columns of today; those of the newest rows if not given.
    """
    found = _found(storage, segments, owners, fingerprints, schema)
    if found is None:
        return None
    number = found.column(_NUMBER).to_numpy()
    stored = key_columns(found.column_names)[: keys.num_columns]
    same = equal_keys(found.select(stored), keys.take(pa.array(number)))
    return number[same], found.drop_columns([_NUMBER]).filter(pa.array(same))


def _found(
    storage: Storage,
    segments: Sequence[Segment],
    owners: Mapping[int, OwnerFunction],
    fingerprints: U64,
    schema: pa.Schema | None = None,
) -> pa.Table | None:
    def part(segment: Segment, mine: Booleans) -> pa.Table:
        (wanted,) = np.nonzero(mine)
        container = open_segment(storage, segment)
        hits = container.find(fingerprints[wanted])
        rows = container.take(hits.row)
        if schema is not None:
            names = rows.column_names
            kept = [VERSION, *key_columns(names), *own_key_columns(names)]
            rows = evolved(rows, pa.schema([*map(rows.schema.field, kept), *schema]))
        number = wanted[hits.query]
        rows = rows.add_column(0, FINGERPRINT, pa.array(fingerprints[number].view(np.int64)))
        return rows.append_column(_NUMBER, pa.array(number))

    likely = StateReader(storage, segments, owners).likely(fingerprints)
    parts = together(storage, [partial(part, segment, mine) for segment, mine in likely])
    parts = [evolved(one, parts[0].schema) for one in parts]  # the newest comes first
    table = newest(pa.concat_tables(parts)) if parts else None
    return table if table is not None and table.num_rows else None
