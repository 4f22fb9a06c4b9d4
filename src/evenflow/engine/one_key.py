"""What is kept of one key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import isfinite
from typing import Any

import pyarrow as pa

from evenflow.engine.event_time import as_text
from evenflow.engine.routing import fingerprints_of
from evenflow.engine.stored_state import key_names_of, without_ended
from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.state.checkpoint import FOLDER, IDENTITY, Checkpoint, content_of
from evenflow.state.errors import no_checkpoint
from evenflow.state.expiry import Expiry
from evenflow.state.manifest import unseal
from evenflow.state.segments import (
    VERSION,
    key_columns,
    open_segment,
    own_key_columns,
    state_columns,
)
from evenflow.state.whole_keys import rows_of_keys
from evenflow.storage import Storage, storage_at


def state_of_key(path: str | os.PathLike[str] | Storage, key: Sequence[Any]) -> dict[str, Any]:
    """What a checkpoint's last batch left of a key: plain values, ready for JSON.

    Guarantee: the cost grows with the rows of the key, not with the rows stored. What has expired is
    left out.

    Parameters:
        path: the checkpoint location. Nothing there is changed.
        key: a value per key column, in their order: of the column's type, or as text.

    Example:
        >>> state_of_key("s3://bucket/ckpt", ["home"])  # doctest: +SKIP
        {'batch': 41, 'key': {'page': 'home'}, 'rows': [{'batch': 40, 'state': {'0_n': 17}}]}
    """
    storage = storage_at(path).under(FOLDER)
    checkpoint = Checkpoint(storage, {})
    last = checkpoint.last()
    if last is None and not storage.list(IDENTITY):
        raise no_checkpoint(storage.where(IDENTITY))
    identity = unseal(content_of(storage, IDENTITY), storage.where(IDENTITY))
    names = key_names_of(last, identity) or list(identity.get("key", {}))
    if not names:
        raise InputError(f"{storage.where()} is not the checkpoint of a query with keys")
    if len(key) != len(names):
        raise InputError(
            f"the key has {len(names)} columns, {', '.join(names)}; got {len(key)} values"
        )
    found: dict[str, Any] = {"batch": None if last is None else last.batch}
    if last is None or not last.segments:
        return {**found, "key": dict(zip(names, key, strict=True)), "owner": None, "rows": []}
    schema = open_segment(storage, last.segments[0]).schema
    columns = [
        _typed(value, schema.field(f"k{i}").type, name)
        for i, (name, value) in enumerate(zip(names, key, strict=True))
    ]
    typed = pa.table(columns, names=[f"k{i}" for i in range(len(names))])
    batch = pa.RecordBatch.from_arrays(columns, names=typed.column_names)
    prints = fingerprints_of(batch, tuple(typed.column_names))
    owners = {epoch: Owners.from_json(one) for epoch, one in last.owners.items()}
    rows = rows_of_keys(storage, last.segments, owners, prints, typed)
    assert last.epoch is not None
    owner = int(owners[last.epoch](prints)[0])
    values = [_plain(column[0].as_py()) for column in columns]
    found |= {"key": dict(zip(names, values, strict=True)), "owner": owner}
    if rows is None:
        return {**found, "rows": []}
    table = rows[1].combine_chunks()
    stored = table.column_names
    own = [*key_columns(stored)[len(names) :], *own_key_columns(stored)]
    states = [name for name in state_columns(stored) if name not in own]
    table = without_ended(table, states, identity)
    expires = None
    if last.segments[0].expires is not None:
        expires = own[0] if own else states[0]
        table = Expiry(expires, last.event_time.get("closed")).alive(table)
    return {**found, "rows": [_row(row, expires, states) for row in table.to_pylist()]}


def _typed(value: Any, kind: pa.DataType, name: str) -> pa.Array:
    try:
        if isinstance(value, str) and not pa.types.is_nested(kind):
            return pa.array([value]).cast(kind)
        return pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"the key column {name!r} is {kind}, got {value!r}: {error}") from None


def _row(row: dict[str, Any], expires: str | None, states: list[str]) -> dict[str, Any]:
    moment = {} if expires is None else {"expires": as_text(row[expires])}
    state = {name.removeprefix("s_"): _plain(row[name]) for name in states if name != expires}
    return {"batch": row[VERSION], **moment, "state": state}


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as hexadecimal digits, what JSON does not know as text."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    known = value is None or isinstance(value, str | int)
    return value if known or (isinstance(value, float) and isfinite(value)) else str(value)
