"""Twenty batches of every kind of work in one process, killed at every storage call in turn.

Before the call, and after its effect. A process that is started again ends at the oracle: what a run
that nobody killed has put out and kept. There is no Spark in here.
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import evenflow as ef
from evenflow.engine import splitting
from evenflow.engine.distinct_rows import DistinctRows
from evenflow.engine.expiring_states import ExpiringStates
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.joined_rows import JoinedRows
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.ordered_states import OrderedStates
from evenflow.engine.output import Tables
from evenflow.engine.processor_states import ProcessorStates
from evenflow.engine.processors import EVENT_TIME, PROCESSING_TIME
from evenflow.engine.session_states import SessionStates
from evenflow.engine.windowed_states import WindowedStates
from evenflow.grouping import make
from evenflow.model import Plan
from evenflow.operators import Aggregates, IntervalJoin, PerKey, Window
from evenflow.operators.deduplication import Deduplication
from evenflow.operators.expiring import Expiring
from evenflow.operators.sessions import Session
from evenflow.ordering import Writer
from evenflow.planning.controller import Replanning
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.compaction import newest
from evenflow.state.expiry import Expiry
from evenflow.state.segments import FINGERPRINT, VERSION, read_segment
from evenflow.state.verification import verify
from evenflow.storage.faults import Crash, Faults, FaultyStorage
from evenflow.storage.memory import MemoryStorage
from plain_processor import Counting

pytestmark = pytest.mark.slow

BATCHES = 20
TIMES = pa.timestamp("us", "UTC")


class SaidToBeDear(Aggregates):
    """Counts that `auto` splits in the first batch, and then finds to be cheap."""

    row_seconds = 1.0


ROWS = pa.schema([("k", pa.string()), ("ts", TIMES), ("v", pa.int64())])
COUNTS = Aggregates(n=ef.count(), total=ef.sum("v"))
DEAR = SaidToBeDear(n=ef.count(), total=ef.sum("v"))


def gathered(key, rows, state):
    """Has no merge: the sum of squares of a key."""
    return {"squares": (state["squares"] if state else 0) + int((rows["v"] ** 2).sum())}


def added(key, rows, state):
    """Counts and adds up."""
    before = state or {"n": 0, "total": 0}
    return {"n": before["n"] + len(rows["v"]), "total": before["total"] + int(rows["v"].sum())}


def both(a, b):
    return {name: a[name] + b[name] for name in a}


def several(key, state):
    """A row for each that was counted, three at most."""
    return [{"i": i, "total": state["total"]} for i in range(min(state["n"], 3))]


def ends(key, state):
    """When a key ends, in milliseconds: it depends on what it has."""
    return 20 + state["total"]


ENDING = {"state": "n bigint, total bigint", "emit": several, "output": "i bigint, total bigint"}


def rows_of(batch, microseconds=1):
    """A few rows with a hot key, a key that comes and goes, a null key and times that move on."""
    chance = np.random.default_rng(batch)
    n = 12
    keys = ["hot" if i % 3 == 0 else f"k{int(k)}" for i, k in enumerate(chance.zipf(1.5, n) % 7)]
    keys[1] = None if batch % 2 else f"rare {batch // 5}"
    times = (batch * 10 + chance.integers(-3, 10, n)) * microseconds
    return pa.table(
        [
            pa.array(keys, pa.string()),
            pa.array(times, pa.int64()).cast(TIMES),
            pa.array(chance.integers(0, 9, n), pa.int64()),
        ],
        schema=ROWS,
    )


def log_of(batches):
    """Batches of records as Spark reads them from a topic whose writer moves keys about."""
    writer = Writer(writer=1, partitions=3, home=lambda key: len(key) % 3)
    offsets = [0, 0, 0]
    found = []
    for batch in range(batches):
        records = []
        for i in range(8):
            key = b"hot" if i % 2 else b"key %d" % (i + batch)
            records.append(writer.message(key, b"%d" % i))
            if i % 4 == 3:
                records += writer.move(b"hot", (batch + i) % 3)
        # Spark knows of no order between partitions: here the last comes first.
        records.sort(key=lambda record: -record.partition)
        columns = {"key": [], "headers": [], "partition": [], "offset": []}
        for record in records:
            columns["key"].append(record.key)
            columns["headers"].append([{"key": n, "value": v} for n, v in record.headers])
            columns["partition"].append(record.partition)
            columns["offset"].append(offsets[record.partition])
            offsets[record.partition] += 1
        found.append(pa.table(columns, schema=LOG))
    return found


LOG = pa.schema(
    [
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
JOIN = IntervalJoin(
    ("ts", "ts"), 4, (("ts", "a_ts"), ("v", "a_v")), (("ts", "b_ts"), ("v", "b_v")), None, 5
)
SIDED = pa.schema([*ROWS, ("right", pa.bool_())])
BOTH_SIDES = IntervalJoin(("ts", "ts"), 9, JOIN.left, JOIN.right, "right", 5)
PER_KEY = PerKey(gathered, state={"squares": pa.int64()}, columns=["v"])
KINDS = {
    "plain, split": Job(("k",), ROWS, KeyedStates(COUNTS), make("w-choices"), 3),
    "plain, by hash": Job(("k",), ROWS, KeyedStates(COUNTS), make("key"), 3),
    "plain, moved": Job(
        ("k",), ROWS, KeyedStates(PER_KEY), make("table"), 3, 0, Replanning(theta=0.01, certainty=0)
    ),
    "plain, auto": Job(("k",), ROWS, KeyedStates(DEAR), None, 3),
    "windows, update": Job(
        ("k",), ROWS, WindowedStates(COUNTS, Window("ts", 20, 10, 5)), make("d-choices"), 3
    ),
    "windows, append": Job(
        ("k",), ROWS, WindowedStates(COUNTS, Window("ts", 20, 10, 5, mode="append")), make("key"), 3
    ),
    "sessions": Job(
        ("k",), ROWS, SessionStates(COUNTS, Session("ts", gap=6, delay=5)), make("d-choices"), 3
    ),
    "duplicates": Job(
        ("k", "v"),
        ROWS,
        DistinctRows(Deduplication(("k", "v"), tuple(ROWS.names), "ts", 25, within=True)),
        make("w-choices"),
        3,
    ),
    "joins": Job(("k",), ROWS, JoinedRows(JOIN), make("table"), 3),
    "timers, event time": Job(
        ("k",),
        ROWS,
        ProcessorStates(Counting(EVENT_TIME, after=25), EVENT_TIME, "ts", late=5_000),
        make("table"),
        3,
        0,
        Replanning(theta=0.01, certainty=0),
    ),
    "timers and TTL, processing time": Job(
        ("k",),
        ROWS,
        ProcessorStates(Counting(PROCESSING_TIME, after=3_500, ttl=2_500), PROCESSING_TIME),
        make("key"),
        3,
    ),
    "a function's TTL, timers in processing time": Job(
        ("k",),
        ROWS,
        ExpiringStates(
            Expiring(PerKey(added, merge=both, ttl="2500 milliseconds", expired=several, **ENDING))
        ),
        make("w-choices"),
        3,
    ),
    "a function's timers in event time, append": Job(
        ("k",),
        ROWS,
        ExpiringStates(
            Expiring(PerKey(added, timer=ends, **ENDING), "ts"), EVENT_TIME, 5_000, append=True
        ),
        make("key"),
        3,
    ),
    "joins, split": Job(("k",), SIDED, JoinedRows(BOTH_SIDES), make("table"), 3),
    "order": Job(("key",), LOG, OrderedStates(Aggregates(n=ef.count())), make("key"), 3),
}


def batches_of(kind, number=BATCHES):
    if kind == "order":
        return log_of(number)
    if kind == "joins, split":
        return [sided_rows_of(batch) for batch in range(number)]
    return [rows_of(batch, 1_000 if "timers" in kind else 1) for batch in range(number)]


def sided_rows_of(batch):
    """The rows of two streams, in which a third of both sides has one key."""
    rows = pa.concat_tables([rows_of(batch), rows_of(batch + BATCHES)]).combine_chunks()
    sides = pa.array(np.arange(rows.num_rows) % 2 == 1)
    times = pa.array(batch * 10 + np.arange(rows.num_rows) % 13, pa.int64()).cast(TIMES)
    return rows.set_column(1, "ts", times).append_column("right", sides).cast(SIDED)


@pytest.fixture(autouse=True)
def eager_splits(monkeypatch):
    """Batches are small: a key of a join is split as soon as it has a few rows."""
    monkeypatch.setattr(splitting, "_LITTLE", 5)


def outcome(job, storage, sink):
    """What a stream has put out, batch by batch, and what it knows of each key, as plain values.

    Which partition has a key is left out: by how long a function took, keys may move otherwise.
    """
    put_out = {batch: sorted(map(str, t.to_pylist())) for batch, t in sink.tables.items()}
    checkpoint = Checkpoint.open(storage)
    last = checkpoint.last()
    known = []
    if last.segments:
        tables = [read_segment(checkpoint.storage, segment) for segment in last.segments]
        state = newest(pa.concat_tables(tables)).drop_columns([FINGERPRINT, VERSION])
        if job.expires is not None:
            state = Expiry(job.expires, last.event_time["closed"]).alive(state)
        known = sorted(map(str, state.to_pylist()))
    return put_out, last.batch, known


def run(job, storage, sink, batches, first=0, faults=None):
    """Run these batches, as a driver does that finds a checkpoint; whether it survived."""
    used = storage if faults is None else FaultyStorage(storage, faults)
    try:
        for _ in run_stream(job, used, batches, sink, first=first, moments=began):
            pass
    except Crash:
        return False
    return True


def began(batch):
    return 1_000 * batch


class Truth:
    """A run that nobody kills: after each batch, what it has stored and put out, and its calls."""

    def __init__(self, kind):
        self.job, self.batches = KINDS[kind], batches_of(kind)
        self.stored, self.tables, self.outcomes, self.calls = [{}], [{}], [], []
        storage, sink = MemoryStorage(), Tables()
        for number, rows in enumerate(self.batches):
            faults = Faults()
            assert run(self.job, storage, sink, [rows], number, faults)
            self.calls.append(faults.calls)
            self.stored.append({name: storage.read(name) for name in storage.list("")})
            self.tables.append(dict(sink.tables))
            self.outcomes.append(outcome(self.job, storage, sink))
        assert not verify(storage).problems
        storage.clear()

    def before(self, batch):
        """The storage and the sink as this batch found them."""
        return storage_with(self.stored[batch]), Tables(dict(self.tables[batch]))


class Left(Faults):
    """No faults: what a kill would leave behind, before and after each call.

    Attributes:
        moments: how many moments there were.
        found: the call, what is stored and what is delivered, wherever that differs from the moment
            before.
    """

    def __init__(self, storage, sink):
        super().__init__()
        self.storage, self.sink = storage, sink
        self.moments, self.found = 0, []

    def call(self, what, effect, fails=True):
        self._look(f"before {what}")
        result = super().call(what, effect, fails)
        self._look(f"after {what}")
        return result

    def _look(self, call):
        self.moments += 1
        stored = {name: self.storage.read(name) for name in self.storage.list("")}
        tables = dict(self.sink.tables)
        if not self.found or (stored, tables.keys()) != (
            self.found[-1][1],
            self.found[-1][2].keys(),
        ):
            self.found.append((call, stored, tables))


def storage_with(stored):
    storage = MemoryStorage()
    for name, content in stored.items():
        storage.put(name, [content])
    return storage


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_killed_at_a_storage_call_ends_at_the_oracle(kind):
    """At calls spread over the whole stream; `make test-slow` tries every one."""
    _kill(kind, every=97)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_killed_at_any_storage_call_ends_at_the_oracle(kind):
    """Before and after every call of every batch. What a kill leaves behind is what is stored at that
    moment: moments that leave the same, as those around a read do, are one start of the next driver.
    """
    truth, moments = Truth(kind), 0
    for batch in range(BATCHES):
        left = Left(*truth.before(batch))
        assert run(truth.job, left.storage, left.sink, truth.batches[batch:][:1], batch, left)
        moments += left.moments
        left.storage.clear()
        for turn, (call, stored, tables) in enumerate(left.found):
            storage, sink = storage_with(stored), Tables(tables)
            _goes_on(truth, storage, sink, batch, to_the_end=turn % 10 == 0, killed=call)
    assert moments > 400


def test_a_key_of_a_join_is_split_while_the_stream_is_killed():
    truth = Truth("joins, split")
    storage, _ = truth.before(BATCHES)
    plan = Plan.from_dict(Checkpoint.open(storage).last().plan)
    assert max(split.parts for split in plan.split.entries.values()) == 3


def _kill(kind, every):
    """Kill the stream at some calls, before and after its effect; how often that was.

    The next driver runs the batch that was cut and the one after it; every tenth goes on to the end.
    """
    truth, kills = Truth(kind), 0
    crashes = [(b, call) for b, calls in enumerate(truth.calls) for call in range(calls)]
    for turn, (batch, call) in enumerate(crashes[::every]):
        for applied in (False, True):
            storage, sink = truth.before(batch)
            faults = Faults(crash_at=call, applied=applied)
            assert not run(truth.job, storage, sink, truth.batches[batch:][:1], batch, faults)
            killed = f"{'after' if applied else 'before'} call {call}: {faults.log[-1]}"
            _goes_on(truth, storage, sink, batch, to_the_end=turn % 10 == 0, killed=killed)
            kills += 1
    return kills


def _goes_on(truth, storage, sink, batch, to_the_end, killed):
    """The next driver, with what it finds: this batch and the one after it, or all that are left."""
    rest = truth.batches[batch:] if to_the_end else truth.batches[batch:][:2]
    assert run(truth.job, storage, sink, rest, batch), (batch, killed)
    expected = truth.outcomes[batch + len(rest) - 1]
    assert outcome(truth.job, storage, sink) == expected, (batch, killed)
    storage.clear()


def test_the_engine_runs_where_pyspark_is_not_installed():
    script = """
import sys
for name in ("pyspark", "py4j", "matplotlib"):
    sys.modules[name] = None  # importing it is an ImportError
import pyarrow as pa
from evenflow.engine.in_process import run_stream
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.output import Tables
from evenflow.grouping import make
from evenflow.operators import Aggregates, count
from evenflow.storage.memory import MemoryStorage
rows = pa.table({"k": ["a", "b", "a"]})
job = Job(("k",), rows.schema, KeyedStates(Aggregates(n=count())), make("w-choices"), 4)
sink = Tables()
for _ in run_stream(job, MemoryStorage(), [rows] * 20, sink):
    pass
print(sorted(sink.latest("k").to_pydict()["n"]))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout == "[20, 40]\n", ended.stderr
