"""A node: one Spark application that runs the queries assigned to it.

python -m evenflow.fleet.node --config fleet.toml --name a --incarnation 1
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.fleet import processes
from evenflow.fleet.config import Fleet, QuerySpec, read_config
from evenflow.fleet.folder import Assignment, SharedFolder
from evenflow.fleet.leases import Lease, is_evenflow
from evenflow.fleet.load import BusyTime, arrived
from evenflow.fleet.starting import StillRunning, spark_query, start_query, stop_others
from evenflow.fleet.task_time import TaskTime
from evenflow.model import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEARTBEAT = 0.25  # seconds between two reads of the assignment
STOP_TIMEOUT = 60.0  # seconds that a query has to end its batch
_SPARE_BINS = 64  # beyond those a placement needs, for a coordinator that was away
_RETRY = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds after each failure; the last one repeats


class Running:
    """A query on this node, from its assignment to its end.

    Parameters:
        spec: the query.
        spark: the session.
        on_batch: called with a summary of each batch.
        sample, keep: of its `BusyTime`.
        locks: the directory of its lease.
        grace: seconds that executors may outlive a driver that was killed.
    """

    def __init__(
        self,
        spec: QuerySpec,
        spark: SparkSession,
        on_batch: Callable[[dict[str, Any]], object],
        sample: float,
        keep: int,
        locks: Path,
        grace: float = 120.0,
    ) -> None:
        self.spec, self._spark, self._on_batch, self._locks = spec, spark, on_batch, locks
        self.busy = BusyTime(sample, keep)
        self.state, self.error = "waiting", ""
        self.batches, self.failures = 0, 0
        self.run_id: str | None = None  #: Spark's id of the run
        self._known = time.time()  # until when its loads are known
        self._behind = 0.0  # seconds between the last two triggers: rows wait so long to be seen
        self._query: Any = None
        self._tasks: TaskTime | None = None
        self._lease: Lease | None = None
        self._grace = grace
        self._held_since = 0.0
        self._retry_at = 0.0

    def start(self, wanted: Callable[[], bool]) -> None:
        """Start the query, unless another application still holds its lease.

        Parameters:
            wanted: whether it should still run here; called once the lease is acquired.
        """
        if time.monotonic() < self._retry_at:
            return
        lease = self._acquire()
        if lease is None:
            self.state = "waiting"
            return
        try:
            if not wanted():
                self._release()
                return
            if self._executors_may_live(lease):
                return
            self.state = "starting"
            query = start_query(self.spec, self._spark)
            self._query = query
            self.run_id = str(spark_query(query).runId)
            self._tasks, self._known = TaskTime(self._spark, self.run_id), time.time()
            self.state, self.error = "running", ""
        except StillRunning as error:
            self._record_failure(str(error))  # and the lease is kept
        except BaseException as error:
            self._release()
            self._record_failure(f"{type(error).__name__}: {error}")
            traceback.print_exc()

    def _acquire(self) -> Lease | None:
        """The lease: that which is held already, or a new one."""
        if self._lease is None:
            self._lease, self._held_since = (
                Lease.acquire(self._locks, self._spark),
                time.monotonic(),
            )
        return self._lease

    def _executors_may_live(self, lease: Lease) -> bool:
        """Whether to wait, with the lease, for the executors of a driver that was killed."""
        if lease.killed is None:
            return False
        left = self._held_since + self._grace - time.monotonic()
        if left > 0 and not is_evenflow(self.spec.checkpoint):
            self.state = "waiting"
            self.error = f"for {left:.0f} s: executors of {lease.killed}, which was killed, may run"
            return True
        lease.own(self._spark)
        return False

    def check(self) -> None:
        """Notice that the query has ended by itself."""
        if self.state == "running" and not spark_query(self._query).isActive:
            error = spark_query(self._query).exception()
            self._release()
            self._record_failure("the query has ended" if error is None else str(error).strip())

    def stop(self) -> None:
        """Stop the query after its current batch, and release its lease."""
        if self._query is not None:
            query, seen = spark_query(self._query), self.batches
            deadline = time.monotonic() + STOP_TIMEOUT
            self.state = "stopping"
            while query.isActive and self.batches == seen and time.monotonic() < deadline:
                if not query.status["isTriggerActive"]:
                    break
                time.sleep(0.02)
            self._query.stop()
        elif self._lease is not None:
            try:
                stop_others(self.spec, self._spark)
            except StillRunning as error:
                self._record_failure(str(error))
                return
        self._release()
        self.state = "stopped"

    def record_progress(self, progress: Any, node: str) -> None:
        """Add a batch that Spark reports as done."""
        began = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        rows, per_second = progress.numInputRows, progress.inputRowsPerSecond
        first, last = arrived(began, seconds, rows, per_second or 0.0)
        self._known, self._behind = last, last - first
        if self._tasks is not None:
            self.busy.add(first, last, self._tasks.spent())
        if "addBatch" not in progress.durationMs:
            return  # there was no new data
        self.batches += 1
        self.failures = 0
        self._on_batch(
            {
                "batch": progress.batchId,
                "began": began,
                "seconds": seconds,
                "rows": progress.numInputRows,
                "node": node,
            }
        )

    def report(self) -> dict[str, Any]:
        """The query's part of the node's report."""
        return {
            "state": self.state,
            "error": self.error[:2000],
            "batches": self.batches,
            "failures": self.failures,
            "known": self._known
            if self._in_batch()
            else max(self._known, time.time() - self._behind),
            "busy": {str(at): round(share, 4) for at, share in self.busy.bins.items()},
        }

    def _in_batch(self) -> bool:
        """Whether a batch is in progress, whose load is not known yet."""
        query = self._query
        return query is not None and bool(spark_query(query).status["isTriggerActive"])

    def _release(self) -> None:
        self._query = None
        if self._lease is not None:
            self._lease.release() if self._lease.killed is None else self._lease.yield_unused()
            self._lease = None

    def _record_failure(self, reason: str) -> None:
        self.state, self.error = "failed", reason
        self._retry_at = time.monotonic() + _RETRY[min(self.failures, len(_RETRY) - 1)]
        self.failures += 1


class Node:
    """The loop of a node: read the assignment, start and stop queries, report.

    Guarantee: it runs a query only while it holds the lease, and it ends at once when a newer
    incarnation of the node has started.
    """

    def __init__(self, fleet: Fleet, name: str, incarnation: int, spark: SparkSession) -> None:
        self.fleet, self.name, self.incarnation, self.spark = fleet, name, incarnation, spark
        self.folder = SharedFolder(fleet.folder)
        self.queries: dict[str, Running] = {}
        self._assignment = Assignment()
        self._pool = ThreadPoolExecutor(max(4, len(fleet.queries)))
        self._pending: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        spark.streams.addListener(_listener(self._on_progress))

    def run(self) -> None:
        """Run until the fleet goes down."""
        while True:
            self.read_assignment()
            if self._superseded():
                # At once: the newer process waits for the leases.
                os._exit(3)
            self._reconcile(set() if self._assignment.down else self._wanted())
            self._report()
            if self._assignment.down and not self.queries and not self._pending:
                return
            time.sleep(HEARTBEAT)

    def read_assignment(self) -> None:
        """Take over the latest assignment; while it cannot be read, the last one counts."""
        try:
            self._assignment = self.folder.assignment() or self._assignment
        except InputError as error:
            print(error, file=sys.stderr, flush=True)

    def _wanted(self) -> set[str]:
        return {query for query, node in self._assignment.queries.items() if node == self.name}

    def _superseded(self) -> bool:
        newest = self._assignment.incarnations.get(self.name, self.incarnation)
        return newest != self.incarnation

    def _reconcile(self, wanted: set[str]) -> None:
        for name, future in list(self._pending.items()):
            if future.done():
                del self._pending[name]
                future.result()
                if self.queries[name].state == "stopped":
                    del self.queries[name]
        for name in wanted - set(self.queries):
            keep = self.fleet.samples + _SPARE_BINS
            journal = partial(self.folder.append, f"progress/{name}.jsonl")
            self.queries[name] = Running(
                self.fleet.query(name),
                self.spark,
                journal,
                self.fleet.sample,
                keep,
                self.fleet.locks(name),
                self.fleet.executor_grace,
            )
        for name, query in self.queries.items():
            if name in self._pending:
                continue
            query.check()
            if name not in wanted:
                self._pending[name] = self._pool.submit(query.stop)
            elif query.state in ("waiting", "failed"):
                self._pending[name] = self._pool.submit(
                    query.start, partial(self._still_wanted, name)
                )

    def _still_wanted(self, name: str) -> bool:
        try:
            now = self.folder.assignment()
        except InputError:
            return False
        return now is not None and not now.down and now.queries.get(name) == self.name

    def _on_progress(self, progress: Any) -> None:
        with self._lock:
            for query in list(self.queries.values()):
                if query.run_id == str(progress.runId):
                    query.record_progress(progress, self.name)

    def _report(self) -> None:
        self.folder.report(
            self.name,
            {
                **processes.identity(),
                "incarnation": self.incarnation,
                "time": time.time(),
                "epoch": self._assignment.epoch,
                "queries": {name: query.report() for name, query in list(self.queries.items())},
            },
        )


def _listener(on_progress: Callable[[Any], object]) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            on_progress(event.progress)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()


def main() -> None:
    """Start Spark and run until the fleet is taken down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    arguments = parser.parse_args()
    from evenflow.spark.session import local_session

    fleet = read_config(arguments.config)
    sys.path[:0] = [str(path) for path in fleet.path]
    spec = fleet.node(arguments.name)
    conf: dict[str, Any] = {**spec.conf}
    spark = local_session(spec.master, f"evenflow fleet, node {spec.name}", **conf)
    try:
        Node(fleet, spec.name, arguments.incarnation, spark).run()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
