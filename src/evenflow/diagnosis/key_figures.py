"""How often the keys of some rows occur, wherever the rows come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenflow.kernels.mixing import mix
from evenflow.model import InputError
from evenflow.simulator.workloads import KeyFile, KeyFolder, Workload
from evenflow.simulator.workloads.drawing import from_tables, named_keys
from evenflow.simulator.workloads.protocol import U64

COUNTED = 4096  #: keys that are followed one by one
SHOWN = 10
_MOST_DRAWN = 1_000_000  #: rows of a simulated stream
_MOST_CELLS = 1_000_000
_CHUNK = 1 << 17


@dataclass(frozen=True)
class KeyFigures:
    """How often keys occur.

    Parameters:
        source: where the rows are.
        columns: the key columns.
        rows: how many there are.
        keys: how many different keys; None if not counted.
        hottest: (name, rows) of the most frequent keys, most frequent first.
        workload: the keys, for the simulator.
        sampled: whether `workload` stands for more rows than it has.
    """

    source: str
    columns: tuple[str, ...]
    rows: int
    keys: int | None
    hottest: tuple[tuple[str, int], ...]
    workload: Workload
    sampled: bool = False


@dataclass(frozen=True)
class CountedKeys:
    """A stream of keys, drawn at random with the frequencies that were counted.

    Parameters:
        fingerprints: of the keys that were counted one by one.
        counts: their rows.
        rows: of all keys.
        keys: how many there are.

    Example:
        >>> stream = CountedKeys((7, 9), (900, 50), rows=1000, keys=12)
        >>> [keys] = stream.chunks(1000)
        >>> 850 < int((keys == 7).sum()) < 950
        True
    """

    name: ClassVar[str] = "counted"

    fingerprints: tuple[int, ...]
    counts: tuple[int, ...]
    rows: int
    keys: int

    def chunks(self, size: int) -> Iterator[U64]:
        others = min(max(0, self.keys - len(self.counts)), _MOST_CELLS)
        left = max(0, self.rows - sum(self.counts))
        weights = np.array([*self.counts, *([left / others] * others if others else [])])
        salt = np.uint64(1)
        named = np.concatenate(
            [np.array(self.fingerprints, np.uint64), named_keys(mix(np.uint64(2)), others)]
        )
        messages = self.length()
        table = iter([named])
        yield from from_tables(weights / weights.sum(), table, salt, messages, None, size)

    def length(self) -> int:
        return min(self.rows, _MOST_DRAWN)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "drift": None, "stand_in": False}


def figures_of_files(path: Path, columns: tuple[str, ...]) -> KeyFigures:
    """The keys of a file, or of all files of a directory.

    Guarantee: memory does not grow with the rows; the counts of the hottest keys are exact to a
    4096th of all rows.
    """
    from evenflow.sketches.space_saving import SpaceSaving

    files = KeyFolder(path, columns).files() if path.is_dir() else [KeyFile(path, columns)]
    sketch = SpaceSaving(COUNTED)
    state, rows = sketch.start(), 0
    for file in files:
        for keys in file.chunks(_CHUNK):
            sketch.update(state, keys)
            rows += len(keys)
    hot = sketch.hot(state, 0.0)
    order = np.argsort(-hot.upper, kind="stable")[:SHOWN]
    wanted = {int(hot.keys[i]): int(hot.upper[i]) for i in order}
    names = _names(files, columns, set(wanted))
    workload: Workload = KeyFolder(path, columns) if path.is_dir() else files[0]
    hottest = tuple((names.get(key, "?"), count) for key, count in wanted.items())
    return KeyFigures(str(path), columns, rows, None, hottest, workload)


def _names(files: list[KeyFile], columns: tuple[str, ...], wanted: set[int]) -> dict[int, str]:
    """The keys with these fingerprints, as text."""
    from evenflow.kernels.fingerprints import fingerprint

    found: dict[int, str] = {}
    for file in files:
        for batch in file.batches(_CHUNK):
            prints = fingerprint(batch.column(0) if batch.num_columns == 1 else batch)
            unique, first = np.unique(prints, return_index=True)
            for one, row in zip(unique.tolist(), first.tolist(), strict=True):
                if one in wanted and one not in found:
                    found[one] = ", ".join(key_text(batch.slice(row, 1).to_pylist()[0].values()))
            if len(found) == len(wanted):
                return found
    return found


def key_text(values: Any) -> list[str]:
    """The values of a key as text.

    Example:
        >>> key_text(["home", None, b"raw", 7])
        ['home', 'null', 'raw', '7']
    """
    return [
        "null"
        if value is None
        else value.decode("utf-8", "backslashreplace")
        if isinstance(value, bytes)
        else str(value)
        for value in values
    ]


def figures_of_table(
    source: str, columns: tuple[str, ...], counted: Any, rows: int, keys: int
) -> KeyFigures:
    """Keys that were counted elsewhere.

    Parameters:
        source: where they were counted.
        columns: the key columns.
        counted: an Arrow table of the most frequent keys: the columns, then `rows`.
        rows, keys: all of them.
    """
    from evenflow.engine.key_names import key_names
    from evenflow.engine.routing import fingerprints_of

    if not rows:
        raise InputError(f"{source} has no rows: there is nothing to diagnose")
    [batch] = counted.combine_chunks().to_batches() or [None]
    counts = batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False)
    named = batch.select(list(range(batch.num_columns - 1))).rename_columns(list(columns))
    prints = fingerprints_of(named, columns)
    import pyarrow as pa

    names = key_names(pa.Table.from_batches([named.slice(0, SHOWN)]))
    workload = CountedKeys(tuple(prints.tolist()), tuple(counts.tolist()), rows, keys)
    return KeyFigures(
        source,
        columns,
        rows,
        keys,
        tuple((name[1:-1], int(count)) for name, count in zip(names, counts, strict=False)),
        workload,
        sampled=workload.length() < rows,
    )
