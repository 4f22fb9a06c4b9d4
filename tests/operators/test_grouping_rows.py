"""Rows by key, as Spark groups them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.kernels.fingerprints import fingerprint
from evenflow.operators.grouping_rows import group_rows, key_order
from evenflow.operators.local import rows_by_key

NANS = {
    np.float64: np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64),
    np.float32: np.array([0x7FC00000, 0xFFC00000, 0x7FC00001], np.uint32),
}


def odd_floats(dtype):
    """Three NaN with different bits, both zeros, a number and a null."""
    values = np.concatenate([NANS[dtype].view(dtype), np.array([0.0, -0.0, 1.5, 1.5], dtype)])
    return pa.array(values, mask=np.arange(7) == 6)


EXPECTED = [0, 0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_nan_is_one_key_and_so_are_both_zeros(dtype):
    column = odd_floats(dtype)
    nested = pa.StructArray.from_arrays([column, pa.array([1] * 7)], ["x", "y"])
    deeper = pa.StructArray.from_arrays([nested], ["z"])
    for keys in (column, nested, deeper, pa.chunked_array([column[:2], column[2:]])):
        assert group_rows([keys])[0].tolist() == EXPECTED
        assert len(np.unique(fingerprint(keys))) == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_keys_have_one_zero_and_one_nan_as_spark_puts_them_out(dtype):
    column = odd_floats(dtype).take(pa.array([2, 4, 5, 6]))
    struct = pa.StructArray.from_arrays([column], ["x"], mask=pa.array([False, False, False, True]))
    keys = rows_by_key(pa.table({"a": column, "b": struct}), ["a", "b"]).keys
    for found in (keys.column("a").combine_chunks(), keys.column("b").combine_chunks().field("x")):
        values = found.slice(0, 3).to_numpy(zero_copy_only=False)
        bits = values.view(np.uint64 if dtype is np.float64 else np.uint32)
        assert bits[0] == NANS[dtype][0]
        assert not np.signbit(values[1])
    assert keys.column("a")[3].as_py() is None
    assert keys.column("b")[3].as_py() is None


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**64 - 1)), min_size=1, max_size=30))
def test_rows_are_one_key_if_and_only_if_spark_says_so(bits):
    raw = np.array([0 if b is None else b for b in bits], np.uint64).view(np.float64)
    column = pa.array(raw, mask=np.array([b is None for b in bits]))
    seen = {}
    expected = []
    for value, known in zip(raw, column.is_valid().to_pylist(), strict=True):
        name = ("nan" if np.isnan(value) else float(value)) if known else None
        expected.append(seen.setdefault(name, len(seen)))
    assert group_rows([column])[0].tolist() == expected


def test_null_comes_first_in_the_order_of_keys_of_structs_too():
    pairs = pa.array([{"a": 1}, None, {"a": None}, {"a": 0}], pa.struct([("a", pa.int32())]))
    assert key_order([pairs]).tolist() == [1, 2, 3, 0]
