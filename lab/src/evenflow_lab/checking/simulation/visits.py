"""A stateful processor for the simulation: rows of a key, those that came lately, and a timer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from evenflow.engine.processors import Times
from evenflow.operators.state_variables import VALUE, KeyState, Variable

_COUNT = pa.struct([("n", pa.int64())])
_OUTPUT = pa.schema([("k", pa.string()), ("what", pa.string()), ("n", pa.int64())])


@dataclass(frozen=True)
class Visits:
    """Counts the rows of each key, forgets them by a timer, and counts those that came lately by a TTL.

    Parameters:
        after: milliseconds after which a key is forgotten.
        lives: milliseconds that the count of late lives after its last row.
    """

    after: int
    lives: int

    name: ClassVar[str] = "Visits"
    deleted: ClassVar[tuple[str, ...]] = ()

    def variables(self) -> Sequence[Variable]:
        lately = Variable("lately", VALUE, _COUNT, ttl=self.lives)
        return (Variable("rows", VALUE, _COUNT), lately)

    def output_schema(self) -> pa.Schema:
        return _OUTPUT

    def signature(self) -> str:
        return "visits"

    def called(self, call: str) -> str:
        return f"Visits.{call}"

    def begin(self, times: Times) -> _Calls:
        return _Calls(self, times.processing)


class _Calls:
    def __init__(self, visits: Visits, now: int) -> None:
        self._is, self._now = visits, now
        self._made: list[tuple[Any, str, int]] = []

    def keys(self, columns: pa.Table) -> list[Any]:
        found: list[Any] = columns.column(0).to_pylist()
        return found

    def rows(self, rows: pa.Table, bounds: Sequence[int], initial: bool) -> Callable[[int], int]:
        return lambda i: bounds[i + 1] - bounds[i]

    def initial(self, key: Any, state: KeyState, rows: Any) -> None:
        raise NotImplementedError("there is no initial state")

    def input(self, key: Any, state: KeyState, rows: int) -> None:
        for name, until in (("rows", None), ("lately", self._now + self._is.lives)):
            count = _number(state, name) + rows
            state.values[name] = ((count,), until)
            self._made.append((key, name, count))
        if not state.timers:
            state.timers.add(self._now + self._is.after)

    def expired(self, key: Any, state: KeyState, moment: int) -> None:
        self._made.append((key, "timer", _number(state, "rows")))
        state.values.pop("rows", None)

    def output(self) -> Iterable[pa.Table]:
        made, self._made = self._made, []
        columns = list(zip(*made, strict=True)) or [(), (), ()]
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, _OUTPUT, strict=True)]
        return [pa.table(arrays, schema=_OUTPUT)]

    def close(self) -> None:
        pass


def _number(state: KeyState, name: str) -> int:
    found = state.values.get(name)
    return 0 if found is None else int(found[0][0])
