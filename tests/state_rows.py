"""Rows of state for tests, and the obvious way to look them up."""

import math

import numpy as np
import pyarrow as pa

from evenflow.model.owners import Owners
from evenflow.state import FINGERPRINT, VERSION, compact, write_segment


def fingerprints(numbers):
    """Well-spread fingerprints of whole numbers, both halves of the 64-bit range."""
    return np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def state_table(prints, version, keys, **state):
    """A state table; `keys` is a list of key columns."""
    prints = np.asarray(prints, np.uint64)
    versions = np.broadcast_to(np.asarray(version, np.int64), len(prints)).copy()
    columns = {FINGERPRINT: pa.array(prints.view(np.int64)), VERSION: pa.array(versions)}
    columns |= {f"k{i}": column for i, column in enumerate(keys)}
    return pa.table({**columns, **state})


def numbered(numbers, version):
    """Keys that are whole numbers as text, whose state is (number, version)."""
    numbers = list(numbers)
    names = pa.array([f"key {n}" for n in numbers], pa.string())
    state = {
        "n": pa.array(numbers, pa.int64()),
        "at": pa.array([version] * len(numbers), pa.int64()),
    }
    return state_table(fingerprints(numbers), version, [names], **state)


def rows_of(table):
    """{key: (number, version)} of tables made by `numbered`."""
    return {row["k0"]: (row["n"], row["at"]) for row in table.to_pylist()}


def keys_of(numbers):
    return pa.table({"k0": pa.array([f"key {n}" for n in numbers], pa.string())})


def write_batch(checkpoint, last, batch, numbers, workers=2):
    """What the tasks of a batch do: every owner compacts and writes; the new list of segments."""
    place = Owners(workers)
    storage = checkpoint.storage
    segments = list(last.segments) if last is not None else []
    owners = place(fingerprints(numbers))
    for owner in range(workers):
        mine = [n for n, o in zip(numbers, owners, strict=True) if o == owner]
        if not mine:
            continue
        own = [segment for segment in segments if segment.owner == owner]
        table, consumed = compact(storage, own, numbered(mine, batch))
        new = write_segment(storage, table, owner, [0])
        segments = [segment for segment in segments if segment not in consumed] + [new]
    return segments


def plain(value):
    """A key value as Python compares keys: NaN is NaN, and −0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in sorted(value.items()))
    return value
