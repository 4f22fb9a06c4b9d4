"""Is everything in a checkpoint what was written? And what is in it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.state.checkpoint import Checkpoint, content_of, local_path
from evenflow.state.errors import CheckpointError, damaged
from evenflow.state.folding import newest
from evenflow.state.manifest import Manifest, unseal
from evenflow.state.segments import (
    FINGERPRINT,
    VERSION,
    Segment,
    open_segment,
    read_segment,
)
from evenflow.state.whole_keys import rows_of_fingerprints

Progress = Callable[[str, int, int], None]  #: (file, files done, files in all)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found.

    Parameters:
        files: how many files were read.
        rows: how many rows of state are in them.
        problems: file → what is wrong with it.
    """

    files: int
    rows: int
    problems: dict[str, str]

    @property
    def intact(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "intact": self.intact,
            "files": self.files,
            "rows": self.rows,
            "problems": [{"file": file, "what": what} for file, what in self.problems.items()],
        }


def verify(path: str | Path, progress: Progress | None = None) -> Verdict:
    """Read all that a checkpoint's kept manifests name, and check all that can be checked.

    Guarantee: a changed byte in the identity, a plan, a kept manifest or a segment that one names is
    found, and its file named. So is a segment that is missing, cut short or exchanged, whose rows are
    out of order, twice there or another owner's.

    Parameters:
        path: the checkpoint, as the user named it. Nothing in it is changed.
        progress: called before every file.
    """
    directory = local_path(path) / "evenflow"
    if not directory.is_dir():
        raise InputError(
            f"{directory.parent} is not a checkpoint of evenflow: it has no directory evenflow; give "
            "the directory that the query was started with"
        )
    checkpoint = Checkpoint(directory, {})
    problems: dict[str, str] = {}
    sealed = [directory / "identity.json", *sorted((directory / "plans").glob("*.json"))]
    for file in sealed:
        with _noted(problems, file):
            unseal(content_of(file), file)
    manifests: list[Manifest] = []
    batches = checkpoint.batches()
    for batch in batches:
        with _noted(problems, checkpoint.manifest_file(batch)):
            manifests.append(checkpoint.manifest(batch))
    segments = {segment.file: segment for m in manifests for segment in m.segments}
    placements = {epoch: place for m in manifests for epoch, place in m.placements.items()}
    left_behind: dict[str, pa.Table] = {}
    for done, segment in enumerate(segments.values()):
        if progress is not None:
            progress(segment.file, done, len(segments))
        with _noted(problems, checkpoint.segments_directory / segment.file):
            stale = verify_segment(checkpoint.segments_directory, segment, placements)
            # What expires may be gone already where it has moved to.
            if stale.num_rows and segment.expires is None:
                left_behind[segment.file] = stale
    for name, stale in left_behind.items():
        with _noted(problems, checkpoint.segments_directory / name):
            _check_taken_over(checkpoint.segments_directory, name, stale, manifests, placements)
    files = len(sealed) + len(batches) + len(segments)
    return Verdict(files, sum(segment.rows for segment in segments.values()), problems)


@contextmanager
def _noted(problems: dict[str, str], file: Path) -> Iterator[None]:
    try:
        yield
    except (CheckpointError, InputError) as error:
        problems[str(file)] = str(error)


def verify_segment(directory: Path, segment: Segment, placements: dict[int, Any]) -> pa.Table:
    """Check every byte and every row of a segment; raises `DamagedState` at the first fault. Returns
    the fingerprints and versions of rows that are not its owner's any more."""
    file = directory / segment.file
    table = read_segment(directory, segment)
    with open_segment(directory, segment) as container:
        fingerprints = container.fingerprints()
        if not container.index_fits(fingerprints):
            raise damaged(file, "its index does not fit its rows")
    if len(fingerprints) != segment.rows or table.num_rows != segment.rows:
        raise damaged(file, f"it has {table.num_rows} rows instead of {segment.rows}")
    if np.any(fingerprints[:-1] > fingerprints[1:]):
        raise damaged(file, "its rows are not in order")
    if newest(table).num_rows != table.num_rows:
        raise damaged(file, "it has two rows for one key")
    versions = table.column(VERSION).to_numpy()
    if np.any((versions < segment.lowest_batch) | (versions > segment.highest_batch)):
        raise damaged(file, "it has rows of other batches than its manifest says")
    missing = set(segment.epochs) - set(placements)
    if missing:
        raise damaged(file, f"no manifest knows the placement of its epochs {sorted(missing)}")
    owned = np.zeros(segment.rows, bool)
    for epoch in segment.epochs:
        owned |= Owners.from_json(placements[epoch])(fingerprints) == segment.owner
    return table.select([FINGERPRINT, VERSION]).filter(pa.array(~owned))


def _check_taken_over(
    directory: Path,
    name: str,
    stale: pa.Table,
    manifests: list[Manifest],
    placements: dict[int, Any],
) -> None:
    """Rows that another owner should have must be there, as new or newer: a key that has moved."""
    manifest = next(m for m in reversed(manifests) if name in {s.file for s in m.segments})
    places = {epoch: Owners.from_json(place) for epoch, place in placements.items()}
    prints = stale.column(FINGERPRINT).to_numpy().view(np.uint64)
    found = rows_of_fingerprints(directory, manifest.segments, places, np.unique(prints))
    newest_of: dict[int, int] = {}
    if found is not None:
        have = found.column(FINGERPRINT).to_numpy().view(np.uint64).tolist()
        for key, version in zip(have, found.column(VERSION).to_pylist(), strict=True):
            newest_of[key] = max(version, newest_of.get(key, -1))
    wanted = zip(prints.tolist(), stale.column(VERSION).to_pylist(), strict=True)
    lost = sum(newest_of.get(key, -1) < version for key, version in wanted)
    if lost:
        raise damaged(directory / name, f"{lost} of its rows belong to another owner")


def contents(path: str | Path) -> dict[str, Any]:
    """What is in a checkpoint, as plain JSON.

    `keys` counts distinct fingerprints, which is the number of keys unless two of them collide;
    `rows` also counts older versions that are not folded away yet.
    """
    checkpoint = Checkpoint.open(path)
    batches, last = checkpoint.batches(), checkpoint.last()
    described: dict[str, Any] = {
        "checkpoint": str(checkpoint.directory.parent),
        "identity": dict(checkpoint.identity),
        "batches": {"kept": len(batches), "oldest": None, "last": None},
    }
    if last is None:
        return {**described, "segments": 0, "rows": 0, "keys": 0, "bytes": 0, "owners": []}
    segments = last.segments
    described["batches"].update(oldest=batches[0], last=batches[-1])
    return {
        **described,
        "run": last.run,
        "plan": dict(last.plan),
        "epochs": {str(epoch): place for epoch, place in sorted(last.placements.items())},
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "keys": _distinct_keys(checkpoint.segments_directory, last),
        "bytes": sum(segment.bytes for segment in segments),
        "owners": [
            _owner(number, [segment for segment in segments if segment.owner == number])
            for number in sorted({segment.owner for segment in segments})
        ],
        "hot_keys": list(last.metrics.get("hot_keys", [])),
    }


def _owner(number: int, segments: list[Segment]) -> dict[str, Any]:
    return {
        "owner": number,
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "bytes": sum(segment.bytes for segment in segments),
        "epochs": sorted({epoch for segment in segments for epoch in segment.epochs}),
    }


def _distinct_keys(directory: Path, manifest: Manifest) -> int:
    found = [np.zeros(0, np.uint64)]
    for segment in manifest.segments:
        with open_segment(directory, segment) as container:
            found.append(container.fingerprints())
    return len(np.unique(np.concatenate(found)))
