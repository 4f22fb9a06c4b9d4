"""Pairs of rows of a key that are close in event time: a self-join, or a join of two streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators.groups import I64
from evenflow.operators.input_columns import column_type
from evenflow.operators.local import rows_by_key
from evenflow.operators.pairing import BLOCK, pairs_across, pairs_within
from evenflow.operators.value_order import content_ranks
from evenflow.operators.windows import Booleans, check_time, times_of

F64 = npt.NDArray[np.float64]
HOWS = ("inner", "left", "right", "full")
Predicate = Callable[[pa.Table], Any]  #: pairs → which of them count


@dataclass(frozen=True)
class IntervalJoin:
    """Pairs rows of a key whose event times differ by at most `within`.

    A self-join returns every pair of rows once, the earlier row on the left; of two simultaneous rows,
    the one whose values sort first. Joined streams are one table with a column that marks right rows.
    As in SQL, null keys do not match, and a row without an event time has no partner.

    Guarantee: every pair exactly once, in the batch in which the later of the two arrives. Only schemes
    that keep a key in one partition run it. No Python code runs per row or per pair.

    Parameters:
        times: the event time columns of left and of right rows.
        within: the largest time difference of a pair, in microseconds, inclusive.
        left: (column, output name) of the left row's columns in a pair.
        right: the same for the right row.
        side: the boolean column that is true for right rows; None for a self-join.
        delay: how late a row may be, in microseconds of event time.
        where: a filter; takes the output pairs and returns one boolean per pair.
        how: "inner", or "left", "right" or "full" for rows without a partner, too; not for a self-join.

    Example:
        >>> columns = ("at", "price")
        >>> join = IntervalJoin(
        ...     ("at", "at"), 2,
        ...     tuple((c, f"left_{c}") for c in columns), tuple((c, f"right_{c}") for c in columns))
        >>> at = pa.array([1, 3, 4], pa.timestamp("us"))
        >>> trades = pa.table({"symbol": ["x", "x", "x"], "at": at, "price": [7, 8, 9]})
        >>> pairs = join.on_table(trades, "symbol")
        >>> pairs.select(["symbol", "left_price", "right_price"]).to_pylist()
        [{'symbol': 'x', 'left_price': 7, 'right_price': 8}, {'symbol': 'x', 'left_price': 8, 'right_price': 9}]
    """  # noqa: E501

    times: tuple[str, str]
    within: int
    left: tuple[tuple[str, str], ...]
    right: tuple[tuple[str, str], ...]
    side: str | None = None
    delay: int = 0
    where: Predicate | None = None
    how: str = "inner"

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise InputError(
                f"intervalJoin: how takes {', '.join(HOWS[:-1])} or {HOWS[-1]}, got {self.how!r}"
            )
        if self.side is None and self.how != "inner":
            raise InputError("intervalJoin: rows are joined with themselves; how must be inner")
        if self.within < 0 or self.delay < 0:
            raise InputError("intervalJoin: within and delay must not be negative")
        if self.where is not None and not callable(self.where):
            raise InputError(
                "intervalJoin: where must be a function that takes a table of pairs and returns one "
                f"boolean per pair, got {self.where!r}"
            )
        names = [name for _, name in (*self.left, *self.right)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(
                f"intervalJoin: the output would have two columns {twice[0]!r}; give the two sides "
                "different prefixes"
            )

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Whether left and right rows are in the output without a partner."""
        return self.how in ("left", "full"), self.how in ("right", "full")

    @property
    def kept_for(self) -> int:
        """How long a row is stored after its event time.

        A row of an outer join ends with the last moment of a partner. The partners that it has had must
        still be there then, to be seen.
        """
        return self.within if self.how == "inner" else 2 * self.within

    @property
    def sources(self) -> int:
        """The number of joined streams."""
        return 1 if self.side is None else 2

    def columns(self) -> list[str]:
        """The columns of a row that are kept."""
        side = [] if self.side is None else [self.side]
        taken = [column for column, _ in (*self.left, *self.right)]
        return list(dict.fromkeys([*side, *self.times, *taken]))

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of a row: state is the rows themselves."""
        for column in self.times:
            check_time(column_type(rows, column, "intervalJoin"), column, "intervalJoin")
        return pa.schema(
            [(name, column_type(rows, name, "intervalJoin")) for name in self.columns()]
        )

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The columns of the left row, then those of the right one."""
        taken = (*self.left, *self.right)
        return pa.schema([(name, column_type(rows, c, "intervalJoin")) for c, name in taken])

    def moments(self, rows: pa.Table) -> tuple[I64, Booleans, Booleans]:
        """For each row: its event time, whether it has one, and whether it is a right row."""
        times, known = times_of(rows.column(self.times[0]))
        if self.side is None:
            return times, known, np.zeros(len(times), bool)
        right = rows.column(self.side).combine_chunks().to_numpy(zero_copy_only=False).astype(bool)
        others, others_known = times_of(rows.column(self.times[1]))
        return np.where(right, others, times), np.where(right, others_known, known), right

    def pairs(
        self,
        keys: pa.Table,
        rows: pa.Table,
        group: I64,
        fresh: Booleans,
        costs: F64 | None = None,
        block: int = BLOCK,
    ) -> Iterator[pa.Table]:
        """All pairs of which at least one row is fresh, at most `block` at a time.

        Parameters:
            keys: the distinct keys.
            rows: the columns of `state_schema`; all have an event time.
            group: row → number of its key.
            fresh: which rows are new; pairs of old rows were returned before.
            costs: per key, the number of its pairs is added here, before the filter.
        """
        times, _, is_right = self.moments(rows)
        if self.side is None:
            found = pairs_within(group, times, self.within, fresh, _ranker(rows), block)
        else:
            found = pairs_across(group, times, self.within, fresh, is_right, block)
        for left, right in found:
            if costs is not None:
                costs += np.bincount(group[left], minlength=len(costs))
            yield self._counted(self._paired(keys, rows, group, left, right))

    def _paired(
        self, keys: pa.Table, rows: pa.Table, group: I64, left: I64, right: I64
    ) -> pa.Table:
        columns = list(keys.take(pa.array(group[left])).columns)
        for taken, place in ((self.left, pa.array(left)), (self.right, pa.array(right))):
            columns += [rows.column(column).take(place) for column, _ in taken]
        names = [name for _, name in (*self.left, *self.right)]
        return pa.table(columns, names=[*keys.column_names, *names])

    def matched(self, keys: pa.Table, rows: pa.Table, group: I64, asking: Booleans) -> Booleans:
        """Which rows have a partner that `where` takes, of those that ask.

        Parameters:
            keys, rows, group: as in `pairs`.
            asking: whose answer is wanted; the others' means nothing.
        """
        times, _, is_right = self.moments(rows)
        found = np.zeros(len(times), bool)
        for left, right in pairs_across(group, times, self.within, asking, is_right, BLOCK):
            if self.where is not None:
                taken = self._mask(self._paired(keys, rows, group, left, right))
                mine = taken.fill_null(False).to_numpy(zero_copy_only=False)
                left, right = left[mine], right[mine]
            found[left] = True
            found[right] = True
        return found

    def unpaired(
        self, keys: pa.Table, rows: pa.Table, group: I64, chosen: I64, is_right: Booleans
    ) -> pa.Table:
        """The output for rows without a partner: nulls in the other side's columns.

        Parameters:
            keys, rows, group: as in `pairs`.
            chosen: the numbers of these rows.
            is_right: on which side each row is.
        """
        columns = list(keys.take(pa.array(group[chosen])).columns)
        for taken, side in ((self.left, False), (self.right, True)):
            here = is_right[chosen] == side
            place = pa.array(np.where(here, chosen, 0), mask=~here)
            columns += [rows.column(column).take(place) for column, _ in taken]
        names = [name for _, name in (*self.left, *self.right)]
        return pa.table(columns, names=[*keys.column_names, *names])

    def _counted(self, pairs: pa.Table) -> pa.Table:
        if self.where is None:
            return pairs
        return pairs.filter(self._mask(pairs), null_selection_behavior="drop")

    def _mask(self, pairs: pa.Table) -> Any:
        assert self.where is not None
        mask = self.where(pairs)
        mask = pa.array(mask) if isinstance(mask, np.ndarray) else mask
        right = isinstance(mask, pa.Array | pa.ChunkedArray) and pa.types.is_boolean(mask.type)
        if not right or len(mask) != pairs.num_rows:
            raise InputError(
                f"intervalJoin: where returned {str(mask)[:80]!r} for {pairs.num_rows} pairs; expected "
                "one boolean for each, as an Arrow or NumPy array"
            )
        return mask

    def on_table(self, table: pa.Table, key: str | Sequence[str]) -> pa.Table:
        """All pairs of a local table, for experiments and tests."""
        names = [key] if isinstance(key, str) else list(key)
        table = table.filter(pa.array(joinable(table, names) & self.moments(table)[1]))
        rows = rows_by_key(table, names)
        empty = pa.schema(
            [*(table.schema.field(name) for name in names), *self.output_schema(table.schema)]
        ).empty_table()
        own = table.select(self.columns())
        found = self.pairs(rows.keys, own, rows.group, np.ones(len(rows), bool))
        return pa.concat_tables([empty, *(part.cast(empty.schema) for part in found)])

    def signature(self) -> dict[str, Any]:
        """Everything that pairs depend on. The delay may change between two starts."""
        where = None
        if self.where is not None:
            where = f"{self.where.__module__}.{getattr(self.where, '__qualname__', self.where)}"
        return {
            "times": list(self.times),
            "within": self.within,
            "left": [list(pair) for pair in self.left],
            "right": [list(pair) for pair in self.right],
            "side": self.side,
            "where": where,
            # Left out where it is what it always was: checkpoints know it by what they hold.
            **({} if self.how == "inner" else {"how": self.how}),
        }


def joinable(rows: pa.Table, key: Sequence[str]) -> Booleans:
    """The rows whose key is not null: as in SQL, null equals nothing."""
    there = np.ones(rows.num_rows, bool)
    for name in key:
        there &= rows.column(name).is_valid().combine_chunks().to_numpy(zero_copy_only=False)
    return there


def _ranker(rows: pa.Table) -> Callable[[I64], I64]:
    """Rows → their order by content, for simultaneous rows: which of two is on the left must not depend
    on arrival order."""
    return lambda tied: content_ranks(rows.take(pa.array(tied)))
