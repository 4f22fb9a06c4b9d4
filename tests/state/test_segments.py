"""Segments: what is written is found again, whatever the key; what is damaged is named."""

import datetime
import decimal
import itertools
import subprocess
import sys
from contextlib import suppress
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
    CheckpointError,
    DamagedState,
    StateReader,
    fold,
    look_up,
    newest,
    read_segment,
    write_segment,
)
from evenflow.state.segments import batch_of, open_segment
from state_rows import fingerprints, keys_of, numbered, plain, state_table

EXAMPLES = settings(max_examples=40)


def rows_of(table):
    """{key: (number, version)} of tables made by `numbered`."""
    return {row["k0"]: (row["n"], row["at"]) for row in table.to_pylist()}


# --- placement -----------------------------------------------------------------------------------


@EXAMPLES
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=50),
    st.integers(1, 2**31),
    st.integers(-(2**63), 2**64),
)
def test_placement_is_where_key_grouping_sends_a_key(prints, n, seed):
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


def test_all_rows_are_read_back_sorted(tmp_path):
    table = numbered(range(5000), 7)
    segment = write_segment(tmp_path, table, owner=3, epochs=[2, 1, 2])
    assert (segment.owner, segment.epochs, segment.rows) == (3, (1, 2), 5000)
    assert (segment.lowest_batch, segment.highest_batch) == (7, 7)
    assert segment.bytes == (tmp_path / segment.file).stat().st_size
    assert batch_of(segment.file) == 7
    back = read_segment(tmp_path, segment)
    prints = back.column(FINGERPRINT).to_numpy().view(np.uint64)
    assert (prints[:-1] < prints[1:]).all()
    assert rows_of(back) == rows_of(table)
    assert back.column_names == table.column_names
    assert [p.name for p in tmp_path.iterdir()] == [segment.file]


def test_a_segment_survives_json(tmp_path):
    segment = write_segment(tmp_path, numbered(range(3), 7), owner=3, epochs=[2])
    assert type(segment).from_json(segment.to_json()) == segment


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1024, 1025])
def test_segments_of_every_length(tmp_path, n):
    segment = write_segment(tmp_path, numbered(range(n), 1), 0, [0])
    asked = range(n + 5)
    state, found = look_up(tmp_path, [segment], fingerprints(asked), keys_of(asked))
    assert found.tolist() == [True] * n + [False] * 5
    assert state["n"].to_pylist() == [*range(n), *[None] * 5]
    assert read_segment(tmp_path, segment).num_rows == n


def test_two_tasks_that_write_the_same_rows_do_not_meet(tmp_path):
    one, two = (write_segment(tmp_path, numbered(range(5), 1), 0, [0]) for _ in range(2))
    assert one.file != two.file
    assert len(list(tmp_path.iterdir())) == 2


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
def test_tables_that_are_no_state_are_refused(tmp_path, table, message):
    with pytest.raises(InputError, match=message):
        write_segment(tmp_path, table, 0, [0])
    assert list(tmp_path.iterdir()) == []


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
    tmp_path = tmp_path_factory.mktemp("segments")
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
        tmp_path, state_table(prints(stored), 5, columns(stored), n=numbers), 0, [0]
    )
    asked = keys + data.draw(st.lists(pairs, max_size=10))
    state, found = look_up(
        tmp_path, [segment], prints(asked), pa.table(columns(asked), names=["k0", "k1"])
    )
    expected = [known.get(tuple(map(plain, key)), (None,))[0] for key in asked]
    assert state["n"].to_pylist() == expected
    assert found.tolist() == [number is not None for number in expected]


def test_one_fingerprint_over_many_blocks(tmp_path):
    """A run of equal fingerprints that covers blocks entirely, between others."""
    n = 3000
    prints = np.sort(np.concatenate([np.full(n - 200, 50), np.arange(100), np.arange(100, 200)]))
    keys = pa.array(np.arange(n))
    segment = write_segment(tmp_path, state_table(prints, 1, [keys], n=keys), 0, [0])
    with open_segment(tmp_path, segment) as container:
        assert container.blocks > 5
    asked = [*range(0, n, 97), *range(40, 60), n - 1]
    state, found = look_up(
        tmp_path, [segment], prints[asked].astype(np.uint64), pa.table({"k0": keys.take(asked)})
    )
    assert found.all()
    assert state["n"].to_pylist() == asked


def test_the_newest_version_wins_whatever_the_order_of_segments(tmp_path):
    old = write_segment(tmp_path, numbered(range(300), 1), 0, [0])
    mid = write_segment(tmp_path, numbered(range(100, 400), 2), 0, [0])
    new = write_segment(tmp_path, numbered(range(200, 250), 3), 0, [0])
    asked = [*range(420), 5, 205]
    for segments in ([old, mid, new], [new, mid, old], [mid, new, old]):
        state, found = look_up(tmp_path, segments, fingerprints(asked), keys_of(asked))
        expected = [
            3 if 200 <= n < 250 else 2 if 100 <= n < 400 else 1 if n < 300 else None for n in asked
        ]
        assert state["at"].to_pylist() == expected
        assert found.tolist() == [at is not None for at in expected]


def test_an_old_row_among_newer_ones_does_not_win(tmp_path):
    """After a move and a fold, an old owner's segment may be the newer one and its row the older."""
    for stale_among, stale in ((4, 1), (5, 1), (9, 1), (9, 2)):
        fresh = pa.concat_tables([numbered([1], 3), numbered([8], 5)])
        old = pa.concat_tables([numbered([1], stale), numbered([9], stale_among)])
        segments = [write_segment(tmp_path, table, 0, [0]) for table in (fresh, old)]
        state, _ = look_up(tmp_path, segments, fingerprints([1]), keys_of([1]))
        assert state["at"].to_pylist() == [3]


def test_a_key_is_looked_for_with_its_owner_of_every_epoch(tmp_path):
    """Two workers, then three: a moved key is read from its old owner until the new one has it."""
    places = {0: Owners(2), 1: Owners(3)}
    numbers = np.arange(600)
    prints = fingerprints(numbers)
    before, after = places[0](prints), places[1](prints)
    segments = [
        write_segment(tmp_path, numbered(numbers[before == w], 1), w, [0]) for w in range(2)
    ]
    # In batch 2, the first 500 keys are touched by their new owners; owner 0 folds its old segment.
    for w in range(3):
        new = numbered(numbers[:500][after[:500] == w], 2)
        if w == 0:
            new, (gone,) = fold(tmp_path, segments[:1], new)
            segments = [s for s in segments if s != gone]
        segments.append(write_segment(tmp_path, new, w, [0, 1] if w == 0 else [1]))
    reader = StateReader(tmp_path, segments, places)
    asked = [*numbers.tolist(), 1000]
    state, found = reader.look_up(fingerprints(asked), keys_of(asked))
    assert state["n"].to_pylist() == [*numbers.tolist(), None]
    assert state["at"].to_pylist() == [*[2] * 500, *[1] * 100, None]
    assert found.tolist() == [True] * 600 + [False]
    with pytest.raises(InputError, match="epochs"):
        StateReader(tmp_path, segments, {0: places[0]})


def test_a_reader_without_segments_needs_the_schema(tmp_path):
    schema = pa.schema([("n", pa.int64())])
    state, found = StateReader(tmp_path, [], {}, schema).look_up(fingerprints([1]), keys_of([1]))
    assert state.schema == schema
    assert (state["n"].to_pylist(), found.tolist()) == ([None], [False])
    with pytest.raises(InputError, match="state_schema"):
        StateReader(tmp_path, [], {}).look_up(fingerprints([1]), keys_of([1]))


def test_keys_of_another_shape_are_refused(tmp_path):
    segment = write_segment(tmp_path, numbered([1], 1), 0, [0])
    two = pa.table({"k0": ["key 1"], "k1": ["x"]})
    with pytest.raises(InputError, match="key columns"):
        look_up(tmp_path, [segment], fingerprints([1]), two)
    with pytest.raises(InputError, match="cast the key"):
        look_up(tmp_path, [segment], fingerprints([1]), pa.table({"k0": pa.array([{"a": 1}])}))
    large = keys_of([1]).cast(pa.schema([("k0", pa.large_string())]))
    assert look_up(tmp_path, [segment], fingerprints([1]), large)[1].all()


def test_a_look_up_reads_only_the_blocks_it_touches(tmp_path):
    segment = write_segment(tmp_path, numbered(range(20_000), 1), 0, [0])
    with open_segment(tmp_path, segment) as container:
        read = []
        container._bytes = lambda start, end, read_=container._bytes: (
            read.append(end - start) or read_(start, end)
        )
        hits = container.find(fingerprints([17, 19]))
        container.take(hits.row)
        assert container.blocks > 50
        assert len(hits.row) == 2
    assert 0 < sum(read) < segment.bytes / 10


# --- folding -------------------------------------------------------------------------------------


@EXAMPLES
@given(
    st.lists(st.lists(st.integers(0, 60), max_size=40, unique=True), max_size=25),
    st.booleans(),
)
def test_folding_loses_nothing_and_keeps_few_segments(tmp_path_factory, batches, collide):
    tmp_path = tmp_path_factory.mktemp("fold")
    model, segments, rows = {}, [], 0
    for version, numbers in enumerate(batches):
        new = numbered(numbers, version)
        if collide:
            new = new.set_column(0, FINGERPRINT, pa.array([n % 3 for n in numbers], pa.int64()))
        table, consumed = fold(tmp_path, segments, new)
        segments = [s for s in segments if s not in consumed]
        segments.append(write_segment(tmp_path, table, 0, [0]))
        rows += len(numbers)
        model |= dict.fromkeys(numbers, version)
        nonempty = [s.rows for s in segments if s.rows]
        assert len(nonempty) <= np.log2(max(rows, 1)) + 1
        assert all(old > 2 * new for old, new in itertools.pairwise(nonempty))
    asked = list(range(62))
    prints = np.array([n % 3 for n in asked], np.uint64) if collide else fingerprints(asked)
    schema = pa.schema([("n", pa.int64()), ("at", pa.int64())])
    state, _ = look_up(tmp_path, segments, prints, keys_of(asked), schema)
    assert state["at"].to_pylist() == [model.get(n) for n in asked]
    everything = [read_segment(tmp_path, s) for s in segments]
    if everything:
        kept = newest(pa.concat_tables(everything))
        assert rows_of(kept) == {f"key {n}": (n, at) for n, at in model.items()}


def test_fold_takes_from_the_newest_while_at_most_twice_as_large(tmp_path):
    sizes = [(1, 1000), (2, 100), (3, 21), (4, 10)]
    segments = [write_segment(tmp_path, numbered(range(n), b), 0, [0]) for b, n in sizes]
    _, consumed = fold(tmp_path, segments, numbered(range(10), 5))
    assert [s.rows for s in consumed] == [10, 21]  # 10 ≤ 2·10, 21 ≤ 2·20, 100 > 2·41
    _, consumed = fold(tmp_path, segments, numbered(range(4), 5))
    assert consumed == []


# --- damage --------------------------------------------------------------------------------------


def damage(path, at, xor):
    content = bytearray(path.read_bytes())
    content[at] ^= xor
    path.write_bytes(content)


@settings(max_examples=150)
@given(data=st.data(), xor=st.integers(1, 255))
def test_a_flipped_byte_is_detected_and_named(tmp_path_factory, data, xor):
    tmp_path = tmp_path_factory.mktemp("damage")
    segment = write_segment(tmp_path, numbered(range(700), 1), 0, [0])
    path = tmp_path / segment.file
    damage(path, data.draw(st.integers(0, segment.bytes - 1)), xor)
    with pytest.raises(DamagedState, match=segment.file):
        read_segment(tmp_path, segment)
    # A look-up that touches every block meets it, too.
    with pytest.raises(DamagedState, match=segment.file):
        look_up(tmp_path, [segment], fingerprints(range(700)), keys_of(range(700)))
    # One that touches a few gives the right answer or the error, never a wrong answer.
    asked = data.draw(st.lists(st.integers(0, 800), min_size=1, max_size=3))
    with suppress(DamagedState):
        state, _ = look_up(tmp_path, [segment], fingerprints(asked), keys_of(asked))
        assert state["n"].to_pylist() == [n if n < 700 else None for n in asked]


def test_every_single_byte_of_a_small_segment_is_guarded(tmp_path):
    segment = write_segment(tmp_path, numbered(range(3), 1), 0, [0])
    path = tmp_path / segment.file
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(DamagedState):
            read_segment(tmp_path, segment)


def test_damage_names_the_block(tmp_path):
    segment = write_segment(tmp_path, numbered(range(2000), 1), 0, [0])
    damage(tmp_path / segment.file, 64 + 8 * 300, 1)
    with pytest.raises(DamagedState, match="fingerprints of block 1 "):
        read_segment(tmp_path, segment)


@given(st.integers(0, 40_000))
@EXAMPLES
def test_a_file_cut_short_is_detected(tmp_path_factory, length):
    tmp_path = tmp_path_factory.mktemp("cut")
    segment = write_segment(tmp_path, numbered(range(700), 1), 0, [0])
    path = tmp_path / segment.file
    path.write_bytes(path.read_bytes()[: min(length, segment.bytes - 1)])
    with pytest.raises(DamagedState, match=segment.file):
        look_up(tmp_path, [segment], fingerprints([1]), keys_of([1]))


def test_a_file_cut_short_while_it_is_open_is_an_error_not_a_crash(tmp_path):
    segment = write_segment(tmp_path, numbered(range(2000), 1), 0, [0])
    with open_segment(tmp_path, segment) as container:
        with open(tmp_path / segment.file, "r+b") as file:
            file.truncate(100)
        with pytest.raises(DamagedState, match="ends at byte"):
            container.read()


def test_a_missing_file_is_named(tmp_path):
    segment = write_segment(tmp_path, numbered(range(7), 1), 0, [0])
    (tmp_path / segment.file).unlink()
    with pytest.raises(CheckpointError, match=f"{segment.file}.*missing"):
        look_up(tmp_path, [segment], fingerprints([1]), keys_of([1]))


def test_another_segment_under_the_same_name_is_detected(tmp_path):
    one, two = (write_segment(tmp_path, numbered(range(a, a + 9), 1), 0, [0]) for a in (0, 1))
    assert one.bytes == two.bytes
    (tmp_path / two.file).replace(tmp_path / one.file)
    with pytest.raises(DamagedState, match="another segment"):
        look_up(tmp_path, [one], fingerprints([1]), keys_of([1]))
