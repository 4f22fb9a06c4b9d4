"""Looks after the target topic while a batch is written.

Kafka's producer waits for a topic that was deleted as for a broker that is away, and a gateway lets it
wait forever, because no record may be given up while later ones are written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evenflow.kafka.gateway_topics import client, topic_id
from evenflow.model import InputError
from evenflow.spark.columns import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTERVAL = 3.0  # seconds between two looks
_LOOKS = 2  # in a row that must find the topic gone: brokers hear of changes one after the other


class TopicWatch:
    """Ends a batch whose target topic was deleted.

    Guarantee: a batch ends with an `InputError` within some ten seconds of the topic's deletion, and
    one that was written while the topic was deleted and created again is not committed. Brokers that
    do not answer prove nothing: they are waited for.

    Parameters:
        bootstrap: the brokers' address.
        topic: to look after.
        id: the topic's at the start; None to look after nothing.
    """

    def __init__(self, bootstrap: str, topic: str, id: str | None) -> None:
        self._bootstrap, self._topic, self._id = bootstrap, topic, id
        self._admin: Any = None

    @contextmanager
    def over(self, rows: DataFrame) -> Iterator[None]:
        """Watch while this thread writes a batch's rows."""
        if self._id is None:
            yield
            return
        over, problems = threading.Event(), list[str]()
        cancel = _cancelling(rows)
        watching = threading.Thread(target=self._watch, args=(cancel, over, problems), daemon=True)
        watching.start()
        try:
            yield
        except Exception:
            if problems:
                raise InputError(problems[0]) from None
            raise
        finally:
            over.set()
            watching.join()
        problem = self.problem()
        if problem is not None:
            raise InputError(problem)

    def problem(self) -> str | None:
        """What has happened to the topic; None if nothing is known to have happened."""
        if self._admin is None:
            self._admin = client(self._bootstrap)
        found = topic_id(self._admin, self._topic)
        if found is None or found == self._id:
            return None
        what = "was deleted and created again" if found else "no longer exists"
        return (
            f"the topic {self._topic!r} {what}, and what it held is lost. Start the gateway with a new "
            "checkpoint and an existing topic to write the whole source again"
        )

    def _watch(
        self, cancel: Callable[[], object], over: threading.Event, problems: list[str]
    ) -> None:
        looks = 0
        while not over.wait(_INTERVAL):
            problem = self.problem()
            looks = looks + 1 if problem else 0
            if problem and looks >= _LOOKS:
                problems.append(problem)
                cancel()


def _cancelling(rows: DataFrame) -> Callable[[], object]:
    """Cancels the jobs that this thread runs, when called by another one.

    A classic session's tags do not reach the jobs of a streaming query; its job group does.
    """
    session = rows.sparkSession
    if is_connect(rows):
        return session.interruptAll
    context = session.sparkContext
    group = context.getLocalProperty("spark.jobGroup.id") or ""
    return lambda: context.cancelJobGroup(group)
