"""Balanced partitions for whatever follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenflow.engine.layout import PARTITION
from evenflow.engine.placed import Placed
from evenflow.engine.plans import first_plan, scheme_of
from evenflow.engine.routing import Route
from evenflow.engine.spreading import Spread, spread_keys
from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.model.validation import check_partitions
from evenflow.spark.columns import arrow_schema, quoted
from evenflow.spark.execution import neutral_columns, shuffled, source_task
from evenflow.spark.jobs import batch_plan, build_job, default_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.spark.keyed import Keyed


def repartitioned(keyed: Keyed, partitions: int | None, split: bool) -> DataFrame:
    """The rows of a batch DataFrame in balanced partitions, under their own names.

    Parameters:
        partitions: how many; None for as many as `keyed` says.
        split: whether large keys get several of them.
    """
    from pyspark.sql.types import IntegerType, StructField, StructType

    from evenflow.spark.session import check_session

    df = keyed.df
    if df.isStreaming:
        raise InputError("repartition is for batch DataFrames; call it in foreachBatch")
    if not keyed.keys:
        raise InputError('repartition needs a key, as in keyed(df, "day").repartition(16)')
    if partitions is not None:
        check_partitions(partitions)
    check_session(df.sparkSession)
    splits = keyed.scheme is not None and keyed.scheme.splits_keys
    if split and keyed.scheme is not None:
        raise InputError(
            "repartition: split=True places large keys itself; leave "
            f"balance({keyed.scheme.name!r}) out"
        )
    job = build_job(
        arrow_schema(df.select(*map(quoted, keyed.keys))),
        keyed.keys,
        Placed("repartition", mergeable=splits),
        scheme=keyed.scheme,
        partitions=partitions or keyed.partitions or default_partitions(df),
        seed=keyed.seed,
        replanning=keyed.replanning,
    )
    values = df.columns[: len(keyed.values)]
    names = tuple(dict.fromkeys([*keyed.keys, *values]))
    rows = neutral_columns(df, names)
    if split:
        from evenflow.spark.surveying import surveyed_keys

        plan = first_plan(job)
        survey, _ = surveyed_keys(df, job)
        places = spread_keys(survey.hot, job.partitions)
        task = source_task(Spread(job.key, Owners.of(plan), places), rows, names, job.key)
        schema = StructType([StructField(PARTITION, IntegerType()), *rows.schema.fields])
        placed = rows.mapInArrow(task, schema)
        placed = placed.repartitionById(job.partitions, PARTITION).drop(PARTITION)
    else:
        plan = batch_plan(df, job)
        route = Route.under(plan, scheme_of(job, plan), job.key, 0)
        placed = shuffled(rows, names, route, False, None)
    own = [placed.columns[names.index(name)] for name in values]
    return placed.select(*own).toDF(*keyed.values)
