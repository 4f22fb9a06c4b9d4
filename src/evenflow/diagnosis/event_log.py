"""Spark's event logs: found, put in order, and read line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenflow.diagnosis.application import Application, Recorder
from evenflow.diagnosis.compression import TruncatedLog, pieces
from evenflow.model import InputError

_ROLLED = "eventlog_v2_"
_PART = re.compile(r"events_(\d+)_.*?(\.compact)?$")
_LONGEST_LINE = 1 << 26  #: bytes; plans of a few megabytes exist
_SHOWN = 5

# Events that say nothing here; most lines of a log are among them.
_IGNORED = re.compile(
    rb'\s*\{"Event":"(?:SparkListener(?:BlockUpdated|BlockManagerAdded|BlockManagerRemoved|'
    rb"StageExecutorMetrics|ExecutorMetricsUpdate|TaskGettingResult|SpeculativeTaskSubmitted|"
    rb"UnpersistRDD|ResourceProfileAdded)|org\.apache\.spark\.sql\.(?:streaming|connect)\.)"
)


@dataclass
class _Reading:
    """What became of the lines."""

    lines: int = 0
    skipped: int = 0
    truncated: bool = False
    notes: list[str] = field(default_factory=list)


def is_event_log(path: Path) -> bool:
    """Whether this looks like an event log, or a directory of one or several.

    Example:
        >>> is_event_log(Path("no-such-file"))
        False
    """
    if path.is_dir():
        return bool(_parts(path)) or any(_applications(path))
    if not path.is_file():
        return False
    try:
        return b'"Event"' in next(pieces(path), b"")[:65_536]
    except (TruncatedLog, InputError, OSError):
        return path.name.endswith((".zstd", ".lz4", ".snappy", ".lzf", ".inprogress"))


def read_event_log(path: Path) -> Application:
    """The application that wrote an event log.

    Guarantee: memory grows with the tasks (about 130 bytes each) and the plans, not with the bytes of
    the log. A log that breaks off, and one that is still being written, is read as far as it goes, and
    `notes` says so; lines and fields that are unknown are passed over.

    Parameters:
        path: the file; or the directory of a rolled log (`eventlog_v2_…`); or a directory that has
            one application's log.
    """
    reading, recorder = _Reading(), Recorder()
    for part in _in_order(path):
        try:
            for line in _lines(part, reading):
                _take(line, recorder, reading)
        except OSError as error:
            raise InputError(f"{str(part)!r} cannot be read: {error.strerror or error}") from None
    if not recorder.events:
        raise InputError(
            f"{str(path)!r} has no events of Spark; an event log is what Spark writes where "
            "spark.eventLog.enabled is true"
        )
    if reading.skipped:
        reading.notes.append(f"{reading.skipped:,} lines could not be read and were passed over")
    if reading.truncated:
        reading.notes.append("the log breaks off: what follows is about the part before")
    elif not recorder.ended:
        reading.notes.append(
            "the application had not ended when this was written: the log is incomplete"
        )
    return recorder.application(str(path), tuple(reading.notes))


def _in_order(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"there is no event log {str(path)!r}")
    if not path.is_dir():
        return [path]
    if parts := _parts(path):
        return parts
    found = sorted(_applications(path), key=lambda one: one.name)
    if not found:
        raise InputError(
            f"{str(path)!r} has no event log; give a log's file, or a directory {_ROLLED}…, as "
            "spark.eventLog.dir has them"
        )
    if len(found) > 1:
        names = ", ".join(one.name for one in found[-_SHOWN:])
        raise InputError(
            f"{str(path)!r} has the logs of {len(found)} applications; give one of them: {names}"
            + ("" if len(found) <= _SHOWN else ", …")
        )
    return _parts(found[0]) if found[0].is_dir() else found


def _applications(folder: Path) -> Iterator[Path]:
    for one in folder.iterdir():
        if one.name.startswith("."):
            continue
        if one.is_dir():
            if one.name.startswith(_ROLLED):
                yield one
        elif re.match(r"(app|application|local|spark)-", one.name) and is_event_log(one):
            yield one


def _parts(folder: Path) -> list[Path]:
    """The files of a rolled log, oldest first; a compacted one stands for all before it."""
    found = [
        (int(match[1]), match[2] is not None, one)
        for one in folder.iterdir()
        if (match := _PART.match(one.name)) and one.is_file()
    ]
    compacted = max((number for number, compact, _ in found if compact), default=-1)
    kept = [
        (number, one) for number, compact, one in found if number > compacted or
        (compact and number == compacted)
    ]  # fmt: skip
    return [one for _, one in sorted(kept)]


def _lines(path: Path, reading: _Reading) -> Iterator[bytes]:
    """Complete lines; the last one without its end is dropped if it is not whole."""
    rest: list[bytes] = []
    held, too_long = 0, False
    try:
        for piece in pieces(path):
            *whole, last = piece.split(b"\n")
            for end in whole:
                if not too_long:
                    yield b"".join((*rest, end))
                rest, held, too_long = [], 0, False
            held += len(last)
            if held > _LONGEST_LINE:
                reading.skipped += not too_long
                rest, too_long = [], True
            elif last:
                rest.append(last)
    except TruncatedLog:
        reading.truncated = True
    if rest and not too_long:
        line = b"".join(rest)
        try:
            json.loads(line)
        except ValueError:
            reading.truncated = True
        else:
            yield line


def _take(line: bytes, recorder: Recorder, reading: _Reading) -> None:
    reading.lines += 1
    if not line.strip() or _IGNORED.match(line):
        return
    try:
        event: Any = json.loads(line)
        recorder.take(event)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        reading.skipped += 1
