"""The topics of a gateway: several sources, a target that cannot take its records, or goes away."""

import time
from types import SimpleNamespace

import pytest

from evenflow.model import InputError
from evenflow.planning.hot_keys import HotKeys
from evenflow_lab.checking.gateway_log import written
from evenflow_lab.checking.kafka_topics import consumed, new_topic, produced

PARTITIONS = 2
POLICY = HotKeys(PARTITIONS, threshold=0.02)


def admin_of(broker):
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": broker.bootstrap})


def set_limit(broker, topic, size):
    from evenflow.kafka.topic_settings import alter_topic

    alter_topic(admin_of(broker), topic, {"max.message.bytes": str(size)})


def produced_large(broker, topic, messages):
    """As `produced`, also above the client's own limit."""
    from confluent_kafka import Producer

    failures = []
    settings = {"message.max.bytes": 10_000_000, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for key, value, partition in messages:
        producer.produce(
            topic, value, key, partition, on_delivery=lambda e, _: e and failures.append(e)
        )
    assert producer.flush(30) == 0
    assert not failures, failures


def start(spark, broker, source, target, checkpoint, **how):
    from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic

    gateway = Gateway(broker.bootstrap, target, POLICY)
    rows = read_topic(spark, broker.bootstrap, source)
    return gateway.start(rows, checkpoint, TOPIC_ROWS, **(how or {"available_now": True}))


def values_of(messages):
    found = {}
    for key, value, _ in messages:
        found.setdefault(key, []).append(value)
    return found


@pytest.mark.spark
@pytest.mark.slow
def test_topics_read_together_do_not_take_each_others_messages_for_duplicates(
    spark, broker, tmp_path
):
    topics = [new_topic(broker, 2) for _ in range(2)]
    sent = {}
    for topic in topics:
        messages = [(b"%s-%d" % (topic.encode(), i % 7), b"%d" % i, i % 7 % 2) for i in range(1000)]
        produced(broker, topic, messages)
        sent |= values_of(messages)
    target = new_topic(broker, PARTITIONS)
    query = start(spark, broker, ", ".join(topics), target, tmp_path)
    assert query.awaitTermination(120)
    found = written(consumed(broker, target))
    assert found.duplicates == 0
    assert found.values == sent
    # The lanes depend on the topics, so a batch that is rerun must have the same.
    with pytest.raises(InputError, match=r"made by another computation .*" + topics[1]):
        start(spark, broker, topics[0], target, tmp_path)


@pytest.mark.spark
def test_topics_by_pattern_and_a_topic_read_by_hand_are_refused(spark):
    from evenflow.kafka.gateway import TOPIC_ROWS, Gateway, read_topic

    for option in ("subscribePattern", "assign"):
        with pytest.raises(InputError, match=f"{option}.*name the topics"):
            read_topic(spark, "localhost:1", "clicks", options={option: "c.*"})
    with pytest.raises(InputError, match="name of a topic"):
        read_topic(spark, "localhost:1", " , ")
    with pytest.raises(InputError, match="256 topics"):
        read_topic(spark, "localhost:1", ",".join(f"t{i}" for i in range(257)))
    by_hand = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:1")
    by_hand = by_hand.option("subscribe", "a,b").option("includeHeaders", True).load()
    with pytest.raises(InputError, match="read_topic"):
        Gateway("localhost:1", "to", POLICY).start(by_hand, "nowhere", TOPIC_ROWS)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_target_is_refused(spark, broker, tmp_path, policy):
    source = new_topic(broker, 1)
    target = new_topic(broker, PARTITIONS, **{"cleanup.policy": policy})
    with pytest.raises(InputError, match=f"{target!r} is compacted .*markers"):
        start(spark, broker, source, target, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
def test_a_message_as_large_as_the_broker_takes_is_delivered(spark, broker, tmp_path):
    source, target = new_topic(broker, 1), new_topic(broker, PARTITIONS)
    messages = [(b"k", bytes(1_048_500), 0), (b"k", b"after", 0)]
    produced_large(broker, source, messages)
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        produced_large(broker, source, [(b"k", bytes(1_048_540), 0)])
    assert start(spark, broker, source, target, tmp_path).awaitTermination(120)
    assert written(consumed(broker, target)).values == values_of(messages)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("in_order", [True, False])
def test_a_message_too_large_for_the_target_is_named_and_arrives_once_the_limit_is_raised(
    spark, broker, tmp_path, in_order, monkeypatch
):
    from dataclasses import replace

    from evenflow.kafka import gateway
    from evenflow.spark.query import QueryFailed

    if not in_order:
        monkeypatch.setattr(gateway, "TOPIC_ROWS", replace(gateway.TOPIC_ROWS, in_order=False))
    source = new_topic(broker, 2)
    target = new_topic(broker, PARTITIONS, **{"max.message.bytes": "20000"})
    messages = [(b"k%d" % (i % 5), b"%d" % i, 1) for i in range(3000)]
    messages[1500] = (b"k0", bytes(30_000), 1)
    produced(broker, source, messages)
    size = r"30[0-9]{3} bytes .*max\.message\.bytes.* 20000"
    where = f"partition 1 of {source!r}, offset 1500" if in_order else "key .*k0"
    with pytest.raises(QueryFailed, match=f"{where}.*{size}"):
        start(spark, broker, source, target, tmp_path).awaitTermination(120)
    # A reader takes a position to mean that all lower ones were there: nothing may follow the gap.
    for part in consumed(broker, target):
        assert all(m.key() != b"k0" or int(m.value()) < 1500 for m in part)
    set_limit(broker, target, 40_000)
    assert start(spark, broker, source, target, tmp_path).awaitTermination(120)
    assert written(consumed(broker, target)).values == values_of(messages)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("again", [False, True])
def test_a_target_that_is_deleted_ends_the_gateway(spark, broker, tmp_path, again):
    from confluent_kafka.admin import NewTopic

    from evenflow.spark.query import QueryFailed

    source, target = new_topic(broker, 1), new_topic(broker, PARTITIONS)
    produced(broker, source, [(b"k", b"1", 0)])
    query = start(spark, broker, source, target, tmp_path, every="0 seconds")
    try:
        query.processAllAvailable()
        admin = admin_of(broker)
        admin.delete_topics([target])[target].result(30)
        if again:
            time.sleep(1)
            admin.create_topics([NewTopic(target, PARTITIONS, 1)])[target].result(30)
        produced(broker, source, [(b"k", b"2", 0)])
        began = time.monotonic()
        what = "deleted and created again" if again else "no longer exists"
        with pytest.raises(QueryFailed, match=f"{target!r} .*{what}"):
            assert query.awaitTermination(90)
        assert time.monotonic() - began < 60
    finally:
        query.stop(timeout=5)
    # Another gateway in the same Spark application is not held up by what was never written.
    other = new_topic(broker, PARTITIONS)
    assert start(spark, broker, source, other, tmp_path / "other").awaitTermination(60)
    assert written(consumed(broker, other)).values == {b"k": [b"1", b"2"]}


def test_a_topic_that_the_gateway_creates_has_as_many_replicas_as_the_brokers_say():
    pytest.importorskip("confluent_kafka")
    from evenflow.kafka.gateway_topics import _create

    made = []

    def create_topics(topics):
        made.extend(topics)
        return {topic.topic: SimpleNamespace(result=lambda timeout: None) for topic in topics}

    _create(SimpleNamespace(create_topics=create_topics), "t", 3)
    assert [(topic.num_partitions, topic.replication_factor) for topic in made] == [(3, -1)]
