"""What a gateway remembers from batch to batch, and what it makes of a batch's counts."""

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
from evenflow.ordering import set_number
from evenflow.planning.hot_keys import HotKeys, HotKeysState, Moves
from evenflow.planning.hot_keys_state import NO_MOVES, at_once, joined
from evenflow.sketches import tracked_keys

U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]


class Counted(NamedTuple):
    """What one batch has shown: its most frequent keys, and how many messages it had in all."""

    keys: Sequence[bytes]
    counts: Sequence[int]
    total: int


class Route(NamedTuple):
    """Where one tracked key is, and its message set."""

    key: bytes
    partition: int
    set: int


class KeyMove(NamedTuple):
    """One key that moves at the beginning of a batch."""

    key: bytes
    source: int
    target: int
    previous: int
    reason: int


@dataclass(frozen=True)
class GatewayState:
    """All that a gateway keeps between two batches.

    Parameters:
        hot: hot keys, where they are, their sizes, and the counts of the window under way.
        names: fingerprint → key, of the keys that are hot or counted.
        sets: fingerprint → message set, of the hot keys that have moved.
        window_began: when the counting window under way began, in seconds.
        decided: when best fit was last asked.
        moves: that the next batch begins with.
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
        """The tracked keys that have moved. The others are at home, as by hash."""
        pairs = zip(self.hot.keys.tolist(), self.hot.partition.tolist(), strict=True)
        return [Route(self.names[k], p, self.sets[k]) for k, p in pairs if k in self.sets]

    def to_json(self, policy: HotKeys) -> dict[str, Any]:
        """As plain JSON. Arrays are packed."""
        arrays = {
            name: [array.dtype.str, _packed(array.tobytes())]
            for name, array in policy.to_arrays(self.hot).items()
        }
        names = {str(k): base64.b64encode(name).decode() for k, name in self.names.items()}
        return {
            "arrays": arrays,
            "names": _packed(json.dumps(names, sort_keys=True).encode()),
            "sets": {str(k): s for k, s in self.sets.items()},
            "window_began": self.window_began,
            "decided": self.decided,
            "moves": [[base64.b64encode(move.key).decode(), *move[1:]] for move in self.moves],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], policy: HotKeys) -> GatewayState:
        """From what `to_json` has made."""
        arrays = {
            name: np.frombuffer(_unpacked(text), dtype).copy()
            for name, (dtype, text) in plain["arrays"].items()
        }
        names = json.loads(_unpacked(plain["names"]))
        return cls(
            policy.from_arrays(arrays),
            {int(k): base64.b64decode(name) for k, name in names.items()},
            {int(k): s for k, s in plain["sets"].items()},
            plain["window_began"],
            plain["decided"],
            tuple(KeyMove(base64.b64decode(key), *rest) for key, *rest in plain["moves"]),
        )


def advanced(
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
        state: before the batch. It is used up.
        counted: what the batch has shown.
        now: the time in seconds; at most a decision and a window end in it.
        window: seconds of a counting window.
        interval: seconds between two decisions.
        epoch: the number of the next batch, which numbers message sets.
    """
    keys = fingerprint(pa.array(counted.keys, pa.binary()))
    names = {**state.names, **dict(zip(keys.tolist(), counted.keys, strict=True))}
    counts = np.array(counted.counts, np.int64)
    hot = policy.count(state.hot, keys, counts, max(0, counted.total - int(counts.sum())))
    moves, window_began, decided = NO_MOVES, state.window_began, state.decided
    if _over(now, window_began, window):
        hot, moves = policy.detect(hot)
        window_began = now
    else:
        hot, moves = policy.detect_early(hot)
    if _over(now, decided, interval):
        hot, fitted = policy.decide(hot)
        moves, decided = joined(moves, fitted), now
    return _moved(
        GatewayState(hot, names, state.sets, window_began, decided), at_once(moves), epoch
    )


def _moved(state: GatewayState, moves: Moves, epoch: int) -> GatewayState:
    """With the moves written out, new message sets, and without what need not be remembered."""
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


def _over(now: float, began: float, seconds: float) -> bool:
    # A clock that was set back must not stop decisions for as long.
    return now - began >= seconds or now < began


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 1)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
