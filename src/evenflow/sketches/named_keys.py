"""Hot keys by value: a sketch of fingerprints, with the values of the tracked keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError
from evenflow.sketches.protocol import I64, U64, FrequentKeys, Sketch

Keys: TypeAlias = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table


class NamedKeys:
    """Counts Arrow keys with any sketch and returns the hot ones as Arrow values.

    Guarantee: every key that the sketch tracks has its value, and the bounds are the sketch's.
    Memory grows with the tracked keys, not with the keys seen: values are copied out of a batch, which
    is then released.

    Keys can have any type that has a fingerprint, including nulls and structs; a record batch or a
    table is a struct of its columns. Dictionary-encoded values and views, which would keep their
    batch in memory, are stored as plain values. Two keys with the same fingerprint count as one,
    under the value that came first.

    An instance can be pickled at any time.

    Parameters:
        sketch: any sketch; it decides which keys are tracked.

    Example:
        >>> import pyarrow as pa
        >>> from evenflow.sketches.space_saving import SpaceSaving
        >>> pages = NamedKeys(SpaceSaving(capacity=10))
        >>> pages.update(pa.array(["home", "cart", "home", None, "home"]))
        >>> pages.hot(share=0.5).select(["key", "lower", "share_lower"]).to_pylist()
        [{'key': 'home', 'lower': 3, 'share_lower': 0.6}]
    """

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self._state: Any = sketch.start()
        self._seen = 0
        # The tracked keys in ascending order of fingerprint, and their values in the same order.
        self._prints: U64 = np.zeros(0, np.uint64)
        self._values: Any = pa.nulls(0)

    @property
    def total(self) -> int:
        """The number of counted messages."""
        return self.sketch.total(self._state)

    def update(self, keys: Keys) -> None:
        """Count the keys in order."""
        prints = fingerprint(keys)
        column = keys.to_struct_array() if isinstance(keys, pa.RecordBatch | pa.Table) else keys
        self._values = _typed(self._values, _plain(column.type))
        column = _typed(column, self._values.type)
        if _plain(column.type) != self._values.type:
            raise InputError(
                f"keys were of type {self._values.type} until now, got {column.type}; "
                "cast the column first"
            )
        self._state = self.sketch.update(self._state, prints)
        tracked = self._tracked()
        if not np.array_equal(tracked.keys, self._prints):
            self._rename(tracked, column, prints)
        self._seen += len(prints)

    def hot(self, share: float) -> pa.Table:
        """Every tracked key whose upper bound is at least `share` of the total, most frequent
        first.

        Columns: `key`; the bounds on its count, `lower` and `upper`; the same as shares of the
        total, `share_lower` and `share_upper`.
        """
        found = self.sketch.hot(self._state, share)
        total = max(self.total, 1)
        return pa.table(
            {
                "key": self._values.take(pa.array(np.searchsorted(self._prints, found.keys))),
                "lower": found.lower,
                "upper": found.upper,
                "share_lower": found.lower / total,
                "share_upper": np.minimum(found.upper / total, 1.0),
            }
        )

    def age(self) -> None:
        """Halve every count, so that the recent past weighs more."""
        self.sketch.age(self._state)
        self._keep(self._tracked())

    @classmethod
    def merged(cls, parts: Sequence[NamedKeys]) -> NamedKeys:
        """The keys of several sources' streams together; the parts stay unchanged."""
        if not parts:
            raise InputError("nothing to merge; at least 1 part is needed")
        union = cls(parts[0].sketch)
        for part in parts:
            if part.sketch != union.sketch:
                raise InputError(
                    f"cannot merge different sketches: {union.sketch} and {part.sketch}"
                )
            union._values = _typed(union._values, part._values.type)
        values = [_typed(part._values, union._values.type) for part in parts]
        for column in values:
            if column.type != union._values.type:
                raise InputError(
                    f"cannot merge keys of different types: {union._values.type} and {column.type}"
                )
        union._state = union.sketch.merge([part._state for part in parts])
        union._seen = sum(part._seen for part in parts)
        prints = np.concatenate([part._prints for part in parts])
        union._prints, first = np.unique(prints, return_index=True)
        union._values = pa.concat_arrays(values).take(pa.array(first))
        union._keep(union._tracked())
        return union

    def _tracked(self) -> FrequentKeys:
        """All tracked keys, in ascending order of fingerprint."""
        tracked = self.sketch.hot(self._state, 0.0)
        order = np.argsort(tracked.keys)
        keys, lower, upper, born = tracked
        return FrequentKeys(keys[order], lower[order], upper[order], born[order])

    def _places(self, prints: U64) -> tuple[I64, npt.NDArray[np.bool_]]:
        """The place of each fingerprint among the named ones, and whether it is one of them."""
        places = np.searchsorted(self._prints, prints)
        inside = places < len(self._prints)
        known = np.zeros(len(prints), np.bool_)
        known[inside] = self._prints[places[inside]] == prints[inside]
        return places, known

    def _rename(self, tracked: FrequentKeys, column: Any, prints: U64) -> None:
        """Copy the values of new keys out of the batch, and drop those of keys no longer tracked."""
        places, known = self._places(tracked.keys)
        rows = tracked.born[~known] - self._seen
        inside = (rows >= 0) & (rows < len(prints))
        if not inside.all() or (prints[rows] != tracked.keys[~known]).any():
            raise InputError(
                f"the sketch {self.sketch!r} tracks keys whose `born` is not the position of their "
                "message; see evenflow.sketches.protocol.FrequentKeys"
            )
        if column.type != self._values.type:
            column = column.cast(self._values.type)
        brought = column.take(pa.array(rows))
        chunks = brought.chunks if isinstance(brought, pa.ChunkedArray) else [brought]
        places[~known] = len(self._values) + np.arange(len(rows))
        self._values = pa.concat_arrays([self._values, *chunks]).take(pa.array(places))
        self._prints = tracked.keys

    def _keep(self, tracked: FrequentKeys) -> None:
        """Drop the values of keys that are no longer tracked."""
        if not np.array_equal(tracked.keys, self._prints):
            places, _ = self._places(tracked.keys)
            self._values = self._values.take(pa.array(places))
            self._prints = tracked.keys


def _typed(column: Any, type_: Any) -> Any:
    """The column, or nulls of that type if its own type is null (as in an empty batch)."""
    return pa.nulls(len(column), type_) if pa.types.is_null(column.type) else column


def _plain(type_: Any) -> Any:
    """The same type without dictionaries and views."""
    if pa.types.is_dictionary(type_):
        return _plain(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_plain(field.type)) for field in type_])
    return type_
