"""Keys come back as the values that went in, whatever their type."""

import pickle
from collections import Counter
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError
from evenflow.sketches.exact import Exact
from evenflow.sketches.lossy_counting import LossyCounting
from evenflow.sketches.named_keys import NamedKeys
from evenflow.sketches.space_saving import SpaceSaving

WORDS = pa.array(["a", None, "long enough not to be stored within a view", "", "a", "é", None, "a"])
PAIRS = pa.array([{"x": 1, "y": "u"}, None, {"x": None, "y": None}, {"x": 1, "y": "u"}])
COLUMNS = {
    "strings": WORDS,
    "a slice": pa.concat_arrays([pa.array(["z", "z"]), WORDS]).slice(2),
    "chunks": pa.chunked_array([WORDS.slice(0, 3), WORDS.slice(3, 0), WORDS.slice(3)]),
    "a dictionary": WORDS.dictionary_encode(),
    "views": WORDS.cast(pa.string_view()),
    "binary": pa.array([b"\x00", b"", None, b"\x00"]),
    "integers": pa.array([3, -1, None, 3, 2**62], pa.int64()),
    "decimals": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal("1.50")]),
    "dates": pa.array([date(2024, 2, 29), None, date(1969, 12, 31), date(2024, 2, 29)]),
    "booleans": pa.array([True, None, False, True]),
    "nulls": pa.nulls(3),
    "structs": PAIRS,
    "structs of dictionaries and views": pa.StructArray.from_arrays(
        [WORDS.dictionary_encode(), WORDS.cast(pa.string_view())], names=["d", "v"]
    ),
}


def counts_of(values):
    """Multiset of values, by text: structs come back as dicts, which cannot be counted."""
    return Counter(map(repr, values.to_pylist()))


def words(rng, n, distinct):
    return pa.array([f"key {number % distinct}" for number in rng.zipf(1.3, n)])


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_keys_of_every_type_come_back_as_values(column):
    named = NamedKeys(Exact())
    named.update(column)
    named.update(column)
    hot = named.hot(0.0)
    found = dict(zip(map(repr, hot["key"].to_pylist()), hot["lower"].to_pylist(), strict=True))
    assert found == {value: 2 * count for value, count in counts_of(column).items()}
    assert hot["lower"] == hot["upper"]


@pytest.mark.parametrize("whole", [pa.RecordBatch, pa.Table])
def test_several_columns_together_are_one_key(whole):
    rows = whole.from_pydict({"x": [1, 1, 2, None, None], "y": ["a", "a", "a", None, None]})
    named = NamedKeys(Exact())
    named.update(rows)
    hot = named.hot(0.3)
    assert hot["lower"].to_pylist() == [2, 2]
    assert counts_of(hot["key"]) == counts_of(
        pa.array([{"x": 1, "y": "a"}, {"x": None, "y": None}])
    )


@pytest.mark.parametrize(
    "sketch",
    [SpaceSaving(5), SpaceSaving(20, half_life=70), LossyCounting(0.05), LossyCounting(0.3)],
    ids=repr,
)
def test_every_tracked_key_has_its_own_value_while_keys_come_and_go(sketch):
    rng = np.random.default_rng(1)
    named, state, gone = NamedKeys(sketch), sketch.start(), set()
    for size in (1, 0, 50, 300, 7, 1000, 1, 300):
        batch = words(rng, size, distinct=500)
        named.update(batch)
        state = sketch.update(state, fingerprint(batch))
        if size == 300:
            named.age()
            sketch.age(state)
        expected, hot = sketch.hot(state, 0.0), named.hot(0.0)
        gone |= set(hot["key"].to_pylist())
        np.testing.assert_array_equal(fingerprint(hot["key"]), expected.keys)
        np.testing.assert_array_equal(hot["lower"], expected.lower)
        np.testing.assert_array_equal(hot["upper"], expected.upper)
        assert named.total == sketch.total(state)
    assert len(gone) > len(hot), "no key has ever gone: the test says nothing"


def test_shares_are_bounds_over_the_total():
    named = NamedKeys(SpaceSaving(2))
    named.update(pa.array(["a", "a", "a", "b", "c"]))
    assert named.hot(0.4).to_pylist() == [
        {"key": "a", "lower": 3, "upper": 3, "share_lower": 0.6, "share_upper": 0.6},
        {"key": "c", "lower": 1, "upper": 2, "share_lower": 0.2, "share_upper": 0.4},
    ]


def long_words(batch, as_type):
    numbers = range(1000 * batch, 1000 * (batch + 1))
    column = pa.array([f"{number:>200}" for number in numbers])
    return column.dictionary_encode() if as_type == "dictionary" else column.cast(as_type)


@pytest.mark.parametrize("as_type", [pa.string(), pa.string_view(), "dictionary"], ids=str)
def test_memory_grows_with_the_keys_tracked_not_with_the_keys_seen(as_type):
    named, sizes = NamedKeys(SpaceSaving(50)), []
    for batch in range(10):
        named.update(long_words(batch, as_type))
        sizes.append(len(pickle.dumps(named)))
    assert len(named.hot(0.0)) == 50
    assert max(sizes) < 50 * 200 + 10_000  # one batch has 200 kB of text
    assert sizes[-1] < sizes[0] + 100


def test_pickling_mid_stream_changes_nothing():
    rng = np.random.default_rng(2)
    batches = [words(rng, 200, distinct=100) for _ in range(6)]
    straight, resumed = NamedKeys(SpaceSaving(10)), NamedKeys(SpaceSaving(10))
    for batch in batches:
        straight.update(batch)
        resumed.update(batch)
        resumed = pickle.loads(pickle.dumps(resumed))
    assert resumed.hot(0.0).equals(straight.hot(0.0))


@pytest.mark.parametrize("sketch", [Exact(), SpaceSaving(8), LossyCounting(0.02)], ids=repr)
def test_merging_names_all_keys_of_the_union_and_goes_on(sketch):
    rng = np.random.default_rng(3)
    streams = [words(rng, size, distinct=40) for size in (300, 1, 150)]
    parts = [NamedKeys(sketch) for _ in (*streams, "a source that saw nothing")]
    for part, stream in zip(parts, streams, strict=False):
        part.update(stream)
    before = pickle.dumps(parts)
    union = NamedKeys.merged(parts)
    more = pa.array(["new", *words(rng, 100, distinct=60).to_pylist(), "new", "new"])
    union.update(more)

    state = sketch.merge([sketch.update(sketch.start(), fingerprint(s)) for s in streams])
    state = sketch.update(state, fingerprint(more))
    expected, hot = sketch.hot(state, 0.0), union.hot(0.0)
    assert "new" in hot["key"].to_pylist()
    np.testing.assert_array_equal(fingerprint(hot["key"]), expected.keys)
    np.testing.assert_array_equal(hot["upper"], expected.upper)
    assert union.total == sum(map(len, streams)) + len(more)
    assert pickle.dumps(parts) == before


@pytest.mark.parametrize("untyped", [pa.nulls(0), pa.nulls(2)], ids=["empty", "all null"])
def test_a_batch_without_a_value_fits_keys_of_any_type(untyped):
    batches = [untyped, PAIRS, untyped]
    named, part = NamedKeys(Exact()), NamedKeys(Exact())
    for batch in batches:
        named.update(batch)
    part.update(untyped)
    hot = NamedKeys.merged([part, named]).hot(0.0)
    found = dict(zip(map(repr, hot["key"].to_pylist()), hot["lower"].to_pylist(), strict=True))
    assert found == counts_of(PAIRS) + Counter({"None": 3 * len(untyped)})
    assert hot.schema.field("key").type == PAIRS.type


def test_before_the_first_batch_nothing_is_hot():
    hot = NamedKeys(Exact()).hot(0.1)
    assert hot.num_rows == 0
    assert hot.column_names == ["key", "lower", "upper", "share_lower", "share_upper"]
    assert NamedKeys.merged([NamedKeys(Exact())]).hot(0.0).num_rows == 0


@dataclass(frozen=True)
class Forgetful(Exact):
    """Does not say where it met its keys."""

    name: ClassVar[str] = "forgetful"

    def hot(self, state, share):
        return super().hot(state, share)._replace(born=np.full(len(state.keys), 3)[:2])


def test_bad_input_is_refused_and_changes_nothing():
    named = NamedKeys(Exact())
    named.update(pa.array(["a", "b"]))
    with pytest.raises(InputError, match="string until now, got int64"):
        named.update(pa.array([1]))
    with pytest.raises(InputError, match="cannot be of type list"):
        named.update(pa.array([[1]]))
    with pytest.raises(InputError, match="share"):
        named.hot(float("nan"))
    assert named.total == 2
    numbers = NamedKeys(Exact())
    numbers.update(pa.array([1]))
    with pytest.raises(InputError, match="different types: string and int64"):
        NamedKeys.merged([named, numbers])
    with pytest.raises(InputError, match="different sketches"):
        NamedKeys.merged([named, NamedKeys(SpaceSaving(3))])
    with pytest.raises(InputError, match="nothing to merge"):
        NamedKeys.merged([])
    with pytest.raises(InputError, match="born"):
        NamedKeys(Forgetful()).update(pa.array(["a", "b"]))
