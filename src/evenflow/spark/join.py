"""What `join` makes of two DataFrames: Spark's own join, with the hot keys in grids of partitions."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, Protocol

from evenflow.model import InputError
from evenflow.planning.join_grids import JoinPlan
from evenflow.spark.columns import quoted
from evenflow.spark.jobs import shuffle_partitions
from evenflow.spark.join_survey import Sides, survey_join
from evenflow.spark.names import check_names, neutral
from evenflow.spark.salting import CELL, placed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

_KEY, _LEFT, _RIGHT = "__evenflow_key", "__evenflow_left", "__evenflow_right"
_JOINS = re.compile(r"(\w+Join|CartesianProduct)\b")
_EVEN = 1.1  # a join whose fullest partition is expected below this is left to Spark

# With a stream on one side, as Spark allows them.
_STREAM_LEFT = ("inner", "left", "left_semi", "left_anti")
_STREAM_RIGHT = ("inner", "right")

_HOWS = {
    "inner": "inner",
    "outer": "full",
    "full": "full",
    "fullouter": "full",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
}


def kind_of_join(how: object) -> str | None:
    """Spark's own name of a kind of join, from any of PySpark's; None if it is not one.

    Example:
        >>> kind_of_join("LEFT_outer"), kind_of_join("cross")
        ('left', None)
    """
    return _HOWS.get(how.lower().replace("_", "")) if isinstance(how, str) else None


class _Keyed(Protocol):
    @property
    def df(self) -> DataFrame: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def partitions(self) -> int | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def scheme(self) -> object | None: ...
    @property
    def replanning(self) -> object | None: ...
    @property
    def windows(self) -> object | None: ...
    @property
    def log(self) -> object | None: ...


@dataclass(frozen=True)
class Join:
    """A join of two DataFrames, checked.

    Parameters:
        left, right: the rows; for semi and anti joins, the right side has each key once.
        keys: of the left side.
        others: of the right side, in the same order.
        how: one of Spark's names of it.
        like: where one side is a stream, rows of the past that stand for it in a survey; else None.
    """

    left: DataFrame
    right: DataFrame
    keys: tuple[str, ...]
    others: tuple[str, ...]
    how: str
    like: DataFrame | None = None

    def sides(self) -> Sides:
        """What a survey has to know."""
        left = self.how in ("left", "full", "left_anti")
        right = self.how in ("right", "full")
        frames, splits = (self.left, self.right), (True, self.makes_pairs)
        if self.like is not None:
            of_left = self.left.isStreaming
            frames = (self.like, self.right) if of_left else (self.left, self.like)
            if left or right:
                # A copied row of the stream would have to know that no task has a partner for it, and
                # the table may have changed since the survey.
                splits = (of_left, not of_left)
        return Sides(frames, (self.keys, self.others), (left, right), self.makes_pairs, splits)

    @property
    def makes_pairs(self) -> bool:
        """Semi and anti joins ask whether a key is there: one row of it says so."""
        return self.how not in ("left_semi", "left_anti")

    @property
    def is_streaming(self) -> bool:
        return self.left.isStreaming or self.right.isStreaming

    def by_spark(self) -> DataFrame:
        """Spark's own join."""
        return self._joined(self.left, self.right, [])

    def planned(self, plan: JoinPlan, seed: int) -> DataFrame:
        """The same rows, with the hot keys in grids."""
        left_grids = plan.grids
        right_grids = {key: grid.transposed() for key, grid in plan.grids.items()}
        keeps = self.sides().keeps
        ends = [
            placed(df, keys, grids, plan.partitions, seed, kept, flag if outer else None)
            for df, keys, grids, kept, flag, outer in (
                (self.left, self.keys, left_grids, keeps[0], _LEFT, self._is_outer),
                (self.right, self.others, right_grids, keeps[1], _RIGHT, self._is_outer),
            )
        ]
        joined = self._joined(ends[0], ends[1], [CELL])
        return self._without_artifacts(joined) if self._is_outer else joined

    @property
    def _is_outer(self) -> bool:
        return self.how in ("left", "right", "full")

    def _without_artifacts(self, joined: DataFrame) -> DataFrame:
        """A row that was copied to several cells finds no partner where the other side's part is
        empty. Its key has rows on both sides, so it has a partner elsewhere."""
        from pyspark.sql import functions as F

        copied = [F.coalesce(F.col(flag), F.lit(False)) for flag in (_LEFT, _RIGHT)]
        missing = [F.col(flag).isNull() for flag in (_RIGHT, _LEFT)]
        artifact = (copied[0] & missing[0]) | (copied[1] & missing[1])
        return joined.where(~artifact).drop(_LEFT, _RIGHT)

    def _joined(self, left: DataFrame, right: DataFrame, more: list[str]) -> DataFrame:
        if self.keys == self.others:
            return left.join(right, [*self.keys, *more], self.how).drop(*more)
        # Joined by names of our own: the two DataFrames may come from one, whose columns an expression
        # could not tell apart.
        names = [f"{_KEY}{i}" for i in range(len(self.keys))]
        left, right = (
            df.select("*", *(df[quoted(own)].alias(n) for own, n in zip(keys, names, strict=True)))
            for df, keys in ((left, self.keys), (right, self.others))
        )
        return left.join(right, [*names, *more], self.how).drop(*names, *more)


def join(
    left: _Keyed,
    right: _Keyed,
    on: str | Sequence[str] | None,
    how: str,
    like: _Keyed | None = None,
) -> DataFrame:
    """The join of two sides. Parameters are those of `Keyed.join`."""
    from evenflow.spark.session import check_session

    given = tuple(on) if isinstance(on, list | tuple) else (on,)
    if on is not None and (any(not isinstance(one, str) for one in given) or given != left.keys):
        raise InputError(
            f"join: on is {on!r}, and the key is {', '.join(left.keys)}; choose the key with keyed(…), "
            "on both sides if its names differ"
        )
    for side in (left, right):
        if side.windows is not None or side.log is not None:
            raise InputError("join takes rows as they are; leave window(…) and inOrder(…) out")
        if side.scheme is not None or side.replanning is not None:
            raise InputError(
                "join places rows by the counts of both sides, not by a scheme; leave the scheme to "
                '"auto", and replan(…) out'
            )
    checked = with_past(checked_join(left, right, how), left, right, like)
    check_session(left.df.sparkSession)
    return balanced_join(checked, left.partitions or shuffle_partitions(left.df), left.seed)


def checked_join(left: _Keyed, right: _Keyed, how: str) -> Join:
    """The join of two sides; refuses what cannot be joined."""
    normal = kind_of_join(how)
    if normal is None:
        raise InputError(
            f"join: how takes inner, left, right, full, semi or anti, or another of PySpark's names of "
            f"these, got {how!r}"
        )
    if len(left.keys) != len(right.keys):
        raise InputError(
            f"join: the left side has {len(left.keys)} key columns ({', '.join(left.keys)}) and the "
            f"right side {len(right.keys)} ({', '.join(right.keys)}); give both the same number"
        )
    _check_same_types(left, right, ("on the left", "on the right"))
    check_names([*left.df.columns, *right.df.columns])
    _check_streams(left.df.isStreaming, right.df.isStreaming, normal)
    others = right.df
    if normal in ("left_semi", "left_anti"):
        others = others.select(*(others[quoted(name)] for name in right.keys)).distinct()
    return Join(left.df, others, left.keys, right.keys, normal)


def with_past(join: Join, left: _Keyed, right: _Keyed, like: _Keyed | None) -> Join:
    """The join, with rows of the past in place of those that its stream will bring.

    Parameters:
        left, right: the sides.
        like: the rows of the past; None for none.
    """
    if like is None:
        return join
    if not join.is_streaming:
        raise InputError(
            "join: like is for the join of a stream, whose keys cannot be counted; of batch DataFrames "
            "both sides are counted, so leave it out"
        )
    if like.df.isStreaming:
        raise InputError(
            "join: like takes a batch DataFrame with rows as the stream brings them, such as "
            "spark.read of the files that it has read, and got a stream"
        )
    stream = left if left.df.isStreaming else right
    if len(like.keys) != len(stream.keys):
        raise InputError(
            f"join: like has {len(like.keys)} key columns ({', '.join(like.keys)}) and the stream "
            f"{len(stream.keys)} ({', '.join(stream.keys)}); give both the same number"
        )
    _check_same_types(stream, like, ("in the stream", "in like"))
    # Under the stream's names, by which both sides are counted.
    own = (like.df[quoted(name)].alias(n) for name, n in zip(like.keys, stream.keys, strict=True))
    return replace(join, like=like.df.select(*own))


def _check_same_types(one: _Keyed, two: _Keyed, places: tuple[str, str]) -> None:
    for own, other in zip(one.keys, two.keys, strict=True):
        kinds = [
            side.df.schema[name].dataType.simpleString()
            for side, name in ((one, own), (two, other))
        ]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"join: the keys have different types, {own} {kinds[0]} {places[0]} and {other} "
                f"{kinds[1]} {places[1]}; cast one side"
            )


def _check_streams(left: bool, right: bool, how: str) -> None:
    """Refuse the joins of streams that Spark refuses, and those that need event times."""
    if left and right:
        raise InputError(
            "join takes at most one stream; two streams are joined by event time, with intervalJoin"
        )
    if (left and how not in _STREAM_LEFT) or (right and how not in _STREAM_RIGHT):
        side, can = ("left", _STREAM_LEFT) if left else ("right", _STREAM_RIGHT)
        raise InputError(
            f"join: with the stream on the {side}, how takes {', '.join(can)}, as in Spark: a row of "
            "the batch DataFrame never knows that no partner will come; join in foreachBatch for "
            "partners within a batch"
        )


def balanced_join(join: Join, partitions: int, seed: int) -> DataFrame:
    """The join; Spark's own where Spark alone is enough.

    Starts a Spark job that counts the rows of each key, unless Spark would broadcast one side, or
    nothing is known of a stream.
    """
    plain = join.by_spark()
    if join.is_streaming and join.like is None:
        _log.info("join: left to Spark; like=… says which keys of the stream are hot")
        return plain
    if _first_join(plain) in ("BroadcastHashJoin", "BroadcastNestedLoopJoin"):
        _log.info("join: left to Spark, which broadcasts the smaller side")
        return plain
    plan = survey_join(join.sides(), partitions, seed)
    if plan.plain <= max(_EVEN, plan.fullest):
        _log.info("join: left to Spark: the hottest key has %.2f of a task's share", plan.plain)
        return plain
    cells = sum(len(grid.partitions) for grid in plan.grids.values())
    _log.info(
        "join: %d keys in %d cells; the fullest of %d tasks is expected to have %.2f of its share, and "
        "%.2f without them",
        *(len(plan.grids), cells, partitions, plan.fullest, plan.plain),
    )
    return join.planned(plan, seed)


def _first_join(df: DataFrame) -> str:
    """The physical operator of the outermost join, as `explain` prints it."""
    if df.isStreaming:
        # Spark's EXPLAIN plans what it is given as a batch, which a stream refuses.
        with redirect_stdout(StringIO()) as printed:
            df.explain()
        text = printed.getvalue()
    else:
        named = df.toDF(*(neutral(i) for i in range(len(df.columns))))
        explained = df.sparkSession.sql("EXPLAIN SELECT * FROM {rows}", rows=named)
        text = "\n".join(row[0] for row in explained.collect())
    found = _JOINS.search(text)
    return "" if found is None else found.group(1)
