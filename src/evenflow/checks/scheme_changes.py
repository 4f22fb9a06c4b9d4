"""Checks of how a scheme handles changes of the roster and of weights, and feedback."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from evenflow.checks.contract import require_refused
from evenflow.checks.outcome import CheckFailed, NotApplicable
from evenflow.checks.probing import (
    GAPPED,
    SEED,
    UNEVEN,
    copied,
    require_live,
    require_same,
    require_whole_keys,
    route,
    routed,
    thirds,
)
from evenflow.checks.scheme_routing import watch_candidates
from evenflow.checks.streams import Stream, fingerprints, zipf
from evenflow.grouping.protocol import I32, GroupingScheme
from evenflow.model import Feedback, InputError, RoutingTable, Signal, Workers

_TOLERANCE = 0.5  # a worker's load may differ from its fair share by this fraction
_OVERLOADED = 2.5  # times its fair share: more than chance and uneven hash ranges explain
_DISTINCT = Stream("distinct", fingerprints(np.arange(60_000, dtype=np.uint64)))


def _rosters_over_time(scheme: GroupingScheme) -> Iterator[list[Workers]]:
    """Histories of a roster: some workers leave, all but one leave, some join, all are replaced."""
    alone = GAPPED.without(*GAPPED.ids[:-1])
    yield [GAPPED, GAPPED.without(9, 40), alone, alone.joined_by(2, 77), Workers.numbered(64)]
    yield [Workers.numbered(2), Workers.numbered(16), Workers.numbered(3), Workers((100, 101))]
    if scheme.weighted:
        yield [UNEVEN, UNEVEN.without(8), UNEVEN.without(8).joined_by(20, weight=9.0), GAPPED]


def resizing_keeps_to_live_workers(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """After workers have left or joined, every message and every candidate is a live worker."""
    for stream in streams:
        for history in _rosters_over_time(scheme):
            state = scheme.start(history[0], SEED)
            pieces = np.array_split(stream.keys, len(history))
            for step, (roster, keys) in enumerate(zip(history, pieces, strict=True)):
                if step:
                    state = copied(scheme.resize(state, roster))
                when = f" after {step} changes of the roster"
                require_live(scheme, stream, keys, route(scheme, state, keys), roster, when)
    for stream, history in itertools.product(streams[:1], _rosters_over_time(scheme)):
        state = scheme.start(history[0], SEED)
        for roster in history[1:]:
            route(scheme, state, stream.keys[:1000])
            state = scheme.resize(state, roster)
            resized = Stream(f"{stream.name}, resized to {len(roster)}", stream.keys[:2000])
            watch_candidates(scheme, state, resized, roster)


def resizing_to_the_same_roster_changes_nothing(
    scheme: GroupingScheme, streams: Sequence[Stream]
) -> None:
    """`resize` with the current roster does not change routing."""
    for roster, stream in itertools.product((GAPPED, Workers.numbered(5)), streams):
        early, late, _ = thirds(stream)
        state = scheme.start(roster, SEED)
        route(scheme, state, early)
        resized = scheme.resize(copied(state), roster)
        tail = Stream(f"{stream.name}, second third", late)
        expected, got = route(scheme, state, late), route(scheme, resized, late)
        require_same(scheme, tail, expected, got, ("without resizing", "after it"))


def resizing_keeps_keys_whole(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """A scheme that does not split keys still has one worker per key after a change of the roster,
    also across sources that have seen different messages."""
    if scheme.splits_keys:
        raise NotApplicable("splits keys")
    for stream in streams:
        for history in _rosters_over_time(scheme):
            early, middle, late = thirds(stream)
            outs = []
            for source, seen in enumerate((early, middle[::2])):
                state = scheme.start(history[0], SEED, source)
                for roster in history[1:]:
                    route(scheme, state, seen)
                    state = scheme.resize(state, roster)
                    outs.append(route(scheme, state, late))
            changes = len(history) - 1
            for change in range(changes):
                when = f" after {change + 1} changes of the roster"
                require_whole_keys(scheme, stream, late, outs[change::changes], when)


def empty_feedback_changes_nothing(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """Empty feedback, at any time, does not change routing."""
    for stream in streams:
        state = scheme.start(GAPPED, SEED)
        outs = []
        for time, keys in enumerate(thirds(stream)):
            scheme.observe(state, Feedback(time=float(100 * time)))
            outs.append(route(scheme, state, keys))
        expected, got = routed(scheme, stream), np.concatenate(outs)
        require_same(scheme, stream, expected, got, ("without feedback", "with empty feedback"))


def signals_keep_to_live_workers(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """After any signals, also of workers that have left, messages go to live workers.

    Observations are part of the state: a pickled copy routes in the same way.
    """
    rng = np.random.default_rng(SEED)
    for stream in streams:
        roster, state, sent = GAPPED, scheme.start(GAPPED, SEED), 0
        for time, keys in enumerate(np.array_split(stream.keys, 24)):
            who = rng.permutation(GAPPED.ids)[: rng.integers(0, len(GAPPED) + 1)]
            signals = {int(w): Signal(int(rng.choice([1, 0, -1]))) for w in who}
            scheme.observe(state, Feedback(time=float(sent), signals=signals))
            sent += len(keys)
            if time == 12:
                roster = GAPPED.without(17, 1000)
                state = scheme.resize(state, roster)
            before = copied(state)
            out = route(scheme, state, keys)
            when = f" after signals of {time + 1} moments"
            require_live(scheme, stream, keys, out, roster, when)
            part = Stream(f"{stream.name}{when}", keys)
            require_same(
                scheme, part, out, route(scheme, before, keys), ("at first", "from a copy")
            )
        after = Stream(f"{stream.name} after signals", stream.keys[:1000])
        watch_candidates(scheme, state, after, roster)


def plans_keep_to_live_workers(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """A routing table sends to live workers only, and schemes that do not split keys keep them whole.

    A table with a worker that is not on the roster may be refused (`InputError`).
    """
    for stream in streams:
        early, middle, late = thirds(stream)
        keys = np.unique(stream.keys)[:50].tolist()
        plan = RoutingTable({key: GAPPED.ids[i % 7] for i, key in enumerate(keys)})
        outs, after = [], []
        roster = GAPPED.without(9, 3)
        for source in (0, 1):
            state = scheme.start(GAPPED, SEED, source)
            route(scheme, state, (early, middle[::2])[source])
            scheme.observe(state, Feedback(time=1.0, plan=plan))
            outs.append(route(scheme, state, late))
            require_live(scheme, stream, late, outs[-1], GAPPED, " after a plan")
            state = scheme.resize(state, roster)
            after.append(route(scheme, state, late))
            require_live(scheme, stream, late, after[-1], roster, " after a plan and removals")
            try:
                scheme.observe(state, Feedback(time=2.0, plan=plan))
            except InputError:
                continue
            again = route(scheme, state, late)
            require_live(scheme, stream, late, again, roster, " after a plan with removed workers")
        if not scheme.splits_keys:
            require_whole_keys(scheme, stream, late, outs, " after a plan")
            require_whole_keys(scheme, stream, late, after, " after a plan and removals")


def resizing_shares_out_work(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """After a change of the roster no worker is idle or overloaded: new, returning or old.

    Checked with distinct keys, which every scheme can balance.
    """
    alone, away = Workers.numbered(1), GAPPED.without(9)
    for history in ([alone, Workers.numbered(16)], [GAPPED, away, away.joined_by(9), GAPPED]):
        state = scheme.start(history[0], SEED)
        route(scheme, state, _DISTINCT.keys[:12_000])
        for change, roster in enumerate(history[1:], start=1):
            state = scheme.resize(state, roster)
            out = route(scheme, state, _DISTINCT.keys[12_000 * change :][:4000])
            fair = len(out) / len(roster)
            loads = {worker: int((out == worker).sum()) for worker in roster.ids}
            for worker, load in loads.items():
                if not 0 < load <= _OVERLOADED * fair:
                    raise CheckFailed(
                        f"{scheme.name} on {_DISTINCT}: worker {worker} got {load} of the "
                        f"{len(out)} messages after a change from {len(history[change - 1])} to "
                        f"{len(roster)} workers; {fair:.0f} would be fair, and 1 to "
                        f"{_OVERLOADED * fair:.0f} are accepted"
                    )
            route(scheme, state, _DISTINCT.keys[12_000 * change :][4000:12_000])


def weights_are_followed_or_refused(scheme: GroupingScheme, streams: Sequence[Stream]) -> None:
    """With `weighted = True` loads are roughly in proportion to weights, also right after a change;
    otherwise `start` and `resize` refuse weights that differ, and accept equal ones.
    """
    alike = Workers(UNEVEN.ids, weights=(2.0,) * len(UNEVEN))
    if not scheme.weighted:
        state = scheme.start(alike, SEED)
        differ = "workers of different weights"
        require_refused(scheme, f"start({differ})", partial(scheme.start, UNEVEN))
        require_refused(scheme, f"resize(state, {differ})", partial(scheme.resize, state, UNEVEN))
        return
    # So little skew that even a scheme that does not split keys can follow the weights.
    keys = fingerprints(zipf(60_000, 0.8, 100_000, np.random.default_rng(SEED)))
    stream = Stream("zipf 0.8 of many keys", keys)
    _require_proportion(scheme, routed(scheme, stream, UNEVEN), f"{stream}")
    for before in (GAPPED, alike):
        state = scheme.start(before, SEED)
        route(scheme, state, keys[:20_000])
        out = route(scheme, scheme.resize(state, UNEVEN), keys[20_000:40_000])
        when = f"{stream} after a change from {len(before)} workers of equal weights"
        _require_proportion(scheme, out, when)


def _require_proportion(scheme: GroupingScheme, out: I32, when: str) -> None:
    assert UNEVEN.weights is not None
    for worker, weight in zip(UNEVEN.ids, UNEVEN.weights, strict=True):
        wanted, got = weight / sum(UNEVEN.weights), float((out == worker).mean())
        if abs(got - wanted) > _TOLERANCE * wanted:
            raise CheckFailed(
                f"{scheme.name} on {when}: worker {worker} of weight {weight} of "
                f"{sum(UNEVEN.weights)} got {got:.1%} of {len(out)} messages; its fair share is "
                f"{wanted:.1%}"
            )
