"""Checks of where a scheme sends messages while the roster does not change."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenflow.checks.outcome import CheckFailed, NotApplicable
from evenflow.checks.probing import (
    GAPPED,
    ROSTERS,
    SEED,
    UNEVEN,
    copied,
    cuts,
    require_live,
    require_same,
    require_whole_keys,
    route,
    routed,
)
from evenflow.checks.streams import U64, Stream, fingerprints
from evenflow.grouping.protocol import I32, GroupingScheme
from evenflow.model import Workers

_WATCHED = 60  # messages per stream that are routed one at a time
_SOURCES = (0, 1, 6)


def only_live_workers(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """Every message goes to a worker on the roster, for any size and ids."""
    for roster, stream in itertools.product(ROSTERS, streams):
        require_live(scheme, stream, stream.keys, routed(scheme, stream, roster), roster)


def only_declared_candidates(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """`candidates`, called before a message is routed, contains the worker that it then goes to.

    The call changes nothing, and all candidates are live. A scheme that does not split keys has one.
    """
    for roster, stream in itertools.product((GAPPED, Workers.numbered(64)), streams):
        watch_candidates(scheme, scheme.start(roster, SEED), stream, roster)


def watch_candidates(scheme: GroupingScheme, state: Any, stream: Stream, roster: Workers) -> None:
    """Route `stream` from `state`; call `candidates` before some messages, and compare."""
    messages = len(stream.keys)
    anywhere = np.random.default_rng(SEED).integers(0, messages, _WATCHED)
    # The first messages too: schemes that learn take other branches then.
    watched = np.union1d(np.arange(min(20, messages)), anywhere)
    asked, quiet = np.empty(messages, np.int32), np.empty(messages, np.int32)
    begin, unasked = 0, copied(state)
    for at in [*watched.tolist(), messages]:
        asked[begin:at] = route(scheme, state, stream.keys[begin:at])
        quiet[begin:at] = route(scheme, unasked, stream.keys[begin:at])
        begin = at + 1
        if at < messages:
            key = int(stream.keys[at])
            where = f"{scheme.name} on {stream}, message {at} (key {key})"
            declared = scheme.candidates(state, key)
            _require_sound(scheme, declared, roster, where)
            asked[at:begin] = route(scheme, state, stream.keys[at:begin])
            quiet[at:begin] = route(scheme, unasked, stream.keys[at:begin])
            if asked[at] not in declared:
                raise CheckFailed(
                    f"{where}: sent to worker {asked[at]}; declared were {declared.tolist()}"
                )
    ways = ("without calls of candidates", "with them")
    require_same(scheme, stream, quiet, asked, ways)


def _require_sound(scheme: GroupingScheme, declared: I32, roster: Workers, where: str) -> None:
    if not isinstance(declared, np.ndarray) or declared.dtype != np.int32 or declared.ndim != 1:
        raise CheckFailed(f"{where}: candidates must be an int32 array, got {declared!r}")
    workers = set(declared.tolist())
    if not workers <= set(roster.ids):
        raise CheckFailed(
            f"{where}: candidates {sorted(workers - set(roster.ids))} are not on the roster"
        )
    if not scheme.splits_keys and len(workers) != 1:
        raise CheckFailed(
            f"{where}: a scheme that does not split keys has one candidate, got {sorted(workers)}"
        )


def batches_change_nothing(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """A stream cut into batches, some of them empty, is routed as in one piece."""
    for stream in streams:
        state = scheme.start(GAPPED, SEED)
        pieces = [route(scheme, state, stream.keys[a:b]) for a, b in cuts(len(stream.keys))]
        whole = routed(scheme, stream)
        require_same(scheme, stream, whole, np.concatenate(pieces), ("in one batch", "in several"))


def pickling_changes_nothing(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """Pickling configuration and state between batches does not change routing."""
    for stream in streams:
        state, kept = scheme.start(GAPPED, SEED), scheme.start(GAPPED, SEED)
        carried = scheme
        for begin, end in cuts(len(stream.keys)):
            batch = Stream(f"{stream.name}, from message {begin}", stream.keys[begin:end])
            expected = route(scheme, kept, batch.keys)
            carried, state = copied(carried), copied(state)
            got = route(carried, state, batch.keys)
            require_same(scheme, batch, expected, got, ("without pickling", "after it"))


def running_again_changes_nothing(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """Routing is a pure function of the state and the keys.

    Equal arguments of `start` give equivalent states, running a batch again from a copy of its state
    gives the same answer, and other sources that use the same instance do not interfere.
    """
    for stream in streams:
        middle = len(stream.keys) // 2
        early, late = stream.keys[:middle], stream.keys[middle:]
        state, twin = scheme.start(GAPPED, SEED, 3), scheme.start(GAPPED, SEED, 3)
        other = scheme.start(GAPPED, SEED, 4)
        first = route(scheme, state, early)
        route(scheme, other, late)
        again = route(scheme, twin, early)
        head = Stream(f"{stream.name}, first half", early)
        require_same(scheme, head, first, again, ("the first time", "from an equal state"))
        before = copied(state)
        second = route(scheme, state, late)
        route(scheme, other, early)
        again = route(scheme, before, late)
        tail = Stream(f"{stream.name}, second half", late)
        require_same(scheme, tail, second, again, ("the first time", "when run again"))


def keys_are_not_written(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """`route` does not change the caller's keys."""
    for stream in streams:
        keys = stream.keys.copy()
        scheme.route(scheme.start(GAPPED, SEED), keys, np.empty(len(keys), np.int32))
        changed = np.flatnonzero(keys != stream.keys)
        if len(changed):
            at = int(changed[0])
            raise CheckFailed(
                f"{scheme.name} on {stream}, message {at}: route changed the caller's key from "
                f"{stream.keys[at]} to {keys[at]}"
            )


def one_worker_a_key(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """A scheme that does not split keys sends each to one worker, the same from every source."""
    if scheme.splits_keys:
        raise NotApplicable("splits keys")
    for roster, stream in itertools.product((GAPPED, Workers.numbered(64)), streams):
        outs = (routed(scheme, stream, roster, source=source) for source in _SOURCES)
        require_whole_keys(scheme, stream, stream.keys, outs)


def seeds_matter(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """Another seed sends most keys elsewhere; another source with the same seed has the same
    candidates.

    Checked on fresh states, and only if routing depends on the key.
    """
    keys = fingerprints(np.arange(40, dtype=np.uint64))
    here = _first_workers(scheme, scheme.start(64, SEED), keys)
    if (here == here[0]).all():
        raise NotApplicable("where a message goes does not depend on its key")
    same = int((here == _first_workers(scheme, scheme.start(64, SEED + 1), keys)).sum())
    if same > len(keys) // 2:
        raise CheckFailed(
            f"{scheme.name}: {same} of {len(keys)} keys go to the same worker under seeds {SEED} "
            f"and {SEED + 1}; a different seed should place keys differently"
        )
    ours, theirs = scheme.start(64, SEED), scheme.start(64, SEED, source=5)
    for key in keys.tolist():
        candidates = [sorted(set(scheme.candidates(s, key).tolist())) for s in (ours, theirs)]
        if candidates[0] != candidates[1]:
            raise CheckFailed(
                f"{scheme.name}: key {key} has the candidates {candidates[0]} in source 0 and "
                f"{candidates[1]} in source 5; sources that share a seed share hash functions"
            )


def _first_workers(scheme: GroupingScheme, fresh: Any, keys: U64) -> I32:
    """The worker of each key if its message were the first."""
    return np.concatenate([route(scheme, copied(fresh), key) for key in keys[:, np.newaxis]])


def own_guarantee_holds(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """`check_guarantee(workers, keys, out)`, if the scheme has it, finds no violation.

    Called at several moments of every stream, and with keys that all hash to one worker.
    """
    check = getattr(scheme, "check_guarantee", None)
    if check is None:
        raise NotApplicable("has no check_guarantee(workers, keys, out)")
    rosters = [*ROSTERS]
    if scheme.weighted:
        rosters.append(UNEVEN)
    for roster in rosters:
        # Guarantees are expensive to check: on all streams and at several moments for one roster,
        # for the others at the end of the most skewed streams.
        all_of_it = roster is GAPPED
        fed = streams if all_of_it else streams[:3]
        for stream in (*fed, _colliding(scheme, roster, len(streams[0].keys))):
            out = routed(scheme, stream, roster, source=2)
            moments = {1, 10, 300, len(out) // 2} if all_of_it else set()
            for end in sorted(moments | {len(out)}):
                broken = check(roster, stream.keys[:end], out[:end])
                if broken is not None:
                    raise CheckFailed(
                        f"{scheme.name} on {stream}, {len(roster)} workers, after {end} messages: "
                        f"{broken}"
                    )


def _colliding(scheme: GroupingScheme, roster: Workers, messages: int) -> Stream:
    """An adversarial stream: keys whose first messages would all go to the same worker."""
    keys = fingerprints(np.arange(256, dtype=np.uint64) + np.uint64(1 << 32))
    firsts = _first_workers(scheme, scheme.start(roster, SEED), keys)
    return Stream("keys of one worker", np.resize(keys[firsts == firsts[0]], messages))
