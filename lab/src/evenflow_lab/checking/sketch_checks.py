"""All checks of a sketch: what every sketch must keep, as code.

`run_sketch_checks(MySketch()).raise_if_failed()` in a test, or by hand:
`python -m evenflow_lab.checking.sketch_checks my-sketch`, with parameters after a colon. Without a name
all sketches are checked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from evenflow import sketches
from evenflow.checks import contract
from evenflow.checks.__main__ import check_by_name
from evenflow.checks.outcome import CheckFailed, NotApplicable, Report, run
from evenflow.checks.probing import copied, cuts
from evenflow.checks.streams import U64, Stream, fingerprints, standard_streams
from evenflow.sketches.protocol import Sketch
from evenflow_lab.checking.exact_counts import ExactCounts

SketchCheck = Callable[[Sketch, Sequence[Stream]], None]

_METHODS = ("start", "update", "total", "bounds", "hot", "age", "merge")
_SHARES = (0.5, 0.1, 0.02, 0.001)


def protocol_is_complete(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """The protocol's name and methods are there."""
    contract.require_members(sketch, {"name": str}, _METHODS)


def state_is_plain_arrays(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """The state is a NamedTuple of arrays (or of such): what kernels and checkpoints take."""
    contract.require_plain(sketch.name, _counted(sketch, sketch.start(), streams[0].keys))


def bounds_hold(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """For every key, `lower ≤ true count ≤ upper` at any time, and the total is right."""
    for stream in streams:
        truth, state = ExactCounts(stream, sketch), sketch.start()
        for begin, end in _moments(stream):
            truth.count_to(end)
            state = _counted(sketch, state, stream.keys[begin:end])
            when = f"after {end} messages"
            truth.require_bounds(sketch, state, when)
            truth.require_total(sketch, state, when)


def bounds_hold_after_ageing(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """The same where counts are halved from time to time."""
    for stream in streams:
        truth, state = ExactCounts(stream, sketch), sketch.start()
        for times, (begin, end) in enumerate(_moments(stream), start=1):
            truth.count_to(end)
            state = _counted(sketch, state, stream.keys[begin:end])
            truth.age()
            sketch.age(state)
            when = f"after {end} messages, aged {times} times"
            truth.require_bounds(sketch, state, when)
            truth.require_total(sketch, state, when)
            for share in _SHARES:
                truth.require_hot(sketch, state, share, when)


def hot_misses_no_key(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """`hot` lists every key whose true count is `share` of the total, sorted, with its bounds."""
    for stream in streams:
        truth, state = ExactCounts(stream, sketch), sketch.start()
        for begin, end in _moments(stream):
            truth.count_to(end)
            state = _counted(sketch, state, stream.keys[begin:end])
            for share in _SHARES:
                truth.require_hot(sketch, state, share, f"after {end} messages")


def born_is_a_message_of_the_key(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """`born` of a hot key is the position of a message with that key; −1 after merging."""
    for stream in streams:
        middle = len(stream.keys) // 2
        state = _counted(sketch, sketch.start(), stream.keys[:middle])
        state = _counted(sketch, state, stream.keys[middle:])
        _require_born(sketch, stream, sketch.hot(state, 0.001), stream.keys)
        parts = [stream.keys[:middle], stream.keys[middle:]]
        merged = sketch.merge([_counted(sketch, sketch.start(), part) for part in parts])
        hot = sketch.hot(merged, 0.001)
        if (hot.born != -1).any():
            raise CheckFailed(
                f"{sketch.name} on {stream}: born is {hot.born.max()} after merging, expected −1"
            )
        went_on = _counted(sketch, merged, stream.keys)
        twice = np.concatenate([stream.keys, stream.keys])
        _require_born(sketch, stream, sketch.hot(went_on, 0.001), twice, merged_at=len(stream.keys))


def _require_born(
    sketch: Sketch, stream: Stream, hot: Any, counted: np.ndarray, merged_at: int = 0
) -> None:
    for key, born in zip(hot.keys.tolist(), hot.born.tolist(), strict=True):
        if born == -1 and merged_at:
            continue
        if not merged_at <= born < len(counted) or counted[born] != key:
            raise CheckFailed(
                f"{sketch.name} on {stream}: key {key} is said to be born at message {born}, which "
                "is not one of its messages"
            )


def batches_change_nothing(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """A stream cut into batches, empty ones among them, is counted as in one piece."""
    for stream in streams:
        state = sketch.start()
        for begin, end in cuts(len(stream.keys)):
            state = _counted(sketch, state, stream.keys[begin:end])
        whole = _counted(sketch, sketch.start(), stream.keys)
        _require_same(sketch, stream, whole, state, "in several batches and in one")


def pickling_changes_nothing(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """Configuration and state that go through pickle between batches count as if they had not."""
    for stream in streams:
        carried, state, kept = sketch, sketch.start(), sketch.start()
        for begin, end in cuts(len(stream.keys)):
            carried, state = copied(carried), copied(state)
            state = _counted(carried, state, stream.keys[begin:end])
            kept = _counted(sketch, kept, stream.keys[begin:end])
        _require_same(sketch, stream, kept, state, "with and without pickling")


def running_again_changes_nothing(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """Counting is a pure function of the state and the keys: no other state interferes."""
    for stream in streams:
        middle = len(stream.keys) // 2
        state = _counted(sketch, sketch.start(), stream.keys[:middle])
        before = copied(state)
        state = _counted(sketch, state, stream.keys[middle:])
        _counted(sketch, sketch.start(), stream.keys[: middle // 2])
        again = _counted(sketch, before, stream.keys[middle:])
        _require_same(sketch, stream, state, again, "at first and when run again")


def keys_are_not_written(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """The caller's keys are the same after `update`, `bounds` and `hot` as before."""
    for stream in streams:
        keys = stream.keys.copy()
        state = sketch.update(sketch.start(), keys)
        sketch.bounds(state, keys)
        sketch.hot(state, 0.01)
        if not np.array_equal(keys, stream.keys):
            raise CheckFailed(f"{sketch.name} on {stream}: the caller's keys were changed")


def merging_keeps_bounds(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """The bounds of a merged state hold for the union of its sources, aged ones and empty ones too.

    The merged states stay as they were, also when the union goes on counting.
    """
    for stream, aged in ((s, aged) for s in streams for aged in (False, True)):
        cut = len(stream.keys) // 3
        rest = stream.keys[cut:]
        parts = [stream.keys[:cut], rest[0::2], rest[1::2], stream.keys[:0]]
        # Of the whole stream's keys, so that counts of parts can be added.
        truth = ExactCounts(stream, sketch)
        states = []
        for part in parts:
            of_part = ExactCounts(Stream(stream.name, part), sketch)
            of_part.count_to(len(part))
            states.append(_counted(sketch, sketch.start(), part))
            if aged and len(states) == 1:
                of_part.age()
                sketch.age(states[0])
            truth.counts[np.searchsorted(truth.keys, of_part.keys)] += of_part.counts
        before = copied(states)
        when = f"merged from {len(parts)} sources{', one of them aged' if aged else ''}"
        merged = sketch.merge(states)
        truth.require_bounds(sketch, merged, when)
        for share in _SHARES:
            truth.require_hot(sketch, merged, share, when)
        total, parts_total = sketch.total(merged), sum(sketch.total(s) for s in before)
        if not truth.total - 1e-6 <= total <= parts_total:
            raise CheckFailed(
                f"{sketch.name} on {stream}, {when}: total is {total}, expected {parts_total}"
            )
        if getattr(sketch, "half_life", None) is None:
            merged = _counted(sketch, merged, stream.keys)
            truth.count_to(len(stream.keys))
            truth.require_bounds(sketch, merged, f"{when}, then counted on")
        for part, was in zip(states, before, strict=True):
            _require_same(sketch, stream, was, part, "in a source before and after merging")


def memory_is_bounded(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """A sketch that says `bounded = True` is no larger after three times as many new keys."""
    if not getattr(sketch, "bounded", False):
        raise NotApplicable("does not say `bounded = True`")
    messages = len(streams[0].keys)
    new_keys = fingerprints(np.arange(3 * messages, dtype=np.uint64))
    state = _counted(sketch, sketch.start(), new_keys[:messages])
    early = _bytes(state)
    late = _bytes(_counted(sketch, state, new_keys[messages:]))
    if late > early:
        raise CheckFailed(
            f"{sketch.name}: {early} bytes after {messages} distinct keys, {late} after "
            f"{len(new_keys)}; it says that its memory is bounded"
        )


def own_guarantee_holds(sketch: Sketch, streams: Sequence[Stream]) -> None:
    """`check_guarantee(state, keys)`, where the sketch has it, finds nothing after any number of
    messages: `keys` are all that the state has counted."""
    check = getattr(sketch, "check_guarantee", None)
    if check is None:
        raise NotApplicable("has no check_guarantee(state, keys)")
    for stream in streams:
        state = sketch.start()
        for begin, end in _moments(stream):
            state = _counted(sketch, state, stream.keys[begin:end])
            broken = check(state, stream.keys[:end])
            if broken is not None:
                raise CheckFailed(f"{sketch.name} on {stream}, after {end} messages: {broken}")


SKETCH_CHECKS: tuple[SketchCheck, ...] = (
    protocol_is_complete,
    contract.configuration_is_frozen,
    contract.docstring_has_a_running_example,
    state_is_plain_arrays,
    bounds_hold,
    bounds_hold_after_ageing,
    hot_misses_no_key,
    born_is_a_message_of_the_key,
    batches_change_nothing,
    pickling_changes_nothing,
    running_again_changes_nothing,
    keys_are_not_written,
    merging_keeps_bounds,
    memory_is_bounded,
    own_guarantee_holds,
)  #: in the order in which they run; each one's docstring says what it demands


def run_sketch_checks(sketch: Sketch, streams: Sequence[Stream] | None = None) -> Report:
    """Run all checks on `sketch`, each on all streams (the standard ones where none are given).

    Example:
        >>> from evenflow.sketches import make
        >>> from evenflow.checks import standard_streams
        >>> run_sketch_checks(make("exact"), standard_streams(messages=500)).ok
        True
    """
    fed = standard_streams() if streams is None else streams
    subject = getattr(sketch, "name", type(sketch).__name__)
    return run(
        str(subject), [(check.__name__, partial(check, sketch, fed)) for check in SKETCH_CHECKS]
    )


def _counted(sketch: Sketch, state: Any, keys: U64) -> Any:
    # A copy of the keys: a sketch that writes into them would spoil the stream for all checks.
    return sketch.update(state, keys.copy())


def _moments(stream: Stream) -> list[tuple[int, int]]:
    """(begin, end) of a few batches, none of which ends at a round number."""
    last = len(stream.keys)
    ends = sorted({min(e, last) for e in (1, 53, 1009, last // 2 + 1, last)})
    return list(pairwise([0, *ends]))


def _require_same(sketch: Sketch, stream: Stream, expected: Any, got: Any, ways: str) -> None:
    keys = np.unique(stream.keys)
    for what, a, b in zip(
        ("lower", "upper"), sketch.bounds(expected, keys), sketch.bounds(got, keys), strict=True
    ):
        if not np.array_equal(a, b):
            at = int(np.flatnonzero(a != b)[0])
            raise CheckFailed(
                f"{sketch.name} on {stream}: {what} bounds of key {keys[at]} differ {ways}: "
                f"{a[at]} and {b[at]}"
            )
    if sketch.total(expected) != sketch.total(got):
        raise CheckFailed(f"{sketch.name} on {stream}: totals differ {ways}")


def _bytes(state: Any) -> int:
    return sum(leaf.nbytes for _, leaf in contract.leaves(state))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check sketches by name; returns the exit code."""
    command = "python -m evenflow_lab.checking.sketch_checks"
    every, make = sketches.sketches(), sketches.make
    return check_by_name(command, arguments, every, make, run_sketch_checks)


if __name__ == "__main__":
    sys.exit(main())
