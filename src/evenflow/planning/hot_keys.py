"""Hot keys: found in counting windows, placed by two choices, moved by best fit, dropped once cool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice
from evenflow.model import InputError, RoutingTable
from evenflow.model.owners import owner_of, owner_words
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

_EPSILON = 1e-5  #: of lossy counting, where no share makes a key hot


@dataclass(frozen=True)
class HotKeys:
    """Decides which keys of a stream are hot, and which partition each of them is on.

    Messages are counted by lossy counting, in windows that start empty: nothing of a window is left in
    the next. A key is hot if it has its `threshold` of the window's messages. It stays on its home
    partition, that of its hash, or goes to its second choice if the hot keys there have fewer messages.
    Every decision interval best fit moves hot keys of overloaded partitions, the lightest first. A key
    that is not hot in a window is forgotten, and goes home.

    There is no clock here: the caller says when a window is over (`detect`) and when an interval is
    (`decide`). The two may coincide; `detect` comes first.

    Guarantee: every key with at least `threshold` of a window's messages is hot when the window is
    over, up to `limit` keys, and none with less than `threshold` − ε. Only hot keys are away from
    home. `decide` moves hot keys of overloaded partitions alone, each at most once, and every move
    shrinks the load distance of its two partitions. The same calls on the same state give the same
    moves, also if the state has been written down and read in between.

    Parameters:
        partitions: how many there are.
        threshold: the share of a window's messages that makes a key hot.
        least: the number of messages that a key must have besides, to be hot.
        coverage: if above 0, only as many keys are hot as are needed, heaviest first, to have that
            share of the messages together.
        limit: the most keys that are hot at a time; the heaviest are.
        epsilon: the error of lossy counting; a tenth of `threshold` if not given.
        theta: a partition is overloaded above (1 + θ) times the average; 0 in the paper.
        cooling: a hot key stays hot as long as it has this part of what would make it hot; 1 in the
            paper, and less keeps keys near the threshold from going to and fro.
        others: whether the size of a partition has the messages of the other keys too. In the paper it
            has not; this is ours.
        message_seconds: t_msg; given, best fit asks equation 4 before each move. Else the interval rule
            holds: the caller's intervals are long enough for all state to arrive.
        state_seconds: t_SM of every key, for equation 4.
        window_seconds: how long a window is, for equation 4's rates.
        seed: of the hash; partitions are those of `KeyGrouping` and `TableRouting` with this seed.

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
                f"epsilon {self.epsilon} is not below the threshold {self.threshold}: hot keys could "
                "not be told from others; a tenth of the threshold is a good choice"
            )
        _ = self._counting, self._planner  # refuse the other parameters

    @property
    def _counting(self) -> LossyCounting:
        if self.epsilon is not None:
            return LossyCounting(self.epsilon)
        return LossyCounting(self.threshold / 10 if self.threshold > 0 else _EPSILON)

    @property
    def _planner(self) -> BestFit:
        # A state is told in seconds, at one "byte" a second.
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
        """Counts messages in the window under way. Returns the state to go on with; the one that was
        given is used up.

        Parameters:
            fingerprints: the key of each message, in order.
            counts: how many messages each stands for, one after another; 1 if not given.
            unlisted: messages besides, of keys so rare that the caller has left them out. They count
                for the window's total alone, so a listed key's size is a lower bound.
        """
        counting, counter = self._counting, state.counter
        for keys in spread_out(fingerprints, counts):
            counter = counting.update(counter, keys)
            if self.others:
                state.arrived[:] += np.bincount(self.homes(keys), minlength=self.partitions)
        counter.numbers[tracked_keys.TOTAL] += unlisted
        if self.others:
            # Of those nothing is known: as much for each partition as for any other.
            state.arrived[:] += unlisted // self.partitions
        return state._replace(counter=counter)

    def detect(self, state: HotKeysState) -> tuple[HotKeysState, Moves]:
        """The window is over: which keys were hot in it, and where they and those that have cooled go.
        The next window begins."""
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
        """In the midst of a window: keys that have by now as many messages as made a key hot in the
        whole last window are hot at once. In the first window none is, unless `least` alone decides."""
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
        """A decision interval is over: best fit among the hot keys."""
        seen = Statistics(
            state.keys,
            state.sizes,
            np.full(
                len(state.keys), self.state_seconds if self.message_seconds is not None else 0.0
            ),
            state.partition,
            self.homes(state.keys),
        )
        constraints = Constraints(self.partitions, self.theta, self.limit)
        proposal = self._planner.plan(seen, constraints, state.rest if self.others else None)
        # Lightest first, as they were decided: who reads the moves one by one sees the sizes change.
        order = np.lexsort((state.keys, state.sizes))
        moves = moved(state.keys[order], state.partition[order], proposal.worker[order], Reason.FIT)
        return state._replace(partition=proposal.worker), moves

    def table(self, state: HotKeysState) -> RoutingTable:
        """Where the hot keys are, those at home too; all others go by hash."""
        return RoutingTable(dict(zip(state.keys.tolist(), state.partition.tolist(), strict=True)))

    def sizes(self, state: HotKeysState) -> F64:
        """R_p: the size of each partition."""
        return partition_sizes(state.partition, state.sizes, state.rest)

    def homes(self, keys: U64) -> I32:
        """The partition of each key by hash."""
        return owner_of(np.ascontiguousarray(keys, np.uint64), self.partitions, self.seed)

    def to_arrays(self, state: HotKeysState) -> dict[str, npt.NDArray]:
        """The state as a flat dictionary of arrays; `from_arrays` makes the same of them."""
        return to_arrays(state)

    def from_arrays(self, arrays: Mapping[str, npt.NDArray]) -> HotKeysState:
        """From what `to_arrays` has made."""
        state = from_arrays(arrays)
        if len(state.arrived) != self.partitions:
            raise InputError(
                f"this state is of {len(state.arrived)} partitions, not of {self.partitions}; keys "
                "have other homes among them, so begin with a new state"
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
        """The keys that were hot before and are still."""
        kept = np.isin(state.keys, found, assume_unique=True)
        if self.cooling < 1:
            _, upper = self._counting.bounds(state.counter, state.keys)
            kept |= upper >= max(1, self.cooling * bar)
        return state.keys[kept]

    def _counted(self, counter: tracked_keys.State, keys: U64) -> F64:
        lower, _ = self._counting.bounds(counter, keys)
        return lower.astype(np.float64)

    def _rest_after(self, state: HotKeysState, hot: U64) -> F64:
        """What keys that are not hot had in the window that is over, on their home partitions."""
        if not self.others:
            return np.zeros(self.partitions)
        own = np.bincount(self.homes(hot), self._counted(state.counter, hot), self.partitions)
        rest: F64 = np.maximum(state.arrived - own, 0.0)
        return rest

    def _placed(self, partition: I32, sizes: F64, rest: F64, new: U64, new_sizes: F64) -> I32:
        """Two choices for each new key, one after another."""
        out = np.empty(len(new), np.int32)
        loads = partition_sizes(partition, sizes, rest)
        words = owner_words(np.ascontiguousarray(new), self.seed)
        _place(words, new_sizes, loads, out)
        return out


@kernel
def _place(words: U64, key_sizes: F64, sizes: F64, out: I32) -> None:
    n = np.uint64(len(sizes))
    for i in range(len(words)):
        # The upper half of the word says who owns the key.
        chosen, second = high_choice(words[i], n), low_choice(words[i], n)
        # A tie leaves the key at home: only what gains is worth a move.
        if sizes[second] < sizes[chosen]:
            chosen = second
        sizes[chosen] += key_sizes[i]
        out[i] = chosen
