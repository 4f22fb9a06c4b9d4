"""What a person types: `keyed(df, "page")`, a scheme, and `agg` or `apply`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never, cast, overload

from evenflow.engine.job import Job
from evenflow.engine.joined_rows import JoinedRows
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.ordered_states import LogColumns, OrderedStates
from evenflow.engine.work import Work
from evenflow.grouping.protocol import GroupingScheme
from evenflow.model import InputError, Plan
from evenflow.model.plan import AUTO
from evenflow.model.validation import check_partitions
from evenflow.operators import Aggregate, Aggregates, Operator, Window, count
from evenflow.operators.interval_join import Predicate
from evenflow.operators.sessions import Session
from evenflow.spark.columns import (
    arrow_schema,
    check_collations,
    check_columns,
    compared_columns,
    spark_schema,
    with_computed,
    with_keys,
)
from evenflow.spark.event_time import Watermark
from evenflow.spark.event_time_verbs import EventTimeVerbs, expiring_states, windowed_states
from evenflow.spark.groups import GroupedFunctions, whole_keys_scheme
from evenflow.spark.interval_join import interval_join
from evenflow.spark.jobs import batch_frame, batch_plan, build_job, default_partitions, start_query
from evenflow.spark.join import join
from evenflow.spark.query import StreamingQuery
from evenflow.spark.result import BalancedDataFrame, BalancedStream
from evenflow.spark.session_windows import without_session
from evenflow.spark.stateful.methods import StatefulMethods
from evenflow.spark.stream_writer import APPEND, StreamSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

    from evenflow.planning.controller import Replanning
    from evenflow.planning.scaling import Scaling


@overload
def keyed(df: DataFrame, keys: Sequence[Column | str], /) -> Keyed: ...
@overload
def keyed(df: DataFrame, *keys: Column | str) -> Keyed: ...
def keyed(df: DataFrame, *keys: Any) -> Keyed:
    """Group a DataFrame, streaming or batch, by key, with the work balanced over partitions.

    Guarantee: the answer is the one that Spark's own `groupBy` would give, whichever scheme balances
    the work; from a stream, every row counts exactly once, even if driver or executors die.

    Parameters:
        df: any DataFrame, of classic Spark or Spark Connect.
        keys: the key columns: names or `Column`s, or one list of them, as `groupBy` takes them. Any
            type but maps and arrays; null is a key, too.

    Example (for a streaming DataFrame, `.writeStream` follows):
        counts = ef.keyed(clicks, "page").agg(hits=ef.count())
    """
    values = tuple(df.columns)
    df, keys, session = without_session(df, keys)
    df, names = with_keys(df, keys)
    return Keyed(df, names, windows=session, values=values)


@dataclass(frozen=True)
class Keyed(EventTimeVerbs, GroupedFunctions, StatefulMethods):
    """A DataFrame with a key, and how its work is to be balanced. Every method returns a new one."""

    df: DataFrame
    keys: tuple[str, ...]
    scheme: GroupingScheme | None = None
    partitions: int | None = None
    seed: int = 0
    replanning: Replanning | None = None
    scaling: Scaling | None = None
    watermark: Watermark | None = None
    windows: Window | Session | None = None
    log: LogColumns | None = None
    values: tuple[str, ...] = ()  #: the columns before keys were added
    order: tuple[Any, ...] = ()

    def balance(
        self,
        scheme: str | GroupingScheme = AUTO,
        partitions: int | str | Scaling | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> Keyed:
        """Choose which partition gets which rows.

        Parameters:
            scheme: a name (`evenflow schemes` lists them), an instance, or "auto": chosen by what the
                work allows and the data shows, and reconsidered between batches.
            partitions: how many tasks share the work; None for as many as Spark has cores. "auto": a
                streaming query gets more or fewer as its load calls for, at most as many as Spark has
                cores; "auto:least=2,most=64" sets the limits, with the fields of
                `evenflow.planning.scaling.Scaling`. A batch DataFrame then has as many as Spark has
                cores.
            seed: of the hash functions.
            parameters: of the scheme, where it is given by name.
        """
        from evenflow.grouping import make
        from evenflow.planning.scaling import Scaling, scaling_of

        scaling: Scaling | None = None
        if isinstance(partitions, str):
            partitions = scaling_of(partitions)
        if isinstance(partitions, Scaling):
            partitions, scaling = None, partitions
        if partitions is not None:
            check_partitions(partitions)
        chosen: GroupingScheme | None
        if "workers" in parameters:
            raise InputError(
                "balance has no workers; how many tasks share the work is `partitions`"
            )
        if scheme == AUTO:
            if parameters:
                raise InputError(f'balance: "auto" has no parameters, got {min(parameters)}=…')
            chosen = None
        elif isinstance(scheme, str):
            chosen = make(scheme, **parameters)
        elif parameters:
            raise InputError(
                f"balance: {min(parameters)}=… belongs to a scheme that is given by name; an instance "
                "already has its parameters"
            )
        else:
            chosen = scheme
        return replace(self, scheme=chosen, partitions=partitions, scaling=scaling, seed=seed)

    def replan(self, planner: str = "mixed", theta: float = 0.08, **parameters: Any) -> Keyed:
        """Choose when and how keys move between partitions, where a routing table says which partition
        has which key: under the scheme "table", or under "auto" for work that must not split a key.

        A batch DataFrame is planned once, by the same planner, before its rows are routed.

        Parameters:
            planner: a planner's name, with its parameters after a colon: "mixed", "mixed:beta=1".
            theta: no partition should have more than (1 + theta) times its share.
            parameters: the others of `evenflow.planning.controller.Replanning`.
        """
        from evenflow.planning.controller import Replanning

        if self.scheme is not None and self.scheme.name != "table":
            raise InputError(
                f"replan: the scheme {self.scheme.name!r} has no routing table to plan; balance with "
                '"table" or "auto"'
            )
        return replace(self, replanning=Replanning(planner, theta, **parameters))

    def join(
        self,
        other: Keyed | DataFrame,
        on: str | Sequence[str] | None = None,
        how: str = "inner",
        like: Keyed | DataFrame | None = None,
    ) -> DataFrame:
        """Join DataFrames on the key, as `DataFrame.join` does, with hot keys on several tasks; at most
        one of them is a stream.

        Where one side has many rows of a key, they are split, and the rows of the other side go to
        every part; where both have many, they meet in a grid. All of it is done by Spark's own
        operators; no row visits Python.

        Guarantee: the rows, columns and names of Spark's own `join`, for null keys, too. In an outer
        join, rows without a partner come out once, and those with a null key are spread over all tasks.

        Like `agg`, this starts a Spark job that reads the key columns of both sides once; nothing else
        runs until the result is used. Where no key is hot, and where Spark broadcasts one side, the
        result is Spark's own join: Spark alone is enough. The two sides must be the same when the
        result is computed as they were when `join` was called.

        Parameters:
            other: the other side: a DataFrame with key columns of the same names, or `keyed(…)` with as
                many key columns of the same types. Where names differ, both sides' columns are kept.
            on: the key columns, which may be repeated here, as in `DataFrame.join`.
            how: "inner", "left", "right", "full", "semi", "anti", or another of PySpark's names.
            like: for the join of a stream, a batch DataFrame with rows as a micro-batch brings them,
                which are counted in place of the stream's. Without it, the join is Spark's own.

        Example:
            named = ef.keyed(clicks, "page").join(pages, how="left")
        """
        right = other if isinstance(other, Keyed) else keyed(other, *self.keys)
        if like is not None and not isinstance(like, Keyed):
            like = keyed(like, *(self if self.df.isStreaming else right).keys)
        return join(self, right, on, how, like)

    def intervalJoin(
        self,
        other: Keyed | None = None,
        *,
        time: str | tuple[str, str],
        within: str | timedelta,
        prefixes: tuple[str, str] = ("left_", "right_"),
        where: Predicate | None = None,
        how: str = "inner",
    ) -> BalancedDataFrame:
        """Pair the rows of a key that are close in event time: with those of another DataFrame or, if
        none is given, with each other.

        Guarantee: every pair exactly once, in the batch in which the later of its rows arrives, unless
        that row is late; in a batch DataFrame no row is late. The pairs are those of Spark's own join
        on the key and on |difference of times| ≤ `within`; in an outer join of streams, a row without a
        partner comes out once the watermark has passed the last moment of one.

        A stream needs `withWatermark`; of two streams, the slower one holds the watermark back, and the
        larger delay counts.

        Parameters:
            other: the other side, with as many key columns of the same types.
            time: the event time, a timestamp; two names where the sides call it differently.
            within: how far apart two rows may be: "10 minutes", or a timedelta.
            prefixes: put before the names of the columns of the left and of the right row.
            where: takes a table of pairs, and returns an array with one boolean per pair: which of them
                count. It is called with whole Arrow tables.
            how: "inner", "left", "right", "full", or another of PySpark's names of these.
        """
        df, pairs = interval_join(self, other, time, within, prefixes, where, how)
        return replace(self, df=df)._result(lambda mode: JoinedRows(pairs))

    def inOrder(
        self, headers: str = "headers", partition: str = "partition", offset: str = "offset"
    ) -> Keyed:
        """Hand each key's messages to the operator in the order in which they were sent, although keys
        moved between the partitions of the topic that they are read from.

        Guarantee: `operator` gets each message once, and those of a key in the order in which
        `evenflow.ordering.Writer` or the gateway wrote them, over all batches. Keys are not split.

        Parameters:
            headers, partition, offset: the columns that tell the order, as Spark's Kafka source names
                them; its option `includeHeaders` must be set.
        """
        if self.windows is not None:
            raise InputError("inOrder and window(…) cannot be combined; use two queries")
        log = LogColumns(headers, partition, offset)
        check_columns(self.df, log.names(), "inOrder")
        return replace(self, log=log)

    def agg(self, *positional: Never, **aggregates: Aggregate) -> BalancedDataFrame:
        """Compute aggregates, one column each: `agg(hits=ef.count(), ms=ef.mean("ms"))`.

        For a batch DataFrame the result is a DataFrame, one row per key. Like `pivot` without values,
        this starts a Spark job where the keys have to be seen first: under the schemes "auto" (unless
        no keys could make it pay) and "table", the key columns are read once, here. Under every other
        scheme nothing runs until the result is used.

        For a streaming DataFrame, `.writeStream` of the result starts the query.

        Parameters:
            aggregates: name of the output column → aggregate.
        """
        if positional:
            raise InputError(
                f"agg: give every aggregate a name, as in agg(hits=ef.count()); got {positional[0]!r}"
            )
        return self.apply(Aggregates(**aggregates))

    def apply(self, operator: Operator) -> BalancedDataFrame:
        """Do keyed work of your own; the result is as in `agg`, the Spark job before it, too.

        Parameters:
            operator: an `evenflow.Operator`; `evenflow.PerKey` wraps a function that is called once per
                key.
        """
        if not isinstance(operator, Operator):
            from evenflow.spark.grouped_functions import apply_udf

            return cast(BalancedDataFrame, apply_udf(self, operator))
        ready = self._reading(operator)
        return ready._result(lambda mode: ready._work(operator, mode))

    def plan(self, operator: Operator | None = None) -> Plan:
        """How the rows of a batch DataFrame would be spread, and why.

        Under the schemes "auto" (unless no keys could make it pay) and "table", the key columns are
        read once, here.

        Parameters:
            operator: what is to be done with the keys; None for aggregates.
        """
        if self.df.isStreaming:
            raise InputError(
                "plan is for batch DataFrames; the plans of a stream are in the metrics of its query"
            )
        operator = Aggregates(rows=count()) if operator is None else operator
        ready = self._reading(operator)
        return batch_plan(ready.df, ready._job(ready._work(operator)))

    def compute(
        self, operator: Operator, *, plan: Plan | None = None, loads: Observation | None = None
    ) -> DataFrame:
        """`apply` on a batch DataFrame, with more to say and to learn.

        Parameters:
            plan: as `plan` returned it; None to make one now.
            loads: is filled with the rows of each partition once the result is computed.
        """
        ready = self._reading(operator)
        return ready._batch_frame(ready._job(ready._work(operator)), plan, loads)

    def _result(self, work_of: Callable[[str | None], Work]) -> BalancedDataFrame:
        """The result of work, which a stream's output mode may change."""
        job = self._job(work_of(None))
        if not self.df.isStreaming:
            return cast(BalancedDataFrame, self._batch_frame(job))

        def schema() -> StructType:
            return spark_schema(job.output_schema())

        def start(settings: StreamSettings) -> StreamingQuery:
            return start_query(self.df, self._job(work_of(settings.mode)), settings)

        return cast(BalancedDataFrame, BalancedStream(schema, start))

    def _job_on(self, df: DataFrame, work: Work) -> Job:
        return replace(self, df=df)._job(work)

    def _frame_on(self, df: DataFrame, job: Job) -> DataFrame:
        return replace(self, df=df)._batch_frame(job)

    def _batch_frame(
        self, job: Job, plan: Plan | None = None, loads: Observation | None = None
    ) -> DataFrame:
        from evenflow.spark.session import check_session

        check_session(self.df.sparkSession)
        return batch_frame(self.df, job, plan or batch_plan(self.df, job), loads, self.order)

    def _reading(self, operator: Operator) -> Keyed:
        """This, with the columns that the operator computes from others."""
        wanted = operator.columns()
        if wanted is None:
            return self
        name = type(operator).__name__
        df = with_computed(self.df, wanted, name, self.keys)
        check_collations(df, compared_columns(operator), name)
        return replace(self, df=df)

    def _work(self, operator: Operator, mode: str | None = None) -> Work:
        """What happens to the rows of a key.

        Parameters:
            mode: the output mode of a stream; None for the usual one of the work.
        """
        if operator.ends and (self.windows is not None or self.log is not None):
            raise InputError(
                f"{type(operator).__name__} has a ttl or timers, and window(…), sessionWindow(…) and "
                "inOrder(…) have none: windows end by themselves, and messages may wait for others; "
                "leave one of the two out"
            )
        if self.windows is not None:
            return windowed_states(self.df, operator, self.windows, self.watermark, mode)
        if operator.ends:
            return expiring_states(self.df, operator, self.watermark, mode)
        if mode == APPEND:
            raise InputError(
                'outputMode "append" writes a row once it can no longer change, which without windows '
                'is never; use "update", group by window(…), or give the operator a ttl'
            )
        if self.log is not None:
            return OrderedStates(operator, self.log)
        return KeyedStates(operator)

    def _job(self, work: Work) -> Job:
        """The computation without its data, checked."""
        if not self.keys:
            raise InputError(
                'keyed takes at least one key column here; write keyed(df, "page"). Without a key, '
                "applyInPandas, applyInArrow and cogroup take all rows as one group"
            )
        return build_job(
            arrow_schema(self.df),
            self.keys,
            work,
            scheme=whole_keys_scheme(self) if self.order else self.scheme,
            partitions=self.partitions or default_partitions(self.df),
            seed=self.seed,
            replanning=self.replanning,
            scaling=self.scaling,
        )
