"""Event logs of planted faults: made by real runs, cleaned of names, and small."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from evenflow.diagnosis.compression import pieces
from evenflow.model import InputError

_KEPT = (
    "spark.sql.adaptive", "spark.sql.shuffle", "spark.sql.autoBroadcast", "spark.memory.fraction",
    "spark.driver.memory", "spark.executor.memory", "spark.master",
)  # fmt: skip
_DROPPED = {"Log Urls", "Attributes", "Details", "details", "User", "Job Tags", "Callsite"}
_HOSTS = {"Host", "host"}
_LONGEST = 300.0  # seconds


def record_fault(name: str, folder: Path) -> Path:
    """Run the application of a fault in a process of its own; the directory of its event log.

    Parameters:
        name: of a fault of `planted.FAULTS`.
        folder: an empty directory.
    """
    module = "evenflow_lab.benchmarks.diagnosis.planted"
    command = [sys.executable, "-m", module, name, str(folder)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        raise InputError(f"the application {name!r} took more than {_LONGEST:g} seconds") from None
    if ran.returncode:
        last = ran.stderr.strip().splitlines()[-1:]
        raise InputError(f"the application {name!r} failed: {' '.join(last)}")
    return folder / "log"


def scrubbed(event: dict[str, Any]) -> dict[str, Any]:
    """An event without names of machines, users and paths.

    Example:
        >>> scrubbed({"Event": "E", "Host": "db7.example", "User": "ann", "x": [{"host": "db7"}]})
        {'Event': 'E', 'Host': 'machine', 'x': [{'host': 'machine'}]}
    """
    if event.get("Event") == "SparkListenerEnvironmentUpdate":
        properties = event["Spark Properties"]
        return {
            "Event": event["Event"],
            "Spark Properties": {k: v for k, v in properties.items() if k.startswith(_KEPT)},
        }
    found: dict[str, Any] = _scrub(event)
    found.pop("Properties", None)
    return found


def _scrub(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: "machine" if k in _HOSTS else _scrub(v)
            for k, v in value.items()
            if k not in _DROPPED
        }
    return [_scrub(one) for one in value] if isinstance(value, list) else value


def write_sample(log: Path, sample: Path) -> None:
    """A log as one small file: scrubbed, compressed with zstd.

    Parameters:
        log: the directory that `record_fault` returned.
        sample: the file to write.
    """
    with pa.output_stream(str(sample), compression="zstd") as out:
        for line in _lines(log):
            out.write(json.dumps(scrubbed(json.loads(line)), separators=(",", ":")).encode())
            out.write(b"\n")


def _lines(log: Path) -> Iterator[bytes]:
    for part in sorted(log.glob("eventlog_v2_*/events_*")):
        yield from b"".join(pieces(part)).splitlines()
