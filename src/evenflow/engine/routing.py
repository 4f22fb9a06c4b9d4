"""Route: each source task gives every row a partition. The first step of the loop."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from evenflow.engine.key_parts import spread
from evenflow.engine.layout import FINGERPRINT, PARTITION
from evenflow.grouping.protocol import GroupingScheme
from evenflow.grouping.table import TableRouting
from evenflow.kernels.compiled_code import CompiledCode, code_of
from evenflow.model import Feedback, KeyCounts, Plan, RoutingTable
from evenflow.model.split_keys import SplitKeys


@dataclass(frozen=True)
class Route:
    """A source task: puts partition and fingerprint before the columns of each row.

    Guarantee: where a row goes depends on the rows before it in its source partition, the number of
    that partition, the batch, the plan and the seed, and on nothing else: a task that Spark runs again
    sends every row where it went before.
    """

    scheme: GroupingScheme
    partitions: int
    seed: int
    key: tuple[str, ...]
    hot: KeyCounts
    batch: int = 0
    table: RoutingTable = field(default_factory=RoutingTable)
    buckets: tuple[int, ...] = ()
    split: SplitKeys = field(default_factory=SplitKeys)
    side: str | None = None

    @classmethod
    def under(
        cls,
        plan: Plan,
        scheme: GroupingScheme,
        key: tuple[str, ...],
        batch: int,
        side: str | None = None,
    ) -> Route:
        """How a batch is routed under a plan.

        Parameters:
            side: the column that is true for rows of the right side of a join; None elsewhere.
        """
        routed_by, tasks = as_tasks(scheme, plan.partitions)
        return cls(
            scheme=routed_by,
            partitions=tasks,
            seed=plan.seed,
            key=key,
            hot=plan.hot,
            batch=batch,
            table=plan.table,
            buckets=plan.buckets,
            split=plan.split if side is not None else SplitKeys(),
            side=side,
        )

    @property
    def by_hash(self) -> bool:
        """Whether every key goes to its owner by hash alone, so that no row need visit Python."""
        return self.by_owner and not self.entries

    @property
    def entries(self) -> Mapping[int, int]:
        """The owners of keys that do not go by hash, where the scheme has a routing table."""
        return self.table.entries if isinstance(self.scheme, TableRouting) else {}

    @property
    def by_owner(self) -> bool:
        """Whether every key goes to its owner, by hash or by the routing table."""
        if self.split:
            return False
        if isinstance(self.scheme, TableRouting):
            return not self.buckets
        return self.scheme.name == "key"

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        router = Router(self, source)
        for batch in batches:
            yield router.routed(batch)


SourceTask = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def code_for(task: SourceTask, keys: pa.Schema) -> CompiledCode:
    """The compiled code that a source task runs, for executors without a cache of it.

    Guarantee: with it, the task compiles nothing on an executor with the versions of this process and
    a processor that can do what this one can. It is made once per process for a scheme and key types.

    Parameters:
        keys: the key columns, as the task will find them.
    """
    if isinstance(task, Route):
        # Neither what is routed where nor the batch changes the code, but whether there is a table.
        # Keys may become hot later, which schemes are then told.
        table = RoutingTable({1: 0} if task.entries else {})
        hot = KeyCounts({1: 1}, 2)
        task = replace(task, hot=hot, batch=0, table=table, split=SplitKeys(), side=None)
    try:
        pickled = pickle.dumps((task, keys))
    except (AttributeError, TypeError, pickle.PicklingError):
        return _code_of_task(
            task, keys
        )  # a scheme from within a function: Spark pickles those, too
    return _code_for(pickled)


@lru_cache(maxsize=64)
def _code_for(pickled: bytes) -> CompiledCode:
    return _code_of_task(*pickle.loads(pickled))


def _code_of_task(task: SourceTask, keys: pa.Schema) -> CompiledCode:
    row = pa.record_batch([pa.nulls(1, field.type) for field in keys], names=keys.names)
    return code_of(lambda: deque(task(0, iter([row])), maxlen=0))


@lru_cache(maxsize=64)
def code_for_values(types: tuple[pa.DataType, ...]) -> CompiledCode:
    """The compiled code that takes fingerprints of values of these types."""
    from evenflow.kernels.fingerprints import fingerprint

    return code_of(lambda: [fingerprint(pa.nulls(1, type_)) for type_ in types])


class Router:
    """One source's router at work on one batch."""

    def __init__(self, route: Route, source: int) -> None:
        self.route = route
        # Where ties and round-robins begin differs by batch, too: small batches would otherwise all
        # favour the same partitions.
        self.state = route.scheme.start(route.partitions, route.seed, source + (route.batch << 20))
        if isinstance(route.scheme, TableRouting):
            self.state = route.scheme.placed(self.state, route.buckets, route.table)
        elif route.hot.counts:
            route.scheme.observe(self.state, Feedback(hot=route.hot))
        # Sources begin with different parts: each may have few rows of a key.
        self.turns = np.full(len(route.split.entries), source + route.batch, np.int64)

    def routed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch, with partition and fingerprint before its columns."""
        fingerprints = fingerprints_of(batch, self.route.key)
        if self.route.split:
            batch, fingerprints = self._spread(batch, fingerprints)
        out = np.empty(len(fingerprints), np.int32)
        self.route.scheme.route(self.state, fingerprints, out)
        return pa.record_batch(
            [pa.array(out), pa.array(fingerprints.view(np.int64)), *batch.columns],
            names=[PARTITION, FINGERPRINT, *batch.schema.names],
        )

    def _spread(
        self, batch: pa.RecordBatch, fingerprints: np.ndarray
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """The batch with the rows of split keys in their parts, and the parts' fingerprints."""
        side = batch.column(self.route.side).to_numpy(zero_copy_only=False).astype(bool)
        parts, sources = spread(self.route.split, fingerprints, side, self.turns)
        return batch.take(pa.array(sources)), parts


def as_tasks(scheme: GroupingScheme, partitions: int) -> tuple[GroupingScheme, int]:
    """The scheme as tasks run it, and how many tasks the rows are cut into.

    Consistent grouping moves virtual workers to machines that have time. A Spark task is pulled by
    whichever executor is free, which is just that: the virtual workers become tasks, filled evenly by
    the paper's own rule for them (PoRC, §V-B), and executors take as many as they can serve.
    """
    from evenflow.grouping import make

    if scheme.name != "consistent":
        return scheme, partitions
    shared = {name: getattr(scheme, name) for name in ("epsilon", "patience", "literal")}
    even = make("random-choices", **shared)
    return even, tasks_of(scheme, partitions)


def tasks_of(scheme: GroupingScheme, partitions: int) -> int:
    """How many tasks the work is cut into: as many as partitions, or as virtual workers."""
    return partitions * int(getattr(scheme, "virtual", 1))


def fingerprints_of(batch: pa.RecordBatch, key: tuple[str, ...]) -> np.ndarray:
    """The fingerprints of the rows' keys: of the column itself, or of all of them together."""
    from evenflow.kernels.fingerprints import fingerprint

    return fingerprint(batch.column(key[0]) if len(key) == 1 else batch.select(list(key)))
