"""The ordered consumer on a real broker: order and exactly-once effects, whatever happens to it."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest

from evenflow.model import InputError
from evenflow.ordering import Writer
from evenflow_lab.checking.order_checker import check

pytest.importorskip("confluent_kafka")

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from evenflow.cli.app import main
from evenflow.kafka.consumer import ConsumerConfig, ConsumerStopped, OrderedConsumer
from evenflow.kafka.consumer_reference import CountPerKey
from evenflow.kafka.consumer_topics import first_offsets, group_topics
from evenflow.kafka.consumer_transaction import Aborted
from evenflow.kafka.dead_letters import DeadLettersFull, HandlerFailed
from evenflow_lab.benchmarks.ordering.outputs import all_outputs
from evenflow_lab.benchmarks.ordering.settings import Run
from evenflow_lab.benchmarks.ordering.trial import run_trial
from evenflow_lab.checking.kafka_topics import consumed, new_topic

pytestmark = pytest.mark.slow  # a broker, and consumer processes

PARTITIONS = 3


class _Topic:
    """A data topic of a test's own, its writer, and what was sent."""

    def __init__(self, broker):
        self.bootstrap = broker.bootstrap
        self.name = f"t-{uuid4().hex[:10]}"
        self.output, self.group = f"{self.name}-output", f"{self.name}-group"
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        made = self.admin.create_topics(
            [NewTopic(self.name, PARTITIONS, 1), NewTopic(self.output, 2, 1)]
        )
        for one in made.values():
            one.result(30)
        self.writer = Writer(1, PARTITIONS, home=lambda key: key[0] % PARTITIONS)
        # Without it, what a topic that is just being made refuses is sent again out of order.
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        self.sent, self.appended = {}, 0

    def message(self, key, times=1):
        for _ in range(times):
            number = self.sent.get(key, 0)
            self.sent[key] = number + 1
            self.append(self.writer.message(key, b"%d" % number))

    def move(self, key, to):
        for record in self.writer.move(key, to):
            self.append(record)

    def append(self, record):
        self.appended += 1
        self.producer.produce(
            self.name,
            partition=record.partition,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )

    def config(self, **given):
        self.producer.flush(30)
        return ConsumerConfig(self.bootstrap, self.name, self.group, self.output, **given)

    def outputs(self):
        return all_outputs(self.bootstrap, self.output)

    def assert_right(self):
        found = check(self.sent, self.outputs())
        assert not found.any, found
        assert found.messages == sum(self.sent.values())


@pytest.fixture
def topic(broker):
    return _Topic(broker)


def _run_until(consumer, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        consumer.step()
        assert time.monotonic() < end, consumer.counts


def _all_processed(consumer, n):
    return lambda: consumer.counts.processed >= n


def _all_committed(consumer, topic):
    """All that was sent is read, handled and committed; to process again counts as processed."""

    def condition():
        works = consumer._works.values()
        read = sum(max(0, work.next_data) for work in works) == topic.appended
        return read and not consumer.held and not any(work.changed for work in works)

    return condition


def test_moves_back_and_forth_and_moves_without_later_messages(topic):
    for i in range(30):
        topic.message(b"a", 3)
        topic.move(b"a", i % PARTITIONS)
        topic.message(b"b")
        topic.move(b"b", (i * 2) % PARTITIONS)
        topic.move(b"never sent", i % PARTITIONS)
    topic.message(b"a")
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    moves = topic.writer.epoch
    consumer.run(60, until=_all_processed(consumer, sum(topic.sent.values())))
    topic.assert_right()
    assert consumer.counts.keys_sent <= moves
    assert consumer.counts.keys_received > 20


def test_the_next_owner_goes_on_with_states_and_waiting_messages(topic):
    topic.message(b"a", 3)
    topic.message(b"b", 2)
    source = topic.writer.home(b"a")
    target = (source + 1) % PARTITIONS
    last, first = topic.writer.move(b"a", target)
    topic.append(first)  # the old partition does not know yet
    topic.message(b"a", 4)
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    _run_until(consumer, lambda: consumer.held == 4 and consumer.counts.processed == 5)
    consumer.close()
    topic.append(last)
    second = OrderedConsumer(topic.config(), CountPerKey())
    _run_until(second, lambda: second.held == 4)  # read back, not read again
    second.run(60, until=_all_processed(second, 4))
    topic.assert_right()
    assert second.counts.duplicates == 0


def test_what_the_writer_writes_again_is_dropped(topic):
    for i in range(5):
        topic.message(b"a", 2)
        topic.move(b"a", i % PARTITIONS)
    again = Writer(1, PARTITIONS, home=topic.writer.home)
    for i in range(5):
        records = [again.message(b"a", b"%d" % number) for number in (2 * i, 2 * i + 1)]
        for record in records + again.move(b"a", i % PARTITIONS):
            topic.append(record)
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    counts = consumer.counts
    consumer.run(60, until=lambda: counts.processed >= 10 and counts.duplicates >= 10 + 2 * 5)
    topic.assert_right()
    assert counts.duplicates == 10 + 2 * 5


class _Fails(CountPerKey):
    def handle(self, key, value, state):
        if value == b"2":
            raise ZeroDivisionError
        return super().handle(key, value, state)


def test_a_handler_that_fails_leaves_no_effect(topic):
    topic.message(b"a", 4)
    consumer = OrderedConsumer(topic.config(commit_interval=30), _Fails())
    where = f"key b'a', partition {topic.writer.home(b'a')}, offset 2: ZeroDivisionError"
    with pytest.raises(HandlerFailed, match=where) as failed:
        consumer.run(60)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert topic.outputs() == []
    second = OrderedConsumer(topic.config(), CountPerKey())
    second.run(60, until=_all_processed(second, 4))
    topic.assert_right()


class _Poison(CountPerKey):
    """Fails for some messages, after it has changed the state in place."""

    def handle(self, key, value, state):
        state = state or {"seen": []}
        state["seen"].append(value.decode())
        if value in (b"2", b"5"):
            raise ValueError("not this one")
        return state, [value + b" after %d" % (len(state["seen"]) - 1)]


class _PoisonMany(_Poison):
    def handle_many(self, key, values, state):
        outputs = []
        for value in values:
            state, more = self.handle(key, value, state)
            outputs += more
        return state, outputs


@pytest.mark.parametrize("handler", [_Poison, _PoisonMany])
def test_poison_messages_are_set_aside_once_up_to_a_limit(topic, broker, handler, monkeypatch):
    letters = new_topic(broker, 1)
    target = (topic.writer.home(b"a") + 1) % PARTITIONS
    topic.message(b"a", 4)
    topic.move(b"a", target)
    topic.message(b"a", 4)  # these wait, and the second of them is poison
    settings = {"dead_letter_topic": letters, "dead_letter_limit": 1}
    consumer = OrderedConsumer(topic.config(**settings), handler())
    commit, calls = consumer._transactions.commit, []

    def aborts_once(records, offsets, group):
        calls.append(list(records))
        if len(calls) == 1:
            raise Aborted("for this test", surely=True)
        return commit(calls[-1], offsets, group)

    monkeypatch.setattr(consumer._transactions, "commit", aborts_once)
    consumer.run(60, until=_all_committed(consumer, topic))
    assert consumer.counts.set_aside == 2
    found = [m for part in consumed(broker, letters) for m in part]
    headers = [{name: text.decode() for name, text in m.headers()} for m in found]
    assert [(m.key(), m.value()) for m in found] == [(b"a", b"2"), (b"a", b"5")]
    assert [h["evenflow-partition"] for h in headers] == [str(topic.writer.home(b"a")), str(target)]
    assert [h["evenflow-offset"] for h in headers] == ["2", "2"]  # after a marker and one message
    assert {h["evenflow-error"] for h in headers} == {"ValueError: not this one"}
    outputs = [m.value() for part in consumed(broker, topic.output) for m in part]
    good = [b"0", b"1", b"3", b"4", b"6", b"7"]
    assert outputs == [value + b" after %d" % i for i, value in enumerate(good)]
    topic.sent[b"b"] = 2  # its next message is number 2, in partition 2
    topic.message(b"b")
    topic.sent[b"b"] = 5
    topic.message(b"b")
    consumer = OrderedConsumer(topic.config(**settings), handler())
    with pytest.raises(DeadLettersFull, match="1 messages, as many as dead_letter_limit allows"):
        consumer.run(60)


def test_other_partitions_go_on_while_one_is_restored(topic):
    OrderedConsumer(topic.config(), CountPerKey()).run(20, until=lambda: True)
    keys = {topic.writer.home(key): key for key in (b"a", b"b", b"c")}
    for key in keys.values():
        topic.message(key, 5)
    blocked = Producer({"bootstrap.servers": topic.bootstrap, "transactional.id": topic.name})
    blocked.init_transactions(30)
    blocked.begin_transaction()
    changelog = group_topics(topic.name, topic.group).changelog
    blocked.produce(changelog, b"", b"s", partition=2)
    blocked.flush(30)
    consumer = OrderedConsumer(topic.config(patience=60), CountPerKey())
    _run_until(consumer, lambda: consumer.counts.processed == 10)
    assert consumer.owned == [0, 1]
    assert not consumer.at_end
    blocked.abort_transaction(30)
    consumer.run(60, until=_all_processed(consumer, 15))
    assert consumer.counts.restores == 3
    topic.assert_right()


def test_an_aborted_transaction_is_read_again(topic, monkeypatch):
    consumer = OrderedConsumer(topic.config(commit_interval=0.01), CountPerKey())
    commit, fail_at = consumer._transactions.commit, {2, 3, 6}
    calls = 0

    def sometimes(records, offsets, group):
        nonlocal calls
        calls += 1
        if calls not in fail_at:
            return commit(records, offsets, group)
        list(records)
        raise Aborted("for this test", surely=calls == 3)

    monkeypatch.setattr(consumer._transactions, "commit", sometimes)
    _run_until(consumer, lambda: consumer.owned == list(range(PARTITIONS)))
    for i in range(12):
        topic.message(b"a", 5)
        topic.message(b"b", 5)
        topic.move(b"a", i % PARTITIONS)
        topic.producer.flush(30)
        consumer.step()
    all_committed = _all_committed(consumer, topic)
    _run_until(consumer, lambda: calls > max(fail_at) and all_committed())
    consumer.close()
    topic.assert_right()
    assert consumer.counts.aborts == 3


class _Many(CountPerKey):
    calls = 0

    def handle_many(self, key, values, state):
        self.calls += 1
        outputs = []
        for value in values:
            state, more = self.handle(key, value, state)
            outputs += more
        return state, outputs


def test_a_handler_may_take_many_messages_at_once(topic):
    handler = _Many()
    for i in range(20):
        topic.message(b"a", 10)
        topic.message(b"b", 10)
        topic.move(b"a", i % PARTITIONS)
    consumer = OrderedConsumer(topic.config(), handler)
    consumer.run(60, until=_all_processed(consumer, 400))
    topic.assert_right()
    assert 0 < handler.calls < 200


def test_a_full_buffer_stops_reading_until_a_done_comes(topic):
    source = topic.writer.home(b"a")
    target = (source + 1) % PARTITIONS
    last, first = topic.writer.move(b"a", target)
    topic.append(first)
    topic.message(b"a", 3000)
    consumer = OrderedConsumer(topic.config(buffer=50), CountPerKey())
    _run_until(consumer, lambda: consumer.counts.pauses == 1)
    held = consumer.held
    for _ in range(20):
        consumer.step()
    assert 50 < consumer.held == held < 3000
    topic.append(last)
    topic.producer.flush(30)
    consumer.run(60, until=_all_processed(consumer, 3000))
    topic.assert_right()


@pytest.mark.long
def test_a_broker_that_is_killed_and_comes_back(topic, broker):
    consumer = OrderedConsumer(topic.config(session_timeout=6), CountPerKey())
    for i in range(6):
        topic.message(b"a", 20)
        topic.move(b"a", i % PARTITIONS)
        topic.producer.flush(30)
        _run_until(consumer, _all_processed(consumer, 20 * i))
        if i == 2:
            broker.kill()
            broker.restart()
    consumer.run(90, until=_all_committed(consumer, topic))
    topic.assert_right()


class _Stranger:
    """A group's consumer that has been shut out, and has not noticed."""

    def __init__(self, consumer, topic):
        self._consumer = consumer
        outside = Consumer({"bootstrap.servers": topic.bootstrap, "group.id": topic.group})
        self.memberid, self.consumer_group_metadata = (
            outside.memberid,
            outside.consumer_group_metadata,
        )

    def __getattr__(self, name):
        return getattr(self._consumer, name)


def test_a_consumer_that_is_not_in_its_group_commits_nothing(topic):
    topic.message(b"a", 5)
    consumer = OrderedConsumer(topic.config(commit_interval=30), CountPerKey())
    _run_until(consumer, _all_processed(consumer, 5))
    member = consumer._data
    consumer._data = _Stranger(member, topic)
    consumer.commit()
    assert consumer.counts.aborts == 1
    assert topic.outputs() == []
    consumer._data = member  # and nothing was forgotten
    consumer.close()
    topic.assert_right()


@pytest.mark.long
def test_kills_rebalances_and_random_moves(broker):
    figures = run_trial(
        Run(
            messages=20_000,
            keys=300,
            partitions=6,
            consumers=2,
            rate=4_000,
            seconds_between_faults=3,
            faults=("kill", "leave"),
            most_faults=4,
            replays=5,
            buffer=500,
        ),
        broker,
    )
    assert not figures["any_anomaly"], figures
    assert figures["anomalies"]["messages"] == 20_000
    assert figures["moves"] > 300
    assert sum(figures["faults"].values()) >= 2


def test_the_checker_catches_consumers_that_do_not_wait(broker):
    figures = run_trial(
        Run(
            messages=10_000,
            keys=50,
            consumers=2,
            seconds_between_faults=0,
            replays=0,
            buffering=False,
        ),
        broker,
    )
    assert figures["anomalies"]["out_of_order"] > 0
    assert figures["anomalies"]["lost"] == figures["anomalies"]["twice"] == 0


def test_a_second_process_with_the_same_name_stops_the_first(topic):
    config = topic.config(instance="one", commit_interval=0.01)
    first = OrderedConsumer(config, CountPerKey())
    _run_until(first, lambda: len(first.owned) == PARTITIONS)
    second = OrderedConsumer(config, CountPerKey())
    topic.message(b"a", 10)
    topic.producer.flush(30)
    with pytest.raises(ConsumerStopped, match="nothing was lost, start the consumer again"):
        first.run(60)
    second.run(60, until=_all_committed(second, topic))
    topic.assert_right()


def test_mistakes_are_named(topic, broker):
    config = topic.config()
    with pytest.raises(InputError, match="there is no topic 'nowhere'"):
        OrderedConsumer(replace(config, topic="nowhere"), CountPerKey())
    with pytest.raises(InputError, match="there is no topic 'nowhere'"):
        OrderedConsumer(replace(config, output_topic="nowhere"), CountPerKey())
    with pytest.raises(InputError, match="at least one message"):
        replace(config, buffer=0)
    with pytest.raises(InputError, match="service time"):
        CountPerKey(-1.0)
    made = topic.admin.create_topics([NewTopic(f"{topic.name}-other-control", 1, 1)])
    next(iter(made.values())).result(30)
    with pytest.raises(InputError, match=r"has 1 partitions and .* has 3"):
        OrderedConsumer(replace(config, group="other"), CountPerKey())


def test_a_log_without_its_head_is_refused(topic):
    topic.message(b"a", 5)
    config = topic.config()
    place = TopicPartition(topic.name, topic.writer.home(b"a"), 3)
    for cut in topic.admin.delete_records([place]).values():
        cut.result(30)
    with pytest.raises(InputError, match=r"the head of .* was deleted"):
        OrderedConsumer(config, CountPerKey()).run(30)
    consumer = OrderedConsumer(replace(config, partial_log=True), CountPerKey())
    consumer.run(60, until=_all_processed(consumer, 2))
    assert [number for _, number, _ in topic.outputs()] == [3, 4]


def _settings(topic, name):
    from confluent_kafka.admin import ConfigResource, ResourceType

    asked = ConfigResource(ResourceType.TOPIC, name)
    found = topic.admin.describe_configs([asked])[asked].result(30)
    return {key: entry.value for key, entry in found.items()}


def test_a_done_is_kept_until_it_is_read_also_in_a_topic_made_otherwise(topic):
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    found = _settings(topic, consumer.topics.control)
    assert (found["retention.ms"], found["retention.bytes"]) == ("-1", "-1")
    consumer.close()
    made = topic.admin.create_topics(
        [
            NewTopic(f"{topic.name}-old-control", PARTITIONS, 1, config={"retention.ms": "1000"}),
            NewTopic(f"{topic.name}-old-changelog", PARTITIONS, 1),  # without compaction
        ]
    )
    for one in made.values():
        one.result(30)
    consumer = OrderedConsumer(replace(topic.config(), group="old"), CountPerKey())
    assert _settings(topic, consumer.topics.control)["retention.ms"] == "-1"
    assert _settings(topic, consumer.topics.changelog)["cleanup.policy"] == "compact"
    consumer.close()


def _starts(topic, name):
    return first_offsets({"bootstrap.servers": topic.bootstrap}, name, list(range(PARTITIONS)))


def test_a_done_is_deleted_once_what_it_brought_is_committed(topic, monkeypatch):
    monkeypatch.setattr("evenflow.kafka.consumer_purge._INTERVAL", 0.0)
    topic.message(b"a", 3)
    target = (topic.writer.home(b"a") + 1) % PARTITIONS
    topic.move(b"a", target)
    topic.message(b"a", 2)
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    _run_until(consumer, lambda: _starts(topic, consumer.topics.control)[target] > 0)
    read = consumer._works[target].next_control
    assert _starts(topic, consumer.topics.control)[target] == read
    consumer.close()
    topic.message(b"a", 2)
    second = OrderedConsumer(topic.config(), CountPerKey())
    second.run(60, until=_all_committed(second, topic))
    topic.assert_right()


@pytest.mark.parametrize("when", ["at the start", "later"])
def test_a_done_that_was_deleted_before_it_was_read_is_an_error(topic, when):
    topic.message(b"a", 3)
    target = (topic.writer.home(b"a") + 1) % PARTITIONS
    _, first = topic.writer.move(b"a", target)
    topic.append(first)
    topic.message(b"a", 2)
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    _run_until(consumer, lambda: consumer.held == 2 and consumer.counts.processed == 3)
    if when == "at the start":
        consumer.close()
    # What retention does, without waiting for days.
    producer = Producer({"bootstrap.servers": topic.bootstrap})
    for _ in range(3):
        producer.produce(consumer.topics.control, b"state", b"a", partition=target)
    producer.flush(30)
    for cut in topic.admin.delete_records(
        [TopicPartition(consumer.topics.control, target, 3)]
    ).values():
        cut.result(30)
    if when == "at the start":
        consumer = OrderedConsumer(topic.config(), CountPerKey())
    else:
        consumer._works[target].next_control = 0
        consumer._assign_control()
    with pytest.raises(InputError, match=f"partition {target} of .*lost the records from offset 0"):
        consumer.run(30)


def test_offsets_that_somebody_moved_are_refused(topic):
    topic.message(b"a", 5)
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    consumer.run(60, until=_all_processed(consumer, 5))
    from confluent_kafka import ConsumerGroupTopicPartitions

    place = TopicPartition(topic.name, topic.writer.home(b"a"), 2)
    moved = topic.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(topic.group, [place])]
    )
    next(iter(moved.values())).result(30)
    with pytest.raises(InputError, match="somebody else moved the group's offsets"):
        OrderedConsumer(topic.config(), CountPerKey()).run(30)


def test_a_state_that_cannot_be_saved_is_named(topic):
    class Odd:
        def handle(self, key, value, state):
            return {1, 2}, []

    topic.message(b"a")
    with pytest.raises(InputError, match="the state of key b'a' cannot be saved"):
        OrderedConsumer(topic.config(), Odd()).run(30)


def _json(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_consumer_is_at_the_end_when_all_is_read_and_nothing_waits(topic):
    topic.message(b"a", 2)
    target = (topic.writer.home(b"a") + 1) % PARTITIONS
    last, first = topic.writer.move(b"a", target)
    topic.append(first)  # the old partition does not know yet
    topic.message(b"a", 3)
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    assert not consumer.at_end  # nothing is read, not even which partitions it has
    _run_until(
        consumer, lambda: all(work.at_end for work in consumer._works.values()) and consumer.held
    )
    assert consumer.owned == list(range(PARTITIONS))
    assert consumer.held == 3
    assert not consumer.at_end
    topic.append(last)
    topic.producer.flush(30)
    _run_until(consumer, lambda: consumer.at_end)
    assert consumer.counts.processed == 5
    topic.message(b"a")
    topic.producer.flush(30)
    _run_until(consumer, lambda: consumer.counts.processed == 6 and consumer.at_end)
    consumer.close()
    topic.assert_right()


def test_an_end_that_was_read_while_partitions_came_or_went_is_reported_again(topic):
    """Kafka's client says it once for each place where it begins to read."""
    consumer = OrderedConsumer(topic.config(), CountPerKey())
    _run_until(consumer, lambda: consumer.at_end)
    end = KafkaError(KafkaError._PARTITION_EOF)
    for partition, work in consumer._works.items():
        work.at_end = False
        consumer._read_again(
            [SimpleNamespace(error=lambda: end, partition=lambda p=partition: p)], []
        )
    assert not consumer.at_end
    _run_until(consumer, lambda: consumer.at_end)
    consumer.close()


def test_consume_and_lag_from_the_command_line(topic, capsys):
    topic.message(b"a", 4)
    topic.move(b"a", (topic.writer.home(b"a") + 1) % PARTITIONS)
    topic.message(b"a", 2)
    where = ("--topic", topic.name, "--bootstrap", topic.config().bootstrap)
    where += ("--group", topic.group)
    before = _json(capsys, "lag", *where)
    assert before["messages"] == topic.appended == 8
    assert all(0 <= line["seconds"] < 600 for line in before["partitions"])
    assert before["seconds"] > 0
    assert [line["offset"] for line in before["partitions"]] == [None] * PARTITIONS
    summary = _json(
        capsys,
        *("consume", *where, "--output-topic", topic.output),
        *("--service-time", "2ms", "--idle", "1s", "--for", "60s"),
    )
    assert summary["processed"] == 6
    assert summary["keys_sent"] == summary["keys_received"] == 1
    topic.assert_right()
    after = _json(capsys, "lag", *where)
    assert after["messages"] == 0
    assert after["seconds"] == 0
    assert main(["lag", *where]) == 0
    assert "all" in capsys.readouterr().out
    assert main(["consume", *where, "--idle", "1s"]) == 0
    assert "0 messages in" in capsys.readouterr().out


def test_mistakes_on_the_command_line_are_one_line(topic, capsys):
    where = ("--bootstrap", topic.bootstrap)
    assert main(["lag", "--topic", "nowhere", *where]) == 2
    assert "there is no topic 'nowhere'" in capsys.readouterr().err
    assert main(["consume", "--topic", topic.name, *where, "--service-time", "long"]) == 2
    assert "--service-time" in capsys.readouterr().err
