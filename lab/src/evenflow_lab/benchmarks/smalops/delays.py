"""One run: a scheme under a load, and the delays of its messages."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenflow_lab.benchmarks.smalops.consumers import Consumers
from evenflow_lab.benchmarks.smalops.load import Run
from evenflow_lab.benchmarks.smalops.senders import write

PERCENTILES = (10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.5)
_PATIENCE = 240.0  # seconds for consumers to finish what is left

# Brings messages from one topic to another while it is open; gives what it has counted by then.
Through = Callable[[str, str], AbstractContextManager[dict[str, int]]]


class Observed(NamedTuple):
    """What a run showed: when each message was sent and when its turn came, and counts."""

    topic: str
    wrote: dict[str, Any]
    sent: np.ndarray
    began: np.ndarray
    per_consumer: list[int]
    counts: dict[str, int]
    finished: bool


def observe(
    settings: Run, scheme: str, bootstrap: str, rate: float, through: Through | None = None
) -> Observed:
    """One scheme, one load. With `through`, the load goes to a topic of its own by Kafka's hashing, and
    from there to the one that is consumed."""
    topic = new_topic(bootstrap, scheme, settings.partitions)
    source = (
        topic if through is None else new_topic(bootstrap, f"{scheme}-source", settings.partitions)
    )
    with tempfile.TemporaryDirectory() as name:
        consumers = Consumers(settings, bootstrap, topic, Path(name))
        try:
            one_each = [1] * settings.partitions
            if not consumers.wait(lambda all_: [len(s["owned"]) for s in all_] == one_each, 180):
                raise SystemExit("the consumers did not get a partition each")
            with nullcontext({}) if through is None else through(source, topic) as forwarded:
                time.sleep(2)
                wrote = write(
                    settings, scheme if through is None else "key", bootstrap, source, rate
                )
                finished = consumers.wait(
                    lambda all_: sum(s["processed"] for s in all_) >= wrote["sent"], _PATIENCE
                )
        finally:
            consumers.end()
        sent, began, per_consumer = consumers.times()
        counts = consumers.counts()
    finished = finished and len(sent) == wrote["sent"]
    return Observed(topic, wrote | forwarded, sent, began, per_consumer, counts, finished)


def new_topic(bootstrap: str, about: str, partitions: int) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"{about}-{os.getpid()}-{random.randrange(1 << 30)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(30)
    return topic


def measure(settings: Run, scheme: str, bootstrap: str, rate: float) -> dict[str, Any]:
    """One scheme, one load, in figures."""
    return figures(settings, scheme, rate, observe(settings, scheme, bootstrap, rate))


def figures(settings: Run, scheme: str, rate: float, seen: Observed) -> dict[str, Any]:
    at, delays = seen.sent - seen.wrote["began"], seen.began - seen.sent
    measured = delays[at >= settings.warm_up]
    slots = (at // 5).astype(int)
    return {
        "grouping": scheme,
        **{what: seen.wrote[what] for what in ("sent", "late_seconds", "moves", "hot_keys_most")},
        "all_processed": seen.finished,
        "rate": rate,
        "busiest": max(seen.per_consumer) / settings.seconds * settings.service,
        "utilisation": rate * settings.service / settings.partitions,
        "mean_ms": 1e3 * float(measured.mean()),
        **{f"p{p}_ms": 1e3 * float(np.percentile(measured, p)) for p in (50, 90, 99)},
        "percentiles_ms": {str(p): 1e3 * float(np.percentile(measured, p)) for p in PERCENTILES},
        "timeline": [
            {
                "second": 5 * (slot + 1),
                **{
                    f"p{p}_ms": 1e3 * float(np.percentile(delays[slots == slot], p))
                    for p in (50, 90, 99)
                },
            }
            for slot in range(int(settings.seconds // 5))
            if (slots == slot).any()
        ],
        "keys_handed_over": seen.counts["keys_sent"],
        "most_held": seen.counts["most_held"],
        "transactions_aborted": seen.counts["aborts"],
    }
