"""State looked up by key: the newest row, wherever it is, in few requests."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.state import StateReader, compact, look_up, write_segment
from evenflow.state.segments import FINGERPRINT
from evenflow.state.whole_keys import rows_of_keys
from evenflow.storage import MemoryStorage, PosixStorage
from evenflow.storage.cache import CachedStorage
from evenflow.storage.delayed import DelayedStorage
from evenflow.storage.faults import Faults, FaultyStorage
from evenflow.storage.requests import counting
from state_rows import fingerprints, keys_of, numbered, state_table

STATE = pa.schema([("n", pa.int64()), ("at", pa.int64())])


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(str(tmp_path))


def remote(storage):
    """The same objects, as if every request were waited for."""
    return DelayedStorage(storage, seconds=0)


def test_the_newest_version_wins_whatever_the_order_of_segments(storage):
    old = write_segment(storage, numbered(range(300), 1), 0, [0])
    mid = write_segment(storage, numbered(range(100, 400), 2), 0, [0])
    new = write_segment(storage, numbered(range(200, 250), 3), 0, [0])
    asked = [*range(420), 5, 205]
    for segments in ([old, mid, new], [new, mid, old], [mid, new, old]):
        state, found = look_up(storage, segments, fingerprints(asked), keys_of(asked))
        expected = [
            3 if 200 <= n < 250 else 2 if 100 <= n < 400 else 1 if n < 300 else None for n in asked
        ]
        assert state["at"].to_pylist() == expected
        assert found.tolist() == [at is not None for at in expected]


def test_an_old_row_among_newer_ones_does_not_win(storage):
    """After a move and a compaction, an old owner's segment may be newer, and its row older."""
    for stale_among, stale in ((4, 1), (5, 1), (9, 1), (9, 2)):
        fresh = pa.concat_tables([numbered([1], 3), numbered([8], 5)])
        old = pa.concat_tables([numbered([1], stale), numbered([9], stale_among)])
        segments = [write_segment(storage, table, 0, [0]) for table in (fresh, old)]
        state, _ = look_up(storage, segments, fingerprints([1]), keys_of([1]))
        assert state["at"].to_pylist() == [3]


def test_a_key_is_looked_for_with_its_owner_of_every_epoch(storage):
    """Two workers, then three: a moved key is read from its old owner until the new one has it."""
    places = {0: Owners(2), 1: Owners(3)}
    numbers = np.arange(600)
    prints = fingerprints(numbers)
    before, after = places[0](prints), places[1](prints)
    segments = [write_segment(storage, numbered(numbers[before == w], 1), w, [0]) for w in range(2)]
    # In batch 2, the first 500 keys are touched by their new owners; owner 0 compacts.
    for w in range(3):
        new = numbered(numbers[:500][after[:500] == w], 2)
        if w == 0:
            new, (gone,) = compact(storage, segments[:1], new)
            segments = [s for s in segments if s != gone]
        segments.append(write_segment(storage, new, w, [0, 1] if w == 0 else [1]))
    reader = StateReader(storage, segments, places)
    asked = [*numbers.tolist(), 1000]
    state, found = reader.look_up(fingerprints(asked), keys_of(asked))
    assert state["n"].to_pylist() == [*numbers.tolist(), None]
    assert state["at"].to_pylist() == [*[2] * 500, *[1] * 100, None]
    assert found.tolist() == [True] * 600 + [False]
    with pytest.raises(InputError, match="epochs"):
        StateReader(storage, segments, {0: places[0]})


def test_a_reader_without_segments_needs_the_schema(storage):
    schema = pa.schema([("n", pa.int64())])
    state, found = StateReader(storage, [], {}, schema).look_up(fingerprints([1]), keys_of([1]))
    assert state.schema == schema
    assert (state["n"].to_pylist(), found.tolist()) == ([None], [False])
    with pytest.raises(InputError, match="state_schema"):
        StateReader(storage, [], {}).look_up(fingerprints([1]), keys_of([1]))


def test_keys_of_another_shape_are_refused(storage):
    segment = write_segment(storage, numbered([1], 1), 0, [0])
    two = pa.table({"k0": ["key 1"], "k1": ["x"]})
    with pytest.raises(InputError, match="key columns"):
        look_up(storage, [segment], fingerprints([1]), two)
    with pytest.raises(InputError, match="cast the key"):
        look_up(storage, [segment], fingerprints([1]), pa.table({"k0": pa.array([{"a": 1}])}))
    large = keys_of([1]).cast(pa.schema([("k0", pa.large_string())]))
    assert look_up(storage, [segment], fingerprints([1]), large)[1].all()


def test_a_look_up_in_a_segment_is_three_requests(storage):
    """Its ends, the fingerprints, the rows: whatever the number of blocks."""
    segment = write_segment(storage, numbered(range(20_000), 1), 0, [0])
    faults = Faults()
    asked = range(0, 20_000, 50)
    counted = FaultyStorage(storage, faults)
    _, found = look_up(counted, [segment], fingerprints(asked), keys_of(asked), STATE)
    assert found.all()
    assert faults.log == [f"read_ranges {segment.name}"] * 3


# --- several requests at once --------------------------------------------------------------------


def counted(call):
    with counting() as requests:
        result = call()
    return result, requests.to_dict()


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.tuples(
            st.integers(0, 2),  # who writes
            st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True),
            st.booleans(),  # whether older segments are taken in
        ),
        min_size=1,
        max_size=8,
    ),
    asked=st.lists(st.integers(0, 35), min_size=1, max_size=20, unique=True),
    collide=st.sampled_from([1, 3, 40]),
)
def test_one_by_one_at_once_and_from_a_cache_give_the_same(
    tmp_path_factory, batches, asked, collide
):
    """Keys come and go between owners, several share a fingerprint, rows lie in many segments."""
    inner = MemoryStorage()
    segments = []

    def rows(numbers, version):
        names = [f"key {n}" for n in numbers]
        values = {"n": pa.array(numbers, pa.int64()), "at": pa.array([version] * len(numbers))}
        return state_table(
            fingerprints([n // collide for n in numbers]), version, [names], **values
        )

    newest = {}
    for version, (owner, numbers, compacts) in enumerate(batches):
        table = rows(numbers, version)
        own = [segment for segment in segments if segment.owner == owner]
        if compacts:
            table, consumed = compact(remote(inner), own, table)
            segments = [segment for segment in segments if segment not in consumed]
        segments.append(write_segment(inner, table, owner, [owner]))
        newest |= dict.fromkeys(numbers, version)
    # In epoch e, everything was owner e's: so every segment may have every key.
    owners = {
        owner: lambda prints, owner=owner: np.full(len(prints), owner, np.int32)
        for owner in range(3)
    }
    prints = fingerprints([n // collide for n in asked])
    directory = str(tmp_path_factory.mktemp("cache"))
    kept = CachedStorage(remote(inner), directory=directory)
    expected = [newest.get(n) for n in asked]
    for storage in (inner, remote(inner), kept, kept):
        reader = StateReader(storage, segments, owners)
        state, found = reader.look_up(prints, keys_of(asked))
        assert state["at"].to_pylist() == expected
        assert found.tolist() == [version is not None for version in expected]
        if collide > 1:
            continue
        whole = rows_of_keys(storage, segments, owners, prints, keys_of(asked))
        numbers, table = whole if whole is not None else ([], rows([], 0))
        assert sorted(zip(numbers, table.column("at").to_pylist(), strict=True)) == [
            (i, version) for i, version in enumerate(expected) if version is not None
        ]
        assert FINGERPRINT in table.column_names
    inner.clear()


def test_all_segments_are_read_at_once_in_three_rounds(storage):
    """Footers, fingerprints, rows; and of small segments everything in the first."""
    large = [
        write_segment(storage, numbered(range(at, at + 5000), 1 + i), 0, [0])
        for i, at in enumerate((0, 5000, 10_000))
    ]
    small = [write_segment(storage, numbered([i], 10 + i), 0, [0]) for i in range(5)]
    assert min(s.bytes for s in large) > 64 << 10 > max(s.bytes for s in small)
    waits = []

    class Rounds(DelayedStorage):
        def read_ranges(self, name, ranges):
            waits.append(name)
            return super().read_ranges(name, ranges)

    asked = range(0, 15_000, 700)
    _, found = look_up(
        Rounds(storage, 0), [*large, *small], fingerprints(asked), keys_of(asked), STATE
    )
    assert found.all()
    assert sorted(waits) == sorted([s.name for s in large] * 3 + [s.name for s in small])


def test_of_a_key_in_many_segments_the_newest_row_alone_is_read(storage):
    segments = [write_segment(storage, numbered(range(5000), v), 0, [0]) for v in range(6)]
    (state, _), requests = counted(
        lambda: look_up(remote(storage), segments, fingerprints([7]), keys_of([7]), STATE)
    )
    assert state["at"].to_pylist() == [5]
    assert requests["reads"] == 6 + 6 + 1


def test_a_compaction_reads_each_segment_in_one_request(storage):
    segments = [write_segment(storage, numbered(range(4000), v), 0, [0]) for v in range(4)]
    (_, consumed), requests = counted(
        lambda: compact(remote(storage), segments, numbered(range(4000), 9))
    )
    assert len(consumed) == 4
    assert requests["reads"] == 4
    assert requests["read_bytes"] == sum(segment.bytes for segment in segments)


def test_what_a_task_has_written_is_read_without_a_request(storage, tmp_path):
    kept = CachedStorage(remote(storage), directory=str(tmp_path / "cache"))
    segment = write_segment(kept, numbered(range(20_000), 1), 0, [0])
    asked = range(0, 20_000, 11)
    (_, found), requests = counted(
        lambda: look_up(kept, [segment], fingerprints(asked), keys_of(asked), STATE)
    )
    assert found.all()
    assert requests["reads"] == 0
    assert requests["cached_bytes"] > 0
