"""What `intervalJoin` makes of one or two DataFrames: one DataFrame, and the join of its rows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from evenflow.model import InputError
from evenflow.model.durations import microseconds
from evenflow.operators import IntervalJoin
from evenflow.operators.interval_join import HOWS, Predicate
from evenflow.operators.windows import check_time
from evenflow.spark.columns import arrow_schema, check_columns, quoted
from evenflow.spark.event_time import Watermark, delay_of
from evenflow.spark.join import kind_of_join
from evenflow.spark.names import SIDE, check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _Keyed(Protocol):
    @property
    def df(self) -> DataFrame: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def watermark(self) -> Watermark | None: ...
    @property
    def windows(self) -> object | None: ...
    @property
    def log(self) -> object | None: ...


def interval_join(
    left: _Keyed,
    right: _Keyed | None,
    time: str | tuple[str, str],
    within: str | timedelta,
    prefixes: tuple[str, str],
    where: Predicate | None,
    how: str,
) -> tuple[DataFrame, IntervalJoin]:
    """The rows of both sides, with the left side's key columns, and what pairs them.

    Parameters are those of `Keyed.intervalJoin`.
    """
    if left.windows is not None or left.log is not None:
        raise InputError(
            "intervalJoin pairs rows by its own interval, `within`; leave window(…) and inOrder(…) "
            "out, or aggregate the pairs in a second query"
        )
    normal = kind_of_join(how)
    if normal not in HOWS:
        raise InputError(
            f"intervalJoin: how takes inner, left, right or full, or another of PySpark's names of "
            f"these, got {how!r}"
        )
    times = (time, time) if isinstance(time, str) else tuple(time)
    if len(times) != 2 or not all(isinstance(name, str) for name in times):
        raise InputError(
            f"intervalJoin: time takes the name of a timestamp column, or one per side, got {time!r}"
        )
    if len(prefixes) != 2 or not all(isinstance(prefix, str) for prefix in prefixes):
        raise InputError(f"intervalJoin: prefixes takes two strings, got {prefixes!r}")
    apart = microseconds("within", within, least=0)
    check_columns(left.df, [times[0]], "intervalJoin")
    _check_time(left.df, times[0])
    taken = [name for name in left.df.columns if name not in left.keys]
    if right is None:
        if normal != "inner":
            raise InputError(
                f"intervalJoin: how={how!r} needs another DataFrame; rows are joined with themselves, "
                "which gives pairs only"
            )
        if times[0] != times[1]:
            raise InputError("intervalJoin: a self-join has one event time; give `time` one name")
        late = delay_of(left.df, left.watermark, times[0], "intervalJoin")
        sides = [tuple((name, prefix + name) for name in taken) for prefix in prefixes]
        operator = IntervalJoin((times[0], times[0]), apart, sides[0], sides[1], None, late, where)
        return left.df, _outside_the_key(operator, left.keys)
    check_columns(right.df, [times[1]], "intervalJoin")
    _check_time(right.df, times[1])
    _check_pair(left, right, times)
    late = max(
        delay_of(side.df, side.watermark, time, "intervalJoin")
        for side, time in ((left, times[0]), (right, times[1]))
    )
    others = [name for name in right.df.columns if name not in right.keys]
    sides = [
        tuple((prefix + name,) * 2 for name in names)
        for prefix, names in zip(prefixes, (taken, others), strict=True)
    ]
    check_names([*left.keys, *(name for side in sides for name, _ in side)])
    operator = IntervalJoin(
        (prefixes[0] + times[0], prefixes[1] + times[1]),
        apart,
        sides[0],
        sides[1],
        SIDE,
        late,
        where,
        normal,
    )
    _outside_the_key(operator, left.keys)
    rows = [
        _side(side, left.keys, names, prefix, is_right)
        for side, names, prefix, is_right in (
            (left, taken, prefixes[0], False),
            (right, others, prefixes[1], True),
        )
    ]
    return rows[0].unionByName(rows[1], allowMissingColumns=True), operator


def _side(
    side: _Keyed, key: tuple[str, ...], names: list[str], prefix: str, is_right: bool
) -> DataFrame:
    from pyspark.sql import functions as F

    df = side.df
    keys = [df[quoted(own)].alias(name) for own, name in zip(side.keys, key, strict=True)]
    columns = [df[quoted(name)].alias(prefix + name) for name in names]
    return df.select(*keys, F.lit(is_right).alias(SIDE), *columns)


def _outside_the_key(operator: IntervalJoin, key: tuple[str, ...]) -> IntervalJoin:
    for _, name in (*operator.left, *operator.right):
        if name in key:
            raise InputError(
                f"intervalJoin: the output would have two columns {name!r}, one of them the key; give "
                "other prefixes"
            )
    return operator


def _check_time(df: DataFrame, column: str) -> None:
    check_time(arrow_schema(df).field(column).type, column, "intervalJoin")


def _check_pair(left: _Keyed, right: _Keyed, times: tuple[str, ...]) -> None:
    if left.df.isStreaming != right.df.isStreaming:
        raise InputError(
            "intervalJoin: one side is a streaming DataFrame and the other is not; make both "
            "streaming, or join the batch DataFrame with Spark's own `join` before"
        )
    for side, time in ((left, times[0]), (right, times[1])):
        if time in side.keys:
            raise InputError(f"intervalJoin: {time!r} is the event time and cannot be a key, too")
    a, b = arrow_schema(left.df), arrow_schema(right.df)
    kinds = [[s.field(k).type for k in side.keys] for s, side in ((a, left), (b, right))]
    if kinds[0] != kinds[1]:
        kinds_of = [
            ", ".join(f"{k} {t}" for k, t in zip(side.keys, types, strict=True))
            for side, types in zip((left, right), kinds, strict=True)
        ]
        raise InputError(
            f"intervalJoin: the keys have different types, {kinds_of[0]} on the left and {kinds_of[1]} "
            "on the right; cast one side"
        )
    if a.field(times[0]).type != b.field(times[1]).type:
        raise InputError(
            f"intervalJoin: {times[0]!r} is {a.field(times[0]).type} and {times[1]!r} is "
            f"{b.field(times[1]).type}; cast one of them"
        )
