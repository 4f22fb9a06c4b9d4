"""A skewed stream of small files, and what any run over it must say."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import evenflow as ef
from evenflow.engine.job import Job
from evenflow.engine.keyed_states import KeyedStates
from evenflow.engine.routing import fingerprints_of
from evenflow.model.owners import Owners
from evenflow.operators import Aggregate, Aggregates
from evenflow.state.checkpoint import Checkpoint
from evenflow.state.state_reader import StateReader
from evenflow.state.verification import verify
from evenflow.storage import Storage, storage_at

ROWS = pa.schema([("page", pa.string()), ("ms", pa.int64()), ("user", pa.int64())])
SPARK_SCHEMA = "page string, ms long, user long"
#: Keys that break what takes text for harmless: HTML, line ends, a null byte, nothing at all.
HOSTILE = [
    *("<script>alert('x')</script>", "a\nb", "a\r\nb", "a\x00b", "", "日本語", "🙂", "\u2028"),
    *(
        '"quoted"',
        "back\\slash",
        "a\tb",
        "'; DROP TABLE t; --",
        "e\u0301",
        "é",
        "\x1b[31m",
        "\ufeff",
    ),
]


def aggregates() -> dict[str, Aggregate]:
    return {"hits": ef.count(), "ms_in_all": ef.sum("ms"), "users": ef.distinct("user")}


def part(number: int, seed: int, rows: int = 400, keys: int = 300) -> pa.Table:
    """The rows of one file: a third of one key, hostile keys and null, many rare keys."""
    rng = np.random.default_rng([seed, number])
    rare = rng.integers(0, keys, rows)
    kind = rng.random(rows)
    pages = [
        "hot"
        if k < 0.33
        else None
        if k < 0.36
        else HOSTILE[r % len(HOSTILE)]
        if k < 0.5
        else f"page {r}"
        for k, r in zip(kind.tolist(), rare.tolist(), strict=True)
    ]
    ms = [None if i % 11 == 0 else int(i) for i in rng.integers(-1000, 1000, rows)]
    users = rng.integers(0, 40, rows).tolist()
    return pa.table({"page": pages, "ms": ms, "user": users}, schema=ROWS)


_FIRST_WRITTEN = 1_700_000_000


def add_files(directory: Path, first: int, last: int, seed: int, **size: int) -> None:
    """Files `first` … `last - 1` of the stream, each there whole or not at all."""
    directory.mkdir(exist_ok=True)
    for number in range(first, last):
        unfinished = directory.parent / f"{number}.unfinished"
        pq.write_table(part(number, seed, **size), unfinished)
        # Spark takes the oldest file first; files of the same moment it takes in any order.
        os.utime(unfinished, (_FIRST_WRITTEN + number, _FIRST_WRITTEN + number))
        unfinished.rename(directory / f"{number:05d}.parquet")


class Truth:
    """The batch oracle: plain Python over rows, one key at a time."""

    def __init__(self) -> None:
        self._hits: dict[str | None, int] = defaultdict(int)
        self._ms: dict[str | None, int | None] = {}
        self._users: dict[str | None, set[int]] = defaultdict(set)

    def add(self, table: pa.Table) -> set[str | None]:
        """Take rows in; the keys that they touch."""
        touched = set()
        for row in table.to_pylist():
            page, ms = row["page"], row["ms"]
            touched.add(page)
            self._hits[page] += 1
            before = self._ms.setdefault(page, None)
            if ms is not None:
                self._ms[page] = ms + (before or 0)
            self._users[page].add(row["user"])
        return touched

    def rows(self, pages: set[str | None] | None = None) -> list[tuple[Any, ...]]:
        """What is known of these keys, or of all."""
        wanted = self._hits.keys() if pages is None else pages
        return in_order((p, self._hits[p], self._ms[p], len(self._users[p])) for p in wanted)


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ["page", *aggregates()]
    return in_order(tuple(row[name] for name in names) for row in table.to_pylist())


def batches_of(progress: Storage) -> list[list[str]]:
    """The names of the files of every batch, as Spark's own logs have them.

    Mostly one per batch. But a driver that dies after a file was noted and before the batch was leaves
    two to the next batch.

    Parameters:
        progress: Spark's part of the checkpoint.
    """
    noted: dict[str, int] = {}
    for name in progress.list("sources/0/"):
        if name.rpartition("/")[2].split(".")[0].isdigit():
            for line in progress.read(name).decode().splitlines()[1:]:
                entry = json.loads(line)
                noted[entry["path"].rpartition("/")[2]] = entry["batchId"]
    ends = {}
    for name in progress.list("offsets/"):
        number = name.rpartition("/")[2]
        if number.isdigit():
            # After two lines of Spark's own, one per source; the files are the first.
            last = progress.read(name).decode().splitlines()[2]
            ends[int(number)] = -1 if last == "-" else json.loads(last)["logOffset"]
    assert sorted(ends) == list(range(len(ends)))
    begin, batches = -1, []
    for batch in range(len(ends)):
        files = sorted(name for name, offset in noted.items() if begin < offset <= ends[batch])
        batches.append(files)
        begin = ends[batch]
    return batches


def check_all(files: Path, checkpoint: Path | Storage, output: Path | Storage) -> int:
    """That every row of every file counts once: in each batch's output, in the latest output of each
    key, and in the state. Gives the number of batches.

    Parameters:
        files: a local folder with the very files that the query reads.
        checkpoint, output: of the query, on whatever store.
    """
    kept, written = storage_at(checkpoint), storage_at(output)
    batches = batches_of(kept.under("spark"))
    taken = [name for batch in batches for name in batch]
    there = sorted(file.name for file in files.glob("*.parquet"))
    assert sorted(taken) == there, "Spark has not taken every file once"
    outputs = written.list("batch=")
    assert len({name.partition("/")[0] for name in outputs}) == len(batches)
    truth = Truth()
    latest: dict[str | None, dict[str, Any]] = {}
    for batch, names in enumerate(batches):
        touched: set[str | None] = set()
        for name in names:
            touched |= truth.add(pq.read_table(files / name))
        found = read_output(written, f"batch={batch}/")
        assert rows_of(found) == truth.rows(touched), f"the output of batch {batch}"
        latest |= {row["page"]: row for row in found.to_pylist()}
    everything = truth.rows()
    assert rows_of(pa.Table.from_pylist(list(latest.values()))) == everything, "the latest output"
    assert rows_of(state_of(kept, [row[0] for row in everything])) == everything, "the state"
    verdict = verify(kept)
    assert verdict.intact, verdict.problems
    last = Checkpoint.open(kept).last()
    assert last is not None
    assert last.batch == len(batches) - 1
    return len(batches)


def read_output(output: Storage, folder: str) -> pa.Table:
    """The rows of one batch's folder."""
    names = (name for name in output.list(folder) if name.endswith(".parquet"))
    contents = map(output.read, names)
    return pa.concat_tables(pq.read_table(pa.BufferReader(content)) for content in contents)


def state_of(checkpoint: Storage, pages: list[str | None]) -> pa.Table:
    """What the committed state says of these keys."""
    opened = Checkpoint.open(checkpoint)
    last = opened.last()
    assert last is not None
    operator = Aggregates(**aggregates())
    job = Job(("page",), ROWS, KeyedStates(operator), None, 1)
    owners = {epoch: Owners.from_json(place) for epoch, place in last.owners.items()}
    reader = StateReader(opened.storage, last.segments, owners)
    keys = pa.table({"page": pa.array(pages, pa.string())})
    prints = fingerprints_of(keys.combine_chunks().to_batches()[0], ("page",))
    states, known = reader.look_up(prints, keys.rename_columns(["k0"]))
    assert known.all(), "a key has no state"
    states = states.rename_columns([name.removeprefix("s_") for name in states.column_names])
    emitted = operator.emit(keys, states.cast(job.state_schema()))
    return emitted.add_column(0, "page", keys.column("page"))
