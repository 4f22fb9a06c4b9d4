"""Queries whose state ends with time, over the stream of `stream.py`, and what each has to put out.

The event time of a row follows from its file and its user, so that the files of a pair overlap in time,
none of their rows is ever late, and what comes out does not depend on how Spark has cut the files into
batches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import evenflow as ef
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.verification import verify
from evenflow.storage import Storage, storage_at
from evenflow_lab.checking.exactly_once.stream import batches_of, read_output

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenflow.spark.keyed import Keyed
    from evenflow.spark.result import BalancedDataFrame

MINUTE = 60
START = (
    28_333_334 * MINUTE
)  # well after 1970: to Spark's processors, rows of its first moment are late
GAP = 25  # seconds; the rows of a pair of files span 40, so some sessions go on in the next pair
TTL = 5_000  # milliseconds: less than a driver takes to start and to begin, more than a batch does

_PAIR = "int(substring(_metadata.file_name, 1, 5)) DIV 2"
_TIME = f"timestamp_seconds({START} + {_PAIR} * {MINUTE} + user) AS time"
_KEYS = {"duplicates": ("page", "user", "time")}

Balanced = Callable[["Keyed"], "Keyed"]


def timed_query(kind: str, rows: DataFrame, balanced: Balanced) -> BalancedDataFrame:
    """The query of a kind.

    Parameters:
        kind: one of `CHECKS`.
        rows: of the files.
        balanced: chooses scheme and partitions.
    """
    timed = rows.selectExpr("page", "ms", "user", _TIME)
    keyed = balanced(ef.keyed(timed, *_KEYS.get(kind, ("page",))))
    if kind == "ttl":
        return keyed.transformWithState(
            _running(), "page string, n long, running long", "Append", "ProcessingTime"
        )
    keyed = keyed.withWatermark("time", f"{MINUTE} seconds")
    if kind == "sessions":
        return keyed.sessionWindow("time", f"{GAP} seconds").agg(hits=ef.count())
    if kind == "duplicates":
        return keyed.dropDuplicates()
    return keyed.transformWithState(
        _minutes(), "page string, end long, n long", "Append", "EventTime"
    )


def _minutes() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Minutes(StatefulProcessor):  # type: ignore[misc]
        """Counts the rows of each minute, and puts a count out when the minute's timer is due."""

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.counts = handle.getMapState("counts", "end long", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], times: Any) -> Iterator[Any]:
            ends = Counter(int(row.time.timestamp()) // MINUTE * MINUTE + MINUTE for row in rows)
            for end, n in ends.items():
                known = self.counts.getValue((end,)) if self.counts.containsKey((end,)) else (0,)
                self.counts.updateValue((end,), (known[0] + n,))
                self.handle.registerTimer(end * 1000)
            return iter(())

        def handleExpiredTimer(self, key: Any, times: Any, expired: Any) -> Iterator[Any]:
            end = expired.getExpiryTimeInMs() // 1000
            yield Row(page=key[0], end=end, n=self.counts.getValue((end,))[0])
            self.counts.removeKey((end,))

        def close(self) -> None:
            pass

    return Minutes()


def _running() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Running(StatefulProcessor):  # type: ignore[misc]
        """The rows of a key in this batch, and in all batches since it was last forgotten."""

        def init(self, handle: Any) -> None:
            self.running = handle.getValueState("running", "n long", ttlDurationMs=TTL)

        def handleInputRows(self, key: Any, rows: Iterator[Any], times: Any) -> Iterator[Any]:
            n = sum(1 for _ in rows)
            known = self.running.get() if self.running.exists() else (0,)
            self.running.update((known[0] + n,))
            yield Row(page=key[0], n=n, running=known[0] + n)

        def close(self) -> None:
            pass

    return Running()


def check_timed(kind: str, files: Path, checkpoint: Path | Storage, output: Path | Storage) -> int:
    """That the query has put out what it must, each row once, and that its state is intact. Gives the
    number of batches.

    Parameters:
        kind: one of `CHECKS`.
        files: a local folder with the very files that the query has read.
        checkpoint, output: of the query.
    """
    kept, written = storage_at(checkpoint), storage_at(output)
    batches = batches_of(kept.under("spark"))
    taken = sorted(name for batch in batches for name in batch)
    assert taken == sorted(file.name for file in files.glob("*.parquet"))
    last = Checkpoint.open(kept).last()
    assert last is not None
    # A batch without rows may have come last, which Spark does not know of.
    batches += [[] for _ in range(last.batch + 1 - len(batches))]
    assert last.batch + 1 == len(batches)
    folders = {name.partition("/")[0] for name in written.list("batch=")}
    assert folders <= {f"batch={batch}" for batch in range(len(batches))}
    found = [
        read_output(written, f"batch={batch}/").to_pylist() if f"batch={batch}" in folders else []
        for batch in range(len(batches))
    ]
    rows = {name: _rows_of(files / name) for name in taken}
    CHECKS[kind](batches, found, rows)
    verdict = verify(kept)
    assert verdict.intact, verdict.problems
    return len(batches)


Rows = list[tuple[Any, int, int]]  # page, user and event time in seconds


def _rows_of(file: Path) -> Rows:
    start = START + int(file.name[:5]) // 2 * MINUTE
    return [
        (row["page"], row["user"], start + row["user"])
        for row in pq.read_table(file, columns=["page", "user"]).to_pylist()
    ]


Batches = list[list[str]]
Found = list[list[dict[str, Any]]]


def _check_sessions(batches: Batches, found: Found, rows: dict[str, Rows]) -> None:
    times = defaultdict(list)
    for page, _, time in _all(rows):
        times[page].append(time)
    expected: Counter[Any] = Counter()
    for page, there in times.items():
        session: list[int] = []
        for time in [*sorted(there), 1 << 60]:
            if session and time > session[-1] + GAP:
                end = session[-1] + GAP
                if end <= _watermark(rows):
                    expected[page, session[0], end, len(session)] += 1
                session = []
            session.append(time)
    _assert_equal(
        expected,
        (
            (
                row["page"],
                int(row["session_window"]["start"].timestamp()),
                int(row["session_window"]["end"].timestamp()),
                row["hits"],
            )
            for row in _all_of(found)
        ),
    )


def _check_duplicates(batches: Batches, found: Found, rows: dict[str, Rows]) -> None:
    expected = Counter(dict.fromkeys(_all(rows), 1))
    _assert_equal(
        expected,
        ((row["page"], row["user"], int(row["time"].timestamp())) for row in _all_of(found)),
    )


def _check_timers(batches: Batches, found: Found, rows: dict[str, Rows]) -> None:
    counts = Counter((page, time // MINUTE * MINUTE + MINUTE) for page, _, time in _all(rows))
    due = _watermark(rows)
    expected = Counter((page, end, n) for (page, end), n in counts.items() if end <= due)
    _assert_equal(expected, ((row["page"], row["end"], row["n"]) for row in _all_of(found)))


def _check_ttl(batches: Batches, found: Found, rows: dict[str, Rows]) -> None:
    """Each batch counts its own rows, and adds them to what the key had, unless that was forgotten."""
    before: dict[Any, int] = {}
    forgotten = remembered = 0
    for batch, (names, put_out) in enumerate(zip(batches, found, strict=True)):
        counts = Counter(page for name in names for page, _, _ in rows[name])
        assert Counter({row["page"]: row["n"] for row in put_out}) == counts, f"batch {batch}"
        assert len(put_out) == len(counts), f"batch {batch} has put out a key twice"
        for row in put_out:
            known = before.get(row["page"], 0)
            assert row["running"] - row["n"] in (0, known), f"batch {batch}: {row}, after {known}"
            if known:
                forgotten += row["running"] == row["n"]
                remembered += row["running"] != row["n"]
            before[row["page"]] = row["running"]
    assert forgotten, "no key was ever forgotten"
    assert remembered, "no key was ever remembered"


CHECKS: dict[str, Callable[[Batches, Found, dict[str, Rows]], None]] = {
    "sessions": _check_sessions,
    "duplicates": _check_duplicates,
    "timers": _check_timers,
    "ttl": _check_ttl,
}


def _all(rows: dict[str, Rows]) -> Iterator[tuple[Any, int, int]]:
    return (row for there in rows.values() for row in there)


def _all_of(found: Found) -> Iterator[dict[str, Any]]:
    return (row for batch in found for row in batch)


def _watermark(rows: dict[str, Rows]) -> int:
    return max(time for _, _, time in _all(rows)) - MINUTE


def _assert_equal(expected: Counter[Any], found: Iterable[Any]) -> None:
    assert expected, "there is nothing to put out"
    there = Counter(found)
    assert there == expected, f"missing {expected - there}, too many {there - expected}"
