"""The policy of a diagnosis: limits, causes and what would help. Nothing else decides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """From where on something counts.

    Parameters:
        worth_share: of the application's busy time that must be lost for a cause to be named.
        worth_seconds: that must be lost, whatever the share.
        straggler: the longest task, as a multiple of the median.
        explained: the part of a straggler's extra time that its extra rows must explain.
        slower_machine: the time of an executor's tasks, as a multiple of the others'.
        tasks_of_a_slow_machine: tasks that must have been seen.
        most_of_its_tasks: the share of an executor's tasks that must be slow.
        partitions_to_know_nulls: below it, a hot key is too likely to share the partition of null.
        start_seconds: the first tasks of an executor may take this much longer, because they start
            Python and load Java's classes.
        gc_share: garbage collection, as a share of the tasks' time.
        spilled_share: bytes spilled to disk, as a share of the bytes read.
        spilling_costs: the part of a spilling stage's time that is taken to be lost.
        even_enough: fullest ÷ average partition up to which balancing is not worth it.
        splitting_pays: from this gain on, a scheme that costs a second shuffle is advised.
        lag_seconds: a consumer that is this far behind is behind.
    """

    worth_share: float = 0.1
    worth_seconds: float = 0.5
    straggler: float = 1.5
    explained: float = 0.5
    slower_machine: float = 1.5
    tasks_of_a_slow_machine: int = 2
    most_of_its_tasks: float = 0.66
    partitions_to_know_nulls: int = 8
    start_seconds: float = 20.0
    gc_share: float = 0.15
    spilled_share: float = 0.25
    spilling_costs: float = 0.3
    even_enough: float = 1.3
    splitting_pays: float = 1.15
    lag_seconds: float = 60.0


LIMITS = Limits()

NOTHING = "nothing"
HOT_KEY, NULL_KEYS, UNEVEN_RANGES = "hot key", "null keys", "uneven ranges"
SLOW_MACHINE, INPUT_FILES = "slow machine", "input files"
SPILL, GARBAGE, COSTLY_ROWS = "spill", "garbage collection", "costly rows"

#: The causes in the order in which they are tried for a stage: the first that fits is named.
CAUSES = (
    SLOW_MACHINE,
    NULL_KEYS,
    HOT_KEY,
    UNEVEN_RANGES,
    INPUT_FILES,
    SPILL,
    GARBAGE,
    COSTLY_ROWS,
)


@dataclass(frozen=True)
class Remedy:
    """Something that would help.

    Parameters:
        what: one sentence.
        code: to write; empty where there is none.
        evenflow: whether it is Evenflow.
    """

    what: str
    code: str = ""
    evenflow: bool = False


SKEW_JOIN = Remedy(
    "Spark splits skewed partitions of a join itself, once they count as skewed: lower its limits.",
    'spark.conf.set("spark.sql.adaptive.enabled", "true")\n'
    'spark.conf.set("spark.sql.adaptive.skewJoin.enabled", "true")\n'
    'spark.conf.set("spark.sql.adaptive.skewJoin.skewedPartitionFactor", "2")\n'
    'spark.conf.set("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "{threshold}")',
)
BROADCAST = Remedy(
    "If one side fits into memory, broadcast it: a broadcast join has no shuffle, and so no skew.",
    "from pyspark.sql.functions import broadcast\n\n"
    "joined = large.join(broadcast(small), {columns})",
)
JOIN_GRID = Remedy(
    "Where that does not help (both sides hot, an outer join, null keys, an aggregate below the join): "
    "Evenflow joins hot keys on several tasks, with Spark's own operators.",
    "import evenflow as ef\n\njoined = ef.keyed(left, {names}).join(right)",
    evenflow=True,
)
SPLIT_KEYS = Remedy(
    "Evenflow splits hot keys over several tasks and merges the parts, if the work is an aggregate or "
    "an operator with `merge`.",
    "import evenflow as ef\n\n"
    'result = ef.keyed(df, {names}).balance("auto", partitions={partitions}).agg(rows=ef.count())\n'
    "# your own work: .apply(YourOperator()), with update, merge and emit",
    evenflow=True,
)
PLACE_KEYS = Remedy(
    "Work that needs all rows of a key at once cannot be split: Evenflow then gives the hottest key a "
    "task of its own and spreads the others, as a drop-in.",
    "import evenflow as ef\n\n"
    'result = ef.keyed(df, {names}).balance("auto", partitions={partitions})'
    ".applyInPandas(function, schema)",
    evenflow=True,
)
FIND_THE_KEY = Remedy(
    "See which keys they are, and what each scheme would make of them.",
    "import evenflow as ef\n\nprint(ef.diagnose(df, {names}, partitions={partitions}))",
    evenflow=True,
)
NO_KEY = Remedy(
    "Rows that need not be together can go anywhere.",
    "df.repartition({partitions})  # without a key: as many rows in each partition",
)
PARTIAL = Remedy(
    "Spark combines count, sum, min, max and mean before the shuffle; an aggregate that keeps every "
    "value (collect_list, percentile) does not profit: use its approximate form, or two steps.",
    "from pyspark.sql import functions as F\n\n"
    'df.groupBy({names}).agg(F.approx_percentile("value", 0.5))',
)
DROP_NULLS = Remedy(
    "A null key has no partner: keep those rows out of the join, and add them afterwards.",
    "known = df.where({not_null})\n"
    'result = known.join(other, {columns}, "left").unionByName(\n'
    "    df.where(~({not_null})), allowMissingColumns=True)",
)
DROP_NULL_GROUP = Remedy(
    "All rows without a key are one group. If they mean nothing, leave them out.",
    "df.where({not_null})",
)
SAMPLE_RANGES = Remedy(
    "Ranges are chosen from a sample of the rows: take a larger one, or sort by one more column.",
    'spark.conf.set("spark.sql.execution.rangeExchange.sampleSizePerPartition", "1000")',
)
REPLACE_MACHINE = Remedy(
    "Replace the machine, and let Spark avoid it until then: run stragglers twice, and exclude what "
    "fails.",
    "# spark-submit\n--conf spark.speculation=true --conf spark.excludeOnFailure.enabled=true",
)
CONSISTENT = Remedy(
    "If uneven machines are there to stay: `consistent` makes many small tasks, which fast executors "
    "pull more of.",
    'import evenflow as ef\n\nef.keyed(df, "key").balance("consistent", partitions={partitions})',
    evenflow=True,
)
SPLIT_FILES = Remedy(
    "Write the input in files of even size that can be split (Parquet; not .gz), or spread the rows "
    "before the costly step.",
    "spark.read.format(…).load(path).repartition({partitions}).write.parquet(even)",
)
MORE_MEMORY = Remedy(
    "Give each task less at a time, or more memory.",
    'spark.conf.set("spark.sql.shuffle.partitions", "{more}")\n'
    "# or, when the application is submitted: --conf spark.executor.memory=…",
)
LESS_GARBAGE = Remedy(
    "Fewer rows per task, a larger heap, fewer cached objects; with large heaps, G1 or ZGC.",
    'spark.conf.set("spark.sql.shuffle.partitions", "{more}")\n'
    "# --conf spark.executor.memory=… --conf spark.executor.extraJavaOptions=-XX:+UseG1GC",
)
WEIGH_ROWS = Remedy(
    "Some keys' rows take longer than others'. Evenflow measures the seconds of each key and moves "
    "keys by them, between the batches of a stream.",
    "import evenflow as ef\n\n"
    'query = ef.keyed(stream, {names}).balance("table", partitions={partitions}).replan()'
    ".apply(ef.PerKey(…)).writeStream…",
    evenflow=True,
)
