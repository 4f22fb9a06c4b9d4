"""The sources: independent routers that share a stream."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

from evenflow.grouping import GroupingScheme
from evenflow.metrics.roster import I32
from evenflow.model import Feedback, InputError, KeyCounts, Workers
from evenflow.simulator.workloads.protocol import U64

EPOCH = 20_000  #: messages of all sources after which a scheme that plans itself gets their counts
_COUNTED = 1000  #: the most frequent keys of which it gets the counts
_WARM_UP = 1 << 17  #: messages: enough to reach the kernels that a scheme rarely calls


class Sources:
    """One state of a scheme per source, and a stop-watch that runs only while keys are routed.

    Message i of the stream belongs to source i mod s; each source knows only what it has sent and
    received itself. A scheme that places keys by their counts gets those of every `EPOCH` messages of
    all sources together, as it gets those of every micro-batch on Spark; the stop-watch runs while one
    source plans, not while keys are counted.

    Parameters:
        scheme: the scheme of every source.
        roster: the workers.
        count: number of sources.
        seed: of the hash functions, which all share.

    Attributes:
        messages: routed so far; `nanoseconds`: spent on that in `route`.
    """

    def __init__(self, scheme: GroupingScheme, roster: Workers, count: int, seed: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"got {count!r} sources; a whole number of at least 1 is needed")
        self._scheme = scheme
        self._states = [scheme.start(roster, seed, source=source) for source in range(count)]
        self._throw_away = scheme.start(roster, seed)
        self._plans_itself = getattr(scheme, "plans_itself", False)
        self._epoch: list[U64] = []
        self.messages = 0
        self.nanoseconds = 0

    def __len__(self) -> int:
        return len(self._states)

    def warm_up(self, keys: U64) -> None:
        """Compile the kernels outside the stop-watch, on a state that is thrown away."""
        few = np.ascontiguousarray(keys[:_WARM_UP])
        self._scheme.route(self._throw_away, few, np.empty(len(few), np.int32))

    def route(self, keys: U64) -> I32:
        """The worker id of each of the stream's next messages, in stream order."""
        if not self._plans_itself:
            return self._routed(keys)
        parts = [np.empty(0, np.int32)]
        while len(keys):
            few = keys[: EPOCH - self.messages % EPOCH]
            parts.append(self._routed(few))
            self._epoch.append(few)
            keys = keys[len(few) :]
            if self.messages % EPOCH == 0:
                self._end_epoch()
        return np.concatenate(parts)

    def _end_epoch(self) -> None:
        found, counts = np.unique(np.concatenate(self._epoch), return_counts=True)
        most = np.lexsort((found, -counts))[:_COUNTED]
        hot = dict(zip(found[most].tolist(), counts[most].tolist(), strict=True))
        self._epoch = []
        for source in range(len(self._states)):
            began = perf_counter_ns()
            self.observe(source, Feedback(hot=KeyCounts(hot, EPOCH)))
            # A real master plans once, and the others read what it made.
            self.nanoseconds += perf_counter_ns() - began if source == 0 else 0

    def _routed(self, keys: U64) -> I32:
        routed = np.empty(len(keys), np.int32)
        count = len(self._states)
        for source in range(min(count, len(keys))):
            # By position in the stream, not in the chunk, so that chunking changes nothing.
            lane = slice(source, None, count)
            state = self._states[(self.messages + source) % count]
            own = np.ascontiguousarray(keys[lane])
            out = np.full(len(own), -1, np.int32)
            began = perf_counter_ns()
            self._scheme.route(state, own, out)
            self.nanoseconds += perf_counter_ns() - began
            routed[lane] = out
        self.messages += len(keys)
        return routed

    def observe(self, source: int, feedback: Feedback) -> None:
        """Pass feedback to one source."""
        self._scheme.observe(self._states[source], feedback)

    def describe(self, source: int = 0) -> dict[str, Any]:
        """What the scheme reports about a source's state, if anything."""
        describe = getattr(self._scheme, "describe", None)
        return dict(describe(self._states[source])) if callable(describe) else {}
