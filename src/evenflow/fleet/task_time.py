"""How long Spark's tasks have worked for a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OVER = ("COMPLETE", "FAILED", "SKIPPED")


class TaskTime:
    """Seconds that tasks took, of all jobs of one streaming query since it was last asked.

    A batch lasts from its beginning to its end, also while its tasks wait for a core that other
    queries' tasks have. Only the time of tasks says what a query needs.

    Parameters:
        spark: the session that runs the query.
        run: the number of the query's run, which Spark gives its jobs as their group.
    """

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._stages: Any = spark.sparkContext._jsc.sc().statusStore()
        self._run = run
        self._jobs: set[int] = set()  # counted to their end
        self._counted: set[int] = set()  # stages of other jobs

    def spent(self) -> float:
        """Of stages that have ended and were not told of yet; one that ends later counts then."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        milliseconds = 0
        jobs = set(self._tracker.getJobIdsForGroup(self._run))
        self._jobs &= jobs  # Spark forgets old ones
        for job in sorted(jobs - self._jobs):
            told = self._tracker.getJobInfo(job)
            if told is None:
                continue
            for stage in set(told.stageIds) - self._counted:
                try:
                    seen = self._stages.lastStageAttempt(stage)
                except Py4JJavaError:
                    self._counted.add(stage)  # Spark has forgotten it
                    continue
                if seen.status().toString() in _OVER:
                    milliseconds += seen.executorRunTime()
                    self._counted.add(stage)
            if told.status != "RUNNING" and self._counted.issuperset(told.stageIds):
                self._jobs.add(job)
                self._counted.difference_update(told.stageIds)
        return milliseconds / 1000
