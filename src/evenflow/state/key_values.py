"""Are two keys the same? Values settle what fingerprints cannot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import InputError
from evenflow.operators.grouping_rows import group_rows

Booleans = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


def equal_keys(a: pa.Table, b: pa.Table) -> Booleans:
    """Whether row i of `a` and row i of `b` are the same key, for every i.

    Guarantee: as Spark groups: null is null, every NaN is the same, and −0.0 is 0.0. A struct of
    nulls is not a null struct.

    Parameters:
        a, b: key columns, compared by their order; names do not count.

    Example:
        >>> import pyarrow as pa
        >>> nothing, nan = pa.table({"k0": [None, 1.0]}), pa.table({"k0": [None, float("nan")]})
        >>> equal_keys(nothing, nan).tolist()
        [True, False]
    """
    same = np.ones(a.num_rows, bool)
    for left, right in zip(a.columns, b.columns, strict=True):
        same &= _equal(_one_chunk(left), _one_chunk(right))
    return same


def matched(a: pa.Table, b: pa.Table) -> tuple[I64, I64]:
    """The pairs of a row of `a` and a row of `b` that are the same key, in time linear in both.

    Parameters:
        a, b: key columns, compared by their order. In `b` a key stands at most once.

    Example:
        >>> import pyarrow as pa
        >>> there, here = matched(pa.table({"k0": ["x", "y", None]}), pa.table({"k0": [None, "x"]}))
        >>> there.tolist(), here.tolist()
        ([0, 2], [1, 0])
    """
    if not a.num_rows or not b.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    columns = [
        pa.concat_arrays([_as_stored(_one_chunk(left), right.type), _one_chunk(right)])
        for left, right in zip(a.columns, b.columns, strict=True)
    ]
    number, first = group_rows(columns)
    place = np.full(len(first), -1)
    place[number[a.num_rows :]] = np.arange(b.num_rows)
    found = place[number[: a.num_rows]]
    (there,) = np.nonzero(found >= 0)
    return there, found[there]


def newest_of_each(fingerprints: npt.NDArray[np.uint64], versions: I64, keys: pa.Table) -> Booleans:
    """Which rows have the version of the first of their key; rows of one fingerprint stand together.

    A round settles one key of every fingerprint. Mostly one round is all; where a fingerprint has
    many keys, as the windows of a key have, the rest is settled at once.
    """
    stays = np.zeros(len(fingerprints), bool)
    left = np.arange(len(fingerprints))
    for _ in range(2):
        if not len(left):
            return stays
        begins = np.append(True, fingerprints[left][1:] != fingerprints[left][:-1])
        leader = left[begins][np.cumsum(begins) - 1]
        same = equal_keys(keys.take(pa.array(left)), keys.take(pa.array(leader)))
        stays[left[same & (versions[left] == versions[leader])]] = True
        left = left[~same]
    if len(left):
        rest = keys.take(pa.array(left))
        number, firsts = group_rows([pa.array(fingerprints[left]), *rest.columns])
        stays[left[versions[left[firsts]][number] == versions[left]]] = True
    return stays


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _equal(a: pa.Array, b: pa.Array) -> Booleans:
    if a.type != b.type:
        b = _as_stored(b, a.type)
    if pa.types.is_null(a.type):
        return np.ones(len(a), bool)
    both_null = _flags(pc.and_(a.is_null(), b.is_null()))
    if pa.types.is_struct(a.type):
        same = _flags(pc.equal(a.is_null(), b.is_null()))
        for left, right in zip(a.flatten(), b.flatten(), strict=True):
            same &= _equal(left, right)
        return same | both_null
    same = _flags(pc.fill_null(pc.equal(a, b), False)) | both_null
    if pa.types.is_floating(a.type):
        same |= _flags(pc.fill_null(pc.and_(pc.is_nan(a), pc.is_nan(b)), False))
    return same


def _flags(array: pa.Array) -> Booleans:
    flags: Booleans = array.to_numpy(zero_copy_only=False)
    return flags if flags.flags.writeable else flags.copy()


def _as_stored(keys: pa.Array, stored: pa.DataType) -> pa.Array:
    """Keys in the type of the stored ones: `string` may have become `large_string` since."""
    if keys.type == stored:
        return keys
    try:
        return keys.cast(stored)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the stored keys are of type {stored}, but {keys.type} was looked up; start a new "
            "checkpoint, or cast the key column to the type it had"
        ) from error
