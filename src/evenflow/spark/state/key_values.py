"""Are two keys the same? Values settle what fingerprints cannot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import InputError

Booleans = npt.NDArray[np.bool_]


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
    try:
        return keys.cast(stored)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"the stored keys are of type {stored}, but {keys.type} was looked up; start a new "
            "checkpoint, or cast the key column to the type it had"
        ) from error
