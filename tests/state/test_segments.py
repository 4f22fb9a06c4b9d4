"""Segments: what is written is found again, whatever the key."""

import datetime
import decimal
import subprocess
import sys
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.grouping.key import KeyGrouping
from evenflow.model import InputError
from evenflow.model.owners import Owners, owner_of
from evenflow.state import (
    FINGERPRINT,
    look_up,
    read_segment,
    write_segment,
)
from evenflow.state.segments import batch_of, open_segment
from evenflow.storage import PosixStorage
from state_rows import fingerprints, keys_of, numbered, plain, rows_of, state_table

EXAMPLES = settings(max_examples=40)
STATE = pa.schema([("n", pa.int64()), ("at", pa.int64())])


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(str(tmp_path))


# --- owners --------------------------------------------------------------------------------------


@EXAMPLES
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=50),
    st.integers(1, 2**31),
    st.integers(-(2**63), 2**64),
)
def test_an_owner_is_where_key_grouping_sends_a_key(prints, n, seed):
    prints = np.array(prints, np.uint64)
    n = min(n, 5000)  # key grouping holds a list of its workers
    out = np.empty(len(prints), np.int32)
    scheme = KeyGrouping()
    scheme.route(scheme.start(n, seed), prints, out)
    before = prints.copy()
    placed = owner_of(prints, n, seed)
    assert placed.dtype == np.int32
    assert placed.tolist() == out.tolist()
    assert prints.tolist() == before.tolist()


def test_a_table_overrules_the_hash_and_survives_json():
    prints = fingerprints(range(1000))
    moved = {int(prints[3]): 9, int(prints[5]): 8, 1: 7}
    place = Owners(10, seed=4, table=moved)
    expected = owner_of(prints, 10, 4)
    expected[3], expected[5] = 9, 8
    assert place(prints).tolist() == expected.tolist()
    assert Owners.from_json(place.to_json()) == place
    with pytest.raises(InputError, match="wrote it"):
        Owners.from_json({**place.to_json(), "weights": [1]})


def test_a_task_that_reads_state_imports_neither_numba_nor_pyspark():
    code = (
        "import sys, evenflow.spark, evenflow.state, evenflow.model.owners;"
        "print([m for m in ('numba', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- writing and reading -------------------------------------------------------------------------


def test_all_rows_are_read_back_sorted(storage):
    table = numbered(range(5000), 7)
    segment = write_segment(storage, table, owner=3, epochs=[2, 1, 2])
    assert (segment.owner, segment.epochs, segment.rows) == (3, (1, 2), 5000)
    assert (segment.lowest_batch, segment.highest_batch) == (7, 7)
    assert segment.bytes == storage.size(segment.name)
    assert batch_of(segment.name) == 7
    back = read_segment(storage, segment)
    prints = back.column(FINGERPRINT).to_numpy().view(np.uint64)
    assert (prints[:-1] < prints[1:]).all()
    assert rows_of(back) == rows_of(table)
    assert back.column_names == table.column_names
    assert storage.list("") == [segment.name]


def test_a_segment_survives_json(storage):
    segment = write_segment(storage, numbered(range(3), 7), owner=3, epochs=[2])
    assert type(segment).from_json(segment.to_json()) == segment


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1024, 1025])
def test_segments_of_every_length(storage, n):
    segment = write_segment(storage, numbered(range(n), 1), 0, [0])
    asked = range(n + 5)
    state, found = look_up(storage, [segment], fingerprints(asked), keys_of(asked))
    assert found.tolist() == [True] * n + [False] * 5
    assert state["n"].to_pylist() == [*range(n), *[None] * 5]
    assert read_segment(storage, segment).num_rows == n


def test_two_tasks_that_write_the_same_rows_do_not_meet(storage):
    one, two = (write_segment(storage, numbered(range(5), 1), 0, [0]) for _ in range(2))
    assert one.file != two.file
    assert len(storage.list("")) == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"k0": [1]}), "__fingerprint"),
        (numbered([1], 1).rename_columns(["__fingerprint", "__version", "key", "n", "at"]), "k0"),
        (state_table([1], 1, [pa.array(["a"]).dictionary_encode()]), "dictionary"),
        (
            numbered([1], 1).set_column(1, "__version", pa.array([None], pa.int64())),
            "without nulls",
        ),
        (numbered([1], 1).rename_columns(["__fingerprint", "__version", "k0", "n", "n"]), "share"),
    ],
)
def test_tables_that_are_no_state_are_refused(storage, table, message):
    with pytest.raises(InputError, match=message):
        write_segment(storage, table, 0, [0])
    assert storage.list("") == []


# --- looking up ----------------------------------------------------------------------------------

_text = st.text(max_size=6)
KEY_TYPES = {
    "string": (pa.string(), _text),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "double": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0, float("nan")])),
    "float": (pa.float32(), st.floats(width=32) | st.just(float("nan"))),
    "boolean": (pa.bool_(), st.booleans()),
    "decimal": (
        pa.decimal128(12, 2),
        st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n) / 100),
    ),
    "date": (pa.date32(), st.dates()),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(datetime.UTC)),
    ),
    "binary": (pa.binary(), st.binary(max_size=6)),
    "struct": (
        pa.struct([("a", pa.string()), ("b", pa.float64())]),
        st.fixed_dictionaries({"a": st.none() | _text, "b": st.none() | st.floats()}),
    ),
    "null": (pa.null(), st.none()),
}


@pytest.mark.parametrize("kind", KEY_TYPES)
@settings(max_examples=12)
@given(data=st.data())
def test_keys_of_every_type_that_share_fingerprints_are_told_apart(tmp_path_factory, kind, data):
    """All keys get one of three fingerprints, so that nearly all of them collide."""
    storage = PosixStorage(str(tmp_path_factory.mktemp("segments")))
    arrow, values = KEY_TYPES[kind]
    pairs = st.tuples(st.none() | values, st.none() | st.integers(0, 3))
    keys = data.draw(st.lists(pairs, max_size=30))
    known = {}
    for number, key in enumerate(keys):
        known.setdefault(tuple(map(plain, key)), (number, key))

    def columns(some):
        return [pa.array([k[0] for k in some], arrow), pa.array([k[1] for k in some], pa.int32())]

    def prints(some):
        return np.array([crc32(repr([*map(plain, k)]).encode()) % 3 << 62 for k in some], np.uint64)

    stored = [key for _, key in known.values()]
    numbers = pa.array([number for number, _ in known.values()], pa.int64())
    segment = write_segment(
        storage, state_table(prints(stored), 5, columns(stored), n=numbers), 0, [0]
    )
    asked = keys + data.draw(st.lists(pairs, max_size=10))
    state, found = look_up(
        storage, [segment], prints(asked), pa.table(columns(asked), names=["k0", "k1"])
    )
    expected = [known.get(tuple(map(plain, key)), (None,))[0] for key in asked]
    assert state["n"].to_pylist() == expected
    assert found.tolist() == [number is not None for number in expected]


def test_one_fingerprint_over_many_blocks(storage):
    """A run of equal fingerprints that covers blocks entirely, between others."""
    n = 3000
    prints = np.sort(np.concatenate([np.full(n - 200, 50), np.arange(100), np.arange(100, 200)]))
    keys = pa.array(np.arange(n))
    segment = write_segment(storage, state_table(prints, 1, [keys], n=keys), 0, [0])
    assert open_segment(storage, segment).blocks > 5
    asked = [*range(0, n, 97), *range(40, 60), n - 1]
    state, found = look_up(
        storage, [segment], prints[asked].astype(np.uint64), pa.table({"k0": keys.take(asked)})
    )
    assert found.all()
    assert state["n"].to_pylist() == asked


def test_a_look_up_reads_only_the_blocks_it_touches(storage):
    segment = write_segment(storage, numbered(range(20_000), 1), 0, [0])
    container = open_segment(storage, segment)
    read = []
    container._ranges = lambda ranges, read_=container._ranges: (
        read.extend(end - start for start, end in ranges) or read_(ranges)
    )
    hits = container.find(fingerprints([17, 19]))
    container.take(hits.row)
    assert container.blocks > 50
    assert len(hits.row) == 2
    assert 0 < sum(read) < segment.bytes / 10


def test_a_segment_whose_footer_is_not_known_is_read_all_the_same(storage):
    segment = write_segment(storage, numbered(range(40_000), 1), 0, [0])
    assert segment.footer > 4096
    for footer in (0, 100, 10**6):
        again = read_segment(storage, replace(segment, footer=footer))
        assert again == read_segment(storage, segment)
