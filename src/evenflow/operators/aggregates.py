"""The operator that consists of named aggregates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.aggregate import Aggregate
from evenflow.operators.groups import I64, Groups, pairs
from evenflow.operators.protocol import Operator, Rows


class Aggregates(Operator):
    """Several aggregates per key, one output column each.

    Guarantee: that of the aggregates; it is mergeable, so any scheme can run it. The rows are sorted by
    key at most once for all of them, and no Python code runs per row.

    Parameters:
        aggregates: name of the output column → aggregate.

    Example:
        >>> from evenflow.operators import count, mean, on_table
        >>> operator = Aggregates(hits=count(), ms=mean("ms"))
        >>> operator
        Aggregates(hits=Count(column=None), ms=Mean(column='ms'))
        >>> rows = pa.table({"page": ["a", "b", "a"], "ms": [1, 2, 4]})
        >>> operator.state_schema(rows.schema).names
        ['hits__count', 'ms__sum', 'ms__count']
        >>> on_table(operator, rows, "page").to_pylist()
        [{'page': 'a', 'hits': 2, 'ms': 2.5}, {'page': 'b', 'hits': 1, 'ms': 2.0}]
    """

    name: ClassVar[str] = "aggregates"
    row_seconds = 3e-7

    def __init__(self, **aggregates: Aggregate) -> None:
        if not aggregates:
            raise InputError("no aggregate was given; write for instance hits=count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise InputError(
                    f"{name}={aggregate!r} is not an aggregate of evenflow; write for instance "
                    f'{name}=ef.count() or {name}=ef.sum("column")'
                )
        self._aggregates = dict(aggregates)
        self._stored = {name: name for name in aggregates}

    def stored_as(self, names: Mapping[str, str]) -> Aggregates:
        """The same aggregates, with other names for their states.

        What is kept for a name that has been another aggregate's before would be taken for its state.

        Parameters:
            names: name → the name under which its state is kept.
        """
        found = Aggregates(**self._aggregates)
        found._stored = {name: names[name] for name in self._aggregates}
        return found

    def state_name(self, name: str) -> str:
        """The name under which the state of an aggregate is kept."""
        return self._stored[name]

    def __iter__(self) -> Iterator[tuple[str, Aggregate]]:
        """Names and aggregates."""
        return iter(self._aggregates.items())

    def __repr__(self) -> str:
        return f"Aggregates({', '.join(f'{name}={a!r}' for name, a in self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aggregates) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def columns(self) -> list[str]:
        """The columns that the aggregates read."""
        return list(dict.fromkeys(column for _, a in self for column in a.columns()))

    def fingerprinted(self) -> list[str]:
        """The columns of whose values fingerprints are taken."""
        return [column for _, a in self if a.fingerprints for column in a.columns()]

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The state columns of all aggregates, prefixed with the aggregate's name."""
        fields = [
            f.with_name(self._column(name, f.name))
            for name, a in self
            for f in a.state_schema(rows)
        ]
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(
                f"two aggregates of {', '.join(self._aggregates)} would share the state column "
                f"{twice!r}; rename one"
            )
        return pa.schema(fields)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """One column for each aggregate, with its name."""
        return pa.schema([a.output_schema(rows).field(0).with_name(name) for name, a in self])

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        """The states after these rows."""
        n = rows.n_keys
        columns: list[pa.ChunkedArray] = []
        both = pairs(n)
        for (_, aggregate), old in zip(self, self._split(state), strict=True):
            new = aggregate.partial(rows.table, rows.groups)
            if any(column.null_count < n for column in old.columns):
                new = aggregate.merge(pa.concat_tables([old, new]), both)
            columns += new.columns
        return pa.table(columns, schema=state.schema)

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        """Merge two partial states of each key."""
        return self._merged(pa.concat_tables([a, b]), pairs(a.num_rows))

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        """Merge any number of partial states per key, for all keys at once."""
        return self._merged(states, Groups(group, n))

    def emit(self, keys: pa.Table, state: pa.Table) -> pa.Table:
        """One column for each aggregate."""
        parts = self._split(state)
        return pa.table({name: a.emit(part) for (name, a), part in zip(self, parts, strict=True)})

    def _merged(self, states: pa.Table, groups: Groups) -> pa.Table:
        columns: list[pa.ChunkedArray] = []
        for (_, aggregate), part in zip(self, self._split(states), strict=True):
            columns += aggregate.merge(part, groups).columns
        return pa.table(columns, schema=states.schema)

    def _split(self, state: pa.Table) -> list[pa.Table]:
        """The state of each aggregate, with its own column names."""
        parts = []
        for name, aggregate in self:
            own = state.select([self._column(name, column) for column in aggregate.state_columns])
            parts.append(own.rename_columns(list(aggregate.state_columns)))
        return parts

    def _column(self, name: str, column: str) -> str:
        return f"{self._stored[name]}__{column}"
