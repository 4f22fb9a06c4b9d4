"""Apache DataSketches, imported on first use, and values in the form that it takes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.operators.groups import Groups
from evenflow.operators.input_columns import (
    integers_type,
    is_bytes,
    is_text,
    is_time,
    one_array,
    present,
)


def datasketches() -> Any:
    """The library, or an error that says how to install it."""
    try:
        import datasketches as library
    except ImportError:
        raise InputError(
            "approximate aggregates and quantiles need Apache DataSketches, which is not installed; "
            "run: pip install 'evenflow[spark]'"
        ) from None
    return library


def sketch_each(groups: Groups, sketch: Callable[[int, int], bytes]) -> pa.Array:
    """A sketch of the values of each group, called with their range; null for an empty group."""
    bounds = pairwise(groups.bounds.tolist())
    return pa.array([None if a == b else sketch(a, b) for a, b in bounds], pa.binary())


def join_each(
    sketches: pa.ChunkedArray, groups: Groups, join: Callable[[list[bytes]], bytes]
) -> pa.Array:
    """One sketch per group: the only one, or the result of `join`; null if there is none."""
    found, groups = present(one_array(sketches), groups)
    parts = found.take(pa.array(groups.order)).to_pylist()
    return sketch_each(groups, lambda a, b: parts[a] if b - a == 1 else join(parts[a:b]))


def read_sketch(kind: Any, content: bytes) -> Any:
    """The serialized sketch of a class; `InputError` for what is none."""
    try:
        return kind.deserialize(content)
    except (RuntimeError, ValueError, IndexError, MemoryError, TypeError) as error:
        raise damaged_sketch(error) from None


def damaged_sketch(why: object) -> InputError:
    """The error for a state that is not a sketch."""
    return InputError(
        f"a stored sketch cannot be read ({why}); restore the checkpoint from a backup, or read it "
        "with the version of evenflow that wrote it"
    )


def merged(kind: Any, parts: list[bytes]) -> bytes:
    """Merge serialized sketches of a class that has `merge`."""
    sketch = read_sketch(kind, parts[0])
    for part in parts[1:]:
        sketch.merge(read_sketch(kind, part))
    return bytes(sketch.serialize())


def texts(values: pa.Array) -> list[str]:
    """Each value as a string that `from_texts` can read."""
    kind = values.type
    if is_bytes(kind):
        return [value.decode("latin-1") for value in values.to_pylist()]
    if not is_text(kind):
        values = (values.view(integers_type(kind)) if is_time(kind) else values).cast(pa.string())
    return list(values.to_pylist())


def from_texts(written: list[str], kind: pa.DataType) -> pa.Array:
    """The values from the result of `texts`."""
    if is_bytes(kind):
        return pa.array([text.encode("latin-1") for text in written], kind)
    if is_text(kind):
        return pa.array(written, kind)
    strings = pa.array(written, pa.string())
    return strings.cast(integers_type(kind)).view(kind) if is_time(kind) else strings.cast(kind)


def scalars(values: pa.Array) -> list[int] | list[float] | list[str]:
    """Each value as an integer, a float or a string, which a sketch can hash."""
    kind = values.type
    if types.is_floating(kind):
        return list(values.cast(pa.float64()).to_pylist())
    if types.is_boolean(kind) or types.is_integer(kind):
        return list(values.cast(pa.int64(), safe=False).to_pylist())
    if is_time(kind):
        return list(values.view(integers_type(kind)).to_pylist())
    return texts(values)
