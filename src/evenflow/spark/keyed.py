"""What a person types: `keyed(df, key=…)`, a scheme, an operator, and `start()` or `to_df()`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.job import AUTO, Job, check_fit
from evenflow.engine.plans import first_plan
from evenflow.grouping.protocol import GroupingScheme
from evenflow.model import InputError, Plan
from evenflow.model.durations import microseconds
from evenflow.model.validation import check_whole
from evenflow.operators import Aggregate, Aggregates, Operator, Window, WindowJoin
from evenflow.operators.window_join import Predicate
from evenflow.operators.windows import UPDATE
from evenflow.spark.columns import arrow_schema, check_columns
from evenflow.spark.control_loop import ControlLoop, scheme_of, worked
from evenflow.spark.joined_streams import joined
from evenflow.spark.query import Query, stoppable
from evenflow.spark.sinks import Sink
from evenflow.state.checkpoint import Checkpoint, local_path
from evenflow.state.journal import drop_unfinished

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

    from evenflow.planning.controller import Replanning


def keyed(df: DataFrame, key: str | Sequence[str]) -> Keyed:
    """Keyed work on a DataFrame, streaming or batch, balanced over workers.

    Guarantee: the answer is the one that Spark's own grouping would give, whichever scheme balances
    the work; from a stream, every row counts exactly once, also if driver or executors die.

    Parameters:
        df: any DataFrame; classic Spark or Spark Connect.
        key: the key column, or several. Any type that Spark can group by, but maps and arrays; null is
            a key, too.

    Example (a streaming DataFrame is the same, with `start` for `to_df`):
        counts = ef.keyed(clicks, key="page").aggregate(hits=ef.count()).to_df()
    """
    columns = (key,) if isinstance(key, str) else tuple(key)
    if not columns or not all(isinstance(name, str) for name in columns):
        raise InputError(f"key takes the name of a column or several names, got {key!r}")
    if len(set(columns)) < len(columns):
        raise InputError(f"key names a column twice: {list(columns)}")
    check_columns(df, columns, "key")
    return Keyed(df, columns)


@dataclass(frozen=True)
class Keyed:
    """A DataFrame with a key, and what is to happen to it. Every method returns a new one."""

    df: DataFrame
    key: tuple[str, ...]
    scheme: GroupingScheme | None = None
    workers: int | None = None
    seed: int = 0
    operator: Operator | None = None
    replanning: Replanning | None = None
    windows: Window | None = None

    def balance(
        self,
        scheme: str | GroupingScheme = AUTO,
        workers: int | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> Keyed:
        """Choose who gets which rows.

        Parameters:
            scheme: a name (`evenflow schemes` lists them), an instance, or "auto": chosen by what the
                operator allows and the data shows, and chosen anew between batches if the data changes.
            workers: how many tasks share the work; None for as many as Spark has cores.
            seed: of the hash functions.
            parameters: of the scheme, where it is given by name.
        """
        from evenflow.grouping import make

        if workers is not None:
            check_whole("workers", workers, least=1)
        if isinstance(scheme, str):
            chosen = None if scheme == AUTO and not parameters else make(scheme, **parameters)
        elif parameters:
            raise InputError(
                "parameters belong to a scheme's name; an instance has its own already"
            )
        else:
            chosen = scheme
        if self.operator is not None and chosen is not None:
            check_fit(self.operator, chosen)
        return replace(self, scheme=chosen, workers=workers, seed=seed)

    def replan(self, planner: str = "mixed", theta: float = 0.08, **parameters: Any) -> Keyed:
        """Choose when and how keys are moved between batches, where a routing table says who has
        which key: with the scheme "table", or with "auto" for work that must not split a key.

        Parameters:
            planner: a planner's name, with its parameters after a colon: "mixed", "mixed:beta=1".
            theta: no worker should have more than (1 + theta) times its share.
            parameters: the others of `evenflow.planning.controller.Replanning`.
        """
        from evenflow.planning.controller import Replanning

        if self.scheme is not None and self.scheme.name != "table":
            raise InputError(
                f'{self.scheme.name!r} has no routing table to plan; balance with "table" or "auto"'
            )
        return replace(self, replanning=Replanning(planner, theta, **parameters))

    def window(
        self,
        column: str,
        size: str | timedelta,
        slide: str | timedelta | None = None,
        *,
        delay: str | timedelta = "0 seconds",
        start: str | timedelta = "0 seconds",
        mode: str = UPDATE,
    ) -> Keyed:
        """Do the work in event-time windows: one row of output a key and window, with the columns
        `window_start` and `window_end` after the key.

        Guarantee: the windows of Spark's `window` function, and the rows that Spark's own streaming
        aggregation takes in and drops. State is gone once its window is over.

        Parameters:
            column: the event time, a timestamp. Rows where it is null are in no window.
            size: how long a window is: "10 minutes", or a timedelta.
            slide: how far apart windows begin; None for one after the other.
            delay: how late rows may come. A window is over when a row has been seen whose event time is
                so much later than its end.
            start: by how much windows begin after the full hour, day, …; "15 minutes" for hourly
                windows at a quarter past.
            mode: of a stream: "update" puts out the windows that a batch changed; "append" every
                window once, when it is over.
        """
        chosen = Window(
            column,
            size=microseconds("size", size),
            slide=microseconds("slide", size if slide is None else slide),
            delay=microseconds("delay", delay, least=0),
            start=microseconds("start", start, least=-(1 << 62)),
            mode=mode,
        )
        check_columns(self.df, [column], "window")
        chosen.time_type(arrow_schema(self.df))
        _check_window(chosen, self.operator)
        return replace(self, windows=chosen)

    def window_join(
        self,
        other: Keyed | None = None,
        *,
        time: str | tuple[str, str],
        within: str | timedelta,
        delay: str | timedelta = "0 seconds",
        prefixes: tuple[str, str] = ("left_", "right_"),
        where: Predicate | None = None,
    ) -> Keyed:
        """Pair the rows of a key that are close in event time: with those of another stream or, if none
        is given, with each other.

        Guarantee: every pair exactly once, in the batch in which the later of its rows arrives, unless
        that row is late; nothing is late in a batch DataFrame. Pairs are those of Spark's own inner
        join on the key and on |difference of times| ≤ `within`.

        Parameters:
            other: the other stream, with as many key columns of the same types.
            time: the event time, a timestamp; two names where the streams call it differently.
            within: how far apart two rows may be: "10 minutes", or a timedelta.
            delay: how late rows may come, as in `window`; of two streams, the slower one counts.
            prefixes: put before the names of the columns of the left and of the right row.
            where: a function that takes a table of pairs and says which of them count: an array with
                one boolean a pair. It is called with whole Arrow tables.
        """
        df, operator = joined(self, other, time, within, delay, prefixes, where)
        return replace(self, df=df).apply(operator)

    def aggregate(self, **aggregates: Aggregate) -> Keyed:
        """Compute aggregates, a column each: `aggregate(hits=ef.count(), ms=ef.mean("ms"))`."""
        return self.apply(Aggregates(**aggregates))

    def apply(self, operator: Operator) -> Keyed:
        """Do keyed work of one's own."""
        if not isinstance(operator, Operator):
            raise InputError(
                f"apply takes an evenflow.Operator, got {operator!r}; inherit from it, or wrap a "
                "function with evenflow.PerKey"
            )
        if self.scheme is not None:
            check_fit(operator, self.scheme)
        _check_window(self.windows, operator)
        wanted = operator.columns()
        if wanted is not None:
            check_columns(self.df, wanted, type(operator).__name__)
        return replace(self, operator=operator)

    def job(self) -> Job:
        """All of it but the data, checked."""
        if self.operator is None:
            raise InputError(
                "nothing is to be done with the keys yet; call aggregate(…) or apply(…)"
            )
        wanted = self.operator.columns()
        timed = [] if self.windows is None else [self.windows.column]
        names = list(
            self.df.columns if wanted is None else dict.fromkeys([*self.key, *wanted, *timed])
        )
        schema = arrow_schema(self.df)
        job = Job(
            key=self.key,
            rows=pa.schema([schema.field(name).with_nullable(True) for name in names]),
            operator=self.operator,
            scheme=self.scheme,
            workers=self.workers or _cores(self.df),
            seed=self.seed,
            replanning=self.replanning,
            window=self.windows,
        )
        _check_key_types(job)
        job.output_schema()
        return job

    def plan(self) -> Plan:
        """How the rows of a batch DataFrame would be spread, and why.

        With the schemes "auto" and "table", the key column is read once, here, to see how it is
        skewed.
        """
        job = self.job()
        plan = first_plan(job)
        if job.scheme is not None and job.scheme.name != "table":
            return plan
        from evenflow.spark.surveying import surveyed

        return surveyed(self.df, job, plan)

    def to_df(self, *, plan: Plan | None = None, loads: Observation | None = None) -> DataFrame:
        """The result for a batch DataFrame: one row a key.

        Parameters:
            plan: what `plan` has returned; None to make one now.
            loads: is filled with the rows that each worker was sent, once the result is computed.
        """
        from evenflow.spark.session import check_session

        if self.df.isStreaming:
            raise InputError("this DataFrame is a stream; use start(checkpoint=…, sink=…)")
        check_session(self.df.sparkSession)
        job, plan = self.job(), plan or self.plan()
        return worked(self.df, job, plan, scheme_of(job, plan), 0, None, loads)

    def start(
        self,
        checkpoint: str | os.PathLike[str],
        sink: Sink,
        *,
        every: str | None = None,
        available_now: bool = False,
        name: str | None = None,
        on_batch: Callable[[Mapping[str, Any]], object] | None = None,
        keep: int = 10,
    ) -> Query:
        """Start the streaming query.

        Parameters:
            checkpoint: a directory for state, plans and Spark's own progress; a query that finds one
                goes on where it ended.
            sink: where the output goes, from `evenflow.sinks`: after each batch, one row for every key
                that the batch touched.
            every: how often a batch begins ("5 seconds"); None for as soon as the last one is done.
            available_now: take what there is and end.
            name: of the query, for Spark's own displays.
            on_batch: called with the metrics of every batch, once it is committed.
            keep: how many old versions of the state to keep.
        """
        from evenflow.spark.session import check_session

        if not self.df.isStreaming:
            raise InputError("this DataFrame is no stream; use to_df()")
        check_whole("keep", keep, least=1)
        if every is not None and available_now:
            raise InputError("give `every` or `available_now`, not both")
        check_session(self.df.sparkSession)
        job = self.job()
        if job.scheme is not None:
            check_fit(job.operator, job.scheme)
        path = str(local_path(os.fspath(checkpoint)))
        sink.staging(Path(path) / "evenflow" / "staging")  # fails here, not in the first batch
        state = Checkpoint.open(path, _identity(job))
        lock = state.lock()
        try:
            _check_identity(state, job)
            drop_unfinished(Path(path) / "spark")
            writer = self.df.writeStream.foreachBatch(
                stoppable(ControlLoop(job, path, sink, on_batch, keep))
            )
            writer = writer.option("checkpointLocation", os.path.join(path, "spark"))
            if name is not None:
                writer = writer.queryName(name)
            if available_now:
                writer = writer.trigger(availableNow=True)
            elif every is not None:
                writer = writer.trigger(processingTime=every)
            return Query(writer.start(), path, lock, job.workers)
        except BaseException:
            lock.release()
            raise


def _identity(job: Job) -> dict[str, Any]:
    """What must be the same for state to be carried over."""
    return {
        "key": {name: str(job.rows.field(name).type) for name in job.key},
        "operator": job.operator.signature(),
        "state": {field.name: str(field.type) for field in job.state_schema()},
        **({} if job.window is None else {"window": job.window.signature()}),
    }


def _check_identity(checkpoint: Checkpoint, job: Job) -> None:
    """Refuse to go on with state that another computation has left."""
    differences = checkpoint.differences(_identity(job))
    if differences:
        raise InputError(
            f"the checkpoint {checkpoint.directory.parent} was made by another computation "
            f"({'; '.join(differences)}); start this one with a checkpoint of its own"
        )


def _check_window(window: Window | None, operator: Operator | None) -> None:
    if window is not None and isinstance(operator, WindowJoin):
        raise InputError(
            "window_join has a window of its own, `within`; leave window(…) out, or put it into a "
            "query of its own on the pairs"
        )


def _check_key_types(job: Job) -> None:
    from evenflow.kernels.fingerprints import fingerprint

    for name in job.key:
        try:
            fingerprint(pa.array([], job.rows.field(name).type))
        except InputError as error:
            raise InputError(f"column {name!r} cannot be a key: {error}") from None


def _cores(df: DataFrame) -> int:
    """As many workers as Spark has cores; over Spark Connect, where that is hidden, as many as it
    makes partitions."""
    try:
        return int(df.sparkSession.sparkContext.defaultParallelism)
    except Exception:
        return int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
