"""The task that calls a function once per group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.engine.failures import FunctionFailed, error_text, function_failed
from evenflow.engine.key_names import key_names
from evenflow.engine.sorted_groups import Groups, LongGroup, SortedGroups, rebatched
from evenflow.model.function_names import function_name
from evenflow.operators.groups import I64
from evenflow.spark.conversion import Conversion
from evenflow.spark.group_results import ArrowResults, PandasResults, WrongResult
from evenflow.spark.group_slices import (
    ArrowKeys,
    ArrowSlices,
    PandasKeys,
    PandasSlices,
    frame_of,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SIDE = "side"  #: the column that is true for rows of the right side of a cogroup
SIDES = ("left", "right")  #: the columns that hold the rows of either side, as structs

_ANY = 1 << 62


@dataclass(frozen=True)
class GroupFunction:
    """A user's function of groups.

    Parameters:
        function: the function.
        schema: of what it returns.
        pandas: whether it takes and returns pandas' DataFrames; else Arrow's tables.
        iterates: whether it takes and returns iterators.
        takes_key: whether its first argument is the key.
        conversion: the session's settings.
    """

    function: Callable[..., Any]
    schema: StructType
    pandas: bool
    iterates: bool
    takes_key: bool
    conversion: Conversion


@dataclass(frozen=True)
class GroupTask:
    """A task of the engine's kind: rows that are sorted by key in, the function's results out.

    Guarantee: the function is called once per key, with all rows of the key, in the order of the keys.

    Parameters:
        call: the function.
        keys: the key columns; none for one group of all rows.
        values: the columns that the function sees; None for the two sides of a cogroup.
    """

    call: GroupFunction
    keys: tuple[str, ...]
    values: tuple[str, ...] | None

    def __call__(
        self, partition: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        from pyspark.util import fail_on_stopiteration

        call = self.call
        results = (PandasResults if call.pandas else ArrowResults)(call.schema, call.conversion)
        calls = _Calls(self, partition, fail_on_stopiteration(call.function), results)
        groups = SortedGroups(batches, list(self.keys), long=call.iterates)
        for found in _named_if_too_large(groups, self, partition):
            if isinstance(found, Groups):
                yield from calls.of_groups(found)
            else:
                yield from calls.of_long_group(found)


class _Calls:
    """The calls of one task."""

    def __init__(
        self,
        task: GroupTask,
        partition: int,
        function: Callable[..., Any],
        results: PandasResults | ArrowResults,
    ) -> None:
        self.task, self.partition = task, partition
        self.function, self.results = function, results
        size = task.call.conversion.rows
        self.most: int = size if size > 0 else _ANY

    def of_groups(self, groups: Groups) -> Iterator[pa.RecordBatch]:
        task, call = self.task, self.task.call
        names = groups.table.select(list(task.keys)).take(pa.array(groups.bounds[:-1]))

        def failed(group: int, error: Exception) -> FunctionFailed:
            size = int(groups.bounds[group + 1] - groups.bounds[group])
            return self._failed(names.slice(group, 1), error, size)

        try:
            sides = [self._slices(*side) for side in self._sides(groups)]
            keys = self._keys(names)
        except MemoryError as error:  # of all groups of the chunk, most of it of the largest
            raise failed(int(np.diff(groups.bounds).argmax()), error) from None
        most = self._rows_per_batch(groups)
        results = self.results
        for group in range(len(groups)):
            try:
                key = (keys[group],) if call.takes_key else ()
                if call.iterates:
                    parts = iter(sides[0].batches(group, most))
                    for part in self._iterated(self.function(*key, parts)):
                        results.add(group, part, part=True)
                else:
                    results.add(group, self.function(*key, *(side[group] for side in sides)))
            except Exception as error:
                raise failed(group, error) from None
            if results.full:
                yield from results.take(failed)
        yield from results.take(failed)

    def of_long_group(self, group: LongGroup) -> Iterator[pa.RecordBatch]:
        """A group that need not be in memory as a whole."""
        call = self.task.call
        first = next(group.batches)
        name = pa.Table.from_batches([first.slice(0, 1)]).select(list(self.task.keys))

        def failed(_: int, error: Exception) -> FunctionFailed:
            return self._failed(name, error, None)

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from group.batches

        assert self.task.values is not None
        values = list(self.task.values)
        parts = (one.select(values) for one in rebatched(batches(), min(self.most, 1 << 16)))
        given: Iterator[Any] = parts
        if call.pandas:
            given = (frame_of(part, call.conversion) for part in parts)
        key = (self._keys(name)[0],) if call.takes_key else ()
        made = self._guarded(lambda: self.function(*key, given), failed)
        for part in made:
            try:
                self.results.add(0, part, part=True)
            except Exception as error:
                raise failed(0, error) from None
            if self.results.full:
                yield from self.results.take(failed)
        yield from self.results.take(failed)
        for _ in batches():  # which the function may have left
            pass

    def _guarded(
        self, call: Callable[[], Any], failed: Callable[[int, Exception], Exception]
    ) -> Iterator[Any]:
        try:
            yield from self._iterated(call())
        except Exception as error:
            raise failed(0, error) from None

    def _iterated(self, result: Any) -> Iterable[Any]:
        kind = "pandas.DataFrame" if self.task.call.pandas else "pyarrow.RecordBatch"
        if not isinstance(result, Iterable if self.task.call.pandas else Iterator):
            raise WrongResult(
                f"Return type of the user-defined function should be iterator of {kind}, but is "
                f"{type(result).__name__}."
            )
        return result

    def _rows_per_batch(self, groups: Groups) -> int:
        """How many rows make a batch of an iterator, by the session's limits."""
        size = self.task.call.conversion.size
        if not self.task.call.iterates or size <= 0:
            return self.most
        width: int = max(1, int(groups.table.nbytes) // max(1, groups.table.num_rows))
        return max(1, min(self.most, size // width))

    def _sides(self, groups: Groups) -> list[tuple[pa.Table, I64]]:
        """The rows that the function sees, and where those of each group begin."""
        if self.task.values is not None:
            return [(groups.table.select(list(self.task.values)), groups.bounds)]
        right = groups.table.column(SIDE).to_numpy()
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(right)])[groups.bounds]
        sides = []
        for name, mask, bounds in zip(
            SIDES, (~right, right), (groups.bounds - before, before), strict=True
        ):
            rows = groups.table.column(name).filter(pa.array(mask)).combine_chunks()
            if isinstance(rows, pa.ChunkedArray):
                rows = pa.concat_arrays(rows.chunks or [pa.array([], rows.type)])
            fields = [rows.type.field(i).name for i in range(rows.type.num_fields)]
            sides.append((pa.Table.from_arrays(rows.flatten(), names=fields), bounds))
        return sides

    def _slices(self, table: pa.Table, bounds: I64) -> Any:
        if self.task.call.pandas:
            return PandasSlices(table, bounds, self.task.call.conversion)
        return ArrowSlices(table, bounds)

    def _keys(self, keys: pa.Table) -> Any:
        if not self.task.call.takes_key or not self.task.keys:
            return _NoKeys()
        if self.task.call.pandas:
            return PandasKeys(keys, self.task.call.conversion)
        return ArrowKeys(keys)

    def _failed(self, key: pa.Table, error: Exception, rows: int | None) -> FunctionFailed:
        return failure(self.task, self.partition, key, error, rows)


class _NoKeys:
    def __getitem__(self, group: int) -> tuple[()]:
        return ()


def failure(
    task: GroupTask, partition: int, key: pa.Table, error: Exception, rows: int | None
) -> FunctionFailed:
    """The error of a group, in one sentence."""
    name = key_names(key)[0] if task.keys else None
    who = function_name(task.call.function)
    if isinstance(error, MemoryError):
        many = "" if rows is None else f" of {rows} rows"
        whose = "" if name is None else f" of the key {name}"
        return FunctionFailed(
            f"{who} ran out of memory in partition {partition}, in the group{many}{whose}: "
            f"{error_text(error)}; give each task more "
            "memory (fewer cores per executor, or a larger spark.executor.memoryOverhead), or write "
            "the function with iterators, which need not hold the group"
        )
    return function_failed(who, name, None, partition, error)


def _named_if_too_large(
    groups: SortedGroups, task: GroupTask, partition: int
) -> Iterator[Groups | LongGroup]:
    """The groups; a lack of memory says which one was being put together."""
    try:
        yield from groups
    except MemoryError as error:
        last: Sequence[Any] = [] if groups.last is None else [groups.last]
        key = (
            pa.Table.from_batches(last) if last else pa.table({name: [None] for name in task.keys})
        )
        raise failure(task, partition, key.select(list(task.keys)), error, None) from None
