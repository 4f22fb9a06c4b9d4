"""The state of a gateway's hot keys, and the moves that it publishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.planning.protocol import F64, I32, U64
from evenflow.sketches import tracked_keys

I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]

# The entries of `numbers`: the count that makes a key hot before the end of its window (−1: not known
# yet), the messages of the last window, and the number of completed windows.
BAR, LAST_TOTAL, WINDOWS = range(3)

_PIECE = 1 << 20  #: messages that `spread_out` returns at a time


class Reason(IntEnum):
    """Why a key moves."""

    HOT = 0  #: newly hot, and its second choice had fewer messages
    FIT = 1  #: best fit
    COOLED = 2  #: no longer hot: it goes home


@dataclass(frozen=True)
class Moves:
    """Keys that change their partition, each at most once, in the order of the decisions."""

    keys: U64
    source: I32
    target: I32
    reason: I8  #: of `Reason`

    def __len__(self) -> int:
        return len(self.keys)


class HotKeysState(NamedTuple):
    """The complete state of a gateway. Hot keys are sorted by fingerprint.

    Parameters:
        counter: the lossy counter of the current window.
        keys: the hot keys.
        partition: the partition of each.
        sizes: their messages in the last window; for a key that became hot since, its messages so far,
            extrapolated to a whole window.
        arrived: messages of the current window by home partition, if `others` is set.
        rest: messages of all other keys in the last window, by partition.
        numbers: see `BAR`, `LAST_TOTAL` and `WINDOWS`.
    """

    counter: tracked_keys.State
    keys: U64
    partition: I32
    sizes: F64
    arrived: I64
    rest: F64
    numbers: I64


def to_arrays(state: HotKeysState) -> dict[str, npt.NDArray]:
    """A flat dictionary of arrays, without the counter's hash table, which can be rebuilt."""
    size = int(state.counter.numbers[tracked_keys.SIZE])
    counter = {
        f"counter_{name}": getattr(state.counter, name)[:size].copy()
        for name in ("keys", "counts", "slack", "born")
    }
    counter["counter_numbers"] = state.counter.numbers.copy()
    return counter | {name: getattr(state, name).copy() for name in HotKeysState._fields[1:]}


def from_arrays(arrays: Mapping[str, npt.NDArray]) -> HotKeysState:
    """The state from the result of `to_arrays`; `InputError` where the arrays do not fit together."""
    _check(arrays)
    counter = tracked_keys.restored(
        *(arrays[f"counter_{name}"] for name in ("keys", "counts", "slack", "born", "numbers"))
    )
    return HotKeysState(counter, *(np.array(arrays[name]) for name in HotKeysState._fields[1:]))


_TYPES = {
    **dict.fromkeys(("counter_keys", "keys"), "u8"),
    **dict.fromkeys(("counter_counts", "counter_slack", "counter_born", "counter_numbers"), "i8"),
    "partition": "i4",
    "sizes": "f8",
    "arrived": "i8",
    "rest": "f8",
    "numbers": "i8",
}


def _check(arrays: Mapping[str, npt.NDArray]) -> None:
    if {name: array.dtype.str[1:] for name, array in arrays.items()} != _TYPES:
        raise InputError("this state has other arrays than a gateway's")
    columns = [f"counter_{name}" for name in ("keys", "counts", "slack", "born")]
    hot, counted = len(arrays["keys"]), len(arrays["counter_keys"])
    fits = (
        all(len(arrays[name]) == counted for name in columns)
        and all(len(arrays[name]) == hot for name in ("partition", "sizes"))
        and len(arrays["rest"]) == len(arrays["arrived"])
        and len(arrays["numbers"]) == WINDOWS + 1
        and len(arrays["counter_numbers"]) == len(tracked_keys.new_state().numbers)
        and int(arrays["counter_numbers"][tracked_keys.SIZE]) == counted
        and not ((arrays["partition"] < 0) | (arrays["partition"] >= len(arrays["rest"]))).any()
    )
    if not fits:
        raise InputError("the arrays of this state do not fit together")


def partition_sizes(partition: I32, sizes: F64, rest: F64) -> F64:
    """R_p, including `rest`."""
    together: F64 = rest + np.bincount(partition, sizes, len(rest))
    return together


def spread_out(fingerprints: U64, counts: I64 | None) -> list[U64]:
    """Repeat each fingerprint by its count, in pieces that fit into memory."""
    keys = np.ascontiguousarray(fingerprints, np.uint64)
    if counts is None:
        return [keys] if len(keys) else []
    if len(counts) != len(keys):
        raise InputError(f"{len(keys)} fingerprints, but {len(counts)} counts")
    if len(counts) and counts.min() < 0:
        raise InputError(f"counts must be at least 0, got {counts.min()}")
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return [
        keys[np.searchsorted(ends, np.arange(begin, min(begin + _PIECE, total)), side="right")]
        for begin in range(0, total, _PIECE)
    ]


def moved(keys: U64, source: I32, target: I32, reason: Reason) -> Moves:
    """The moves among these: where source and target differ."""
    away = source != target
    codes = np.full(int(away.sum()), int(reason), np.int8)
    return Moves(keys[away], source[away].astype(np.int32), target[away].astype(np.int32), codes)


def joined(first: Moves, second: Moves) -> Moves:
    """Both, one after the other."""
    columns = ("keys", "source", "target", "reason")
    return Moves(*(np.concatenate([getattr(first, c), getattr(second, c)]) for c in columns))


def at_once(moves: Moves) -> Moves:
    """Combine successive moves that take effect together: a key that was placed and then moved goes
    straight to its last partition, and one that came back stays."""
    first: dict[int, int] = {}
    last: dict[int, tuple[int, int]] = {}
    columns = (moves.keys, moves.source, moves.target, moves.reason)
    for key, source, target, reason in zip(*(c.tolist() for c in columns), strict=True):
        first.setdefault(key, source)
        last[key] = (target, reason)
    kept = [k for k in first if first[k] != last[k][0]]
    return Moves(
        np.array(kept, np.uint64),
        np.array([first[k] for k in kept], np.int32),
        np.array([last[k][0] for k in kept], np.int32),
        np.array([last[k][1] for k in kept], np.int8),
    )


def merged(
    keys: U64, partition: I32, sizes: F64, new: U64, new_partition: I32, new_sizes: F64
) -> tuple[U64, I32, F64]:
    """Old and new hot keys together, by fingerprint."""
    together = np.concatenate([keys, new])
    order = np.argsort(together, kind="stable")
    return (
        together[order],
        np.concatenate([partition, new_partition])[order],
        np.concatenate([sizes, new_sizes])[order],
    )


NO_MOVES = Moves(
    np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int8)
)
