"""What an ordered consumer is made of, without a broker: records, the buffer's bound, the service."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.ordering import DONE, Header, Item, Snapshot

pytest.importorskip("confluent_kafka")

from evenflow.cli.consume import _Watch
from evenflow.kafka import consumer_pressure, consumer_topics
from evenflow.kafka.consumer_partition import PartitionWork, StateFormat
from evenflow.kafka.consumer_records import (
    UNKNOWN,
    Saved,
    SavedBuilder,
    item_key,
    pack_item,
    pack_meta,
    unpack_done,
    unpack_item,
)
from evenflow.kafka.consumer_reference import CountPerKey

FRESH = Saved(UNKNOWN, UNKNOWN, Snapshot({}, 0, ()), {})


@given(
    st.integers(-1, 2**63 - 1),
    st.integers(-1, 2**63 - 1),
    st.integers(0, 2**63),
    st.dictionaries(
        st.integers(0, 2**64 - 1),
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
        max_size=3,
    ),
    st.lists(
        st.builds(
            Item,
            st.just(0),
            st.integers(0, DONE),
            st.binary(max_size=5),
            st.one_of(st.none(), st.binary(max_size=5)),
            st.integers(0, 2**64 - 1),
            st.integers(-1, 2**31 - 1),
            st.integers(-1, 2**63 - 1),
        ),
        max_size=5,
    ),
    st.dictionaries(st.binary(max_size=3), st.binary(max_size=3)),
    st.integers(0, 2**63),
)
def test_a_changelog_is_read_as_written(data, control, number, positions, items, states, aside):
    items = [item._replace(number=i) for i, item in enumerate(items)]
    builder = SavedBuilder()
    for item in items:
        assert unpack_item(item.number, pack_item(item)) == item
        builder.add(item_key(item.number), pack_item(item))
    builder.add(item_key(99), pack_item(Item(99, 0, b"gone", b"")))
    builder.add(item_key(99), None)
    builder.add(b"sgone", b"1")
    for key, state in states.items():
        builder.add(b"s" + key, state)
    if b"gone" not in states:
        builder.add(b"sgone", None)
    builder.add(b"m", pack_meta(0, 0, 0, {}))
    builder.add(b"m", pack_meta(data, control, number, positions, aside))
    assert builder.saved() == Saved(
        data, control, Snapshot(positions, number, tuple(items)), states, aside
    )


def test_other_versions_and_strangers_are_named():
    with pytest.raises(InputError, match="must run the same version"):
        unpack_item(0, b"\1" + bytes(30))
    with pytest.raises(InputError, match="nothing else may write there"):
        unpack_done([("something", b"else")])


class _Pauses:
    def __init__(self):
        self.paused = set()

    def pause(self, places):
        self.paused |= {place.partition for place in places}

    def resume(self, places):
        self.paused -= {place.partition for place in places}


def _work(held, writers):
    """A partition that gateways of three lanes each have written to."""
    work = PartitionWork(0, CountPerKey(), StateFormat(), FRESH)
    work.reader.held = held
    for writer in range(writers):
        for lane in range(3):
            work.reader.read(b"k", b"", Header(0, ((writer + 1) << 24) + lane, 0, 0))
    return work


def test_with_one_writer_the_bound_holds_and_with_several_it_gives_way():
    for writers, paused in ((1, {0}), (2, set())):
        consumer, work = _Pauses(), _work(11, writers)
        assert consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=0.0) == 1
        assert consumer.paused == {0}
        late = consumer_pressure.STUCK + 1
        assert consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=late) == 0
        assert consumer.paused == paused
    work.reader.held = 22  # more than it was allowed
    assert consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=late) == 1
    work.reader.held = 10
    consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=late)
    assert consumer.paused == set()
    work.reader.held = 11
    consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=late)
    work.reader.held = 5
    consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=late)
    work.reader.held = 11  # the bound is the old one again
    assert consumer_pressure.apply_back_pressure(consumer, "t", [work], 10, now=late) == 1


def test_the_reference_service_takes_its_time():
    slept, now = [], 0.0

    def sleep(seconds):
        nonlocal now
        slept.append(seconds)
        now += seconds * 1.5

    service = CountPerKey(0.0004, sleep=sleep, clock=lambda: now)
    for _ in range(1000):
        service.handle(b"a", b"", None)
    assert 0.4 - 0.001 <= now <= 0.4 + 0.001


def test_states_are_json_unless_said_otherwise():
    assert json.loads(StateFormat().to_bytes({"a": 1})) == StateFormat().from_bytes(b'{"a": 1}')


def test_a_record_takes_a_partition_from_its_end():
    work = PartitionWork(0, CountPerKey(), StateFormat(), FRESH)
    assert not work.at_end
    work.at_end = True
    work.read(b"a", b"1", None, 0)
    assert not work.at_end


def test_a_consumer_is_idle_only_after_the_end_of_all_that_it_reads():
    consumer = SimpleNamespace(at_end=False, counts=SimpleNamespace(processed=0))
    now = [0.0]
    watch = _Watch(consumer, longest_idle=5, quiet=True, clock=lambda: now[0])

    def looks(second, **fields):
        now[0] = second
        vars(consumer).update(fields)
        return watch.look()

    assert not looks(100)  # however long it takes to get partitions and read them
    assert not looks(101, at_end=True)
    assert not looks(104.9)
    assert not looks(105.1, counts=SimpleNamespace(processed=1))  # something came
    assert not looks(109, at_end=False)  # and more, that waits
    assert not looks(200)
    assert not looks(204.9, at_end=True)
    assert looks(205)


def test_the_topics_of_a_group_have_as_many_replicas_as_the_brokers_say(monkeypatch):
    made = []
    monkeypatch.setattr(consumer_topics, "partition_count", lambda admin, topic: 3)
    monkeypatch.setattr(consumer_topics, "_count", lambda admin, topic: None)
    monkeypatch.setattr(consumer_topics, "_ensure_settings", lambda *_: None)
    monkeypatch.setattr(consumer_topics, "_create", lambda admin, topic: made.append(topic))
    consumer_topics.make_group_topics(None, consumer_topics.group_topics("t", "g"))
    assert [(topic.topic, topic.num_partitions, topic.replication_factor) for topic in made] == [
        ("t-g-control", 3, -1),
        ("t-g-changelog", 3, -1),
    ]
