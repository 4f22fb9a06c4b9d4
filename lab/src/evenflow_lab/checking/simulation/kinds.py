"""The kinds of work that are simulated, each with its rows and its oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa

import evenflow as ef
from evenflow.engine.distinct_rows import DistinctRows
from evenflow.engine.expiring_states import ExpiringStates
from evenflow.engine.job import Job
from evenflow.engine.joined_rows import JoinedRows
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.ordered_states import OrderedStates
from evenflow.engine.processor_states import ProcessorStates
from evenflow.engine.processors import PROCESSING_TIME
from evenflow.engine.session_states import SessionStates
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.operators import Aggregates, IntervalJoin, PerKey, Window
from evenflow.operators.deduplication import Deduplication
from evenflow.operators.expiring import Expiring
from evenflow.operators.sessions import Session
from evenflow.ordering import Record, Writer
from evenflow.planning.controller import Replanning
from evenflow_lab.checking.simulation import oracle
from evenflow_lab.checking.simulation.oracle import Row
from evenflow_lab.checking.simulation.visits import Visits

_TIMES = pa.timestamp("us", "UTC")
_ROWS = pa.schema([("k", pa.string()), ("ts", _TIMES), ("v", pa.int64())])
_SIDED = pa.schema([*_ROWS, ("right", pa.bool_())])
_LOG = pa.schema(
    [
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("v", pa.int64()),
    ]
)
PARTITIONS = 2  #: that queries are started with
LIGHT = "ledger"  #: no engine: what surrounds it alone, at a tenth of the cost


class _SaidToBeDear(Aggregates):
    """Counts that `auto` splits in the first batch, and then finds to be cheap."""

    row_seconds = 1.0


_COUNTS = Aggregates(n=ef.count(), total=ef.sum("v"))
_DEAR = _SaidToBeDear(n=ef.count(), total=ef.sum("v"))


def _squares(key: Any, rows: Any, state: Any) -> dict[str, int]:
    return {"squares": (state["squares"] if state else 0) + int((rows["v"] ** 2).sum())}


def _in_order(key: Any, rows: Any, state: Any) -> dict[str, int]:
    n, digest = (state["n"], state["digest"]) if state else (0, 0)
    for value in rows["v"]:
        n, digest = n + 1, (digest * 31 + int(value)) % oracle.MODULUS
    return {"n": n, "digest": digest}


def _added(key: Any, rows: Any, state: Any) -> dict[str, int]:
    n, total = (state["n"], state["total"]) if state else (0, 0)
    return {"n": n + len(rows["v"]), "total": total + int(rows["v"].sum())}


def _both(a: Any, b: Any) -> dict[str, int]:
    return {"n": a["n"] + b["n"], "total": a["total"] + b["total"]}


def _ended(key: Any, state: Any) -> dict[str, int]:
    return {"n": -state["n"], "total": state["total"]}


_EAGER = Replanning(theta=0.01, margin=0, certainty=0)
_SQUARES = PerKey(_squares, state={"squares": pa.int64()}, columns=["v"])
_IN_ORDER = PerKey(_in_order, state={"n": pa.int64(), "digest": pa.int64()}, columns=["v"])
_JOIN = IntervalJoin(
    ("ts", "ts"), 4, (("ts", "a_ts"), ("v", "a_v")), (("ts", "b_ts"), ("v", "b_v")), None, 5
)

_OUTER = IntervalJoin(("ts", "ts"), 9, _JOIN.left, _JOIN.right, "right", 5, how="left")
_LIVES, _AFTER = 1_500, 2_500  # milliseconds; a batch takes about one second
_ENDING = PerKey(
    _added,
    "n bigint, total bigint",
    merge=_both,
    expired=_ended,
    columns=["v"],
    ttl=f"{_LIVES} milliseconds",
)


@dataclass
class Input:
    """The rows of a stream, by their offsets, and the oracle of what becomes of them."""

    rows: Callable[[int, int], list[Row]]
    table: Callable[[int, int], pa.Table]
    oracle: Callable[[], Any]
    written: list[Any] = field(default_factory=list)


@cache
def job_of(kind: str) -> Job:
    """The job of a kind of work."""
    windows = (20, 10, 5)
    return {
        "split": lambda: Job(("k",), _ROWS, KeyedStates(_COUNTS), make("w-choices"), PARTITIONS),
        "hash": lambda: Job(("k",), _ROWS, KeyedStates(_COUNTS), make("key"), PARTITIONS),
        "moved": lambda: Job(
            ("k",),
            _ROWS,
            KeyedStates(_SQUARES),
            make("table"),
            PARTITIONS,
            0,
            _EAGER,
        ),
        "auto": lambda: Job(("k",), _ROWS, KeyedStates(_DEAR), None, PARTITIONS),
        "windows, update": lambda: Job(
            ("k",),
            _ROWS,
            WindowedStates(_COUNTS, Window("ts", *windows)),
            make("d-choices"),
            PARTITIONS,
        ),
        "windows, append": lambda: Job(
            ("k",),
            _ROWS,
            WindowedStates(_COUNTS, Window("ts", *windows, mode="append")),
            make("key"),
            PARTITIONS,
        ),
        "sessions": lambda: Job(
            ("k",),
            _ROWS,
            SessionStates(_COUNTS, Session("ts", gap=8, delay=5)),
            make("d-choices"),
            PARTITIONS,
        ),
        "duplicates": lambda: Job(
            ("k", "ts"),
            _ROWS,
            DistinctRows(Deduplication(("k", "ts"), ("k", "ts"), "ts", 5)),
            make("w-choices"),
            PARTITIONS,
        ),
        "joins": lambda: Job(
            ("k",), _ROWS, JoinedRows(_JOIN), make("table"), PARTITIONS, 0, _EAGER
        ),
        "joins, outer": lambda: Job(
            ("k",), _SIDED, JoinedRows(_OUTER), make("table"), PARTITIONS, 0, _EAGER
        ),
        "endings": lambda: Job(
            ("k",), _ROWS, ExpiringStates(Expiring(_ENDING)), make("w-choices"), PARTITIONS
        ),
        "timers": lambda: Job(
            ("k",),
            _ROWS,
            ProcessorStates(Visits(_AFTER, _LIVES), PROCESSING_TIME),
            make("table"),
            PARTITIONS,
            0,
            _EAGER,
        ),
        "order": lambda: Job(("key",), _LOG, OrderedStates(_IN_ORDER), make("key"), PARTITIONS),
    }[kind]()


MOVING = ("moved", "joins", "timers")  #: whose keys move once there are enough of them in a batch
ENGINE = (
    "split",
    "hash",
    "moved",
    "auto",
    "windows, update",
    "windows, append",
    "sessions",
    "duplicates",
    "joins",
    "joins, outer",
    "endings",
    "timers",
    "order",
)
#: Where a batch without rows closes what event time has passed.
CLOSING = tuple(kind for kind in ENGINE if job_of(kind).work.closes_without_rows)


def input_of(kind: str, seed: int, most: int) -> Input:
    """The rows of a stream of this kind.

    Parameters:
        kind: of the work.
        seed: of the rows.
        most: how many there will ever be.
    """
    return _log(seed, most) if kind == "order" else _keyed(kind, seed, most)


def _keyed(kind: str, seed: int, most: int) -> Input:
    chance = random.Random(f"rows {seed}")
    moving = kind in MOVING
    made: list[Row] = []
    for i in range(most):
        # Where keys move, there are many of them, and what is hot changes.
        hot, share, others = (f"hot {i // 150 % 2}", 0.25, 10) if moving else ("hot", 0.4, 5)
        others = 60 if kind == "timers" else others  # whose rows do not come with every batch
        key: str | None = hot if chance.random() < share else f"k{chance.randrange(others)}"
        key = None if chance.random() < 0.05 and kind != LIGHT else key
        row: Row = (key, 3 * i + chance.randrange(-6, 7) + 100, chance.randrange(9))
        made.append((*row, chance.random() < 0.5) if kind == "joins, outer" else row)

    def table(start: int, end: int) -> pa.Table:
        schema = _SIDED if kind == "joins, outer" else _ROWS
        columns = list(zip(*made[start:end], strict=True)) or [()] * len(schema)
        plain = [pa.int64() if field.type == _TIMES else field.type for field in schema]
        arrays = [pa.array(list(c), t) for c, t in zip(columns, plain, strict=True)]
        return pa.table(arrays, names=schema.names).cast(schema)

    oracles: dict[str, Callable[[], Any]] = {
        "moved": lambda: oracle.Counts(squares=True),
        "windows, update": lambda: oracle.Windows(20, 10, 5, append=False),
        "windows, append": lambda: oracle.Windows(20, 10, 5, append=True),
        "sessions": lambda: oracle.Sessions(8, 5),
        "duplicates": lambda: oracle.Distinct(5),
        "joins": lambda: oracle.Pairs(4, 5),
        "joins, outer": lambda: oracle.Outer(9, 5),
        "endings": lambda: oracle.Ending(_LIVES),
        "timers": lambda: oracle.Timed(_AFTER, _LIVES),
    }
    return Input(lambda a, b: made[a:b], table, oracles.get(kind, oracle.Counts))


def _log(seed: int, most: int) -> Input:
    """Records that a writer that moves keys has written, read at another pace from each partition."""
    chance = random.Random(f"log {seed}")
    writer = Writer(writer=1, partitions=3, home=lambda key: len(key) % 3)
    written: list[tuple[Record, int | None]] = []
    for i in range(most):
        key = b"hot" if chance.random() < 0.5 else b"key %d" % chance.randrange(4)
        written.append((writer.message(key, b""), i % 9))
        if chance.random() < 0.3:
            for marker in writer.move(b"hot", chance.randrange(3)):
                written.append((marker, None))
    queues: list[list[int]] = [[], [], []]
    for number, (record, _) in enumerate(written):
        queues[record.partition].append(number)
    order: list[int] = []
    offsets: dict[int, int] = {}
    while any(queues):
        queue = chance.choice([queue for queue in queues if queue])
        at = len([n for n in order if written[n][0].partition == written[queue[0]][0].partition])
        offsets[queue[0]] = at
        order.append(queue.pop(0))
    place = {number: i for i, number in enumerate(order)}
    order = order[:most]

    def table(start: int, end: int) -> pa.Table:
        records = [(written[n][0], written[n][1], offsets[n]) for n in order[start:end]]
        return pa.table(
            [
                pa.array([r.key for r, _, _ in records], pa.binary()),
                pa.array(
                    [[{"key": n, "value": v} for n, v in r.headers] for r, _, _ in records],
                    _LOG.field("headers").type,
                ),
                pa.array([r.partition for r, _, _ in records], pa.int32()),
                pa.array([offset for _, _, offset in records], pa.int64()),
                pa.array([value for _, value, _ in records], pa.int64()),
            ],
            schema=_LOG,
        )

    def make_oracle() -> oracle.Ordered:
        return oracle.Ordered(
            (record.key, value, place[number]) for number, (record, value) in enumerate(written)
        )

    return Input(lambda a, b: [(n,) for n in order[a:b]], table, make_oracle)
