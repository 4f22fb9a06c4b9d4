"""States of keys, from rows to Python values and back."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.operators.state_variables import (
    LOOK,
    KeyState,
    Variable,
    as_known,
    empty_rows,
    read_states,
    write_states,
)

PAIR = pa.struct([("n", pa.int64()), ("text", pa.string())])
VARIABLES = (
    Variable("one", "value", PAIR),
    Variable("many", "list", PAIR, ttl=5),
    Variable("by", "map", PAIR, pa.struct([("x", pa.float64())])),
    Variable("nothing", "value", pa.struct([])),
)
FIELDS = st.tuples(st.none() | st.integers(-9, 9), st.none() | st.text(max_size=3))
UNTIL = st.none() | st.integers(101, 200)
NUMBERS = st.none() | st.sampled_from([0.0, 1.5, math.nan])


@st.composite
def states(draw):
    state = KeyState()
    if draw(st.booleans()):
        state.values["one"] = (draw(FIELDS), draw(UNTIL))
    if draw(st.booleans()):
        state.values["nothing"] = ((), None)
    if many := draw(st.lists(st.tuples(FIELDS, UNTIL), max_size=3)):
        state.lists["many"] = many
    keys = draw(st.lists(NUMBERS, max_size=3))
    if pairs := {as_known((x,)): ((x,), (draw(FIELDS), draw(UNTIL))) for x in keys}:
        state.maps["by"] = pairs
    state.timers = set(draw(st.lists(st.integers(50, 150), max_size=3)))
    return state


@settings(max_examples=50)
@given(st.lists(states(), max_size=5))
def test_states_come_back_as_they_were_written(before):
    table = write_states(VARIABLES, before, now=100)
    after = read_states(VARIABLES, table)
    for a, b in zip(after, before, strict=True):
        assert a.timers == b.timers
        a.timers = b.timers
        assert str(a) == str(b)  # NaN is not equal to itself
    for state, empty in zip(before, empty_rows(table), strict=True):
        assert empty == (state == KeyState())
        due = state.due()
        assert state.look == (None if due is None else max(due, 100))


def test_a_look_that_is_early_enough_is_kept():
    """Whoever puts a value's end off again and again writes nothing into the index each time."""
    state = KeyState(values={"one": ((1, "a"), 150)}, look=120)
    assert write_states(VARIABLES, [state], now=100)[LOOK].to_pylist() == [120]
    assert write_states(VARIABLES, [state], now=120)[LOOK].to_pylist() == [150]
    state.values["one"] = ((1, "a"), 130)
    assert write_states(VARIABLES, [state], now=120)[LOOK].to_pylist() == [130]


def test_what_has_ended_is_dropped():
    state = KeyState(
        values={"one": ((1, "a"), 100), "nothing": ((), None)},
        lists={"many": [((1, "a"), 101), ((2, "b"), 99)]},
        maps={"by": {(1.0,): ((1.0,), ((1, "a"), 100))}},
    )
    state.drop_expired(100)
    assert state == KeyState(values={"nothing": ((), None)}, lists={"many": [((1, "a"), 101)]})


def test_a_value_that_does_not_fit_is_an_error_that_names_the_state():
    with pytest.raises(InputError, match="the state 'one' is struct"):
        write_states(VARIABLES, [KeyState(values={"one": (("x", "a"), None)})], 0)
