"""How long Spark's tasks have run for a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OVER = ("COMPLETE", "FAILED", "SKIPPED")


class TaskTime:
    """Task seconds of all jobs of one streaming query.

    The duration of a batch includes the time its tasks wait for a core that another query uses. Only
    task time shows what a query needs.

    Parameters:
        spark: the session that runs the query.
        run: the query's run id, which is the group of its Spark jobs.
    """

    def __init__(self, spark: SparkSession, run: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._stages: Any = spark.sparkContext._jsc.sc().statusStore()
        self._run = run
        self._jobs: set[int] = set()  # completely counted
        self._counted: set[int] = set()  # stages of other jobs

    def spent(self) -> float:
        """Seconds of the stages that ended since the last call."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        milliseconds = 0
        jobs = set(self._tracker.getJobIdsForGroup(self._run))
        self._jobs &= jobs  # Spark drops old ones
        for job in sorted(jobs - self._jobs):
            info = self._tracker.getJobInfo(job)
            if info is None:
                continue
            for stage in set(info.stageIds) - self._counted:
                try:
                    seen = self._stages.lastStageAttempt(stage)
                except Py4JJavaError:
                    self._counted.add(stage)  # Spark has dropped it
                    continue
                if seen.status().toString() in _OVER:
                    milliseconds += seen.executorRunTime()
                    self._counted.add(stage)
            if info.status != "RUNNING" and self._counted.issuperset(info.stageIds):
                self._jobs.add(job)
                self._counted.difference_update(info.stageIds)
        return milliseconds / 1000
