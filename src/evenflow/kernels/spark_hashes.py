"""Spark's own hashes of rows: `F.hash` and `F.xxhash64`, and where hash partitioning puts a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.kernels import murmur3 as murmur3_kernels
from evenflow.kernels import xxh64 as xxh64_kernels
from evenflow.kernels.arrow_buffers import (
    booleans,
    byte_ranges,
    integers,
    numbers,
    read_only,
    validity,
)
from evenflow.model import InputError

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray
Columns: TypeAlias = Column | pa.RecordBatch | pa.Table | Sequence[Column]
Running = npt.NDArray[Any]  # uint32 for Murmur3, uint64 for XXH64

SEED = 42  #: the seed of `F.hash`, `F.xxhash64` and of Spark's hash partitioning

_MOST_DIGITS_OF_A_LONG = 18
_MOST_DIGITS_IN_SPARK = 38
_MICROSECONDS_PER_TICK = {"s": 10**6, "ms": 10**3, "us": 1}
_MILLISECONDS_PER_DAY = 86_400_000


class _HashFunction(NamedTuple):
    """What Spark calls hashInt, hashLong and hashUnsafeBytes, over columns."""

    half_words: Callable[[Any, Running], None]
    words: Callable[[Any, Running], None]
    bytes: Callable[[Any, Any, Any, Running], None]


_MURMUR3 = _HashFunction(
    murmur3_kernels.hash_half_words, murmur3_kernels.hash_words, murmur3_kernels.hash_bytes
)
_XXH64 = _HashFunction(
    xxh64_kernels.hash_half_words, xxh64_kernels.hash_words, xxh64_kernels.hash_bytes
)


def murmur3(columns: Columns, seed: int = SEED) -> I32:
    """The 32-bit Murmur3 hash of every row, as Spark computes it.

    Guarantee: equal to Spark's `F.hash(*columns)`. A row's hash of one column is the seed of the
    next; a null leaves it as it is; a struct counts as its fields one after the other.

    Parameters:
        columns: a table, a record batch, one column, or several of the same length. Their types are
            those that Spark makes of Arrow data: boolean, signed integers, float, double, decimal
            up to 38 digits, date, timestamp (with or without time zone, any unit: nanoseconds are
            cut to Spark's microseconds), time64, duration, string, binary, struct, null, and
            dictionaries of these. Strings are hashed by their bytes, as under Spark's default
            collation UTF8_BINARY.
        seed: 42 in all of Spark.

    Example:
        >>> import pyarrow as pa
        >>> murmur3(pa.array(["Spark", None])).tolist()
        [228093765, 42]
    """
    return _hash_rows(columns, _MURMUR3, seed, np.uint32).view(np.int32)


def xxhash64(columns: Columns, seed: int = SEED) -> I64:
    """The 64-bit XXH64 hash of every row, as Spark computes it.

    Guarantee: equal to Spark's `F.xxhash64(*columns)`; columns, nulls and structs as in `murmur3`.

    Parameters:
        columns, seed: as in `murmur3`.

    Example:
        >>> import pyarrow as pa
        >>> xxhash64(pa.array(["Spark", None])).tolist()
        [-4294468057691064905, 42]
    """
    return _hash_rows(columns, _XXH64, seed, np.uint64).view(np.int64)


def spark_partition(columns: Columns, n: int) -> I32:
    """The partition of every row in Spark's hash partitioning: `pmod(hash(columns), n)`.

    Guarantee: equal to the partition, numbered from 0, that `df.repartition(n, *columns)` and every
    native grouped or stateful operator with `n` shuffle partitions puts the row into.

    Parameters:
        columns: as in `murmur3`, in the order of the query.
        n: the number of partitions.

    Example:
        >>> import pyarrow as pa
        >>> spark_partition(pa.array(["Spark", None]), 200).tolist()
        [165, 42]
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n < 2**31:
        raise InputError(f"got {n!r} partitions; a whole number from 1 to 2³¹ − 1 is needed")
    return murmur3(columns) % np.int32(n)


def _hash_rows(
    columns: Columns, function: _HashFunction, seed: int, word: type[np.uint32] | type[np.uint64]
) -> Running:
    columns = _as_columns(columns)
    bits = np.iinfo(word).bits
    running = np.full(len(columns[0]), seed % 2**bits, word)
    for column in columns:
        _require_spark_type(column.type)
        end = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            start, end = end, end + len(chunk)
            _chain(chunk, function, running[start:end])
    return running


def _as_columns(columns: Columns) -> Sequence[Column]:
    if isinstance(columns, pa.RecordBatch | pa.Table):
        columns = columns.columns
    elif isinstance(columns, pa.Array | pa.ChunkedArray):
        columns = [columns]
    if not isinstance(columns, Sequence) or not all(
        isinstance(column, pa.Array | pa.ChunkedArray) for column in columns
    ):
        raise InputError(
            "columns must be a pyarrow Table, RecordBatch, Array or ChunkedArray, or a list of "
            f"these columns, got {columns!r:.60}; make one with pyarrow.array(...)"
        )
    if not columns:
        raise InputError("a hash of rows needs at least one column, got none")
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise InputError(f"columns must be of one length, got lengths {lengths}")
    return columns


def _chain(array: pa.Array, function: _HashFunction, running: Running) -> None:
    """Hash each value into its row's running hash; where it is null, leave that as it was."""
    if len(array) == 0 or pa.types.is_null(array.type):
        return
    if pa.types.is_dictionary(array.type):
        _chain(array.dictionary_decode(), function, running)
        return
    valid = validity(array)
    before = None if valid is None else running[~valid]
    _chain_values(array, function, running)
    if valid is not None:
        running[~valid] = before


def _chain_values(array: pa.Array, function: _HashFunction, running: Running) -> None:
    """`_chain` for an array without nulls; arbitrary in the rows of nulls."""
    type_, types = array.type, pa.types
    if types.is_struct(type_):
        for i in range(type_.num_fields):
            _chain(array.field(i), function, running)
    elif _is_bytes(type_):
        function.bytes(*byte_ranges(array), running)
    elif types.is_decimal(type_):
        if type_.precision > _MOST_DIGITS_OF_A_LONG:
            function.bytes(*_big_integer_bytes(array), running)
        else:
            function.words(_long_decimals(array), running)
    elif _is_half_word(type_):
        function.half_words(_half_words(array), running)
    else:
        function.words(_words(array), running)


def _is_bytes(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(type_)
        or types.is_large_string(type_)
        or types.is_string_view(type_)
        or types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_binary_view(type_)
        or types.is_fixed_size_binary(type_)
    )


def _is_half_word(type_: pa.DataType) -> bool:
    """Whether Spark hashes the type as a 32-bit integer."""
    types = pa.types
    small_integer = types.is_signed_integer(type_) and type_.bit_width <= 32
    return bool(
        small_integer or types.is_boolean(type_) or types.is_float32(type_) or types.is_date(type_)
    )


def _half_words(array: pa.Array) -> npt.NDArray[np.uint32]:
    if pa.types.is_boolean(array.type):
        return read_only(booleans(array).astype(np.uint32))
    if pa.types.is_float32(array.type):
        return read_only(_normal(numbers(array, np.float32)).view(np.uint32))
    values = integers(array)
    if pa.types.is_date64(array.type):
        values = values // _MILLISECONDS_PER_DAY
    return read_only(values.astype(np.int32, copy=False).view(np.uint32))


def _words(array: pa.Array) -> npt.NDArray[np.uint64]:
    if pa.types.is_float64(array.type):
        return read_only(_normal(numbers(array, np.float64)).view(np.uint64))
    values = integers(array)
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        values = _microseconds(array, values)
    elif pa.types.is_time64(array.type) and array.type.unit == "us":
        values = values * 1000  # unlike its timestamps, Spark's times are nanoseconds
    return read_only(values.view(np.uint64))


def _normal(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As Spark hashes floating point numbers: −0.0 as 0.0, and one NaN, Java's."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like others
        values = values + values.dtype.type(0)
    values[np.isnan(values)] = np.nan
    return values


def _microseconds(array: pa.Array, ticks: I64) -> I64:
    unit = array.type.unit
    if unit == "ns":
        return ticks // 1000
    factor = _MICROSECONDS_PER_TICK[unit]
    micros = ticks * factor
    overflows = micros // factor != ticks
    valid = validity(array)
    if (overflows if valid is None else overflows & valid).any():
        raise InputError(
            f"a value of type {array.type} lies outside the range of Spark's microseconds "
            "(292 000 years around 1970); leave such rows out"
        )
    return micros


def _long_decimals(array: pa.Array) -> npt.NDArray[np.uint64]:
    """The unscaled values, which fit into 64 bits, so that the lowest word says all."""
    if array.type.bit_width == 32:
        return read_only(numbers(array, np.int32).astype(np.int64).view(np.uint64))
    words = numbers(array, np.uint64).reshape(len(array), -1)
    return read_only(np.ascontiguousarray(words[:, 0]))


def _big_integer_bytes(array: pa.Array) -> tuple[Any, Any, Any]:
    """The unscaled values as Java's `BigInteger.toByteArray` writes them: two's complement, highest
    byte first, as few bytes as hold the number and its sign."""
    width = array.type.bit_width // 8
    big_endian = np.ascontiguousarray(numbers(array, np.uint8)[:, ::-1])
    sign = big_endian[:, :1].view(np.int8) >> 7
    # A leading byte is spare if it is all sign, and the next byte still begins with the sign.
    is_sign = big_endian.view(np.int8) == sign
    next_begins_with_sign = (big_endian[:, 1:].view(np.int8) >> 7) == sign
    spare = np.logical_and.accumulate(is_sign[:, :-1] & next_begins_with_sign, axis=1).sum(axis=1)
    ends = np.arange(1, len(array) + 1) * width
    return read_only(big_endian.reshape(-1)), read_only(ends - width + spare), read_only(ends)


def _require_spark_type(type_: pa.DataType) -> None:
    types = pa.types
    if types.is_struct(type_):
        for field in type_:
            _require_spark_type(field.type)
        return
    if types.is_dictionary(type_):
        _require_spark_type(type_.value_type)
        return
    hashed = (
        types.is_null(type_)
        or _is_bytes(type_)
        or _is_half_word(type_)
        or types.is_int64(type_)
        or types.is_float64(type_)
        or types.is_timestamp(type_)
        or types.is_duration(type_)
        or types.is_time64(type_)
        or (types.is_decimal(type_) and type_.precision <= _MOST_DIGITS_IN_SPARK)
    )
    if not hashed:
        raise InputError(
            f"no Spark hash is known for a column of type {type_}; boolean, signed integers, "
            "float, double, decimal up to 38 digits, date, timestamp, time64, duration, string, "
            "binary and structs of these have one: cast the column to the type it has in Spark"
        )
