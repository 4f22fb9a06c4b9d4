"""Runs an operator in the ways the engine may: at once, batch after batch, or in parts merged."""

import pickle
from collections import defaultdict

import numpy as np
import pyarrow as pa

from evenflow.operators import no_state, rows_by_key


def through_ipc(table):
    """The table as it comes back from an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def by_key(keys, output):
    """Key → row of the output, as a dict."""
    return dict(zip(keys.column(0).to_pylist(), output.to_pylist(), strict=True))


def at_once(operator, table):
    """Key → output, of one update with all rows."""
    rows = rows_by_key(table, "key")
    state = operator.update(rows, no_state(operator.state_schema(table.schema), rows.n_keys))
    return _checked(operator, table, rows.keys, state)


def in_batches(operator, table, cut):
    """Key → output, after one update for each part, each on the state that the last one left."""
    schema = operator.state_schema(table.schema)
    stored = {}
    for part in _parts(table, cut):
        rows = rows_by_key(part, "key")
        keys = rows.keys.column(0).to_pylist()
        known = [stored.get(key, no_state(schema, 1)) for key in keys]
        state = pa.concat_tables(known) if known else no_state(schema, 0)
        state = through_ipc(operator.update(rows, state))
        stored |= {key: state.slice(i, 1) for i, key in enumerate(keys)}
    keys = pa.table({"key": pa.array(list(stored), table.schema.field("key").type)})
    return _checked(operator, table, keys, pa.concat_tables(stored.values()))


def in_merged_parts(operator, table, cut, order):
    """Key → output, of partial states that are merged all at once, in any order."""
    schema = operator.state_schema(table.schema)
    keys, states = [], []
    for part in _parts(table, cut):
        rows = rows_by_key(part, "key")
        keys += rows.keys.column(0).to_pylist()
        worker = pickle.loads(pickle.dumps(operator))
        states.append(through_ipc(worker.update(rows, no_state(schema, rows.n_keys))))
    order = np.argsort([order[i % len(order)] for i in range(len(keys))], kind="stable")
    distinct = list(dict.fromkeys(keys[i] for i in order))
    group = np.array([distinct.index(keys[i]) for i in order], np.int64)
    parts = pa.concat_tables(states).take(pa.array(order))
    state = operator.merge_groups(parts, group, len(distinct))
    rounds = super(type(operator), operator).merge_groups(parts, group, len(distinct))
    keys = pa.table({"key": pa.array(distinct, table.schema.field("key").type)})
    return (
        _checked(operator, table, keys, state),
        _checked(operator, table, keys, rounds),
    )


def values_by_key(table, column="value"):
    """Key → the values of its rows, None among them."""
    values = defaultdict(list)
    for row in table.to_pylist():
        values[row["key"]].append(row[column])
    return values


def _parts(table, cut):
    cut = np.array([cut[i % len(cut)] for i in range(table.num_rows)])
    return [table.filter(pa.array(cut == number)) for number in sorted(set(cut.tolist()))]


def _checked(operator, table, keys, state):
    assert state.schema == operator.state_schema(table.schema)
    output = operator.emit(keys, state)
    assert output.schema == operator.output_schema(table.schema)
    return by_key(keys, output)
