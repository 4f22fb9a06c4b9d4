"""Small files of a checkpoint beside the state: plans, before they are used, and metrics, after."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenflow.model.plan import Plan
from evenflow.state.durable import write_whole
from evenflow.state.errors import explained
from evenflow.state.manifest import seal, unseal

METRICS = "metrics.jsonl"
WORKERS = "workers.json"


def fixed_plan(directory: Path, batch: int, wanted: Plan) -> Plan:
    """The plan of a batch: the one written down when the batch was first tried, else `wanted`.

    A batch is tried again after an error or a crash, maybe by a driver that was started with other
    settings. Which rows went where, and who owns which key, must not depend on the try.
    """
    file = directory / "plans" / f"{batch:010d}.json"
    with explained("write", file):
        file.parent.mkdir(exist_ok=True)
        try:
            write_whole(file, [seal(wanted.to_dict())], replace=False)
        except FileExistsError:
            return Plan.from_dict(unseal(file.read_bytes(), file))
    return wanted


def forget_plans(directory: Path, batch: int) -> None:
    """Drop the plans of batches before this one, which are committed."""
    for file in (directory / "plans").iterdir():
        number = file.name.partition(".")[0]  # unfinished ones have more after it
        if number.isdigit() and int(number) < batch:
            file.unlink(missing_ok=True)


def wish_workers(directory: Path, workers: int, instead_of: int) -> None:
    """Ask the query with this checkpoint for another number of workers, from its next batch on.

    Parameters:
        directory: the checkpoint's own.
        workers: how many.
        instead_of: how many it was started with. Once it is started with another number, that counts.
    """
    file = directory / WORKERS
    with explained("write", file):
        write_whole(file, [seal({"workers": workers, "instead_of": instead_of})])


def wished_workers(directory: Path, started_with: int) -> int:
    """How many workers the next batch should have."""
    file = directory / WORKERS
    try:
        wish = unseal(file.read_bytes(), file)
    except FileNotFoundError:
        return started_with
    return int(wish["workers"]) if wish["instead_of"] == started_with else started_with


def drop_unfinished(spark_checkpoint: Path) -> None:
    """Delete what a killed driver has left half written in Spark's own logs.

    Spark ignores such files, but for one case: before the first batch it refuses to start unless the
    logs are empty, whatever lies in them.
    """
    for log in ("offsets", "commits"):
        for file in (spark_checkpoint / log).glob(".*.tmp*"):
            with explained("delete", file):
                file.unlink(missing_ok=True)


def append_metrics(directory: Path, metrics: Mapping[str, Any]) -> None:
    """Add a batch to the metrics. Its number tells a second line for the same batch apart."""
    file = directory / METRICS
    with explained("write", file), open(file, "a", encoding="utf-8") as lines:
        # A driver that was killed while it wrote may have left half a line.
        lines.write("\n" * (not _ends_a_line(file)) + json.dumps(metrics) + "\n")


def read_metrics(checkpoint: str | Path) -> list[dict[str, Any]]:
    """The metrics of every batch of the query with this checkpoint, oldest first."""
    file = Path(checkpoint) / "evenflow" / METRICS
    if not file.exists():
        return []
    rows: dict[int, dict[str, Any]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
            rows[row["batch"]] = row
        except (ValueError, KeyError, TypeError):
            continue  # the last line of a driver that was killed while it wrote
    return [rows[batch] for batch in sorted(rows)]


def _ends_a_line(file: Path) -> bool:
    if not file.stat().st_size:
        return True
    with open(file, "rb") as content:
        content.seek(-1, 2)
        return content.read(1) == b"\n"
