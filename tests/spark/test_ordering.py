"""The rule of message sets as keyed work: rows of many partitions, back in each key's order."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.engine.in_process import InProcess
from evenflow.engine.job import Job
from evenflow.engine.ordered_states import POSITIONS, WAITING, OrderedStates
from evenflow.engine.pieces import roomy
from evenflow.engine.plans import first_plan
from evenflow.engine.program import Stages
from evenflow.engine.task import Task
from evenflow.grouping import make
from evenflow.model import InputError
from evenflow.operators import Aggregates, PerKey, count, no_state, rows_by_key
from evenflow.ordering import Writer
from evenflow.spark.sinks import MemorySink
from evenflow_lab.checking.kafka_topics import new_topic, produced
from evenflow_lab.checking.order_checker import check
from evenflow_lab.checking.streaming import run
from ordering.test_ordering import COMMANDS, PARTITIONS, U64, _log_of, _writer

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def gather(key, rows, state):
    return {"seen": [*(state["seen"] if state else []), *rows["value"].tolist()]}


GATHER = OrderedStates(PerKey(gather, {"seen": pa.list_(pa.binary())}, columns=["value"]))
COUNT = OrderedStates(Aggregates(n=count()))


def _table(records):
    """(offset, record) pairs as Spark's Kafka source gives them."""
    return pa.table(
        {
            "key": pa.array([record.key for _, record in records], pa.binary()),
            "value": pa.array([record.value for _, record in records], pa.binary()),
            "partition": pa.array([record.partition for _, record in records], pa.int32()),
            "offset": pa.array([offset for offset, _ in records], pa.int64()),
            "headers": pa.array(
                [
                    [{"key": name, "value": value} for name, value in record.headers]
                    for _, record in records
                ],
                HEADERS,
            ),
        }
    )


def _after(work, rows, states):
    """The states after the rows of one batch."""
    job = Job(("key",), rows.table.schema, work, make("key"), partitions=2)
    return work.updated(Task(job, None, 0), rows, states).states


def _in_batches(operator, log, chance, schema):
    """Reads some of each partition a batch, rows shuffled; gives key → state at the end."""
    at = dict.fromkeys(log, 0)
    states = {}
    while any(at[p] < len(log[p]) for p in log):
        records = []
        for p in log:
            stop = min(len(log[p]), at[p] + chance.choice([0, 1, 2, 5]))
            records += [(offset, log[p][offset]) for offset in range(at[p], stop)]
            at[p] = stop
        chance.shuffle(records)
        rows = rows_by_key(_table(records), "key")
        keys = rows.keys.column("key").to_pylist()
        before = pa.concat_tables(
            [states.get(key, no_state(schema, 1)) for key in keys] or [no_state(schema, 0)]
        )
        after = _after(operator, rows, before)
        assert after.schema == schema
        for i, key in enumerate(keys):
            states[key] = after.slice(i, 1)
    return states


@settings(max_examples=150)
@given(
    COMMANDS,
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, 50), st.integers(0, 50))),
    U64,
)
def test_each_message_is_given_once_and_those_of_a_key_in_the_order_written(
    commands, replays, seed
):
    log, sent = _log_of(_writer(), commands)
    for partition, start, at in replays:
        records = log[partition]
        at = min(at, len(records))
        log[partition] = records[:at] + records[min(start, at) : at] + records[at:]
    schema = _table([]).schema
    for operator, expected in (
        (GATHER, dict(sent)),
        (COUNT, {key: len(values) for key, values in sent.items()}),
    ):
        in_tasks = roomy(operator.state_schema(schema))
        states = _in_batches(operator, log, random.Random(seed), in_tasks)
        name = operator.operator.state_schema(schema).names[0]
        found = {key: state.column(name)[0].as_py() for key, state in states.items()}
        assert {key: value for key, value in found.items() if value} == expected
        assert all(not state.column(WAITING)[0].as_py() for state in states.values())


def test_rows_wait_in_the_state_until_their_turn():
    writer = Writer(1, 2, home=lambda key: 0)
    records = [writer.message(b"k", b"0"), *writer.move(b"k", 1), writer.message(b"k", b"1")]
    late, early = (
        _table([(0, records[0]), (1, records[1])]),
        _table([(0, records[2]), (1, records[3])]),
    )
    schema = roomy(GATHER.state_schema(late.schema))
    state = _after(GATHER, rows_by_key(early, "key"), no_state(schema, 1))
    assert state.column("seen").to_pylist() == [None]
    assert [event["kind"] for event in state.column(WAITING)[0].as_py()] == [1, 0]
    state = _after(GATHER, rows_by_key(late, "key"), state)
    assert state.column("seen").to_pylist() == [[b"0", b"1"]]
    assert state.column(WAITING).to_pylist() == [[]]
    assert len(state.column(POSITIONS)[0]) == 2
    assert GATHER.output_schema(late.schema).names == ["seen"]


def test_rows_of_other_programs_are_given_as_they_come():
    table = _table([(0, _writer().message(b"k", b"0"))])
    plain = table.set_column(4, "headers", pa.array([None], HEADERS))
    rows = plain.select(["key", *GATHER.columns()])
    job = Job(("key",), rows.schema, GATHER, make("key"), partitions=2)
    found = InProcess().output(rows, Stages.of(job, first_plan(job)))
    assert found.to_pylist() == [{"key": b"k", "seen": [b"0"]}]


def test_missing_columns_and_taken_names_are_named():
    with pytest.raises(InputError, match="headers"):
        GATHER.state_schema(pa.schema([("key", pa.binary())]))
    taken = OrderedStates(PerKey(gather, {WAITING: "int64"}, columns=["value"]))
    with pytest.raises(InputError, match="choose another name"):
        taken.state_schema(_table([]).schema)
    assert not GATHER.mergeable


@pytest.mark.spark
def test_a_stream_from_kafka_is_put_back_in_order(spark, broker, tmp_path):
    import evenflow as ef

    topic = new_topic(broker, 3)
    writer = Writer(1, 3, home=lambda key: key[0] % 3)
    chance, sent, records = random.Random(7), {}, []
    for _ in range(600):
        key = b"%d" % min(9, int(chance.expovariate(0.5)))
        records.append(writer.message(key, b"%d" % sent.get(key, 0)))
        sent[key] = sent.get(key, 0) + 1
        if chance.random() < 0.2:
            records += writer.move(key, chance.randrange(3))
    produced(broker, topic, ((r.key, r.value, r.partition, r.headers) for r in records))
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", True)
        .option("maxOffsetsPerTrigger", 150)
        .load()
    )

    def append(key, rows, state):  # defined here, so that Spark's workers need not import this file
        return {"seen": [*(state["seen"] if state else []), *rows["value"].tolist()]}

    operator = PerKey(append, {"seen": pa.list_(pa.binary())}, columns=["value"])
    sink = MemorySink()
    keyed = ef.keyed(source, "key").inOrder().balance("key", partitions=2)
    run(keyed.apply(operator), tmp_path / "checkpoint", sink)
    assert len(sink.tables) >= 4
    rows = sink.latest("key").to_pylist()
    out = {row["key"]: row["seen"] for row in rows}
    processed = [(key, int(n), None) for key, seen in out.items() for n in seen]
    found = check(sent, processed)
    assert not found.any, found
    assert found.messages == 600
