"""Keys of any type as 64-bit fingerprints, straight from Arrow buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.kernels.arrow_buffers import (
    booleans,
    byte_ranges,
    integers,
    numbers,
    read_only,
    validity,
)
from evenflow.kernels.decimals import hash_decimals
from evenflow.kernels.xxh64 import U64, hash_bytes, hash_words
from evenflow.model import InputError

NULL = np.uint64(0xB7E151628AED2A6A)  #: the fingerprint of a null: the fraction of e

_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MILLISECONDS_PER_DAY = 86_400_000


def fingerprint(keys: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table) -> U64:
    """The 64-bit fingerprint of every key, in order.

    Guarantee: equal values have equal fingerprints, however they are stored: whole, sliced or in
    chunks, dictionary-encoded or not, and in whichever type of their kind. The kinds:

    - strings and binary, of every layout: XXH64 of the bytes, seed 0;
    - integers: XXH64 of the number's eight bytes. Two integers below 2⁶³ never share a fingerprint;
      from there on (uint64) the seed is 1, to avoid the negative numbers with the same bits;
    - floating point: as float64, where −0.0 is 0.0 and every NaN is the same;
    - decimals: 1.50 is 1.5 in every width, precision and scale;
    - dates: date32 and date64 by their day;
    - timestamps, and likewise times and durations: by whole seconds and nanoseconds, so that all
      units agree; a time zone changes how an instant is shown, not which instant it is;
    - booleans;
    - structs: the fingerprints of the fields, chained by XXH64 in order; names are ignored.
      A table or a record batch is a struct of its columns, even if it has only one.

    Null is a key like any other, with the fingerprint `NULL`; a struct whose fields are all null is not
    a null struct. An extension type counts as its storage type. Values of different kinds are not
    comparable: 1 and 1.0 differ, while 0 and false have the same fingerprint.

    Parameters:
        keys: one column of keys, or a table whose columns together are the key. Lists, maps and
            unions cannot be keys.

    Example:
        >>> import pyarrow as pa
        >>> hex(fingerprint(pa.array(["", None]))[0])
        '0xef46db3751d8e999'
        >>> numbers = pa.chunked_array([pa.array([7, 8]), pa.array([7])])
        >>> fingerprint(numbers).tolist() == fingerprint(pa.array([7, 8, 7], pa.uint8())).tolist()
        True
    """
    if isinstance(keys, pa.RecordBatch | pa.Table):
        if not keys.num_columns:
            raise InputError("a key needs at least one column, got a table without columns")
        return _chained(keys.columns, keys.num_rows)
    if not isinstance(keys, pa.Array | pa.ChunkedArray):
        raise InputError(
            "keys must be a pyarrow Array, ChunkedArray, RecordBatch or Table, got "
            f"{type(keys).__name__}; make one with pyarrow.array(...)"
        )
    hashing = _hashing(keys.type)
    if isinstance(keys, pa.Array):
        return _of_array(hashing, keys)
    if keys.num_chunks == 0:
        return np.zeros(0, np.uint64)
    return np.concatenate([_of_array(hashing, chunk) for chunk in keys.chunks])


def _of_array(hashing: Callable[[Any], U64], array: pa.Array) -> U64:
    if len(array) == 0:
        return np.zeros(0, np.uint64)
    hashes = hashing(array)
    valid = validity(array)
    if valid is not None:
        hashes[~valid] = NULL
    return hashes


def _chained(columns: list[pa.Array | pa.ChunkedArray], n_rows: int) -> U64:
    running = np.zeros(n_rows, np.uint64)
    for column in columns:
        hash_words(read_only(fingerprint(column)), running)
    return running


# One function per kind: array → fingerprints, arbitrary where the array is null.


def _of_words(words: U64) -> U64:
    hashes = np.zeros(len(words), np.uint64)
    hash_words(read_only(words), hashes)
    return hashes


def _of_bytes(array: pa.Array) -> U64:
    hashes = np.zeros(len(array), np.uint64)
    hash_bytes(*byte_ranges(array), hashes)
    return hashes


def _of_signed(array: pa.Array) -> U64:
    return _of_words(integers(array).astype(np.int64, copy=False).view(np.uint64))


def _of_unsigned(array: pa.Array) -> U64:
    words = integers(array).astype(np.uint64, copy=False)
    hashes = words >> np.uint64(63)
    hash_words(read_only(words), hashes)
    return hashes


def _of_floats(array: pa.Array) -> U64:
    with np.errstate(invalid="ignore"):  # a signalling NaN counts as NaN
        # + 0.0 turns −0.0 into 0.0 and changes nothing else.
        values = numbers(array, f"f{array.type.bit_width // 8}").astype(np.float64) + 0.0
        values[np.isnan(values)] = np.nan
    return _of_words(values.view(np.uint64))


def _of_decimals(array: pa.Array) -> U64:
    if array.type.bit_width == 32:
        words = read_only(numbers(array, np.int32).astype(np.int64).view(np.uint64))
    else:
        words = numbers(array, np.uint64)
    words = words.reshape(len(array), -1)
    limbs, hashes = np.empty(words.shape[1], np.uint64), np.empty(len(array), np.uint64)
    hash_decimals(words, array.type.scale, limbs, hashes)
    return hashes


def _of_dates(array: pa.Array) -> U64:
    if pa.types.is_date32(array.type):
        return _of_signed(array)
    return _of_words((integers(array) // _MILLISECONDS_PER_DAY).view(np.uint64))


def _of_instants(array: pa.Array) -> U64:
    per_second = _TICKS_PER_SECOND[array.type.unit]
    ticks = integers(array).astype(np.int64, copy=False)
    # Nanoseconds alone would overflow: a timestamp in seconds reaches a billion times as far.
    seconds = ticks // per_second
    nanoseconds = (ticks - seconds * per_second) * (10**9 // per_second)
    hashes = _of_words(seconds.view(np.uint64))
    hash_words(read_only(nanoseconds.view(np.uint64)), hashes)
    return hashes


def _of_booleans(array: pa.Array) -> U64:
    return _of_words(booleans(array).astype(np.uint64))


def _of_nulls(array: pa.Array) -> U64:
    return np.full(len(array), NULL)


def _of_structs(array: pa.Array) -> U64:
    return _chained([array.field(i) for i in range(array.type.num_fields)], len(array))


def _of_dictionary(array: pa.Array) -> U64:
    indices = integers(array.indices)
    valid = validity(array)
    if valid is not None:
        indices = np.where(valid, indices, 0)  # the index of a null may point anywhere
    if len(array.dictionary) <= len(array):
        hashes = fingerprint(array.dictionary)
        return hashes[indices] if len(hashes) else np.zeros(len(array), np.uint64)
    # A short slice of an array with a long dictionary: hash only the entries it uses.
    return fingerprint(array.dictionary.take(pa.array(indices)))


def _of_extension(array: pa.Array) -> U64:
    return fingerprint(array.storage)


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], U64]], ...] = (
    (pa.types.is_string, _of_bytes),
    (pa.types.is_large_string, _of_bytes),
    (pa.types.is_string_view, _of_bytes),
    (pa.types.is_binary, _of_bytes),
    (pa.types.is_large_binary, _of_bytes),
    (pa.types.is_binary_view, _of_bytes),
    (pa.types.is_fixed_size_binary, _of_bytes),
    (pa.types.is_signed_integer, _of_signed),
    (pa.types.is_unsigned_integer, _of_unsigned),
    (pa.types.is_floating, _of_floats),
    (pa.types.is_decimal, _of_decimals),
    (pa.types.is_date, _of_dates),
    (pa.types.is_timestamp, _of_instants),
    (pa.types.is_time, _of_instants),
    (pa.types.is_duration, _of_instants),
    (pa.types.is_boolean, _of_booleans),
    (pa.types.is_null, _of_nulls),
    (pa.types.is_struct, _of_structs),
    (pa.types.is_dictionary, _of_dictionary),
    (lambda type_: isinstance(type_, pa.BaseExtensionType), _of_extension),
)


def _hashing(type_: pa.DataType) -> Callable[[Any], U64]:
    """The function for the type's kind; rejects types that cannot be keys, at any depth."""
    for is_of_kind, hashing in _KINDS:
        if is_of_kind(type_):
            for part in _parts(type_):
                _hashing(part)
            return hashing
    raise InputError(
        f"a key cannot be of type {type_}; keys can be strings, binary, integers, floating point "
        "numbers, decimals, dates, times, timestamps, durations, booleans, nulls, dictionaries and "
        "structs of these: cast the column to one of them first"
    )


def _parts(type_: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_struct(type_):
        return [field.type for field in type_]
    if pa.types.is_dictionary(type_):
        return [type_.value_type]
    if isinstance(type_, pa.BaseExtensionType):
        return [type_.storage_type]
    return []
