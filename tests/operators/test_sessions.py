"""Session windows on arrays: the session of a row alone, and sessions put together."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.operators.sessions import Session, merged_sessions

spans = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(1, 20)), max_size=30
)


@given(spans=spans)
def test_sessions_that_overlap_or_touch_maybe_through_others_are_one(spans):
    """Beside a twin that puts two together for as long as any two meet."""
    keys = [key for key, _, _ in spans]
    starts = [start for _, start, _ in spans]
    ends = [start + gap for _, start, gap in spans]
    groups = [[i] for i in range(len(spans))]

    def bounds(group):
        return min(starts[i] for i in group), max(ends[i] for i in group)

    def meet(a, b):
        (start, end), (other_start, other_end) = bounds(a), bounds(b)
        return keys[a[0]] == keys[b[0]] and start <= other_end and other_start <= end

    while True:
        pair = next(((a, b) for a in groups for b in groups if a is not b and meet(a, b)), None)
        if pair is None:
            break
        groups = [g for g in groups if g is not pair[0] and g is not pair[1]] + [pair[0] + pair[1]]
    arrays = [np.array(one, np.int64) for one in (keys, starts, ends)]
    number, begin, end = merged_sessions(*arrays)
    found = {}
    for i, n in enumerate(number.tolist()):
        found.setdefault(n, set()).add(i)
    assert sorted(map(sorted, found.values())) == sorted(map(sorted, groups))
    for n, group in found.items():
        assert (begin[n], end[n]) == bounds(sorted(group))


def test_bounds_that_no_timestamp_has_are_refused():
    last = pa.table({"ts": pa.array([2**63 - 5], pa.timestamp("us"))})
    with pytest.raises(InputError, match="outside the range of timestamps"):
        Session("ts", gap=10).alone(last)
    assert Session("ts", gap=4).alone(last)[1].tolist() == [2**63 - 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"column": ""}, "name of a timestamp column"),
        ({"column": "ts"}, "either a gap or a column"),
        ({"column": "ts", "gap": 1, "end": "e"}, "either a gap or a column"),
        ({"column": "ts", "gap": 0}, "must be above 0"),
        ({"column": "ts", "gap": 1, "delay": -1}, "must be above 0"),
    ],
)
def test_what_is_no_session_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        Session(**given)
