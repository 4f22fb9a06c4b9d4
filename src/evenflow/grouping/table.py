"""Table routing: a few keys by an explicit table, all others by hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenflow.grouping.capacity import shares_of
from evenflow.grouping.dealing import dealt, redeal
from evenflow.grouping.protocol import I32, U64, Scheme
from evenflow.kernels.hash_table import EMPTY, find_hashed, new_table
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice
from evenflow.kernels.xxh64 import hash_word
from evenflow.model import Feedback, InputError, RoutingTable, Workers
from evenflow.model.owners import seed_word
from evenflow.model.validation import check_whole

_BUCKETS_PER_WORKER = 64


class State(NamedTuple):
    live: I32
    salt: U64  #: the `seed_word`
    buckets: I32  #: the hash: bucket → worker id
    table_keys: U64
    table_workers: I32  #: the table: worker id, or EMPTY


@dataclass(frozen=True)
class TableRouting(Scheme):
    """Routes the keys in the routing table by its entries, and all others by hash.

    A planner decides which keys are in the table; a new table arrives through `observe` and replaces
    the previous one. The hash maps keys to buckets and buckets to workers, in proportion to weights.

    Guarantee: one worker per key, until a new table arrives.

    Parameters:
        limit: the maximum number of entries in the table.

    Resizing is consistent: only the keys of workers that leave, and a newcomer's share, change their
    worker. Entries for workers that have left are dropped.

    Example:
        >>> import numpy as np
        >>> scheme, out = TableRouting(), np.empty(1, np.int32)
        >>> state = scheme.start(10)
        >>> scheme.observe(state, Feedback(plan=RoutingTable({42: 7})))
        >>> scheme.route(state, np.array([42], np.uint64), out)
        >>> int(out[0])
        7

    Paper: the assignment function F in "Parallel stream processing against workload skewness and
    variance", §II.
    """

    name: ClassVar[str] = "table"
    symbol: ClassVar[str] = "Mixed"
    splits_keys: ClassVar[bool] = False
    weighted: ClassVar[bool] = True
    #: True: `observe` makes a new table from counts of keys; False: a planner makes it
    plans_itself: ClassVar[bool] = False

    limit: int = 3000

    def __post_init__(self) -> None:
        check_whole("the routing table's limit", self.limit, least=0)

    def start(self, workers: Workers | int, seed: int = 0, source: int = 0) -> State:
        roster = self.roster(workers)
        counts = dealt(_BUCKETS_PER_WORKER * len(roster), shares_of(roster))
        ids = np.array(roster.ids, np.int32)
        return State(
            ids, np.array([seed_word(seed)]), np.repeat(ids, counts), *new_table(self.limit)
        )

    def route(self, state: State, keys: U64, out: I32) -> None:
        _route(state.salt, state.buckets, state.table_keys, state.table_workers, keys, out)

    def candidates(self, state: State, key: int) -> I32:
        out = np.empty(1, np.int32)
        self.route(state, np.array([key], np.uint64), out)
        return out

    def observe(self, state: State, feedback: Feedback) -> None:
        """Replace the table, if the feedback has a new one."""
        if feedback.plan is None:
            return
        entries = feedback.plan.entries
        if len(entries) > self.limit:
            raise InputError(
                f"the routing table has {len(entries)} entries, above the limit of {self.limit}; "
                "raise the limit or plan with a smaller table"
            )
        dead = set(entries.values()) - set(state.live.tolist())
        if dead:
            raise InputError(f"the routing table names workers that are not live: {sorted(dead)}")
        _fill(
            state.salt,
            state.table_keys,
            state.table_workers,
            np.fromiter(entries.keys(), np.uint64, len(entries)),
            np.fromiter(entries.values(), np.int32, len(entries)),
        )

    def resize(self, state: State, workers: Workers | int) -> State:
        roster = self.roster(workers)
        # Splitting all buckets evenly moves no key, and leaves enough buckets for many more workers.
        split = -(-len(roster) * _BUCKETS_PER_WORKER // (4 * len(state.buckets)))
        buckets = np.repeat(state.buckets, max(split, 1))
        redeal(buckets, dict(zip(roster.ids, shares_of(roster).tolist(), strict=True)))
        resized = State(np.array(roster.ids, np.int32), state.salt, buckets, *new_table(self.limit))
        kept = {k: w for k, w in self.table(state).items() if w in roster.ids}
        self.observe(resized, Feedback(plan=RoutingTable(kept)))
        return resized

    def placed(self, state: State, buckets: Sequence[int], table: RoutingTable) -> State:
        """A state with this table and, if there are any, buckets that were dealt out before."""
        if buckets:
            state = state._replace(buckets=np.array(buckets, np.int32))
        self.observe(state, Feedback(plan=table))
        return state

    def table(self, state: State) -> dict[int, int]:
        """The current entries."""
        used = state.table_workers != EMPTY
        return dict(
            zip(state.table_keys[used].tolist(), state.table_workers[used].tolist(), strict=True)
        )

    def describe(self, state: State) -> dict[str, Any]:
        """The number of entries in the table."""
        return {"table_size": len(self.table(state))}


@kernel
def _fill(salt, table_keys, table_workers, keys, workers):
    table_workers[:] = EMPTY
    for i in range(len(keys)):
        place = find_hashed(table_keys, table_workers, keys[i], hash_word(keys[i], salt[0]))
        table_keys[place] = keys[i]
        table_workers[place] = workers[i]


@kernel
def _route(salt, buckets, table_keys, table_workers, keys, out):
    n, seed = np.uint64(len(buckets)), salt[0]
    for i in range(len(keys)):
        # One hash for both: its upper half chooses the bucket, its last bits the place.
        word = hash_word(keys[i], seed)
        explicit = table_workers[find_hashed(table_keys, table_workers, keys[i], word)]
        if explicit == EMPTY:
            out[i] = buckets[high_choice(word, n)]
        else:
            out[i] = explicit
