"""Statistics of each key, from a file with columns key, cost, state_bytes, worker, hash_worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evenflow.cli.rows_file import I64, RowsFile
from evenflow.model import Workers

if TYPE_CHECKING:
    from evenflow.planning.protocol import I32, U64, Statistics

HOME = "hash_worker"
_MOST_WORKERS = 2**31 - 1


@dataclass(frozen=True)
class StatisticsFile:
    """Statistics, and the keys themselves.

    Parameters:
        statistics: one row per key, in the order of the file.
        rows: the file.
        hashed: whether the file has no hash_worker, so that keys were hashed here.
    """

    statistics: Statistics
    rows: RowsFile
    hashed: bool

    def texts(self, rows: I64) -> list[str]:
        """The keys of these rows as text."""
        return self.rows.texts("key", rows)


def read_statistics(
    path: Path, workers: Workers, seed: int = 0, leaving: bool = False
) -> StatisticsFile:
    """Reads and checks a file; an error names the row.

    Parameters:
        path: Parquet, CSV or JSON lines.
        workers: the workers that keys can be assigned to, with their weights.
        seed: of the hash, where the file has no `hash_worker`.
        leaving: whether keys may be on further workers, which are about to leave.
    """
    from evenflow.kernels.fingerprints import fingerprint
    from evenflow.planning.protocol import Statistics

    file = RowsFile.read(path, "key", ("cost", "state_bytes", "worker"), (HOME,), "plan")
    file.refuse_nulls("key", "cost", "state_bytes", "worker", HOME)
    keys = fingerprint(file.table.column("key"))
    _refuse_duplicates(file, keys)
    worker = _workers(file, "worker", _MOST_WORKERS if leaving else len(workers))
    hashed = HOME not in file
    home = _homes(keys, workers, seed) if hashed else _workers(file, HOME, len(workers))
    costs, state = (file.amounts(name) for name in ("cost", "state_bytes"))
    return StatisticsFile(Statistics(keys, costs, state, worker, home), file, hashed)


def _refuse_duplicates(file: RowsFile, keys: U64) -> None:
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(again):
        second = int(order[again + 1].min())
        first = int(np.flatnonzero(keys == keys[second])[0])
        [text] = file.texts("key", np.array([second]))
        raise file.refusal(
            second,
            f"the key {text!r} is already in row {first + 1}; add up the rows of each key first",
        )


def _workers(file: RowsFile, name: str, most: int) -> I32:
    numbers = file.numbers(name)
    whole = numbers == np.floor(numbers)
    wrong = ~((numbers >= 0) & (numbers < most) & whole)
    leaves = name == "worker" and wrong.any() and (whole & (numbers >= most))[np.argmax(wrong)]
    hint = "; if workers are leaving, add --leaving" if leaves else ""
    file.refuse_where(wrong, name, f"the number of a worker, 0 to {most - 1}", numbers, hint)
    return numbers.astype(np.int32)


def _homes(keys: U64, workers: Workers, seed: int) -> I32:
    """The worker of each key by the hash of the scheme `table`, which a plan is made for."""
    from evenflow.grouping.table import TableRouting

    scheme, homes = TableRouting(), np.empty(len(keys), np.int32)
    scheme.route(scheme.start(workers, seed), keys, homes)
    return homes
