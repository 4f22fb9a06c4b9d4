"""Plain functions called once per key: what they get and may return, how mistakes are reported."""

import math
import pickle
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.operators import PerKey, no_state, on_table, rows_by_key
from operator_parts import at_once, in_batches, in_merged_parts, values_by_key
from operators.test_aggregates import CUTS, KEYS, ORDERS


def add_up(key, rows, state):
    total = int(rows["value"].sum())
    seen = sorted({*rows["value"].tolist(), *(state["seen"] if state else [])})
    return {"total": total + (state["total"] if state else 0), "seen": seen}


def put_together(a, b):
    return {"total": a["total"] + b["total"], "seen": sorted({*a["seen"], *b["seen"]})}


def describe(key, state):
    return {"key_again": key, "distinct": len(state["seen"])}


STATE = {"total": "int64", "seen": pa.list_(pa.int64())}
ADD_UP = PerKey(add_up, STATE, merge=put_together)


@settings(max_examples=60)
@given(st.lists(st.tuples(KEYS, st.integers(-9, 9)), min_size=1, max_size=30), CUTS, ORDERS)
def test_the_answer_is_that_of_a_loop_however_the_rows_are_cut(pairs, cut, order):
    table = pa.table(
        {"key": pa.array([k for k, _ in pairs], pa.string()), "value": [v for _, v in pairs]}
    )
    expected = {
        key: {"total": sum(values), "seen": sorted(set(values))}
        for key, values in values_by_key(table).items()
    }
    assert at_once(ADD_UP, table) == expected
    assert in_batches(ADD_UP, table, cut) == expected
    assert in_merged_parts(ADD_UP, table, cut, order) == (expected, expected)


def test_no_rows_at_all():
    table = pa.table({"key": pa.array([], pa.string()), "value": pa.array([], pa.int64())})
    assert at_once(ADD_UP, table) == {}


def test_what_emit_returns_is_the_output():
    operator = PerKey(
        add_up, STATE, emit=describe, output={"key_again": "string", "distinct": "int64"}
    )
    table = pa.table({"key": ["x", "y", "x"], "value": [1, 2, 1]})
    assert at_once(operator, table) == {
        "x": {"key_again": "x", "distinct": 1},
        "y": {"key_again": "y", "distinct": 1},
    }


def gather(table, key="key", columns=None):
    """Key → the rows that a function is given."""
    given = {}

    def keep(key, rows, state):
        given[key] = rows
        return {"n": len(next(iter(rows.values())))}

    on_table(PerKey(keep, {"n": "int64"}, columns=columns), table, key)
    return given


def test_rows_come_in_order_as_arrays_of_their_own_type():
    table = pa.table(
        {
            "key": ["x", "y", "x"],
            "number": [3, 2, 1],
            "price": [0.5, 1.5, 2.5],
            "flag": [True, False, True],
            "text": ["é", "b", None],
            "day": [date(2024, 1, 2), None, None],
            "at": pa.array([datetime(2024, 1, 2, 3), None, None], pa.timestamp("us")),
            "list": [[1], [2], []],
        }
    )
    rows = gather(table)["x"]
    assert rows["number"].dtype == np.int64
    assert rows["number"].tolist() == [3, 1]
    assert rows["price"].dtype == np.float64
    assert rows["flag"].dtype == np.bool_
    assert rows["text"].tolist() == ["é", None]
    assert rows["day"].dtype == np.dtype("datetime64[D]")
    assert np.isnat(rows["day"]).tolist() == [False, True]
    assert rows["at"][0] == np.datetime64("2024-01-02T03:00:00")
    assert [list(items) for items in rows["list"]] == [[1], []]
    assert rows["key"].tolist() == ["x", "x"]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.bool_(), pa.int8()])
def test_a_null_is_never_taken_for_a_number_and_troubles_no_other_key(kind):
    table = pa.table({"key": ["x", "y", "x"], "value": pa.array([1, 0, None]).cast(kind)})
    rows = gather(table)
    if pa.types.is_boolean(kind):
        assert rows["x"]["value"].dtype == object
        assert rows["x"]["value"].tolist() == [True, None]
    else:  # as in pandas
        assert rows["x"]["value"].dtype == np.float64
        assert rows["x"]["value"][0] == 1
        assert np.isnan(rows["x"]["value"][1])
    assert rows["y"]["value"].dtype == kind.to_pandas_dtype()


def test_only_the_columns_asked_for_are_given_and_several_keys_are_a_tuple():
    table = pa.table({"a": ["x", None], "b": [1, 2], "c": [3, 4]})
    rows = gather(table, key=["a", "b"], columns=["c"])
    assert {key: {n: v.tolist() for n, v in row.items()} for key, row in rows.items()} == {
        ("x", 1): {"c": [3]},
        (None, 2): {"c": [4]},
    }


def test_returning_none_forgets_the_key():
    operator = PerKey(lambda key, rows, state: None if state else {"n": 1}, {"n": "int64"})
    table = pa.table({"key": ["x"]})
    rows = rows_by_key(table, "key")
    once = operator.update(rows, no_state(operator.state_schema(table.schema), 1))
    assert once.to_pylist() == [{"n": 1}]
    assert operator.update(rows, once).to_pylist() == [{"n": None}]


def test_without_merge_keys_cannot_be_split():
    operator = PerKey(add_up, STATE)
    assert not operator.mergeable
    assert ADD_UP.mergeable
    empty = no_state(operator.state_schema(pa.schema([])), 1)
    with pytest.raises(NotImplementedError, match="has no merge"):
        operator.merge(empty, empty)
    with pytest.raises(NotImplementedError, match="has no merge"):
        operator.merge_groups(empty, np.array([0]), 1)


def test_the_signature_is_the_same_in_every_process():
    assert " at 0x" not in ADD_UP.signature()
    assert pickle.loads(pickle.dumps(ADD_UP)).signature() == ADD_UP.signature()
    assert ADD_UP.signature() != PerKey(add_up, {"total": "int64"}).signature()


def returning(value):
    return PerKey(lambda key, rows, state: value, {"n": "int64"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerKey(None, STATE), "update must be a function, got None"),
        (lambda: PerKey(add_up, STATE, merge=3), "merge must be a function, got 3"),
        (lambda: PerKey(add_up, {}), "state must be names and types"),
        (lambda: PerKey(add_up, {"n": "number"}), "has an unknown type"),
        (lambda: PerKey(add_up, STATE, emit=describe), "emit and output go together"),
        (lambda: returning({"m": 1}), r"returned \{'m': 1\}; expected a dict with n"),
        (lambda: returning(7), "returned 7; expected a dict with n"),
        (lambda: returning({"n": "many"}), "returned a value for 'n' that is not int64"),
        (lambda: PerKey(add_up, STATE, columns=["valu"]), "did you mean 'value'"),
    ],
)
def test_mistakes_are_named(make, message):
    table = pa.table({"key": ["x"], "value": [1]})
    with pytest.raises(InputError, match=message):
        on_table(make(), table, "key")


def test_an_error_of_the_function_is_its_own():
    def fails(key, rows, state):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        on_table(PerKey(fails, {"n": "int64"}), pa.table({"key": ["x"]}), "key")


@pytest.mark.parametrize("value", [1.5, np.float32(0.5), math.nan, True, 2**70, "7"])
def test_a_value_that_an_integer_column_cannot_hold_is_refused_and_not_cut(value):
    for operator in (
        PerKey(lambda key, rows, state: {"n": value}, {"n": "int64"}),
        PerKey(
            lambda key, rows, state: {"n": 1},
            {"n": "int64"},
            emit=lambda key, state: {"m": value},
            output={"m": "int64"},
        ),
    ):
        with pytest.raises(InputError, match=r"returned a value for '.' that is not int64"):
            on_table(operator, pa.table({"key": ["x"]}), "key")


def test_whole_floats_are_taken_as_integers():
    operator = PerKey(lambda key, rows, state: {"n": np.float64(3)}, {"n": "int64"})
    assert on_table(operator, pa.table({"key": ["x"]}), "key").column("n").to_pylist() == [3]


def test_emit_may_return_no_row():
    operator = PerKey(
        lambda key, rows, state: {"n": len(rows["key"])},
        {"n": "int64"},
        emit=lambda key, state: None if key == "x" else {"n": state["n"]},
        output={"n": "int64"},
    )
    rows = pa.table({"key": ["x", "y", "x"]})
    assert on_table(operator, rows, "key").to_pylist() == [{"key": "y", "n": 1}]
