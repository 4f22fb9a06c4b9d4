"""Whether an operator gives one answer, however its rows are cut into batches and parts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from evenflow.checks.outcome import CheckFailed, NotApplicable, Report, run
from evenflow.operators import Operator, no_state, on_table, rows_by_key
from evenflow.operators.grouping_rows import group_rows

_CUTS = 5


def run_operator_checks(
    operator: Operator, rows: pa.Table, key: str | Sequence[str], seed: int = 0
) -> Report:
    """Every check of an operator, on rows of your own.

    Parameters:
        operator: the operator. Its output must not depend on the order of a key's rows.
        rows: sample data: a few hundred rows, several per key.
        key: the key column, or several.
        seed: of the random cuts.

    Example:
        >>> from evenflow.operators import Aggregates, mean
        >>> rows = pa.table({"page": ["a", "b", "a", "a"], "ms": [1.0, 2.0, 3.0, 8.0]})
        >>> run_operator_checks(Aggregates(ms=mean("ms")), rows, "page").ok
        True
    """
    names = [key] if isinstance(key, str) else list(key)
    expected = _sorted(on_table(operator, rows, names))
    checks = [
        ("schemas-are-kept", lambda: _schemas_are_kept(operator, rows, names)),
        ("batches-change-nothing", lambda: _batches(operator, rows, names, expected, seed)),
        ("parts-change-nothing", lambda: _parts(operator, rows, names, expected, seed)),
        ("pickling-changes-nothing", lambda: _pickling(operator, rows, names, expected)),
    ]
    return run(type(operator).__name__, checks)


def _schemas_are_kept(operator: Operator, rows: pa.Table, key: list[str]) -> None:
    grouped = rows_by_key(rows, key)
    wanted = operator.state_schema(rows.schema)
    state = operator.update(grouped, no_state(wanted, grouped.n_keys))
    _require_schema("update", state.schema, wanted)
    output, kept = operator.emitted(grouped.keys, state)
    _require_schema("emit", output.schema, operator.output_schema(rows.schema))
    rows_for_all = output.num_rows if kept is None else grouped.n_keys
    if state.num_rows != grouped.n_keys or rows_for_all != grouped.n_keys:
        raise CheckFailed(f"{grouped.n_keys} keys gave {state.num_rows} states")


def _require_schema(what: str, got: pa.Schema, wanted: pa.Schema) -> None:
    if [(f.name, f.type) for f in got] != [(f.name, f.type) for f in wanted]:
        raise CheckFailed(f"{what} returned {got.to_string()}, expected {wanted.to_string()}")


def _batches(
    operator: Operator, rows: pa.Table, key: list[str], expected: list[str], seed: int
) -> None:
    """Batch by batch, each with the state of the previous batches."""
    keys = rows_by_key(rows, key)
    state = no_state(operator.state_schema(rows.schema), keys.n_keys)
    for part in _cut(rows.num_rows, seed):
        if not len(part):
            continue
        numbers, local = np.unique(keys.group[part], return_inverse=True)
        grouped = rows_by_key(rows.take(pa.array(part)), key)
        # `rows_by_key` numbers keys by first appearance; put the states into that order.
        first = np.empty(grouped.n_keys, np.int64)
        first[grouped.group] = numbers[local]
        updated = operator.update(grouped, state.take(pa.array(first)))
        place = np.arange(keys.n_keys)
        place[first] = keys.n_keys + np.arange(len(first))
        state = pa.concat_tables([state, updated.cast(state.schema)]).take(pa.array(place))
    _require_same("cut into batches", _output(operator, keys.keys, state), expected)


def _parts(
    operator: Operator, rows: pa.Table, key: list[str], expected: list[str], seed: int
) -> None:
    """Each part on a worker of its own, then merged."""
    if not operator.mergeable:
        raise NotApplicable("has no merge: its keys are never split")
    schema = operator.state_schema(rows.schema)
    states, keys = [], []
    for part in _cut(rows.num_rows, seed):
        grouped = rows_by_key(rows.take(pa.array(part)), key)
        states.append(operator.update(grouped, no_state(schema, grouped.n_keys)).cast(schema))
        keys.append(grouped.keys)
    whole = pa.concat_tables(keys)
    group, first = group_rows(whole.columns)
    merged = operator.merge_groups(pa.concat_tables(states), group, len(first))
    _require_same("split and merged", _output(operator, whole.take(first), merged), expected)


def _pickling(operator: Operator, rows: pa.Table, key: list[str], expected: list[str]) -> None:
    copy = pickle.loads(pickle.dumps(operator))
    _require_same("pickled", on_table(copy, rows, key), expected)
    if copy.signature() != operator.signature():
        raise CheckFailed(
            "its signature changes when it is pickled, so it would not match its checkpoint"
        )


def _cut(n: int, seed: int) -> list[np.ndarray]:
    """The rows 0 … n − 1, split at random into a few parts."""
    part = np.random.default_rng(seed).integers(0, _CUTS, n)
    return [np.flatnonzero(part == i) for i in range(_CUTS)]


def _output(operator: Operator, keys: pa.Table, state: pa.Table) -> pa.Table:
    output, kept = operator.emitted(keys, state)
    keys = keys if kept is None else keys.take(pa.array(kept))
    return pa.table([*keys.columns, *output.columns], [*keys.column_names, *output.column_names])


def _require_same(how: str, table: pa.Table, expected: list[str]) -> None:
    got = _sorted(table)
    for one, other in zip(got, expected, strict=False):
        if one != other:
            raise CheckFailed(f"{how}: {one}, but all at once: {other}")
    if len(got) != len(expected):
        raise CheckFailed(f"{how}: {len(got)} keys, but all at once: {len(expected)}")


def _sorted(table: pa.Table) -> list[str]:
    """The rows as text, rounded: the last digits of floating-point sums depend on the order."""
    return sorted(
        str({name: _rounded(value) for name, value in row.items()}) for row in table.to_pylist()
    )


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value
