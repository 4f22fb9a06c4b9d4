"""A node: one Spark application that runs the queries which the assignment gives it.

python -m evenflow.fleet.node --config fleet.toml --name a --incarnation 1
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenflow.fleet import processes
from evenflow.fleet.config import Fleet, QuerySpec, read_config
from evenflow.fleet.folder import Assignment, SharedFolder
from evenflow.fleet.leases import Lease
from evenflow.fleet.load import BusyTime
from evenflow.fleet.task_time import TaskTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT = 0.25  # seconds between two looks at the assignment
PATIENCE = 60.0  # seconds that a query is given to end its batch
_KEPT = 64  # bins more than the placement looks at, for a coordinator that was away
_RETRY = (1.0, 2.0, 5.0, 10.0, 30.0)  # seconds after a failure; then the last again and again


class Running:
    """A query on this node, from the wish to run it to its end.

    Parameters:
        spec: the query.
        spark: the session.
        tell: called with what became of each batch.
        sample, keep: of its `BusyTime`.
    """

    def __init__(
        self,
        spec: QuerySpec,
        spark: SparkSession,
        tell: Callable[[dict[str, Any]], object],
        sample: float,
        keep: int,
    ) -> None:
        self.spec, self._spark, self._tell = spec, spark, tell
        self.busy = BusyTime(sample, keep)
        self.state, self.error = "waiting", ""
        self.batches, self.failures = 0, 0
        self.ids: str | None = None  #: Spark's number of the run
        self._known = time.time()  # up to when its loads are known
        self._query: Any = None
        self._tasks: TaskTime | None = None
        self._lease: Lease | None = None
        self._retry_at = 0.0

    def start(self, wanted: Callable[[], bool]) -> None:
        """One step towards running: nothing, if another application still has the query.

        Parameters:
            wanted: whether it is to run here still; asked once the lease is there.
        """
        if time.monotonic() < self._retry_at:
            return
        lease = Lease.acquire(self.spec.checkpoint, self._spark)
        if lease is None:
            self.state = "waiting"
            return
        try:
            if not wanted():
                lease.release()
                return
            self.state = "starting"
            begin = _function(self.spec.function)
            query = begin(self._spark, checkpoint=self.spec.checkpoint, **self.spec.arguments)
            self._query, self._lease = query, lease
            self.ids = str(_spark_query(query).runId)
            self._tasks, self._known = TaskTime(self._spark, self.ids), time.time()
            self.state, self.error = "running", ""
        except BaseException as error:
            lease.release()
            self._failed(f"{type(error).__name__}: {error}")
            traceback.print_exc()

    def look(self) -> None:
        """Notice that it has ended by itself."""
        if self.state == "running" and not _spark_query(self._query).isActive:
            error = _spark_query(self._query).exception()
            self._let_go()
            self._failed("the query has ended" if error is None else str(error).strip())

    def stop(self) -> None:
        """End it after the batch that is under way, and let go of it."""
        if self._query is not None:
            query, seen = _spark_query(self._query), self.batches
            deadline = time.monotonic() + PATIENCE
            self.state = "stopping"
            while query.isActive and self.batches == seen and time.monotonic() < deadline:
                if not query.status["isTriggerActive"]:
                    break
                time.sleep(0.02)
            self._query.stop()
        self._let_go()
        self.state = "stopped"

    def progressed(self, progress: Any, node: str) -> None:
        """A batch is done, as Spark tells it."""
        began = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
        seconds = progress.durationMs.get("triggerExecution", 0) / 1000
        self._known = began + seconds
        if self._tasks is not None:
            self.busy.add(began, began + seconds, self._tasks.spent())
        if "addBatch" not in progress.durationMs:
            return  # it only looked, and there was nothing
        self.batches += 1
        self.failures = 0
        self._tell(
            {
                "batch": progress.batchId,
                "began": began,
                "seconds": seconds,
                "rows": progress.numInputRows,
                "node": node,
            }
        )

    def told(self) -> dict[str, Any]:
        """For the report."""
        return {
            "state": self.state,
            "error": self.error[:2000],
            "batches": self.batches,
            "failures": self.failures,
            "known": self._known if self._at_work() else time.time(),
            "busy": {str(at): round(share, 4) for at, share in self.busy.bins.items()},
        }

    def _at_work(self) -> bool:
        """Whether a batch is under way, of which nothing is known yet."""
        query = self._query
        return query is not None and bool(_spark_query(query).status["isTriggerActive"])

    def _let_go(self) -> None:
        self._query = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _failed(self, why: str) -> None:
        self.state, self.error = "failed", why
        self._retry_at = time.monotonic() + _RETRY[min(self.failures, len(_RETRY) - 1)]
        self.failures += 1


class Node:
    """The loop of a node: read the assignment, start and stop queries, say how things are.

    Guarantee: it runs a query only while it has its lease; it ends at once when a newer incarnation
    of it was started.
    """

    def __init__(self, fleet: Fleet, name: str, incarnation: int, spark: SparkSession) -> None:
        self.fleet, self.name, self.incarnation, self.spark = fleet, name, incarnation, spark
        self.folder = SharedFolder(fleet.folder)
        self.queries: dict[str, Running] = {}
        self._assignment = Assignment()
        self._hands = ThreadPoolExecutor(max(4, len(fleet.queries)))
        self._under_way: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        spark.streams.addListener(_listener(self._progressed))

    def run(self) -> None:
        """Until all is to end."""
        while True:
            self._assignment = self.folder.assignment() or self._assignment
            if self._superseded():
                # Not a moment longer: whoever came after waits for the leases.
                os._exit(3)
            wanted = self._wanted()
            if self._assignment.down:
                wanted = set()
            self._work_towards(wanted)
            self._report()
            if self._assignment.down and not self.queries and not self._under_way:
                return
            time.sleep(BEAT)

    def _wanted(self) -> set[str]:
        return {query for query, node in self._assignment.queries.items() if node == self.name}

    def _superseded(self) -> bool:
        newest = self._assignment.incarnations.get(self.name, self.incarnation)
        return newest != self.incarnation

    def _work_towards(self, wanted: set[str]) -> None:
        for name, future in list(self._under_way.items()):
            if future.done():
                del self._under_way[name]
                future.result()
                if self.queries[name].state == "stopped":
                    del self.queries[name]
        for name in wanted - set(self.queries):
            keep = self.fleet.samples + _KEPT
            self.queries[name] = Running(
                self.fleet.query(name), self.spark, self._journal(name), self.fleet.sample, keep
            )
        for name, query in self.queries.items():
            if name in self._under_way:
                continue
            query.look()
            if name not in wanted:
                self._under_way[name] = self._hands.submit(query.stop)
            elif query.state in ("waiting", "failed"):
                self._under_way[name] = self._hands.submit(query.start, self._still_wanted(name))

    def _still_wanted(self, name: str) -> Callable[[], bool]:
        def ask() -> bool:
            now = self.folder.assignment()
            return now is not None and not now.down and now.queries.get(name) == self.name

        return ask

    def _journal(self, query: str) -> Callable[[dict[str, Any]], object]:
        return lambda line: self.folder.append(f"progress/{query}.jsonl", line)

    def _progressed(self, progress: Any) -> None:
        with self._lock:
            for query in list(self.queries.values()):
                if query.ids == str(progress.runId):
                    query.progressed(progress, self.name)

    def _report(self) -> None:
        self.folder.report(
            self.name,
            {
                **processes.identity(),
                "incarnation": self.incarnation,
                "time": time.time(),
                "epoch": self._assignment.epoch,
                "queries": {name: query.told() for name, query in list(self.queries.items())},
            },
        )


def _listener(progressed: Callable[[Any], object]) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            progressed(event.progress)

        def onQueryIdle(self, event: Any) -> None:
            pass

        def onQueryTerminated(self, event: Any) -> None:
            pass

    return Listener()


def _spark_query(query: Any) -> Any:
    """Spark's own handle of what a function has returned."""
    return getattr(query, "spark_query", query)


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


def main() -> None:
    """Start Spark and go on until the fleet is taken down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    told = parser.parse_args()
    from evenflow.spark.session import local_session

    fleet = read_config(told.config)
    sys.path[:0] = [str(path) for path in fleet.path]
    spec = fleet.node(told.name)
    conf: dict[str, Any] = {**spec.conf}
    spark = local_session(spec.master, f"evenflow fleet, node {spec.name}", **conf)
    try:
        Node(fleet, spec.name, told.incarnation, spark).run()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
