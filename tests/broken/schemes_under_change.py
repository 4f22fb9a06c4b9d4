"""Grouping schemes with one fault each, which shows when rosters, weights or plans change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from broken.schemes import TiresOfDealing, TurnState, homes, on_copy
from evenflow.grouping.key import KeyGrouping
from evenflow.grouping.key import State as KeyState
from evenflow.grouping.protocol import worker_ids
from evenflow.kernels.mixing import salt
from evenflow.model import Feedback, Workers


@dataclass(frozen=True)
class SendsToTheGone(KeyGrouping):
    """Goes on with the old roster after a resize."""

    name: ClassVar[str] = "sends-to-the-gone"
    caught_by: ClassVar[str] = "resizing_keeps_to_live_workers"
    also_by: ClassVar[frozenset[str]] = frozenset(
        {
            "resizing_shares_out_work",
            "signals_keep_to_live_workers",
            "plans_keep_to_live_workers",
        }
    )

    def resize(self, state: KeyState, workers: Workers | int) -> KeyState:
        self.roster(workers)
        return state


@dataclass(frozen=True)
class ForgetsItsTurn(TiresOfDealing):
    """Begins anew on every resize, even if nobody came or went."""

    name: ClassVar[str] = "forgets-its-turn"
    caught_by: ClassVar[str] = "resizing_to_the_same_roster_changes_nothing"
    also_by: ClassVar[frozenset[str]] = frozenset({"own_guarantee_holds"})

    def resize(self, state: TurnState, workers: Workers | int) -> TurnState:
        return self.start(workers)


class SeenState(NamedTuple):
    ids: np.ndarray
    salt: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True)
class RehashesByHistory(KeyGrouping):
    """Changes its hash function with the roster, by how many messages this source has sent."""

    name: ClassVar[str] = "rehashes-by-history"
    caught_by: ClassVar[str] = "resizing_keeps_keys_whole"
    also_by: ClassVar[frozenset[str]] = frozenset({"plans_keep_to_live_workers"})

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> Any:
        return SeenState(*super().start(workers, seed, source), seen=np.zeros(1, np.uint64))

    def route(self, state: Any, keys: np.ndarray, out: np.ndarray) -> None:
        out[:] = homes(state, keys)
        state.seen[0] += np.uint64(len(keys))

    def candidates(self, state: Any, key: int) -> np.ndarray:
        return on_copy(self, state, key)

    def resize(self, state: Any, workers: Workers | int) -> Any:
        ids = worker_ids(self.roster(workers))
        if np.array_equal(ids, state.ids):
            return state
        return state._replace(ids=ids, salt=state.salt ^ salt(int(state.seen[0])))


@dataclass(frozen=True)
class IgnoresNewcomers(KeyGrouping):
    """Goes on with those that stay; whoever joins never gets a message."""

    name: ClassVar[str] = "ignores-newcomers"
    caught_by: ClassVar[str] = "resizing_shares_out_work"

    def resize(self, state: KeyState, workers: Workers | int) -> KeyState:
        ids = worker_ids(self.roster(workers))
        staying = state.ids[np.isin(state.ids, ids)]
        return state._replace(ids=staying if len(staying) else ids)


@dataclass(frozen=True)
class MovesWithoutNews(KeyGrouping):
    """Takes every feedback for a reason to hash anew, empty ones too."""

    name: ClassVar[str] = "moves-without-news"
    caught_by: ClassVar[str] = "empty_feedback_changes_nothing"

    def observe(self, state: KeyState, feedback: Feedback) -> None:
        state.salt[0] += np.uint64(1)


class FavouriteState(NamedTuple):
    ids: np.ndarray
    salt: np.ndarray
    favourite: np.ndarray


@dataclass(frozen=True)
class FavoursWhoeverAsks(KeyGrouping):
    """Gives all to the last worker that asked for more, whether it is still there or not."""

    name: ClassVar[str] = "favours-whoever-asks"
    caught_by: ClassVar[str] = "signals_keep_to_live_workers"

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> Any:
        none = np.full(1, -1, np.int32)
        return FavouriteState(*super().start(workers, seed, source), favourite=none)

    def route(self, state: Any, keys: np.ndarray, out: np.ndarray) -> None:
        out[:] = homes(state, keys) if state.favourite[0] < 0 else state.favourite[0]

    def candidates(self, state: Any, key: int) -> np.ndarray:
        return on_copy(self, state, key)

    def observe(self, state: Any, feedback: Feedback) -> None:
        for worker, wish in feedback.signals.items():
            if wish > 0:
                state.favourite[0] = worker


@dataclass(frozen=True)
class FollowsOldPlans(FavoursWhoeverAsks):
    """Sends where a plan says, whether that worker is still there or not."""

    name: ClassVar[str] = "follows-old-plans"
    caught_by: ClassVar[str] = "plans_keep_to_live_workers"

    def observe(self, state: Any, feedback: Feedback) -> None:
        if feedback.plan is not None:
            state.favourite[0] = next(iter(feedback.plan.entries.values()))


@dataclass(frozen=True)
class IgnoresWeights(KeyGrouping):
    """Says that it follows weights and treats all workers alike."""

    name: ClassVar[str] = "ignores-weights"
    weighted: ClassVar[bool] = True
    caught_by: ClassVar[str] = "weights_are_followed_or_refused"


@dataclass(frozen=True)
class AcceptsWeights(KeyGrouping):
    """Does not follow weights and does not say so when given some."""

    name: ClassVar[str] = "accepts-weights"
    caught_by: ClassVar[str] = "weights_are_followed_or_refused"

    def roster(self, workers: Workers | int) -> Workers:
        return Workers.of(workers)
