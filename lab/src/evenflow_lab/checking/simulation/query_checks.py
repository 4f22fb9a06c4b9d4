"""What must hold after every schedule of a query, compared with the oracle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.spark.sinks.parquet import complete_batches
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.compaction import newest
from evenflow.state.expiry import Expiry
from evenflow.state.manifest import Manifest
from evenflow.state.segments import FINGERPRINT, VERSION, read_segment
from evenflow_lab.checking.simulation import ledger
from evenflow_lab.checking.simulation.history import Violation
from evenflow_lab.checking.simulation.kinds import LIGHT, job_of
from evenflow_lab.checking.simulation.oracle import Expected, Row

if TYPE_CHECKING:
    from evenflow_lab.checking.simulation.queries import Query


def check_query(query: Query) -> None:
    """Raise a `Violation` unless all promises hold."""
    for actor in query.world.actors:
        if actor.error is not None and isinstance(actor.error, Exception):
            raise actor.error
    if query.history.wrong:
        raise Violation(f"not a linear history: {query.history.wrong[0]}")
    if query.unreadable:
        raise Violation(f"deleted while it was read: {query.unreadable[0]}")
    happened = query.world.happened
    if query.refused is not None and not (happened["lost files"] or happened["restore"]):
        raise Violation(f"stuck: {query.refused}")
    committed = query.history.committed
    done = committed[-1].end if committed else 0
    if query.refused is None and done != query.schedule.rows:
        raise Violation(f"lost: {done} of {query.schedule.rows} rows are committed")
    _check_kept(query)
    _check_state_and_output(query)


def _check_kept(query: Query) -> None:
    """The newest manifest is there, and all that the kept ones name; those that do not count are older.

    A driver that was stopped for so long that the place of its commit was cleared leaves a record
    there, which counts for nobody and goes with the next old ones.
    """
    checkpoint = Checkpoint.open(query.storage, query.identity)
    committed, last = query.history.committed, checkpoint.last()
    numbers = [one.manifest.batch for one in committed]
    if (None if last is None else last.batch) != (numbers[-1] if numbers else None):
        raise Violation(f"the newest manifest is {last and last.batch}, committed is {numbers}")
    counting = {one.manifest.batch: one.manifest for one in committed}
    seen = checkpoint.manifests()
    counts = {batch for batch, manifest in seen.items() if manifest == counting.get(batch)}
    for batch, manifest in seen.items():
        if batch not in counts:
            if batch > min(counts):
                raise Violation(f"the manifest of batch {batch} that is to be seen does not count")
            continue
        for segment in manifest.segments:
            try:
                size = checkpoint.storage.size(segment.name)
            except FileNotFoundError:
                raise Violation(f"batch {batch} needs {segment.name}, which is gone") from None
            if size != segment.bytes:
                raise Violation(f"{segment.name} has {size} bytes, not {segment.bytes}")


def _check_state_and_output(query: Query) -> None:
    oracle = query.input.oracle()
    for one in query.history.committed:
        oracle.moment = one.moment
        expected = oracle.batch(query.input.rows(one.start, one.end))
        _compare_output(one.manifest.batch, expected, _delivered(query, one.manifest.batch))
    if not query.history.committed:
        return
    expected_state = oracle.state()
    if expected_state is not None:
        found = _state(query, query.history.committed[-1].manifest)
        if Counter(found) != Counter(expected_state):
            raise Violation(f"state {_difference(found, expected_state)}")
    batches = complete_batches(query.output)
    latest = query.history.committed[-1].manifest.batch
    if batches and batches[-1] > latest + 1 and not query.world.happened["restore"]:
        raise Violation(f"output of batch {batches[-1]}, and batch {latest} is the last")


def _compare_output(batch: int, expected: Expected, found: list[Row]) -> None:
    # A key whose messages all wait may be put out with nothing known of it.
    found = [row for row in found if not (expected.also and row[-1] is None)]
    also = [row for row in found if expected.also.get(row[0]) == row and row not in expected.rows]
    if len(also) != len(set(also)):
        raise Violation(f"output of batch {batch}: a row twice in {also}")
    if Counter(found) - Counter(also) != Counter(expected.rows):
        raise Violation(f"output of batch {batch} {_difference(found, expected.rows)}")


def _difference(found: Iterable[Row], expected: Iterable[Row]) -> str:
    a, b = Counter(found), Counter(expected)
    more, less = sorted((a - b).elements(), key=str), sorted((b - a).elements(), key=str)
    return f"has {more[:4]} instead of {less[:4]}"


def _delivered(query: Query, batch: int) -> list[Row]:
    """What a reader of the output finds of a batch."""
    rows: list[Row] = []
    for name in query.output.list(f"batch={batch}/"):
        content = query.output.read(name)
        if query.schedule.kind == LIGHT:
            rows += [tuple(row) for row in json.loads(content)]
        else:
            # One thread: the tables are tiny, and thousands of them are read.
            rows += _plain(pq.read_table(pa.BufferReader(content), use_threads=False))
    return rows


def _state(query: Query, manifest: Manifest) -> list[Row]:
    checkpoint = Checkpoint.open(query.storage, query.identity)
    if query.schedule.kind == LIGHT:
        known = ledger.known_in(checkpoint, manifest)
        return [(key, *values) for key, values in known.items()]
    if not manifest.segments:
        return []
    job = job_of(query.schedule.kind)
    tables = [read_segment(checkpoint.storage, segment) for segment in manifest.segments]
    state = newest(pa.concat_tables(tables)).drop_columns([FINGERPRINT, VERSION])
    if job.expires is not None:
        state = Expiry(job.expires, manifest.event_time["closed"]).alive(state)
    hidden = ("ordering_", "s_look")  # `look` is a hint: when to look at a key again at the latest
    ours = [name for name in state.column_names if not any(one in name for one in hidden)]
    rows = _plain(state.select(ours))
    # A key whose messages all wait has none, and so has one whose state has ended.
    return [row for row in rows if row[-1] is not None]


def _plain(table: pa.Table) -> list[Row]:
    return [tuple(_value(value) for value in row.values()) for row in table.to_pylist()]


def _value(value: Any) -> Any:
    if isinstance(value, dict):  # a window
        value = value["end"]
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1e6)
    return value
