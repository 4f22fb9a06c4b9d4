"""What a long run is looked at for: memory, open files, the checkpoint, the time of a batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from evenflow_lab.benchmarks.outcome import Goal

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEGA = 1e6
PARTS = 10  #: of a run, over each of which a median is taken


class Sample(NamedTuple):
    """One look at a run.

    Parameters:
        batch: the last batch that was done.
        memory: bytes that its processes hold (RSS).
        files: that they have open.
        objects, bytes: of state, manifests, plans and leases in the checkpoint.
        metrics: bytes of the metrics, which are kept for 10 000 batches.
        seconds: of the batch.
    """

    batch: int
    memory: int
    files: int
    objects: int
    bytes: int
    metrics: int
    seconds: float


def process_use(pids: Iterable[int]) -> tuple[int, int]:
    """Resident bytes and open files of some processes; those that are gone have none."""
    memory = files = 0
    for pid in pids:
        with suppress(OSError):
            memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            files += len(os.listdir(f"/proc/{pid}/fd"))
    return memory, files


def cpu_use(pids: Iterable[int]) -> float:
    """CPU seconds of some processes, and of their children that have ended."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """A process and all that it has started, directly or not."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents[int(entry)] = int(fields[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def checkpoint_use(folder: Path) -> tuple[int, int, int]:
    """Objects and bytes of a checkpoint without its metrics, and the bytes of these."""
    objects = size = metrics = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                length = os.stat(os.path.join(path, name)).st_size
                if os.path.basename(path) == "metrics":
                    metrics += length
                else:
                    objects, size = objects + 1, size + length
    return objects, size, metrics


def by_parts(samples: Sequence[Sample], parts: int = PARTS) -> list[dict[str, Any]]:
    """The medians of each part of a run, a tenth by default."""
    if not samples:
        return []
    last = samples[-1].batch + 1
    rows = []
    for part in range(parts):
        within = [s for s in samples if part * last <= s.batch * parts < (part + 1) * last]
        if within:
            rows.append(
                {
                    "batches": f"{part * last // parts} … {(part + 1) * last // parts - 1}",
                    "memory MB": round(median(s.memory for s in within) / _MEGA, 1),
                    "open files": round(median(s.files for s in within)),
                    "objects": round(median(s.objects for s in within)),
                    "checkpoint MB": round(median(s.bytes for s in within) / _MEGA, 2),
                    "metrics MB": round(median(s.metrics for s in within) / _MEGA, 2),
                    "batch ms": round(median(s.seconds for s in within) * 1000, 1),
                }
            )
    return rows


#: What must not grow, and by what factor it may from the second part of a run to its last. The first
#: one is left out: compilers and caches warm up in it.
BOUNDS = {
    "memory MB": 1.10,
    "open files": 1.10,
    "objects": 1.15,
    "checkpoint MB": 1.15,
    "batch ms": 1.25,
}


def goals(rows: Sequence[dict[str, Any]]) -> tuple[Goal, ...]:
    """The last part over the second, for each figure that must stay flat."""
    if len(rows) < 3:
        return ()
    return tuple(
        Goal(
            f"{name}, last part ÷ second", round(rows[-1][name] / max(rows[1][name], 1e-9), 3), most
        )
        for name, most in BOUNDS.items()
    )
