"""Rows read from a log's partitions, put back in each key's order before an operator sees them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.engine.guarding import Updated
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.task import Task
from evenflow.engine.work import Work
from evenflow.model import InputError
from evenflow.operators.groups import I64
from evenflow.operators.input_columns import column_type
from evenflow.operators.protocol import F64, Rows
from evenflow.ordering import DONE, FIRST, LAST, MESSAGE, HeaderColumns, unpack_column

WAITING = "ordering_waiting"  #: the state column with what waits
POSITIONS = "ordering_positions"  #: the state column with what was read

_POSITION = pa.struct(
    [
        ("partition", pa.int32()),
        ("writer", pa.uint64()),
        ("epoch", pa.uint64()),
        ("sequence", pa.uint64()),
    ]
)
_NO_ROW = -1

Event = tuple[int, int, int, int]  #: partition, kind, message set, row


@dataclass(frozen=True)
class LogColumns:
    """The columns that tell the order of rows read from a log, as Spark's Kafka source names them
    (`includeHeaders` must be set)."""

    headers: str = "headers"
    partition: str = "partition"
    offset: str = "offset"

    def names(self) -> list[str]:
        return [self.headers, self.partition, self.offset]


@dataclass(frozen=True)
class OrderedStates(KeyedStates):
    """An operator that is given each key's messages in the order sent, although keys moved between the
    partitions that Spark reads.

    Spark reads each partition in its order and knows of no order between two. All rows of a key come
    to one task, so nobody need send a `done`: a last marker that is read here ends its set, and the
    set that it names may begin. What came too early waits in the key's state. Markers and records
    that were read before are dropped.

    The state has two more columns than the operator's: what waits, and how far each partition was read.

    Guarantee: `operator` is given each message once, and those of a key in the order in which the
    writer wrote them, over all batches, however batches are cut and whatever the writer wrote again.

    Parameters:
        operator: what to do with the messages; keys are not split, so it needs no `merge`.
        log: the columns that tell the order.

    Paper: SMALOPS, §II, Figure 5.
    """

    log: LogColumns = LogColumns()

    @property
    def mergeable(self) -> bool:  # type: ignore[override]
        return False

    def describe(self) -> str:
        return "work in the order of a log"

    def signature(self) -> dict[str, Any]:
        return {**super().signature(), "log": self.log.names()}

    def resumed(
        self, stored: Mapping[str, Any], rows: pa.Schema, batch: int
    ) -> tuple[Work, dict[str, Any], tuple[str, ...]] | None:
        """Only if it reads the same columns: messages that wait were kept without the others."""
        waiting = str(self.state_schema(rows).field(WAITING).type)
        same = dict(stored.get("state", {})).get(WAITING) == waiting
        return super().resumed(stored, rows, batch) if same else None

    def columns(self) -> Sequence[str] | None:
        wanted = self.operator.columns()
        return None if wanted is None else list(dict.fromkeys([*wanted, *self.log.names()]))

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        for column in self.log.names():
            column_type(rows, column, "inOrder")
        inner = self.operator.state_schema(rows)
        taken = {WAITING, POSITIONS} & set(inner.names)
        if taken:
            raise InputError(
                f"the operator has a state column {taken.pop()!r}: choose another name"
            )
        event = pa.struct(
            [
                ("partition", pa.int32()),
                ("kind", pa.uint8()),
                ("set", pa.uint64()),
                ("row", pa.struct([rows.field(name) for name in self._kept(rows.names)])),
            ]
        )
        return inner.append(pa.field(WAITING, pa.list_(event))).append(
            pa.field(POSITIONS, pa.list_(_POSITION))
        )

    def _emit(self, keys: pa.Table, states: pa.Table, method: str) -> tuple[pa.Table, I64 | None]:
        """What the operator emits; a key whose messages all wait has no state of the operator."""
        return self.operator.emitted(keys, states.drop_columns([WAITING, POSITIONS]))

    def letter(self, job: Job, table: pa.Table, parts: bool) -> dict[str, pa.Table | pa.Array]:
        states = super().letter(job, table, parts)["state"]
        return {"state": states.drop_columns([WAITING, POSITIONS])}

    def updated(self, task: Task, rows: Rows, states: pa.Table) -> Updated:
        """In pieces where states are large. A message that is set aside was read: its key goes on."""
        return Updated(*self._in_pieces(task.job, partial(self._update, task), rows, states))

    def _update(self, task: Task, rows: Rows, states: pa.Table) -> tuple[pa.Table, F64]:
        """The states after the messages whose turn has come, and what these have cost."""
        kept = self._kept(rows.table.column_names)
        headers = unpack_column(rows.table.column(self.log.headers))
        partition = _numbers(rows.table, self.log.partition, np.int32)
        offset = _numbers(rows.table, self.log.offset, np.int64)
        order = np.lexsort((offset, partition, rows.group))
        new, positions = _unread(rows, headers, partition, order, states.column(POSITIONS))
        waiting = states.column(WAITING).combine_chunks()
        marked = np.zeros(rows.n_keys, np.bool_)
        marked[rows.group[new][headers.kind[new] != MESSAGE]] = True
        marked |= pc.fill_null(pc.list_value_length(waiting), 0).to_numpy() > 0

        # Keys without markers are here: their rows, all of one partition, go on as they are.
        plain = new[~marked[rows.group[new]]]
        old_rows, released, left = self._release(
            rows, headers, partition, new, marked, waiting, kept
        )
        base = old_rows.num_rows
        source = pa.concat_tables([old_rows, rows.table.select(kept)])
        groups = np.concatenate([rows.group[plain], released[0]]).astype(np.int64)
        taken = np.concatenate([plain + base, released[1]]).astype(np.int64)
        inner, costs = self._work(task, rows, states, source.take(pa.array(taken)), groups)
        after = inner.append_column(states.schema.field(WAITING), left).append_column(
            states.schema.field(POSITIONS), positions
        )
        return after, costs

    def _work(
        self, task: Task, rows: Rows, state: pa.Table, table: pa.Table, groups: np.ndarray
    ) -> tuple[pa.Table, F64]:
        """The operator on the keys that have messages now; the other states as they are."""
        before = state.drop_columns([WAITING, POSITIONS])
        costs = np.zeros(rows.n_keys)
        active, group = np.unique(groups, return_inverse=True)
        if not len(active):
            return before, costs
        keys = rows.keys.take(pa.array(active))
        for name in keys.column_names:
            if name not in table.column_names:
                table = table.append_column(name, keys.column(name).take(pa.array(group)))
        updated = task.guard.update(
            self.operator.called("update"),
            self.operator.measured,
            Rows(table, group.astype(np.int64), keys),
            before.take(pa.array(active)),
        )
        made, costs[active] = updated.states, updated.costs
        place = np.arange(rows.n_keys)
        place[active] = rows.n_keys + np.arange(len(active))
        return pa.concat_tables([before, made.cast(before.schema)]).take(pa.array(place)), costs

    def _release(
        self,
        rows: Rows,
        headers: HeaderColumns,
        partition: np.ndarray,
        new: np.ndarray,
        marked: np.ndarray,
        waiting: pa.ListArray,
        kept: list[str],
    ) -> tuple[pa.Table, tuple[list[int], list[int]], pa.Array]:
        """Of keys that moved: the rows that waited; (keys, rows) whose turn it is; what waits now.

        Rows are numbered with those that waited first.
        """
        events = waiting.flatten()
        old_rows = pa.Table.from_batches([pa.RecordBatch.from_struct_array(events.field("row"))])
        base = old_rows.num_rows
        todo: dict[int, list[Event]] = defaultdict(list)
        parents = pc.list_parent_indices(waiting).to_numpy()
        columns = [events.field(name).to_numpy() for name in ("partition", "kind", "set")]
        for i, (key, where, kind, set_id) in enumerate(zip(parents, *columns, strict=True)):
            todo[int(key)].append((int(where), int(kind), int(set_id), i))
        for row in new[marked[rows.group[new]]].tolist():
            event = (int(partition[row]), int(headers.kind[row]), int(headers.set[row]), row + base)
            todo[int(rows.group[row])].append(event)
        released: tuple[list[int], list[int]] = ([], [])
        left: dict[int, list[Event]] = {}
        for key, found in todo.items():
            turn, rest = in_turn(found)
            released[0].extend([key] * len(turn))
            released[1].extend(turn)
            if rest:
                left[key] = rest
        source = pa.concat_tables([old_rows, rows.table.select(kept)])
        return old_rows, released, _waiting(left, rows.n_keys, source, waiting.type)

    def _kept(self, names: Sequence[str]) -> list[str]:
        """The columns that the operator is given, except keys, which are with the state.

        The offset is always one of them: a table without columns does not know its rows.
        """
        wanted = self.operator.columns()
        if wanted is not None:
            return list(dict.fromkeys([*wanted, self.log.offset]))
        return [name for name in names if name != self.log.headers]


def in_turn(
    events: list[Event],
) -> tuple[list[int], list[Event]]:
    """Of one key: the rows whose turn it is, in order, and the events that still wait.

    An event is (partition, kind, message set, row). Those of a partition come in its order.

    Example:
        >>> early = [(1, FIRST, 5, 10), (1, MESSAGE, 5, 11)]
        >>> in_turn(early)
        ([], [(1, 1, 5, 10), (1, 0, 5, 11)])
        >>> in_turn([*early, (0, MESSAGE, 0, 20), (0, LAST, 5, 21)])
        ([20, 11], [])
    """
    queues: dict[int, deque[Event]] = defaultdict(deque)
    ended: dict[int, Event] = {}
    for event in events:
        if event[1] == DONE:
            ended[event[2]] = event
        else:
            queues[event[0]].append(event)
    turn: list[int] = []
    moved = True
    while moved:
        moved = False
        for queue in queues.values():
            while queue:
                partition, kind, set_id, row = queue[0]
                if kind == FIRST:
                    if ended.pop(set_id, None) is None:
                        break
                elif kind == LAST:
                    ended[set_id] = (partition, DONE, set_id, _NO_ROW)
                else:
                    turn.append(row)
                queue.popleft()
                moved = True
    return turn, [*ended.values(), *(event for queue in queues.values() for event in queue)]


def _unread(
    rows: Rows,
    headers: HeaderColumns,
    partition: np.ndarray,
    order: np.ndarray,
    read: pa.ChunkedArray,
) -> tuple[np.ndarray, pa.Array]:
    """Rows in order, without those that were read before; and how far each key is read now."""
    before = read.combine_chunks()
    flat = before.flatten()
    known = order[headers.known[order]]
    old = len(flat)
    # What was read before stands in front of a key's new rows, as if it were one of them.
    group = np.concatenate([pc.list_parent_indices(before).to_numpy(), rows.group[known]])
    where = np.concatenate([flat.field("partition").to_numpy(), partition[known]])
    writer = np.concatenate([flat.field("writer").to_numpy(), headers.writer[known]])
    epoch = np.concatenate([flat.field("epoch").to_numpy(), headers.epoch[known]])
    sequence = np.concatenate([flat.field("sequence").to_numpy(), headers.sequence[known]])
    n = len(group)
    rank = np.empty(n, np.int64)
    by_position = np.lexsort((sequence, epoch))
    fresh = np.ones(n, np.bool_)
    fresh[1:] = (np.diff(epoch[by_position]) != 0) | (np.diff(sequence[by_position]) != 0)
    rank[by_position] = np.cumsum(fresh)
    line = np.lexsort((np.arange(n), writer, where, group))
    begins = np.ones(n, np.bool_)
    begins[1:] = (
        (np.diff(group[line]) != 0) | (np.diff(where[line]) != 0) | (np.diff(writer[line]) != 0)
    )
    height = np.cumsum(begins) * (n + 1) + rank[line]
    highest = np.maximum.accumulate(height)
    higher = begins.copy()
    higher[1:] |= height[1:] > highest[:-1]
    unread = np.zeros(len(headers.known), np.bool_)
    unread[~headers.known] = True
    ahead = line[higher]
    unread[known[ahead[ahead >= old] - old]] = True
    # The last row of each stretch that was higher than all before it is where reading stands.
    stretch = np.cumsum(begins)[higher]
    tops = ahead[np.append(np.diff(stretch) != 0, True)] if n else ahead
    counts = np.bincount(group[tops], minlength=rows.n_keys)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    values = pa.StructArray.from_arrays(
        [
            pa.array(where[tops].astype(np.int32)),
            pa.array(writer[tops].astype(np.uint64)),
            pa.array(epoch[tops].astype(np.uint64)),
            pa.array(sequence[tops].astype(np.uint64)),
        ],
        fields=list(_POSITION),
    )
    positions = pa.ListArray.from_arrays(pa.array(offsets), values).cast(before.type)
    return order[unread[order]], positions


def _waiting(left: dict[int, list[Event]], n: int, source: pa.Table, kind: pa.DataType) -> pa.Array:
    counts = np.zeros(n, np.int64)
    flat: list[Event] = []
    for key in sorted(left):
        counts[key] = len(left[key])
        flat += left[key]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    event = kind.value_type
    taken = pa.array([None if e[1] != MESSAGE else e[3] for e in flat], pa.int64())
    table = source.take(taken)
    row_type = event.field("row").type
    row = pa.StructArray.from_arrays(
        [
            table.column(field.name).combine_chunks().cast(field.type)
            if table.num_rows
            else pa.nulls(0, field.type)
            for field in row_type
        ],
        fields=list(row_type),
    )
    values: list[Any] = [
        pa.array([e[0] for e in flat], pa.int32()),
        pa.array([e[1] for e in flat], pa.uint8()),
        pa.array([e[2] for e in flat], pa.uint64()),
        row,
    ]
    events = pa.StructArray.from_arrays(values, fields=list(event))
    return pa.ListArray.from_arrays(pa.array(offsets), events).cast(kind)


def _numbers(table: pa.Table, name: str, kind: type) -> np.ndarray:
    return np.asarray(table.column(name).combine_chunks(), kind)
