"""The diagnosis of a Kafka topic: its partitions, a group's lag, its hot keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from evenflow.diagnosis.diagnosis import Bars, Diagnosis, Table
from evenflow.diagnosis.key_figures import figures_of_table
from evenflow.diagnosis.keys import diagnose_keys
from evenflow.diagnosis.rules import LIMITS, NOTHING

_SHOWN = 20


def diagnose_topic(
    topic: str,
    bootstrap: str,
    group: str | None = None,
    partitions: int | None = None,
    seconds_per_row: float | None = None,
) -> Diagnosis:
    """How evenly a topic's partitions are filled, how far a group is behind, and which keys are hot.

    Nothing is committed, and no group is joined. The keys are those of the newest records.

    Parameters:
        topic: its name.
        bootstrap: the broker's address.
        group: a consumer group; None to leave out the lag.
        partitions: over which keys are spread in the dry run; None for the topic's own number.
        seconds_per_row: what a consumer takes for a record; None if it is not known.
    """
    import pyarrow as pa

    from evenflow.kafka.topic_sample import sample_topic

    sample = sample_topic(bootstrap, topic, group)
    loads = [end - first for first, end in sample.offsets]
    total = sum(loads)
    average = total / max(len(loads), 1)
    tables: tuple[Table, ...] = (_partitions(sample.offsets, sample.lags),)
    bars = Bars("Records of each partition", tuple(map(float, loads)), "records", average)
    where = f"topic {topic} on {bootstrap}"
    behind = max(sample.lags, default=None, key=lambda lag: lag.messages)
    late = ""
    if behind is not None and behind.messages:
        seconds = "" if behind.seconds is None else f", {behind.seconds:.0f} s"
        late = (
            f"; group {group} is furthest behind in partition {behind.partition} "
            f"({behind.messages:,} messages{seconds})"
        )
    notes = (f"the keys are those of the newest {len(sample.keys):,} of {total:,} records",)
    if not sample.keys:
        answer = f"There is nothing to diagnose yet: {where} has no records{late}."
        return Diagnosis(where, "topic", answer, NOTHING, False, tables=tables)
    counted: list[tuple[Any, int]] = Counter(sample.keys).most_common()
    table = pa.table(
        [
            pa.array([key for key, _ in counted], pa.binary()),
            pa.array([count for _, count in counted], pa.int64()),
        ],
        ["key", "rows"],
    )
    found = figures_of_table(where, ("key",), table, len(sample.keys), len(counted))
    readable = tuple(
        ("null" if key is None else key.decode("utf-8", "backslashreplace"), count)
        for key, count in counted[: len(found.hottest)]
    )
    spread = partitions or len(loads)
    keys = diagnose_keys(replace(found, hottest=readable), spread, seconds_per_row, kind="topic")
    fullest = max(loads) / average if average else 1.0
    uneven = f"the fullest partition holds {fullest:.2f} times the average{late}"
    answer = f"{keys.answer.removesuffix('.')}; {uneven}."
    if keys.cause == NOTHING and behind is not None and (behind.seconds or 0) > LIMITS.lag_seconds:
        answer += " The keys are even, so the lag is a matter of too few consumers, or slow ones."
    return replace(
        keys,
        answer=answer,
        tables=(*tables, *keys.tables),
        pictures=(bars, *keys.pictures),
        notes=(*notes, *keys.notes),
    )


def _partitions(offsets: list[tuple[int, int]], lags: list[Any]) -> Table:
    lag_of = {lag.partition: lag for lag in lags}
    order = sorted(range(len(offsets)), key=lambda p: offsets[p][0] - offsets[p][1])
    return Table(
        "partitions",
        tuple(
            {
                "partition": p,
                "records": offsets[p][1] - offsets[p][0],
                "lag": lag_of[p].messages if p in lag_of else None,
                "lag s": lag_of[p].seconds if p in lag_of else None,
            }
            for p in order[:_SHOWN]
        ),
    )
