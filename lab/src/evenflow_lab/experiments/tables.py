"""The rows of a figure, and the files they are written to."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenflow_lab.experiments.cells import Row
from evenflow_lab.experiments.claims import LedgerEntry
from evenflow_lab.experiments.expansion import Run
from evenflow_lab.experiments.runner import Outcome
from evenflow_lab.experiments.store import changed_meanwhile, digest

# A scheme that is balanced only on average is not balanced, and shuffling is balance at the price of
# memory: whoever reads an imbalance sees the worst window and the replicas beside it.
_SIDE_BY_SIDE = ("imbalance", "worst_window", "replicas")


def figure_rows(runs: Sequence[Run], outcomes: Mapping[str, Outcome]) -> list[Row]:
    """The rows of a figure's runs, in the order of the declaration, with the figure's labels."""
    rows: list[Row] = []
    for run in runs:
        outcome = outcomes.get(digest(run.cell))
        if outcome is None:
            raise changed_meanwhile(run.cell)
        rows += [{**row, **run.labels} for row in outcome["rows"]]
    return rows


def write_table(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """`path` as CSV, one line per row, and beside it the same as JSON, with timelines.

    Columns that hold lists or tables are JSON within the CSV; timelines are left out of it.
    """
    columns = columns_of(rows)
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        table.writerow([_field(row.get(name)) for name in columns])
    write_text(path, text.getvalue())
    write_text(path.with_suffix(".json"), json.dumps(list(rows), indent=1, allow_nan=False))


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of a table, as the rows have them; imbalance with its two companions."""
    columns = list(dict.fromkeys(name for row in rows for name in row if name != "timeline"))
    if "imbalance" in columns:
        columns = [name for name in columns if name not in _SIDE_BY_SIDE[1:]]
        at = columns.index("imbalance")
        columns[at : at + 1] = _SIDE_BY_SIDE
    return columns


def write_ledger(title: str, ledger: Sequence[LedgerEntry], folder: Path) -> None:
    """`ledger.json` and `ledger.md` in `folder`."""
    entries = [entry.to_dict() for entry in ledger]
    write_text(folder / "ledger.json", json.dumps(entries, indent=1, ensure_ascii=False))
    lines = [f"# Claims of {title}", ""]
    for entry in ledger:
        lines += [f"## {entry.id}: {entry.verdict}", "", f"> {entry.says} ({entry.section})", ""]
        if entry.measured:
            lines += [f"Measured: {entry.measured}", ""]
        if entry.seeds:
            lines += [f"Seeds: it holds for {entry.held_by} of {entry.seeds} by themselves.", ""]
        if entry.why:
            lines += [f"Why: {entry.why}", ""]
        if entry.cause:
            lines += [f"Cause: {entry.cause}.", ""]
        lines += [f"`{entry.command}`", ""]
    write_text(folder / "ledger.md", "\n".join(lines))


def write_text(path: Path, text: str) -> None:
    """Puts a file in place as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def _field(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
