"""A gateway's state between batches, and how a batch's counts change it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError, shapes
from evenflow.ordering import set_number
from evenflow.planning.hot_keys import HotKeys, HotKeysState, Moves
from evenflow.planning.hot_keys_state import NO_MOVES, at_once, joined
from evenflow.sketches import tracked_keys

U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]


class Counted(NamedTuple):
    """The counts of a batch: its most frequent keys, and its number of messages."""

    keys: Sequence[bytes]
    counts: Sequence[int]
    total: int


class Route(NamedTuple):
    """The partition of a tracked key, and its message set."""

    key: bytes
    partition: int
    set: int


class KeyMove(NamedTuple):
    """A key that moves at the beginning of a batch."""

    key: bytes
    source: int
    target: int
    previous: int
    reason: int


@dataclass(frozen=True)
class GatewayState:
    """The state of a gateway between two batches.

    Parameters:
        hot: hot keys, their partitions and sizes, and the counts of the current window.
        names: fingerprint → key, of hot and counted keys.
        sets: fingerprint → message set, of hot keys that have moved.
        window_began: when the current counting window began, in seconds.
        decided: the time of the last decision by best fit.
        moves: with which the next batch begins.
    """

    hot: HotKeysState
    names: Mapping[int, bytes]
    sets: Mapping[int, int]
    window_began: float
    decided: float
    moves: tuple[KeyMove, ...] = ()

    @classmethod
    def start(cls, policy: HotKeys, now: float) -> GatewayState:
        """Nothing counted, no key hot."""
        return cls(policy.start(), {}, {}, now, now)

    def routes(self) -> list[Route]:
        """The tracked keys that have moved. All others are in their home partition, by hash."""
        pairs = zip(self.hot.keys.tolist(), self.hot.partition.tolist(), strict=True)
        return [Route(self.names[k], p, self.sets[k]) for k, p in pairs if k in self.sets]

    def to_json(self, policy: HotKeys) -> dict[str, Any]:
        """As JSON values, with compressed arrays."""
        arrays = {
            name: [array.dtype.str, _compress(array.tobytes())]
            for name, array in policy.to_arrays(self.hot).items()
        }
        names = {str(k): base64.b64encode(name).decode() for k, name in self.names.items()}
        return {
            "arrays": arrays,
            "names": _compress(json.dumps(names, sort_keys=True).encode()),
            "sets": {str(k): s for k, s in self.sets.items()},
            "window_began": self.window_began,
            "decided": self.decided,
            "moves": [[base64.b64encode(move.key).decode(), *move[1:]] for move in self.moves],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], policy: HotKeys) -> GatewayState:
        """The inverse of `to_json`; `InputError` for what is none."""
        try:
            return cls._parsed(plain, policy)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            why = (
                "" if isinstance(error, InputError) else f" ({type(error).__name__}: {error})"[:200]
            )
            raise InputError(
                f"this is not the state of a gateway{why or f': {error}'}; read this checkpoint with "
                "the version of evenflow that wrote it"
            ) from None

    @classmethod
    def _parsed(cls, plain: Mapping[str, Any], policy: HotKeys) -> GatewayState:
        if wrong := _SHAPE(plain, "it"):
            raise InputError(wrong)
        unknown = {dtype for dtype, _ in plain["arrays"].values()} - _DTYPES
        if unknown:
            raise InputError(f"{min(unknown)[:20]!r} is not a type of its arrays")
        arrays = {
            name: np.frombuffer(_unpacked(text), dtype).copy()
            for name, (dtype, text) in plain["arrays"].items()
        }
        names = json.loads(_unpacked(plain["names"]))
        if wrong := _NAMES(names, "names"):
            raise InputError(wrong)
        if any(len(move) != 5 or _MOVE(move[1:], "a move") for move in plain["moves"]):
            raise InputError("a move is not a key and four whole numbers")
        hot, sets = policy.from_arrays(arrays), {int(k): s for k, s in plain["sets"].items()}
        named = {int(k): base64.b64decode(name, validate=True) for k, name in names.items()}
        if (set(hot.keys.tolist()) & set(sets)) - set(named):
            raise InputError("a key that has moved has no name")
        return cls(
            hot,
            named,
            sets,
            plain["window_began"],
            plain["decided"],
            tuple(KeyMove(base64.b64decode(key), *rest) for key, *rest in plain["moves"]),
        )


def advance(
    policy: HotKeys,
    state: GatewayState,
    counted: Counted,
    now: float,
    window: float,
    interval: float,
    epoch: int,
) -> GatewayState:
    """The state after a batch, with the moves that the next batch begins with.

    Guarantee: the same arguments give the same state and the same moves.

    Parameters:
        policy: which keys are hot, and where they go.
        state: before the batch; consumed by this call.
        counted: the batch's counts.
        now: the time in seconds; at most one decision and one window end at it.
        window: seconds of a counting window.
        interval: seconds between two decisions.
        epoch: the number of the next batch, which numbers message sets.
    """
    keys = fingerprint(pa.array(counted.keys, pa.binary()))
    names = {**state.names, **dict(zip(keys.tolist(), counted.keys, strict=True))}
    counts = np.array(counted.counts, np.int64)
    hot = policy.count(state.hot, keys, counts, max(0, counted.total - int(counts.sum())))
    moves, window_began, decided = NO_MOVES, state.window_began, state.decided
    if _is_over(now, window_began, window):
        hot, moves = policy.detect(hot)
        window_began = now
    else:
        hot, moves = policy.detect_early(hot)
    if _is_over(now, decided, interval):
        hot, fitted = policy.decide(hot)
        moves, decided = joined(moves, fitted), now
    return _with_moves(
        GatewayState(hot, names, state.sets, window_began, decided), at_once(moves), epoch
    )


def _with_moves(state: GatewayState, moves: Moves, epoch: int) -> GatewayState:
    """The state with these moves and their message sets, without keys that need not be kept."""
    columns = (moves.keys, moves.source, moves.target, moves.reason)
    listed = tuple(
        KeyMove(state.names[key], source, target, state.sets.get(key, 0), reason)
        for key, source, target, reason in zip(*(c.tolist() for c in columns), strict=True)
    )
    numbers = {key: set_number(epoch, i) for i, key in enumerate(moves.keys.tolist())}
    tracked = set(state.hot.keys.tolist())
    sets = {key: s for key, s in {**state.sets, **numbers}.items() if key in tracked}
    counter = state.hot.counter
    kept = tracked.union(counter.keys[: int(counter.numbers[tracked_keys.SIZE])].tolist())
    names = {key: name for key, name in state.names.items() if key in kept}
    return GatewayState(state.hot, names, sets, state.window_began, state.decided, listed)


def _is_over(now: float, began: float, seconds: float) -> bool:
    # A clock that was set back must not delay decisions.
    return now - began >= seconds or now < began


def _compress(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 1)).decode()


def _unpacked(text: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
    except zlib.error as error:
        raise InputError(f"what is packed cannot be unpacked: {error}") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise InputError("what is packed is cut short, or far too large")
    return content


_MOST_BYTES = 1 << 28
_DTYPES = {"<u8", "<i8", "<i4", "<f8", "|i1"}
_NAMES = shapes.mapping(shapes.text, shapes.fingerprint)
_MOVE = shapes.a_list(shapes.whole(-(2**63), 2**64 - 1))
_WHOLE = shapes.whole(-(2**63), 2**64 - 1)
_SHAPE = shapes.fields(
    {
        "arrays": shapes.mapping(shapes.a_list(shapes.text)),
        "names": shapes.text,
        "sets": shapes.mapping(_WHOLE, shapes.fingerprint),
        "window_began": shapes.number(),
        "decided": shapes.number(),
        "moves": shapes.a_list(shapes.a_list(shapes.anything)),
    }
)
