"""How the checks run a scheme: with copies and guards, checking every answer."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from evenflow.checks.outcome import CheckFailed
from evenflow.checks.streams import U64, Stream
from evenflow.grouping.protocol import I32, GroupingScheme
from evenflow.model import Workers

T = TypeVar("T")

SEED = 7

#: Seven workers with gaps between their ids and in no order, as after removals.
GAPPED = Workers((9, 3, 0, 40, 17, 4, 1000))
#: One worker, two, seven, sixty-four; ids are not always 0 … n − 1.
ROSTERS = (Workers((5,)), Workers.numbered(2), GAPPED, Workers.numbered(64))
#: Four workers with different weights.
UNEVEN = Workers((3, 8, 1, 6), weights=(1.0, 2.0, 3.0, 4.0))

_GUARD = 16
_UNWRITTEN = -7  # never a worker's id


def copied(thing: T) -> T:
    """A pickled copy, as another process would get it."""
    return pickle.loads(pickle.dumps(thing))  # type: ignore[no-any-return]


def route(scheme: GroupingScheme, state: Any, keys: U64) -> I32:
    """The workers of `keys`. The scheme gets a copy of the keys, and guards around `out` detect a
    kernel that writes beyond its end."""
    guarded = np.full(len(keys) + 2 * _GUARD, _UNWRITTEN, np.int32)
    out = guarded[_GUARD : _GUARD + len(keys)]
    scheme.route(state, keys.copy(), out)
    if (guarded[:_GUARD] != _UNWRITTEN).any() or (
        guarded[_GUARD + len(keys) :] != _UNWRITTEN
    ).any():
        raise CheckFailed(
            f"{scheme.name}: route wrote outside of `out` when given {len(keys)} messages"
        )
    return out


def routed(
    scheme: GroupingScheme,
    stream: Stream,
    roster: Workers = GAPPED,
    seed: int = SEED,
    source: int = 0,
) -> I32:
    """The workers of the whole stream from a fresh state, in one batch."""
    return route(scheme, scheme.start(roster, seed, source), stream.keys)


def cuts(messages: int, seed: int = SEED) -> Iterator[tuple[int, int]]:
    """(begin, end) of batches: a few of one message, some empty, others of any length."""
    rng = np.random.default_rng(seed)
    points = np.sort(rng.integers(0, messages + 1, 12))
    ends = [0, 1, 2, 3, 4, 4, 8, *points.tolist(), *points[::4].tolist(), messages, messages]
    begin = 0
    for end in sorted(min(e, messages) for e in ends):
        yield begin, end
        begin = end


def thirds(stream: Stream) -> tuple[U64, U64, U64]:
    """Before, between and after two changes."""
    a, b = len(stream.keys) // 3, 2 * len(stream.keys) // 3
    return stream.keys[:a], stream.keys[a:b], stream.keys[b:]


def require_same(
    scheme: GroupingScheme, stream: Stream, expected: I32, got: I32, ways: tuple[str, str]
) -> None:
    """Fail at the first message that went elsewhere; `ways` describes the two routings."""
    different = np.flatnonzero(expected != got)
    if len(different):
        at = int(different[0])
        raise CheckFailed(
            f"{scheme.name} on {stream}, message {at} (key {stream.keys[at]}): worker "
            f"{expected[at]} {ways[0]}, worker {got[at]} {ways[1]}; {len(different)} of {len(got)} "
            "messages differ"
        )


def require_live(
    scheme: GroupingScheme, stream: Stream, keys: U64, out: I32, roster: Workers, when: str = ""
) -> None:
    """Fail at the first message to a worker that is not on the roster."""
    wrong = np.flatnonzero(~np.isin(out, np.array(roster.ids, np.int32)))
    if len(wrong):
        at = int(wrong[0])
        unwritten = out[at] == _UNWRITTEN
        sent = "to nobody (`out` was not written)" if unwritten else f"to worker {out[at]}"
        raise CheckFailed(
            f"{scheme.name} on {stream}{when}, message {at} (key {keys[at]}): sent {sent}; "
            f"live workers are {_short(roster.ids)}"
        )


def require_whole_keys(
    scheme: GroupingScheme, stream: Stream, keys: U64, outs: Iterable[I32], when: str = ""
) -> None:
    """Fail at the first message whose key went elsewhere before; one of `outs` per source."""
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    home: I32 | None = None
    for source, out in enumerate(outs):
        if home is None:
            home = out[first]
        moved = np.flatnonzero(out != home[number])
        if len(moved):
            at = int(moved[0])
            raise CheckFailed(
                f"{scheme.name} does not split keys, but on {stream}{when}, message {at} of source "
                f"{source}: key {keys[at]} went to worker {out[at]}, and before to "
                f"{home[number[at]]}"
            )


def _short(ids: tuple[int, ...]) -> str:
    if len(ids) <= 12:
        return str(list(ids))
    return f"{ids[0]}, {ids[1]}, … {ids[-1]} ({len(ids)} of them)"
