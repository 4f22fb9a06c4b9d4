"""Hot keys: found in counting windows, placed by two choices, moved by best fit, dropped once cool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice
from evenflow.kernels.xxh64 import hash_word
from evenflow.model import InputError, RoutingTable
from evenflow.model.owners import seed_word
from evenflow.model.validation import check_not_negative, check_positive, check_whole
from evenflow.planning.best_fit import BestFit
from evenflow.planning.hot_keys_state import (
    BAR,
    LAST_TOTAL,
    NO_MOVES,
    WINDOWS,
    HotKeysState,
    Moves,
    Reason,
    from_arrays,
    joined,
    merged,
    moved,
    partition_sizes,
    spread_out,
    to_arrays,
)
from evenflow.planning.protocol import F64, I32, U64, Constraints, Statistics
from evenflow.sketches import tracked_keys
from evenflow.sketches.lossy_counting import LossyCounting

__all__ = ["HotKeys", "HotKeysState", "Moves", "Reason"]

I64 = npt.NDArray[np.int64]

_EPSILON = 1e-5  #: of lossy counting, if the threshold is 0


@dataclass(frozen=True)
class HotKeys:
    """Decides which keys of a stream are hot, and which partition each of them is on.

    Messages are counted by lossy counting, in windows that start empty. A key is hot if it has at least
    `threshold` of the window's messages. It stays on its home partition, given by its hash, or goes to
    its second choice if the hot keys there have fewer messages. At every decision interval, best fit
    moves hot keys off overloaded partitions, the lightest first. A key that is not hot in a window is
    dropped and goes home.

    There is no clock here: the caller reports the end of a window (`detect`) and of a decision interval
    (`decide`). The two may coincide; `detect` comes first.

    Guarantee: every key with at least `threshold` of a window's messages is hot at the end of the
    window, up to `limit` keys, and no key with less than `threshold` − ε. Only hot keys are away from
    home. `decide` moves only hot keys of overloaded partitions, each at most once, and every move
    shrinks the load distance of its two partitions. The same calls on the same state give the same
    moves, also after the state was saved and restored.

    Parameters:
        partitions: the number of partitions.
        threshold: the share of a window's messages that makes a key hot.
        least: the smallest number of messages of a hot key, in addition.
        coverage: if above 0, only the heaviest keys that together have this share of the messages are
            hot.
        limit: the maximum number of hot keys; the heaviest are kept.
        epsilon: the error of lossy counting; a tenth of `threshold` if not given.
        theta: a partition is overloaded above (1 + θ) times the average; 0 in the paper.
        cooling: a hot key stays hot while it has this part of what would make it hot; 1 in the paper.
            Less keeps keys near the threshold from oscillating.
        others: whether the size of a partition includes the messages of keys that are not hot. It does
            not in the paper; this is our addition.
        message_seconds: t_msg; if given, best fit checks equation 4 before each move. Otherwise the
            interval rule holds: the caller's intervals are long enough for all state to arrive.
        state_seconds: t_SM of every key, for equation 4.
        window_seconds: the length of a window, for equation 4's rates.
        seed: of the hash; home partitions are those of `KeyGrouping` and `TableRouting` with this seed.

    Example:
        >>> import numpy as np
        >>> policy = HotKeys(partitions=4, threshold=0.2)
        >>> state = policy.start()
        >>> state = policy.count(state, np.array([7, 7, 7, 7, 9, 9, 1, 2], np.uint64))
        >>> state, moves = policy.detect(state)
        >>> state.keys.tolist(), state.sizes.tolist()
        ([7, 9], [4.0, 2.0])
        >>> policy.sizes(state).sum()
        np.float64(6.0)

    Paper: "Load balancing and generalized split state reconciliation in event driven systems"
    (SMALOPS), §II; "a single lossy counter over strictly demarcated window", §IV.
    """

    partitions: int
    threshold: float = 1e-4
    least: int = 1
    coverage: float = 0.0
    limit: int = 10_000
    epsilon: float | None = None
    theta: float = 0.0
    cooling: float = 1.0
    others: bool = False
    message_seconds: float | None = None
    state_seconds: float = 0.0
    window_seconds: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("the number of partitions", self.partitions, 1)
        for what, share in (("threshold", self.threshold), ("coverage", self.coverage)):
            if not 0 <= share <= 1:
                raise InputError(f"the {what} of hot keys must lie in [0, 1], got {share}")
        check_whole("the least number of messages of a hot key", self.least, 1)
        check_whole("the limit of hot keys", self.limit, 0)
        check_not_negative("θ", self.theta)
        if not 0 < self.cooling <= 1:
            raise InputError(f"cooling must lie in (0, 1], got {self.cooling}")
        check_not_negative("the time of a state's move", self.state_seconds)
        check_positive("the time of a window", self.window_seconds)
        if self.epsilon is not None and 0 < self.threshold <= self.epsilon:
            raise InputError(
                f"epsilon {self.epsilon} is not below the threshold {self.threshold}, so no key "
                "would be certain to be hot; a tenth of the threshold is a good choice"
            )
        _ = self._counting, self._planner  # check the other parameters

    @property
    def _counting(self) -> LossyCounting:
        if self.epsilon is not None:
            return LossyCounting(self.epsilon)
        return LossyCounting(self.threshold / 10 if self.threshold > 0 else _EPSILON)

    @property
    def _planner(self) -> BestFit:
        # State sizes are given in seconds: one "byte" moves per second.
        return BestFit(0.0, self.window_seconds, 1.0, self.message_seconds)

    def start(self) -> HotKeysState:
        """Nothing counted, no key hot."""
        absolute = not self.threshold and not self.coverage
        return HotKeysState(
            counter=self._counting.start(),
            keys=np.zeros(0, np.uint64),
            partition=np.zeros(0, np.int32),
            sizes=np.zeros(0),
            arrived=np.zeros(self.partitions, np.int64),
            rest=np.zeros(self.partitions),
            numbers=np.array([self.least if absolute else -1, 0, 0], np.int64),
        )

    def count(
        self,
        state: HotKeysState,
        fingerprints: U64,
        counts: I64 | None = None,
        unlisted: int = 0,
    ) -> HotKeysState:
        """Count messages in the current window. Returns the new state; do not use the old one again.

        Parameters:
            fingerprints: the key of each message, in order.
            counts: how many consecutive messages each stands for; 1 if not given.
            unlisted: further messages, of keys so rare that the caller left them out. They count only
                for the window's total, so a listed key's size is a lower bound.
        """
        counting, counter = self._counting, state.counter
        for keys in spread_out(fingerprints, counts):
            counter = counting.update(counter, keys)
            if self.others:
                state.arrived[:] += np.bincount(self.homes(keys), minlength=self.partitions)
        counter.numbers[tracked_keys.TOTAL] += unlisted
        if self.others:
            # Their keys are unknown: every partition gets the same number.
            state.arrived[:] += unlisted // self.partitions
        return state._replace(counter=counter)

    def detect(self, state: HotKeysState) -> tuple[HotKeysState, Moves]:
        """End the window: find its hot keys, place new ones, send cooled ones home; start the next
        window."""
        counter = state.counter
        total = int(counter.numbers[tracked_keys.TOTAL])
        found, bar = self._hottest(counter)
        kept = self._still_hot(state, found, bar)
        cooled = np.setdiff1d(state.keys, kept, assume_unique=True)
        staying = np.isin(state.keys, kept, assume_unique=True)
        keys, partition = state.keys[staying], state.partition[staying]
        new = found[~np.isin(found, kept)][: self.limit - len(kept)]
        sizes = self._counted(counter, keys)
        new_sizes = self._counted(counter, new)
        rest = self._rest_after(state, np.concatenate([keys, new]))
        targets = self._placed(partition, sizes, rest, new, new_sizes)
        homes = self.homes(cooled)
        gone = state.partition[np.isin(state.keys, cooled, assume_unique=True)]
        moves = joined(
            moved(cooled, gone, homes, Reason.COOLED),
            moved(new, self.homes(new), targets, Reason.HOT),
        )
        after = merged(keys, partition, sizes, new, targets, new_sizes)
        numbers = np.array([bar, total, state.numbers[WINDOWS] + 1], np.int64)
        fresh = np.zeros(self.partitions, np.int64)
        return HotKeysState(self._counting.start(), *after, fresh, rest, numbers), moves

    def detect_early(self, state: HotKeysState) -> tuple[HotKeysState, Moves]:
        """Within a window: keys that already have as many messages as made a key hot in the whole last
        window become hot at once. In the first window none does, unless `least` alone decides."""
        bar, counter = int(state.numbers[BAR]), state.counter
        total = int(counter.numbers[tracked_keys.TOTAL])
        if bar < 0 or not total:
            return state, NO_MOVES
        seen = self._counting.hot(counter, min(1.0, bar / total))
        new = seen.keys[(seen.upper >= bar) & ~np.isin(seen.keys, state.keys)]
        new = new[: max(0, self.limit - len(state.keys))]
        whole = max(1.0, int(state.numbers[LAST_TOTAL]) / total)
        sizes = np.rint(self._counted(counter, new) * whole)
        targets = self._placed(state.partition, state.sizes, state.rest, new, sizes)
        moves = moved(new, self.homes(new), targets, Reason.HOT)
        after = merged(state.keys, state.partition, state.sizes, new, targets, sizes)
        return HotKeysState(counter, *after, *state[4:]), moves

    def decide(self, state: HotKeysState) -> tuple[HotKeysState, Moves]:
        """End the decision interval: move hot keys by best fit."""
        seen = Statistics(
            state.keys,
            state.sizes,
            np.full(len(state.keys), 0.0 if self.message_seconds is None else self.state_seconds),
            state.partition,
            self.homes(state.keys),
        )
        constraints = Constraints(self.partitions, self.theta, self.limit)
        proposal = self._planner.plan(seen, constraints, state.rest if self.others else None)
        # Lightest first, in the order of the decisions: replaying the moves gives the same sizes.
        order = np.lexsort((state.keys, state.sizes))
        moves = moved(state.keys[order], state.partition[order], proposal.worker[order], Reason.FIT)
        return state._replace(partition=proposal.worker), moves

    def table(self, state: HotKeysState) -> RoutingTable:
        """The partition of every hot key, also of those at home; all others go by hash."""
        return RoutingTable(dict(zip(state.keys.tolist(), state.partition.tolist(), strict=True)))

    def sizes(self, state: HotKeysState) -> F64:
        """R_p: the size of each partition."""
        return partition_sizes(state.partition, state.sizes, state.rest)

    def homes(self, keys: U64) -> I32:
        """The partition of each key by hash."""
        out = np.empty(len(keys), np.int32)
        _homes(np.ascontiguousarray(keys, np.uint64), seed_word(self.seed), self.partitions, out)
        return out

    def to_arrays(self, state: HotKeysState) -> dict[str, npt.NDArray]:
        """The state as a flat dictionary of arrays, for `from_arrays`."""
        return to_arrays(state)

    def from_arrays(self, arrays: Mapping[str, npt.NDArray]) -> HotKeysState:
        """The state from the result of `to_arrays`."""
        state = from_arrays(arrays)
        if len(state.arrived) != self.partitions:
            raise InputError(
                f"this state has {len(state.arrived)} partitions, not {self.partitions}; keys "
                "have other homes there, so start with a new state"
            )
        return state

    def _hottest(self, counter: tracked_keys.State) -> tuple[U64, int]:
        """The hot keys of a window, the heaviest first, and the count that makes a key hot."""
        total = int(counter.numbers[tracked_keys.TOTAL])
        bar = max(self.least, int(np.ceil(self.threshold * total)))
        seen = self._counting.hot(counter, min(1.0, bar / max(total, 1)))
        enough = seen.upper >= bar
        keys, upper = seen.keys[enough], seen.upper[enough]
        if self.coverage > 0:
            together = np.cumsum(seen.lower[enough])
            needed = int(np.searchsorted(together, self.coverage * total)) + 1
            if needed < len(keys):
                keys, bar = keys[:needed], max(bar, int(upper[needed - 1]))
        return keys[: self.limit], bar

    def _still_hot(self, state: HotKeysState, found: U64, bar: int) -> U64:
        """The keys that were hot before and still are."""
        kept = np.isin(state.keys, found, assume_unique=True)
        if self.cooling < 1:
            _, upper = self._counting.bounds(state.counter, state.keys)
            kept |= upper >= max(1, self.cooling * bar)
        return state.keys[kept]

    def _counted(self, counter: tracked_keys.State, keys: U64) -> F64:
        lower, _ = self._counting.bounds(counter, keys)
        return lower.astype(np.float64)

    def _rest_after(self, state: HotKeysState, hot: U64) -> F64:
        """The messages in the last window of keys that are not hot, by home partition."""
        if not self.others:
            return np.zeros(self.partitions)
        own = np.bincount(self.homes(hot), self._counted(state.counter, hot), self.partitions)
        rest: F64 = np.maximum(state.arrived - own, 0.0)
        return rest

    def _placed(self, partition: I32, sizes: F64, rest: F64, new: U64, new_sizes: F64) -> I32:
        """Two choices for each new key, one after another."""
        out = np.empty(len(new), np.int32)
        loads = partition_sizes(partition, sizes, rest)
        _place(np.ascontiguousarray(new), seed_word(self.seed), new_sizes, loads, out)
        return out


@kernel
def _homes(keys: U64, seed: np.uint64, partitions: int, out: I32) -> None:
    n = np.uint64(partitions)
    for i in range(len(keys)):
        out[i] = high_choice(hash_word(keys[i], seed), n)


@kernel
def _place(keys: U64, seed: np.uint64, key_sizes: F64, sizes: F64, out: I32) -> None:
    n = np.uint64(len(sizes))
    for i in range(len(keys)):
        word = hash_word(keys[i], seed)
        # The upper half of the word is the owner, as in `_homes`.
        chosen, second = high_choice(word, n), low_choice(word, n)
        # On a tie the key stays at home: only a gain is worth a move.
        if sizes[second] < sizes[chosen]:
            chosen = second
        sizes[chosen] += key_sizes[i]
        out[i] = chosen
