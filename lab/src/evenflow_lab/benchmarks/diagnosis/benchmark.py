"""Does `evenflow diagnose` name the cause?

Every planted fault (`planted.py`) runs on Spark in a process of its own, and its event log is
diagnosed; an application that fails or takes too long counts as not named, and the others still run.
With --record DIR, the logs are left there, small and without names of machines: those of
tests/diagnosis/logs were made in this way.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

from evenflow.diagnosis import diagnose
from evenflow.model import InputError
from evenflow_lab.benchmarks.diagnosis.planted import FAULTS
from evenflow_lab.benchmarks.diagnosis.recording import record_fault, write_sample
from evenflow_lab.benchmarks.outcome import Goal, Progress, Result, Table, say_nothing

_NO_RUN = "it did not run"


def run(
    fault: Annotated[str, "Only this one."] = "",
    record: Annotated[str, "Leave the event logs in this directory."] = "",
    progress: Progress = say_nothing,
) -> Result:
    if fault and fault not in FAULTS:
        raise InputError(f"there is no fault {fault!r}; known are {', '.join(FAULTS)}")
    rows: list[dict[str, Any]] = []
    wanted = [fault] if fault else list(FAULTS)
    for done, name in enumerate(wanted):
        progress(name, done, len(wanted))
        began = time.monotonic()
        cause, answer = _diagnosed(name, record)
        rows.append(
            {
                "fault": name,
                "planted": FAULTS[name].cause,
                "found": cause,
                "named": cause == FAULTS[name].cause,
                "seconds": round(time.monotonic() - began, 1),
                "answer": answer,
            }
        )
    shown = [{k: v for k, v in row.items() if k != "answer"} for row in rows]
    named = sum(row["named"] for row in rows)
    return Result(
        rows,
        (Table(shown),),
        tuple(f"{row['fault']}: {row['answer']}" for row in rows),
        (Goal("share of faults that are named", named / len(rows), 1.0, at_least=True),),
        named == len(rows),
    )


def _diagnosed(name: str, record: str) -> tuple[str, str]:
    """The cause that is found for a fault, and the answer in words."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            log = record_fault(name, Path(folder) / "run")
        except InputError as error:
            return _NO_RUN, str(error)
        found = diagnose(log)
        if record:
            Path(record).mkdir(parents=True, exist_ok=True)
            write_sample(log, Path(record) / f"{name}.zstd")
    return found.cause, found.answer
