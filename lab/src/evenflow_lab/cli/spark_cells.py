"""Independent runs as tasks of a Spark session: for grids that outgrow one machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from evenflow.model import InputError
from evenflow.spark.session import running_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Cell = Mapping[str, Any]
Outcome = dict[str, Any]

_QUESTION = "cell string"
_ANSWER = "outcome string, error string"


def run_on_spark(
    cells: Sequence[Cell],
    run: Callable[[Cell], Mapping[str, Any]],
    master: str | None = None,
    jobs: int | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """(number, outcome) of each cell, each run by a task of its own, as they are finished.

    Guarantee: the outcomes are those that `run` has in this process; they are handed on one by one,
    so that the caller can keep what is finished if a later cell fails.

    Parameters:
        cells: plain JSON.
        run: from a cell to its outcome, plain JSON again; a function of a module that is installed
            wherever executors are.
        master: Spark's master; None for all cores of this machine. A Spark session that is there
            already is used as it is, and left running.
        jobs: how many cells at once; None for as many as Spark has cores.
    """
    with running_session(master) as session:
        yield from _run(cells, run, session, jobs)


def _run(
    cells: Sequence[Cell],
    run: Callable[[Cell], Mapping[str, Any]],
    session: SparkSession,
    jobs: int | None,
) -> Iterator[tuple[int, Outcome]]:
    tag = f"evenflow-{uuid4().hex}"
    tagged = threading.local()

    def ask(cell: Cell) -> Outcome:
        if not hasattr(tagged, "done"):
            session.addTag(tag)  # of this thread's jobs
            tagged.done = True
        # One job a cell, because the rows of one job come back in order, or all together at the
        # end: neither shows what is finished while the rest is under way.
        question = session.createDataFrame([(json.dumps(cell),)], _QUESTION).coalesce(1)
        (answer,) = question.mapInArrow(_task(run), _ANSWER).collect()
        if answer.error is not None:
            raise InputError(answer.error)
        outcome: Outcome = json.loads(answer.outcome)
        return outcome

    pool = ThreadPoolExecutor(jobs or session.sparkContext.defaultParallelism)
    try:
        numbers = {pool.submit(ask, cell): number for number, cell in enumerate(cells)}
        for future in as_completed(numbers):
            yield numbers[future], future.result()
    finally:
        # After an error or Ctrl-C: what has not begun does not begin, what is under way is stopped.
        pool.shutdown(wait=False, cancel_futures=True)
        session.interruptTag(tag)
        pool.shutdown(wait=True)


def _task(
    run: Callable[[Cell], Mapping[str, Any]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        text = pa.string()
        for batch in batches:
            for cell in batch.column(0).to_pylist():
                outcome = error = None
                try:
                    outcome = json.dumps(run(json.loads(cell)))
                except InputError as refused:
                    # Carried as data: Spark would run the task again, in vain, and bury the
                    # sentence in a stack trace.
                    error = str(refused)
                yield pa.record_batch(
                    [pa.array([outcome], text), pa.array([error], text)], ["outcome", "error"]
                )

    return task
