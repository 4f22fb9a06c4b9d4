"""What the controller remembers from one interval to the next: small, and kept with the checkpoint."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenflow.model import InputError
from evenflow.planning.protocol import F64, I32
from evenflow.planning.seen import Seen

KEYS = 1 << 14  #: that are remembered at least, if there are as many
KEYS_PER_WORKER = 256  #: so that sampling misses a worker's share by about 1 %
MOST_KEYS = 1 << 16  #: that are remembered at most

_ROW = np.dtype([("key", "<u8"), ("rows", "<f4"), ("cost", "<f4"), ("state", "<f4")])
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Memory:
    """The statistics of past intervals, aged, and what was predicted for the next one.

    Guarantee: at most `MOST_KEYS` keys, 20 bytes each. `from_json(to_json())` is the same again: what a
    restarted driver plans with is what the one before it would have planned with.

    Parameters:
        past: what is known of the keys.
        predicted: how far the worst worker is predicted to be above its share, if the table is new.

    Example:
        >>> import numpy as np
        >>> seen = Seen.of(np.array([7, 9], np.uint64), np.ones(2), np.ones(2), np.full(2, 8.0))
        >>> memory = Memory.of(seen, np.zeros(2, np.int32), workers=4, predicted=0.25)
        >>> again = Memory.from_json(memory.to_json())
        >>> again.past.keys.tolist(), again.past.state.tolist(), again.predicted
        ([7, 9], [8.0, 8.0], 0.25)
    """

    past: Seen = field(default_factory=Seen.nothing)
    predicted: float | None = None

    @classmethod
    def of(
        cls,
        past: Seen,
        worker: I32,
        workers: int,
        predicted: float | None,
        limit: int | None = None,
    ) -> Memory:
        """What is to be remembered of these statistics.

        The heaviest keys are remembered as they are. Of the others a sample is, each with the weight of
        those that it stands for: what is known of a worker's load stays, to within one of them.

        Parameters:
            past: the statistics.
            worker: where each key is.
            workers: how many there are.
            predicted: see `Memory`.
            limit: how many keys are remembered; by default as many as the workers need.
        """
        if limit is None:
            limit = min(MOST_KEYS, max(KEYS, KEYS_PER_WORKER * workers))
        return cls(_rounded(_sampled(past, worker, limit)), predicted)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        rows = np.empty(len(self.past), _ROW)
        for name, column in zip(_ROW.names or (), _columns(self.past), strict=True):
            rows[name] = column
        # Column by column: fingerprints do not compress, counts do.
        content = zlib.compress(b"".join(rows[name].tobytes() for name in _ROW.names or ()), 1)
        return {
            "keys": len(rows),
            "columns": base64.b64encode(content).decode(),
            "predicted": self.predicted,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Memory:
        """From the result of `to_json`, maybe among other entries; nothing, if it is not there."""
        try:
            if "keys" not in plain:
                return cls()
            n, predicted = plain["keys"], plain["predicted"]
            if type(n) is not int or not 0 <= n <= MOST_KEYS:
                raise ValueError(f"{n!r} keys")
            if predicted is not None and not math.isfinite(predicted):
                raise ValueError(f"{predicted!r} predicted")
            size = n * _ROW.itemsize
            unpacking = zlib.decompressobj()
            content = unpacking.decompress(
                base64.b64decode(plain["columns"], validate=True), size + 1
            )
            if len(content) != size:
                raise ValueError(f"{len(content)} bytes for {n} keys")
            keys = np.frombuffer(content, "<u8", n).astype(np.uint64)
            numbers = np.frombuffer(content, "<f4", 3 * n, 8 * n).reshape(3, n).astype(np.float64)
            if (
                not np.isfinite(numbers).all()
                or (numbers < 0).any()
                or (keys[1:] <= keys[:-1]).any()
            ):
                raise ValueError("keys out of order, or numbers that are none")
        except (
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            binascii.Error,
            zlib.error,
        ) as error:
            raise InputError(
                f"this is not what a controller remembers ({error}); read this checkpoint with the "
                "version of evenflow that wrote it"
            ) from None
        return cls(Seen(keys, *numbers), None if predicted is None else float(predicted))


def _columns(seen: Seen) -> tuple[Any, F64, F64, F64]:
    return seen.keys, seen.rows, seen.costs, seen.state


def _rounded(seen: Seen) -> Seen:
    """As it is stored, so that it makes no difference whether it was."""
    rounded = (
        np.minimum(column, _LARGEST).astype(np.float32).astype(np.float64)
        for column in (seen.rows, seen.costs, seen.state)
    )
    return Seen(seen.keys, *rounded)


def _sampled(seen: Seen, worker: I32, limit: int) -> Seen:
    """The heavier half of the limit as it is; of the rest every so many rows the key that they are of.

    A systematic sample in the order of the workers, so that each keeps its sum but for one step.
    """
    if len(seen) <= limit:
        return seen
    heavy = np.zeros(len(seen), bool)
    heavy[np.argsort(-seen.costs, kind="stable")[: limit // 2]] = True
    light = np.flatnonzero(~heavy & (seen.costs > 0))
    light = light[np.argsort(worker[light], kind="stable")]
    ends = np.cumsum(seen.costs[light])
    step = float(ends[-1]) / (limit - limit // 2) if len(ends) else 0.0
    if step <= 0 or not math.isfinite(step):
        return _chosen(seen, np.flatnonzero(heavy), np.ones(limit // 2))
    marks = np.floor(ends / step + 0.5)
    hits = np.diff(marks, prepend=0.0)
    kept = light[hits > 0]
    factor = hits[hits > 0] * step / seen.costs[kept]
    both = np.concatenate([np.flatnonzero(heavy), kept])
    order = np.argsort(both)
    return _chosen(seen, both[order], np.concatenate([np.ones(heavy.sum()), factor])[order])


def _chosen(seen: Seen, at: Any, factor: F64) -> Seen:
    return Seen(seen.keys[at], seen.rows[at] * factor, seen.costs[at] * factor, seen.state[at])
