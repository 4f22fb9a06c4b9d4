"""An Arrow array's buffers as NumPy arrays, without a copy.

The pitfalls of reading buffers are handled here and nowhere else: a slice shares its parent's buffers
and begins at `offset`, in a bitmap possibly in the middle of a byte; an empty buffer may be absent; a
foreign buffer may be unaligned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int32] | npt.NDArray[np.int64]

_LONGEST_INLINE = 12  # a view holds values of up to this many bytes inline
_VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of `values`.

    To numba, writeable and read-only arrays are different types. Kernels get all their input read-only,
    so that each is compiled only once.
    """
    values = values.view()
    values.flags.writeable = False
    return values


def _elements(buffer: Any, dtype: npt.DTypeLike, first: int, count: int) -> npt.NDArray[Any]:
    dtype = np.dtype(dtype)
    if buffer is None or count == 0:
        return read_only(np.zeros(0, dtype))
    elements = np.frombuffer(buffer, dtype, count, first * dtype.itemsize)
    return read_only(elements if elements.flags.aligned else elements.copy())


def _flags(bitmap: Any, first: int, count: int) -> Flags:
    first_byte, shift = divmod(first, 8)
    packed = _elements(bitmap, np.uint8, first_byte, (shift + count + 7) // 8)
    return np.unpackbits(packed, count=shift + count, bitorder="little")[shift:].view(np.bool_)


def validity(array: pa.Array) -> Flags | None:
    """True where a value is not null; None if there are no nulls.

    Example:
        >>> validity(pa.array([1, None, 3]).slice(1)).tolist()
        [False, True]
    """
    bitmap = array.buffers()[0]
    if bitmap is None or array.null_count == 0:
        return None
    return _flags(bitmap, array.offset, len(array))


def booleans(array: pa.Array) -> Flags:
    """The values of a boolean array; arbitrary where null."""
    return _flags(array.buffers()[1], array.offset, len(array))


def numbers(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values of a fixed-width array, viewed as `dtype`; arbitrary where null.

    If a value is several `dtype` wide, the result has one row per value.

    Example:
        >>> numbers(pa.array([3, 4, 5], pa.int16()).slice(1), np.int16).tolist()
        [4, 5]
    """
    width = array.type.bit_width // 8 // np.dtype(dtype).itemsize
    flat = _elements(array.buffers()[1], dtype, array.offset * width, len(array) * width)
    return flat if width == 1 else flat.reshape(len(array), width)


def integers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an array of integers, or of dates and times, which are stored as integers;
    arbitrary where null."""
    sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
    return numbers(array, f"{sign}{array.type.bit_width // 8}")


def byte_ranges(array: pa.Array) -> tuple[Bytes, Places, Places]:
    """(data, starts, ends): value i of a string or binary array is `data[starts[i]:ends[i]]`.

    Arbitrary where null. Nothing is copied, except for view types, whose values lie in several buffers.

    Example:
        >>> data, starts, ends = byte_ranges(pa.array(["ab", "", "cde"]).slice(2))
        >>> bytes(data[starts[0] : ends[0]])
        b'cde'
    """
    type_ = array.type
    if pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):
        return _view_ranges(array)
    if pa.types.is_fixed_size_binary(type_):
        data = _whole(array.buffers()[1])
        places = np.arange(array.offset, array.offset + len(array) + 1) * type_.byte_width
    else:
        large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_)
        _, offsets, values = array.buffers()
        data = _whole(values)
        places = _elements(offsets, np.int64 if large else np.int32, array.offset, len(array) + 1)
    return data, read_only(places[:-1]), read_only(places[1:])


def _whole(buffer: Any) -> Bytes:
    return _elements(buffer, np.uint8, 0, 0 if buffer is None else buffer.size)


def _view_ranges(array: pa.Array) -> tuple[Bytes, Places, Places]:
    """Short values lie in their views, long ones in the data buffers that the views refer to."""
    view_buffer, *data_buffers = array.buffers()[1:]
    views = _elements(view_buffer, _VIEW, array.offset, len(array))
    lengths = views["length"].astype(np.int64)
    valid = validity(array)
    if valid is not None:
        lengths[~valid] = 0  # the view of a null may refer to a buffer that does not exist
    starts = np.arange(len(array)) * _VIEW.itemsize + 4
    is_long = lengths > _LONGEST_INLINE
    parts = [views.view(np.uint8)]
    if is_long.any():
        # A slice may share the buffers of a far larger table: only those referred to are copied.
        named = np.flatnonzero(np.bincount(views["buffer"][is_long]))
        base = np.zeros(named[-1] + 1, np.int64)
        end = parts[0].size
        for number in named:
            parts.append(_whole(data_buffers[number]))
            base[number] = end
            end += parts[-1].size
        starts[is_long] = base[views["buffer"][is_long]] + views["offset"][is_long]
    return read_only(np.concatenate(parts)), read_only(starts), read_only(starts + lengths)
