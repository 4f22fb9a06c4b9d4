"""Groups from sorted rows, however these are cut into batches."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.engine.sorted_groups import LongGroup, SortedGroups, rebatched

NAN = float("nan")


def batches_of(keys, cuts, kind):
    rows = pa.record_batch({"k": pa.array(keys, kind), "i": pa.array(range(len(keys)))})
    edges = sorted({0, len(keys), *(cut % (len(keys) + 1) for cut in cuts)})
    yield rows.slice(0, 0)
    for start, end in itertools.pairwise(edges):
        yield rows.slice(start, end - start)


def runs(values):
    """The obvious twin: lengths of stretches of equal values; NaN equals NaN, None equals None."""
    found, last = [], object()
    for value in values:
        same = value is None if last is None else value == last or (value != value and last != last)
        if same:
            found[-1] += 1
        else:
            found.append(1)
        last = value
    return found


def shaped(found):
    sizes, order = [], []
    for one in found:
        if isinstance(one, LongGroup):
            table = pa.Table.from_batches(list(one.batches))
            sizes.append(table.num_rows)
        else:
            table = one.table
            sizes += (one.bounds[1:] - one.bounds[:-1]).tolist()
            assert one.bounds[-1] == table.num_rows
        order += table.column("i").to_pylist()
    return sizes, order


@pytest.mark.parametrize("long", [False, True])
@given(
    st.lists(st.sampled_from([None, -0.0, 0.0, 1.5, NAN]), max_size=30),
    st.lists(st.integers(0, 40)),
    st.integers(1, 12),
)
def test_the_rows_of_a_group_are_never_apart(long, keys, cuts, most):
    keys.sort(key=lambda one: (one is not None, one != one, one if one == one else 0))
    groups = SortedGroups(batches_of(keys, cuts, pa.float64()), ["k"], long, most)
    sizes, order = shaped(groups)
    assert sizes == runs(keys)
    assert order == list(range(len(keys)))


def test_where_groups_are_long_at_most_a_chunk_is_held():
    made = 0

    def batches():
        nonlocal made
        for _ in range(100):
            made += 1
            yield pa.record_batch({"k": ["a"] * 10})

    group = next(iter(SortedGroups(batches(), ["k"], long=True, rows=20)))
    assert isinstance(group, LongGroup)
    assert made == 2


def test_without_keys_there_is_one_group():
    rows = [pa.record_batch({"i": [1, 2]}), pa.record_batch({"i": [3]})]
    (groups,) = SortedGroups(iter(rows), [])
    assert groups.bounds.tolist() == [0, 3]
    assert list(SortedGroups(iter([]), [])) == []


@given(st.lists(st.integers(0, 7)), st.integers(1, 5))
def test_rebatched_keeps_rows_and_their_order(sizes, rows):
    parts, start = [], 0
    for size in sizes:
        parts.append(pa.record_batch({"i": pa.array(range(start, start + size), pa.int64())}))
        start += size
    again = list(rebatched(iter(parts), rows))
    assert [i for part in again for i in part.column("i").to_pylist()] == list(range(start))
    assert all(part.num_rows == rows for part in again[:-1])
