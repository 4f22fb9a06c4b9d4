"""Message sets: headers, the writer, and the reader's state machine under random interleavings."""

import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.ordering import (
    FIRST,
    LAST,
    MESSAGE,
    Header,
    Reader,
    Writer,
    batch_markers,
    marker_column,
    message_column,
    pack,
    set_number,
    unpack,
    unpack_column,
)
from evenflow.ordering.headers import LAST_EPOCH, MOST_MOVES

U64 = st.integers(0, 2**64 - 1)
HEADERS = st.one_of(
    st.tuples(st.just(MESSAGE), U64, U64, U64, U64),
    st.tuples(st.sampled_from([FIRST, LAST]), U64, U64, U64, U64, st.integers(-1, 2**31 - 1), U64),
).map(lambda fields: Header(*fields))


# The format


@given(HEADERS)
def test_headers_are_read_as_written(header):
    assert unpack(pack(header)) == header


@given(st.lists(st.one_of(st.none(), HEADERS), max_size=12), st.integers(0, 3))
def test_a_column_of_headers_says_what_each_says_alone(headers, skipped):
    rows = [
        None if header is None else [("other", b"x"), *pack(header), ("more", None)]
        for header in headers
    ]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    column = pa.array(
        [row and [{"key": name, "value": value} for name, value in row] for row in rows], kind
    )[skipped:]
    columns = unpack_column(column)
    for i, header in enumerate(headers[skipped:]):
        assert columns.known[i] == (header is not None)
        if header is not None:
            assert Header(*(int(field[i]) for field in columns[1:])) == header


@given(st.lists(st.tuples(U64, U64), max_size=9), U64, U64)
def test_packed_columns_are_packed_headers(rows, writer, epoch):
    index, sets = (np.array([row[i] for row in rows], np.uint64) for i in range(2))
    column = message_column(writer, epoch, index, sets)
    expected = [pack(Header(MESSAGE, writer, epoch, *row)) for row in rows]
    assert _as_headers(column) == expected
    assert _as_headers(message_column(writer, epoch, index)) == [
        pack(Header(MESSAGE, writer, epoch, row[0])) for row in rows
    ]
    kind = np.array([FIRST, LAST] * len(rows), np.uint8)[: len(rows)]
    other = np.arange(len(rows), dtype=np.int32)
    assert _as_headers(marker_column(kind, writer, epoch, index, sets, other, sets)) == [
        pack(Header(int(k), writer, epoch, i, s, int(o), s))
        for k, (i, s), o in zip(kind, rows, other, strict=True)
    ]


def _as_headers(column):
    return [[(header["key"], header["value"]) for header in row] for row in column.to_pylist()]


def test_a_record_of_another_program_has_no_header():
    assert unpack(None) is None
    assert unpack([("trace", b"1")]) is None


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("evenflow", b"short")], "has 5 bytes instead of 34"),
        ([("evenflow", b"\2" + bytes(33))], "of version 2"),
        ([("evenflow", b"\1\7" + bytes(32))], "has the kind 7"),
        ([("evenflow", b"\1\1" + bytes(32))], "has 0 bytes instead of 13"),
        (
            [("evenflow", b"\1\1" + bytes(32)), ("evenflow-move", b"\3" + bytes(12))],
            "of version 3",
        ),
    ],
)
def test_misshapen_headers_are_named(headers, words):
    with pytest.raises(InputError, match=words):
        unpack(headers)
    column = pa.array([[{"key": name, "value": value} for name, value in headers]])
    with pytest.raises(InputError, match=words):
        unpack_column(column)


@given(st.lists(st.tuples(st.integers(0, LAST_EPOCH), st.integers(0, MOST_MOVES - 1)), min_size=2))
def test_later_moves_begin_sets_with_larger_numbers(moves):
    moves = sorted(set(moves))
    numbers = [set_number(*move) for move in moves]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0
    assert numbers[-1] < 2**64


# The writer


def _log_of(writer, commands):
    """Partition → records; and what was sent of each key, in order."""
    log, sent = defaultdict(list), defaultdict(list)
    for command in commands:
        if command[0] == "message":
            key = command[1]
            value = b"%d" % len(sent[key])
            sent[key].append(value)
            records = [writer.message(key, value)]
        else:
            records = writer.moves(command[1])
        for record in records:
            log[record.partition].append(record)
    return log, sent


PARTITIONS = 3
KEYS = st.sampled_from([b"a", b"b", b"c"])
COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), KEYS),
        st.tuples(
            st.just("moves"),
            st.lists(st.tuples(KEYS, st.integers(0, PARTITIONS - 1)), min_size=1, max_size=3),
        ),
    ),
    max_size=40,
)


def _writer(**given):
    return Writer(writer=7, partitions=PARTITIONS, home=lambda key: key[0] % PARTITIONS, **given)


@given(COMMANDS)
def test_positions_are_strictly_increasing_and_markers_come_before_their_epochs_messages(commands):
    log, _ = _log_of(_writer(), commands)
    for records in log.values():
        headers = [unpack(record.headers) for record in records]
        positions = [(header.epoch, header.sequence) for header in headers]
        assert positions == sorted(set(positions))
        for before, after in pairwise(headers):
            assert not (
                before.kind == MESSAGE and after.kind != MESSAGE and before.epoch == after.epoch
            )


@given(COMMANDS)
def test_every_move_of_a_key_begins_a_set_with_a_larger_number(commands):
    log, _ = _log_of(_writer(), commands)
    sets = defaultdict(list)
    for partition, records in log.items():
        for record in records:
            header = unpack(record.headers)
            if header.kind == FIRST:
                sets[record.key].append((header.epoch, header.set, header.previous, partition))
    for key, moves in sets.items():
        moves.sort()
        numbers = [number for _, number, _, _ in moves]
        assert numbers == sorted(set(numbers))
        for (_, number, _, partition), (_, _, previous, _) in pairwise(moves):
            # A key that went home was forgotten.
            assert previous == (0 if partition == _writer().home(key) else number)


def test_a_key_that_moves_home_is_forgotten():
    writer = _writer()
    home = writer.home(b"a")
    writer.move(b"a", (home + 1) % PARTITIONS)
    assert list(writer.table) == [b"a"]
    assert len(writer.all_home()) == 2
    assert writer.table == {}
    assert writer.move(b"a", home) == []


@given(
    st.lists(
        st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, PARTITIONS - 1), U64), max_size=9
    )
)
def test_batch_markers_are_the_same_records_as_the_writers(moves):
    source = np.array([move[0] for move in moves], np.int32)
    target = np.array([(move[0] + move[1]) % PARTITIONS for move in moves], np.int32)
    previous = np.array([move[2] for move in moves], np.uint64)
    both = batch_markers(7, 1, source, target, previous, PARTITIONS)
    writer = _writer()
    keys = [b"%d" % i for i in range(len(moves))]
    writer.table = {
        key: (int(where), int(number))
        for key, where, number in zip(keys, source, previous, strict=True)
    }
    writer.home = lambda key: PARTITIONS  # nowhere, so that no key is forgotten
    expected = writer.moves(zip(keys, target.tolist(), strict=True))
    made = [
        (int(partition), keys[move], None, headers)
        for partition, move, headers in zip(
            both.partition, both.move, _as_headers(both.headers), strict=True
        )
    ]
    assert made == [tuple(record) for record in expected]
    assert both.counts.tolist() == writer._sequences
    assert [writer.table[key].set for key in keys] == both.sets.tolist()


def test_wrong_places_and_numbers_are_named():
    with pytest.raises(InputError, match="partition 9: the log has 3 partitions"):
        _writer().move(b"a", 9)
    with pytest.raises(InputError, match="64 bits"):
        Writer(writer=-1, partitions=1, home=lambda key: 0)
    with pytest.raises(InputError, match="at least one partition"):
        Writer(writer=1, partitions=0, home=lambda key: 0)
    with pytest.raises(InputError, match="an epoch must be between"):
        _writer(epoch=-1)
    with pytest.raises(InputError, match="begin a new epoch"):
        set_number(0, MOST_MOVES)
    same = np.zeros(1, np.int32)
    with pytest.raises(InputError, match="leave such moves out"):
        batch_markers(7, 1, same, same, np.zeros(1, np.uint64), 2)


# The reader


class _Consumer:
    """One partition's reader, with its places in the two logs, its keys' states and its effects.

    What it did becomes true for others, and is what it begins from again, when it saves; a state is
    the number of messages processed, as text.
    """

    def __init__(self, partition, buffering=True):
        self.partition = partition
        self.buffering = buffering
        self.reader = Reader(self, buffering=buffering)
        self.at, self.control_at = 0, 0
        self.states, self.outputs, self.sent = {}, [], []
        self._saved = (0, 0, {}, self.reader.snapshot())

    def process(self, key, value):
        self.states[key] = b"%d" % (int(self.states.get(key, b"0")) + 1)
        self.outputs.append((key, value, self.states[key]))

    def install(self, key, state):
        assert key not in self.states or not self.buffering
        if state is not None:
            self.states[key] = state

    def send(self, done):
        self.sent.append((done, self.states.pop(done.key, None)))

    def step(self, log, control):
        """Reads one record, or one done, as there is."""
        if self.control_at < len(control):
            key, set_id, state = control[self.control_at]
            self.control_at += 1
            self.reader.done(key, set_id, state)
        elif self.at < len(log):
            record = log[self.at]
            self.at += 1
            self.reader.read(record.key, record.value, unpack(record.headers))

    def save(self, processed, controls):
        for key, value, state in self.outputs:
            processed[key].append((value, state))
        for done, state in self.sent:
            controls[done.partition].append((done.key, done.set, state))
        # One by one, as a changelog saves, must come to the same as all at once.
        items = {item.number: item for item in self._saved[3].items}
        for number in self.reader.removed:
            del items[number]
        assert not items.keys() & self.reader.added.keys()
        items.update(self.reader.added)
        self.reader.saved()
        snapshot = self.reader.snapshot()
        assert tuple(items[number] for number in sorted(items)) == snapshot.items
        self._saved = (self.at, self.control_at, dict(self.states), snapshot)
        self.outputs, self.sent = [], []

    def restart(self):
        self.at, self.control_at, states, snapshot = self._saved
        self.states = dict(states)
        self.outputs, self.sent = [], []
        self.reader = Reader(self, snapshot, self.buffering)


def _read_all(log, seed, buffering=True, restarts=True):
    """Reads the log with one reader a partition, at random; gives what was processed of each key."""
    chance = random.Random(seed)
    processed, controls = defaultdict(list), defaultdict(list)
    consumers = [_Consumer(partition, buffering) for partition in range(PARTITIONS)]

    def idle(consumer):
        return (
            consumer.at == len(log[consumer.partition])
            and consumer.control_at == len(controls[consumer.partition])
            and not consumer.sent
        )

    while not all(idle(consumer) for consumer in consumers):
        consumer = chance.choice(consumers)
        what = chance.random()
        if what < 0.1 and restarts:
            consumer.restart()
        elif what < 0.4:
            consumer.save(processed, controls)
        else:
            # Which of the two logs is read first is chance, too.
            hidden = chance.random() < 0.5
            consumer.step(log[consumer.partition], [] if hidden else controls[consumer.partition])
    for consumer in consumers:
        consumer.save(processed, controls)
        assert consumer.reader.waiting == {}
        assert consumer.reader.held == 0
        assert consumer.reader.snapshot().items == ()
    return processed


@settings(max_examples=400)
@given(
    COMMANDS,
    st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(0, 50), st.integers(0, 50))),
    U64,
)
def test_every_keys_messages_are_processed_in_the_order_sent_each_once(commands, replays, seed):
    log, sent = _log_of(_writer(), commands)
    for partition, start, at in replays:
        # A suffix of what had been written at some moment is written again at that moment.
        records = log[partition]
        at = min(at, len(records))
        log[partition] = records[:at] + records[min(start, at) : at] + records[at:]
    processed = _read_all(log, seed)
    assert {key: [value for value, _ in rows] for key, rows in processed.items()} == dict(sent)
    for rows in processed.values():
        assert [int(state) for _, state in rows] == list(range(1, len(rows) + 1))


@given(COMMANDS, COMMANDS, U64)
def test_a_writer_that_begins_again_where_it_began_changes_nothing(before, after, seed):
    whole, sent = _log_of(_writer(), [*before, *after])
    part, _ = _log_of(_writer(), before)
    log = {p: part[p] + whole[p] for p in range(PARTITIONS)}
    processed = _read_all(log, seed)
    assert {key: [value for value, _ in rows] for key, rows in processed.items()} == dict(sent)


@given(COMMANDS, COMMANDS, U64)
def test_two_writers_do_not_disturb_each_other(one, other, seed):
    first, sent = _log_of(_writer(), one)
    upper = [
        ("message", command[1].upper())
        if command[0] == "message"
        else ("moves", [(key.upper(), to) for key, to in command[1]])
        for command in other
    ]
    second, more = _log_of(
        Writer(writer=8, partitions=PARTITIONS, home=lambda key: key[0] % PARTITIONS), upper
    )
    chance = random.Random(seed)
    log = {}
    for p in range(PARTITIONS):
        left, right, log[p] = first[p][:], second[p][:], []
        while left or right:
            side = left if left and (not right or chance.random() < 0.5) else right
            log[p].append(side.pop(0))
    processed = _read_all(log, seed)
    assert {key: [value for value, _ in rows] for key, rows in processed.items()} == {
        **sent,
        **more,
    }


def test_without_buffering_some_order_is_lost():
    writer = _writer()
    commands = []
    for i in range(30):
        commands += [("message", b"a")] * 3 + [("moves", [(b"a", i % PARTITIONS)])]
    log, sent = _log_of(writer, commands)
    processed = _read_all(log, seed=3, buffering=False)
    assert [value for value, _ in processed[b"a"]] != sent[b"a"]
    assert sorted(value for value, _ in processed[b"a"]) == sorted(sent[b"a"])


class _Notes:
    def __init__(self):
        self.notes = []

    def process(self, key, value):
        self.notes.append(value)

    def install(self, key, state):
        self.notes.append(("state", state))

    def send(self, done):
        self.notes.append(("done", done.partition, done.set))


def test_a_move_with_no_later_message_hands_the_state_over():
    notes = _Notes()
    reader = Reader(notes)
    last, first = (unpack(record.headers) for record in _writer().move(b"a", 0))
    reader.read(b"a", None, last)
    assert notes.notes == [("done", 0, last.set)]
    other = Reader(notes)
    other.read(b"a", None, first)
    other.done(b"a", first.set, b"x")
    assert notes.notes[1:] == [("state", b"x")]
    assert other.waiting == {}


def test_a_done_before_the_first_is_kept():
    notes = _Notes()
    reader = Reader(notes)
    first = unpack(_writer().move(b"a", 0)[1].headers)
    reader.done(b"a", first.set, b"x")
    assert notes.notes == []
    reader = Reader(notes, reader.snapshot())
    reader.read(b"a", None, first)
    assert notes.notes == [("state", b"x")]


def test_several_moves_in_quick_succession_wait_for_each_other():
    writer, notes = _writer(), _Notes()
    home = writer.home(b"a")
    there = (home + 1) % PARTITIONS
    records = writer.move(b"a", there)
    records += [writer.message(b"a", b"1")]
    records += writer.move(b"a", home)
    records += writer.move(b"a", there)
    records += [writer.message(b"a", b"2")]
    reader = Reader(notes)
    for record in records:
        if record.partition == there:
            reader.read(record.key, record.value, unpack(record.headers))
    sets = [unpack(records[i].headers).set for i in (0, 3, 5)]
    assert notes.notes == []
    assert reader.held == 2
    assert reader.oldest_awaited() == sets[0]
    reader.done(b"a", sets[0], b"x")
    assert notes.notes == [("state", b"x"), b"1", ("done", home, sets[1])]
    assert reader.oldest_awaited() == sets[2]
    reader.done(b"a", sets[2], b"y")
    assert notes.notes[3:] == [("state", b"y"), b"2"]
    assert reader.oldest_awaited() is None


def test_nothing_is_remembered_of_keys_that_are_here():
    reader = Reader(_Notes())
    writer = _writer()
    for i in range(1000):
        record = writer.message(b"%d" % i, b"")
        reader.read(record.key, record.value, unpack(record.headers))
    assert len(reader.snapshot().positions) == 1
    assert reader.snapshot().items == ()


def test_lanes_of_earlier_epochs_are_forgotten_and_what_is_written_again_is_still_dropped():
    notes, gateway = _Notes(), 5 << 24
    reader = Reader(notes)

    def read(lane, epoch, sequence, value):
        reader.read(b"a", value, Header(MESSAGE, gateway + lane, epoch, sequence))

    for epoch in range(50):
        for lane in (3 * epoch, 3 * epoch + 1):
            for sequence in range(2):
                read(lane, epoch, sequence, b"%d.%d.%d" % (epoch, lane, sequence))
    assert len(reader.snapshot().positions) == 2
    seen = len(notes.notes)
    for restored in (False, True):
        if restored:
            reader = Reader(notes, reader.snapshot())
        for epoch in (3, 48, 49):
            for lane in (3 * epoch, 3 * epoch + 1):
                read(lane, epoch, 1, b"again")
        assert notes.notes[seen:] == []
    read(149, 49, 0, b"another lane of this epoch")
    read(147, 49, 2, b"not read before")
    assert len(notes.notes) == seen + 2
    assert len(reader.writers) == 1


def test_records_without_headers_are_processed_at_once():
    notes = _Notes()
    Reader(notes).read(b"a", b"1", None)
    assert notes.notes == [b"1"]
