"""SMALOPS as a router of the simulator: hot keys by a table that it plans itself, the rest by hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from evenflow.grouping import GroupingScheme, Scheme, make
from evenflow.grouping.protocol import I32, U64
from evenflow.model import Feedback, InputError, Workers
from evenflow.model.validation import check_whole
from evenflow.planning.hot_keys import HotKeys, HotKeysState, Moves
from evenflow.planning.hot_keys_state import at_once, joined

_STEPS = 100  #: looks for new hot keys in a window, where `step` is not given


@dataclass
class GatewayState:
    """Everything that a gateway knows.

    Parameters:
        hot: of the policy.
        routing: of the table scheme.
        sent: messages routed so far.
        acted: after how many of them it last acted.
        moves, most, ever: how often a key was moved, the most keys that were hot at a time, and all
            keys that ever were.
    """

    policy: HotKeys
    hot: HotKeysState
    routing: Any
    sent: int = 0
    acted: int = 0
    moves: int = 0
    most: int = 0
    ever: set[int] | None = None


@dataclass(frozen=True)
class Smalops(Scheme):
    """The gateway of SMALOPS in virtual time: `HotKeys` over windows that are counted in messages.

    Guarantee: one partition per key, until it is moved, which happens after every `step` messages only.

    Parameters:
        window: messages of a counting window.
        interval: messages between two decisions.
        step: messages after which the gateway looks for keys that have become hot; a hundredth of
            the window if not given.
        threshold, least, coverage, limit, epsilon, theta, cooling: as in `HotKeys`.
        others: 1 to count the other keys' load as well; see `HotKeys`.
        message_seconds, state_seconds: of equation 4; the interval rule holds if not given.

    It knows all messages of its keys, so there is one source: of several gateways each owns other
    keys (the paper's level 1), and is a stream of its own.

    Example:
        >>> import numpy as np
        >>> scheme, out = Smalops(window=1_000, interval=1_000), np.empty(3_000, np.int32)
        >>> state = scheme.start(2, seed=1)
        >>> scheme.route(state, np.arange(3_000, dtype=np.uint64) % 5, out)
        >>> scheme.describe(state)["hot_keys"], scheme.describe(state)["moves"] > 0
        (5, True)

    Paper: "Load balancing and generalized split state reconciliation in event driven systems", §II.
    """

    name: ClassVar[str] = "smalops"
    symbol: ClassVar[str] = "SMALOPS"
    splits_keys: ClassVar[bool] = False

    window: int = 1_000_000
    interval: int = 1_000_000
    step: int | None = None
    threshold: float = 1e-4
    least: int = 1
    coverage: float = 0.0
    limit: int = 10_000
    epsilon: float | None = None
    theta: float = 0.0
    cooling: float = 1.0
    others: int = 0
    message_seconds: float | None = None
    state_seconds: float = 0.0
    window_seconds: float = 10.0

    def __post_init__(self) -> None:
        check_whole("the messages of a window", self.window, 1)
        check_whole("the messages of a decision interval", self.interval, 1)
        if self.step is not None:
            check_whole("the messages of a step", self.step, 1)
        self.policy(1, 0)

    def policy(self, partitions: int, seed: int) -> HotKeys:
        """The policy for so many partitions."""
        return HotKeys(
            partitions,
            self.threshold,
            self.least,
            self.coverage,
            self.limit,
            self.epsilon,
            self.theta,
            self.cooling,
            bool(self.others),
            self.message_seconds,
            self.state_seconds,
            self.window_seconds,
            seed,
        )

    @property
    def _table(self) -> GroupingScheme:
        return make("table", limit=self.limit)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> GatewayState:
        if source > 0:
            raise InputError(
                "'smalops' is one gateway, which sees all messages of its keys; simulate it with 1 "
                "source"
            )
        roster = self.roster(workers)
        if roster.ids != tuple(range(len(roster))):
            raise InputError("'smalops' numbers its partitions from 0")
        policy = self.policy(len(roster), seed)
        return GatewayState(policy, policy.start(), self._table.start(roster, seed), ever=set())

    def route(self, state: GatewayState, keys: U64, out: I32) -> None:
        done = 0
        while done < len(keys):
            if not self.quiet(state):
                self.act(state)
            stop = min(len(keys), done + self.quiet(state))
            self.send(state, keys[done:stop], out[done:stop])
            done = stop

    def quiet(self, state: GatewayState) -> int:
        """How many messages may go before the gateway acts; 0 if it is due now."""
        every = (self.step or max(1, self.window // _STEPS), self.window, self.interval)
        due = min(state.acted + n - state.acted % n for n in every)
        return due - state.sent

    def send(self, state: GatewayState, keys: U64, out: I32) -> None:
        """Count and route messages, no more than `quiet` says."""
        state.hot = state.policy.count(state.hot, keys)
        self._table.route(state.routing, keys, out)
        state.sent += len(keys)

    def act(self, state: GatewayState) -> Moves:
        """What is due after so many messages: the end of a window, a decision, or a look at the
        counts. A new table is in force from now on."""
        policy, before = state.policy, state.hot.keys
        if state.sent % self.window == 0:
            state.hot, moves = policy.detect(state.hot)
        else:
            state.hot, moves = policy.detect_early(state.hot)
        if state.sent % self.interval == 0:
            state.hot, decided = policy.decide(state.hot)
            moves = at_once(joined(moves, decided))
        state.acted = state.sent
        if len(moves):
            self._table.observe(state.routing, Feedback(plan=policy.table(state.hot)))
        state.moves += len(moves)
        state.most = max(state.most, len(state.hot.keys))
        assert state.ever is not None
        state.ever.update(np.setdiff1d(state.hot.keys, before, assume_unique=True).tolist())
        return moves

    def candidates(self, state: GatewayState, key: int) -> I32:
        return self._table.candidates(state.routing, key)

    def resize(self, state: GatewayState, workers: Workers | int) -> GatewayState:
        raise InputError("the partitions of a log stay as many as they are; start 'smalops' again")

    def describe(self, state: GatewayState) -> dict[str, Any]:
        """How many keys are hot, the most that were at a time, all that ever were, and the moves."""
        return {
            "hot_keys": len(state.hot.keys),
            "hot_keys_most": state.most,
            "hot_keys_ever": len(state.ever or ()),
            "moves": state.moves,
        }
