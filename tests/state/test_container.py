"""A segment that is not what was written: found wherever the damage is, and named."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.state import CheckpointError, DamagedState, look_up, read_segment, write_segment
from evenflow.state.segments import open_segment
from evenflow.storage import PosixStorage
from state_rows import fingerprints, keys_of, numbered


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(str(tmp_path))


def damage(path, at, xor):
    content = bytearray(path.read_bytes())
    content[at] ^= xor
    path.write_bytes(content)


@settings(max_examples=150)
@given(data=st.data(), xor=st.integers(1, 255))
def test_a_flipped_byte_is_detected_and_named(tmp_path_factory, data, xor):
    storage = PosixStorage(str(tmp_path_factory.mktemp("damage")))
    segment = write_segment(storage, numbered(range(700), 1), 0, [0])
    path = Path(storage.where(segment.name))
    damage(path, data.draw(st.integers(0, segment.bytes - 1)), xor)
    with pytest.raises(DamagedState, match=segment.file):
        read_segment(storage, segment)
    # A look-up that touches every block meets it, too.
    with pytest.raises(DamagedState, match=segment.file):
        look_up(storage, [segment], fingerprints(range(700)), keys_of(range(700)))
    # One that touches a few gives the right answer or the error, never a wrong answer.
    asked = data.draw(st.lists(st.integers(0, 800), min_size=1, max_size=3))
    with suppress(DamagedState):
        state, _ = look_up(storage, [segment], fingerprints(asked), keys_of(asked))
        assert state["n"].to_pylist() == [n if n < 700 else None for n in asked]


def test_every_single_byte_of_a_small_segment_is_guarded(storage):
    segment = write_segment(storage, numbered(range(3), 1), 0, [0])
    path = Path(storage.where(segment.name))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(DamagedState):
            read_segment(storage, segment)


def test_damage_names_the_block(storage):
    segment = write_segment(storage, numbered(range(2000), 1), 0, [0])
    damage(Path(storage.where(segment.name)), 64 + 8 * 300, 1)
    with pytest.raises(DamagedState, match="fingerprints of block 1 "):
        read_segment(storage, segment)


@given(st.integers(0, 40_000))
@settings(max_examples=40)
def test_a_file_cut_short_is_detected(tmp_path_factory, length):
    storage = PosixStorage(str(tmp_path_factory.mktemp("cut")))
    segment = write_segment(storage, numbered(range(700), 1), 0, [0])
    path = Path(storage.where(segment.name))
    path.write_bytes(path.read_bytes()[: min(length, segment.bytes - 1)])
    with pytest.raises(DamagedState, match=segment.file):
        look_up(storage, [segment], fingerprints([1]), keys_of([1]))


def test_a_file_cut_short_while_it_is_open_is_an_error_not_a_crash(storage):
    segment = write_segment(storage, numbered(range(2000), 1), 0, [0])
    container = open_segment(storage, segment)
    with open(Path(storage.where(segment.name)), "r+b") as file:
        file.truncate(100)
    with pytest.raises(DamagedState, match="ends at byte"):
        container.read()


def test_a_missing_file_is_named(storage):
    segment = write_segment(storage, numbered(range(7), 1), 0, [0])
    (Path(storage.where(segment.name))).unlink()
    with pytest.raises(CheckpointError, match=f"{segment.file}.*missing"):
        look_up(storage, [segment], fingerprints([1]), keys_of([1]))


def test_another_segment_under_the_same_name_is_detected(storage):
    one, two = (write_segment(storage, numbered(range(a, a + 9), 1), 0, [0]) for a in (0, 1))
    assert one.bytes == two.bytes
    (Path(storage.where(two.name))).replace(Path(storage.where(one.name)))
    with pytest.raises(DamagedState, match="another segment"):
        look_up(storage, [one], fingerprints([1]), keys_of([1]))
