"""How much longer `auto` takes than the best scheme that one could have chosen beforehand.

Each cell is a stream: a skew, hot keys that stay or change, a cost per row, a cost of merging, and a
number of partitions. `auto` and every fixed scheme of the cell run it from the first batch to the
last, in turn, over the same files, with empty checkpoints. The work sleeps for its cost, so that two
cores stand in for more. Counts must come out right under every scheme; `passed` says whether they did.

The fixed schemes are the ones that `auto` chooses from, and `w-choices`. Takes about ten minutes on two
quiet cores.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.engine.auto import learned
from evenflow.engine.stored_state import StoredState
from evenflow.model import InputError
from evenflow.operators import Aggregates, Operator, count
from evenflow.operators.groups import I64
from evenflow.operators.service_time import ServiceTime
from evenflow.state.checkpoint import Checkpoint
from evenflow.storage import storage_at
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing
from evenflow_lab.benchmarks.spark.feeding import Feed, finished, processed, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS, BATCHES, SOURCES, SEED = 2000, 8, 2, 1
CHANGE_EVERY = 3  #: batches, where hot keys change
WORK = 0.4  #: seconds of work in a batch, for each partition, if it were even
CHEAP_ROWS = 60_000  #: of a batch whose rows cost nothing but themselves
AUTO, PLAIN = "auto", "key"
FEW = (2, 5, 9, 13, 17, 21, 24)  #: a cell of each kind, to try it out


@dataclass(frozen=True)
class Cell:
    """One stream.

    Parameters:
        skew: exponent of the Zipf distribution; 0 for keys that are equally frequent.
        drift: whether other keys become hot.
        row: seconds of work per row; 0 for none but counting.
        merge: seconds per part of a state that is merged away; None if keys cannot be split.
        partitions: tasks that share the work.
    """

    skew: float
    drift: bool
    row: float
    merge: float | None
    partitions: int

    @property
    def rows(self) -> int:
        return int(WORK * self.partitions / self.row) if self.row else CHEAP_ROWS

    @property
    def schemes(self) -> tuple[str, ...]:
        whole = (AUTO, PLAIN, "table")
        return whole if self.merge is None else (*whole, "partial-key", "d-choices", "w-choices")

    def operator(self) -> Operator:
        counting = Aggregates(n=count())
        if not self.row:
            return counting
        if self.merge is None:
            return WholeKeys(counting, self.row)
        return CostlyMerge(counting, self.row, merge=self.merge)

    def batches(self) -> list[npt.NDArray[np.int64]]:
        """The keys of each batch."""
        random = np.random.default_rng(SEED)
        shares = np.arange(1, KEYS + 1) ** -self.skew
        names = random.permutation(KEYS)
        drawn = []
        for batch in range(BATCHES):
            if self.drift and batch and batch % CHANGE_EVERY == 0:
                names = random.permutation(KEYS)
            drawn.append(names[random.choice(KEYS, self.rows, p=shares / shares.sum())])
        return drawn


@dataclass(frozen=True)
class WholeKeys(ServiceTime):
    """Work whose keys cannot be split."""

    @property
    def mergeable(self) -> bool:
        return False


@dataclass(frozen=True)
class CostlyMerge(ServiceTime):
    """Work whose merges take time, too.

    Parameters:
        merge: seconds per part of a state that is merged away.
    """

    merge: float = 0.0  # type: ignore[assignment]

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        self.sleep((len(group) - n) * self.merge)
        return self.operator.merge_groups(states, group, n)


def cells() -> list[Cell]:
    """All cells: those without skew first."""
    row, free, dear = 0.0005, 0.0, 0.003
    even = [
        Cell(0.0, False, cost, merge, partitions)
        for cost, merge in ((0.0, free), (row, free), (row, None))
        for partitions in (4, 16)
    ]
    kinds = (
        (0.0, free, 16),
        (row, free, 4),
        (row, free, 16),
        (row, dear, 16),
        (row, None, 8),
    )
    skewed = [
        Cell(skew, drift, *kind) for kind in kinds for skew in (1.0, 1.6) for drift in (False, True)
    ]
    return [*even, *skewed]


def run(
    quick: Annotated[bool, "Some of the cells, to try it out."] = False,
    only: Annotated[list[int] | None, "The number of a cell, from 0; repeatable."] = None,
    progress: Progress = say_nothing,
) -> Iterator[Result]:
    from evenflow.spark.session import running_session

    every = dict(enumerate(cells()))
    if unknown := set(only or ()) - set(every):
        raise InputError(f"there is no cell {min(unknown)}; they are 0 to {len(every) - 1}")
    chosen = {number: every[number] for number in only or (FEW if quick else every)}
    cores = max(cell.partitions for cell in chosen.values())
    steps, done = sum(len(cell.schemes) for cell in chosen.values()), 0
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="evenflow-regret-") as folder,
        running_session(f"local[{cores}]", "regret", preload=True) as spark,
    ):
        _warm_up(spark, Path(folder), cores)
        for turn, (number, cell) in enumerate(chosen.items()):
            home = Path(folder) / str(number)
            home.mkdir()
            feed, expected = _fed(home, cell)
            ran = {}
            # Another one comes first in each cell.
            begin = turn % len(cell.schemes)
            for scheme in (*cell.schemes[begin:], *cell.schemes[:begin]):
                progress(f"cell {number}, {turn + 1} of {len(chosen)}: {scheme}", done, steps)
                ran[scheme] = _ran(spark, feed, home, cell, scheme, expected)
                done += 1
            rows.append({"cell": number, **_row(cell, ran)})
            shutil.rmtree(home)
            yield _result(rows)


@dataclass(frozen=True)
class Ran:
    """One scheme on one cell.

    Parameters:
        seconds: of each batch.
        looked: seconds of the first batch until it had a plan.
        schemes: of each batch.
        right: whether every key was counted right.
        prices: what `auto` has measured.
    """

    seconds: tuple[float, ...]
    looked: float
    schemes: tuple[str, ...]
    right: bool
    prices: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.seconds)


def _fed(home: Path, cell: Cell, batches: int = BATCHES) -> tuple[Feed, dict[int, int]]:
    feed, expected = Feed(home / "in", SOURCES), Counter[int]()
    for keys in cell.batches()[:batches]:
        feed.add(pa.table({"page": keys}))
        expected.update(keys.tolist())
    return feed, dict(expected)


def _ran(
    spark: SparkSession, feed: Feed, home: Path, cell: Cell, scheme: str, expected: dict[int, int]
) -> Ran:
    import evenflow as ef

    checkpoint = home / scheme
    keyed = ef.keyed(feed.stream(spark), "page").balance(scheme, partitions=cell.partitions)
    query = processed(keyed.apply(cell.operator()), checkpoint)
    seconds = tuple(seconds_of(finished(query.spark_query)))
    kept = Checkpoint.open(storage_at(checkpoint))
    last = kept.last()
    assert last is not None
    state = StoredState.of(kept)
    counted: dict[int, int] = {}
    for owner in range(state.partitions):
        table = state.rows(owner)
        counted |= dict(zip(table["page"].to_pylist(), table.column(1).to_pylist(), strict=True))
    prices = {name: median(values) for name, values in learned(last.memory).prices.items()}
    metrics = query.metrics()
    schemes = tuple(str(batch["scheme"]) for batch in metrics)
    return Ran(seconds, metrics[0]["durations"]["plan"], schemes, counted == expected, prices)


def _warm_up(spark: SparkSession, folder: Path, cores: int) -> None:
    """The first queries of a session wait for compilers, Spark's and ours, and for Python workers."""
    cell = Cell(1.0, False, 0.0001, 0.0, cores)
    feed, expected = _fed(folder / "warm", cell, batches=2)
    for scheme in cell.schemes:
        _ran(spark, feed, folder / "warm", cell, scheme, expected)


def _row(cell: Cell, ran: Mapping[str, Ran]) -> dict[str, Any]:
    fixed = {scheme: one.total for scheme, one in ran.items() if scheme != AUTO}
    best = min(fixed, key=lambda scheme: fixed[scheme])
    auto = ran[AUTO]
    changes = [auto.schemes[0]]
    for batch, scheme in enumerate(auto.schemes):
        if scheme != changes[-1].partition(" ")[0]:
            changes.append(f"{scheme} at {batch}")
    return {
        **asdict(cell),
        "rows": cell.rows,
        "seconds": {scheme: round(one.total, 3) for scheme, one in ran.items()},
        "batches": {scheme: [round(s, 3) for s in one.seconds] for scheme, one in ran.items()},
        "look": round(auto.looked, 3),
        "best": best,
        "auto ÷ best": round(auto.total / fixed[best], 3),
        "auto ÷ key": round(auto.total / fixed[PLAIN], 3),
        "auto chose": ", ".join(changes),
        "right": all(one.right for one in ran.values()),
        "measured": {name: float(f"{price:.3g}") for name, price in auto.prices.items()},
    }


def _result(rows: list[dict[str, Any]]) -> Result:
    regret = [row["auto ÷ best"] for row in rows]
    even = [row["auto ÷ key"] for row in rows if not row["skew"]]
    goals = (
        Goal("auto ÷ best fixed scheme, median", median(regret), 1.05),
        Goal("auto ÷ best fixed scheme, worst", max(regret), 1.25),
        *([Goal("auto ÷ key without skew, worst", max(even), 1.05)] if even else []),
    )
    right = all(row["right"] for row in rows)
    answer = {
        "parameters": {
            "all cells": len(cells()),
            "keys": KEYS,
            "batches": BATCHES,
            "sources": SOURCES,
            "seed": SEED,
        },
        "cells": rows,
        "goals": [goal.to_dict() for goal in goals],
        "passed": right,
    }
    shown = [_shown(row) for row in rows]
    lines = () if right else ("Some counts were wrong.",)
    return Result(answer, (Table(shown, f"{len(rows)} cells"),), lines, goals, right)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table for people."""
    merge = "none" if row["merge"] is None else f"{1000 * row['merge']:g} ms"
    return {
        "cell": str(row["cell"]),
        "skew": f"z = {row['skew']:g}{', drifting' if row['drift'] else ''}",
        "row": f"{1000 * row['row']:g} ms" if row["row"] else "counted",
        "merge": merge,
        "partitions": row["partitions"],
        "key s": round(row["seconds"][PLAIN], 2),
        "best s": round(row["seconds"][row["best"]], 2),
        "best": row["best"],
        "auto s": round(row["seconds"][AUTO], 2),
        "auto ÷ best": row["auto ÷ best"],
        "auto chose": row["auto chose"],
    }
