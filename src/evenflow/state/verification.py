"""Is everything in a checkpoint what was written? And what is in it?"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from evenflow.model import InputError
from evenflow.model.owners import Owners
from evenflow.operators.grouping_rows import group_rows
from evenflow.state.checkpoint import FOLDER, IDENTITY, Checkpoint, content_of
from evenflow.state.compaction import newest
from evenflow.state.due_keys import verify_due
from evenflow.state.errors import (
    CheckpointError,
    OtherFormat,
    damaged,
    explained,
    no_checkpoint,
    other_format,
)
from evenflow.state.journal import PLANS
from evenflow.state.manifest import FORMAT, Manifest, unseal
from evenflow.state.records import Place
from evenflow.state.segments import (
    FINGERPRINT,
    VERSION,
    Segment,
    key_columns,
    open_segment,
    own_key_columns,
    read_segment,
)
from evenflow.state.source import PROGRESS
from evenflow.state.whole_keys import rows_of_fingerprints
from evenflow.storage import Storage, storage_at

_METADATA, _OFFSETS = "metadata", "offsets/"  # of Spark's log

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


def verify(path: str | os.PathLike[str] | Storage, progress: Progress | None = None) -> Verdict:
    """Read all that a checkpoint's kept manifests name, and check all that can be checked.

    Guarantee: a changed byte in the identity, a plan, a kept manifest or a segment that one names is
    found, and its file named. So is a segment that is missing, cut short or exchanged, whose rows are
    out of order, twice there or another owner's; a manifest that is missing or another batch's; and
    Spark's own log, if it does not have the rows that the manifests are of.

    Parameters:
        path: the checkpoint location, as the user named it. Nothing there is changed.
        progress: called before every file.
    """
    storage = storage_at(path).under(FOLDER)
    checkpoint = Checkpoint(storage, {})
    places = checkpoint.places()
    with explained("list", storage.where()):
        begun = bool(places or storage.list(IDENTITY))
        sealed = [IDENTITY, *storage.list(PLANS)]
    if not begun and storage.list("metrics.jsonl"):
        raise other_format(checkpoint.location, 1, FORMAT)
    if not begun:
        raise no_checkpoint(storage.where(IDENTITY))
    problems: dict[str, str] = {}
    for name in sealed:
        with _noted(problems, storage.where(name)):
            unseal(content_of(storage, name), storage.where(name))
    manifests: list[Manifest] = []
    for place in places:
        with _noted(problems, storage.where(place.name)):
            record = checkpoint.record(place)
            if isinstance(record, Manifest):
                manifests.append(record)
    for earlier, later in pairwise(places):
        for batch in range(earlier.batch + 1, later.batch):
            missing = storage.where(Place(batch).name)
            problems[missing] = str(damaged(missing, "it is missing"))
    logged = _verify_log(storage_at(path).under(PROGRESS), manifests, problems)
    segments = {segment.name: segment for m in manifests for segment in m.segments}
    owners = {epoch: described for m in manifests for epoch, described in m.owners.items()}
    left_behind: dict[str, pa.Table] = {}
    for done, segment in enumerate(segments.values()):
        if progress is not None:
            progress(segment.file, done, len(segments))
        with _noted(problems, storage.where(segment.name)):
            stale = verify_segment(storage, segment, owners)
            # What expires may be gone already where it has moved to.
            if stale.num_rows and segment.expires is None:
                left_behind[segment.name] = stale
    due = {segment.name: segment for m in manifests for segment in m.due}
    for segment in due.values():
        with _noted(problems, storage.where(segment.name)):
            verify_due(storage, segment)
    for name, stale in left_behind.items():
        with _noted(problems, storage.where(name)):
            _check_taken_over(storage, name, stale, manifests, owners)
    files = len(sealed) + len(places) + len(segments) + len(due) + logged
    return Verdict(files, sum(segment.rows for segment in segments.values()), problems)


@contextmanager
def _noted(problems: dict[str, str], where: str) -> Iterator[None]:
    try:
        yield
    except OtherFormat:
        raise  # nothing is damaged; this version cannot tell
    except (CheckpointError, InputError) as error:
        problems[where] = str(error)


def _verify_log(log: Storage, manifests: list[Manifest], problems: dict[str, str]) -> int:
    """Compare Spark's log with the manifests; how many of its files were read.

    Spark drops old entries, but never that of the last batch.
    """
    known = [manifest for manifest in manifests if manifest.source.get("query")]
    if not known:
        return 0
    metadata = log.where(_METADATA)
    with _noted(problems, metadata):
        try:
            query = json.loads(content_of(log, _METADATA))["id"]
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(metadata, "it does not name a query") from error
        if query != known[-1].source["query"]:
            raise damaged(metadata, "it is another query's than the manifests'")
    with explained("list", log.where(_OFFSETS)):
        entries = set(log.list(_OFFSETS))
    read = 1
    for manifest in known:
        name = f"{_OFFSETS}{manifest.source_batch}"
        if name not in entries and manifest is not known[-1]:
            continue
        read += 1
        with _noted(problems, log.where(name)):
            if content_of(log, name).decode(errors="replace") != manifest.source["offsets"]:
                raise damaged(log.where(name), "it has other rows than the committed batch")
    return read


def verify_segment(storage: Storage, segment: Segment, owners: dict[int, Any]) -> pa.Table:
    """Check every byte and every row of a segment; raises `DamagedState` at the first fault. Returns
    the fingerprints and versions of rows that are not its owner's any more.

    Parameters:
        storage: the checkpoint's.
        segment: as a manifest describes it.
        owners: epoch → who owned which key then, by `Owners.to_json`.
    """
    where = storage.where(segment.name)
    with explained("read", where):
        size = storage.size(segment.name)
    if size != segment.bytes:
        raise damaged(where, f"it has {size} bytes instead of {segment.bytes}")
    table, container = read_segment(storage, segment), open_segment(storage, segment)
    fingerprints = container.fingerprints()
    if not container.index_fits(fingerprints):
        raise damaged(where, "its index does not fit its rows")
    if len(fingerprints) != segment.rows or table.num_rows != segment.rows:
        raise damaged(where, f"it has {table.num_rows} rows instead of {segment.rows}")
    if np.any(fingerprints[:-1] > fingerprints[1:]):
        raise damaged(where, "its rows are not in order")
    told_apart = [*key_columns(table.column_names), *own_key_columns(table.column_names)]
    _, distinct = group_rows([table.column(name) for name in (FINGERPRINT, *told_apart)])
    if len(distinct) != table.num_rows or newest(table).num_rows != table.num_rows:
        raise damaged(where, "it has two rows for one key")
    versions = table.column(VERSION).to_numpy()
    if np.any((versions < segment.lowest_batch) | (versions > segment.highest_batch)):
        raise damaged(where, "it has rows of other batches than its manifest says")
    missing = set(segment.epochs) - set(owners)
    if missing:
        raise damaged(where, f"no manifest knows the owners in its epochs {sorted(missing)}")
    owned = np.zeros(segment.rows, bool)
    for epoch in segment.epochs:
        owned |= Owners.from_json(owners[epoch])(fingerprints) == segment.owner
    return table.select([FINGERPRINT, VERSION]).filter(pa.array(~owned))


def _check_taken_over(
    storage: Storage,
    name: str,
    stale: pa.Table,
    manifests: list[Manifest],
    owners: dict[int, Any],
) -> None:
    """Rows that another owner should have must be there, as new or newer: a key that has moved."""
    manifest = next(m for m in reversed(manifests) if name in {s.name for s in m.segments})
    owner_functions = {epoch: Owners.from_json(one) for epoch, one in owners.items()}
    prints = stale.column(FINGERPRINT).to_numpy().view(np.uint64)
    found = rows_of_fingerprints(storage, manifest.segments, owner_functions, np.unique(prints))
    newest_of: dict[int, int] = {}
    if found is not None:
        have = found.column(FINGERPRINT).to_numpy().view(np.uint64).tolist()
        for key, version in zip(have, found.column(VERSION).to_pylist(), strict=True):
            newest_of[key] = max(version, newest_of.get(key, -1))
    wanted = zip(prints.tolist(), stale.column(VERSION).to_pylist(), strict=True)
    lost = sum(newest_of.get(key, -1) < version for key, version in wanted)
    if lost:
        raise damaged(storage.where(name), f"{lost} of its rows belong to another owner")


def contents(path: str | os.PathLike[str] | Storage) -> dict[str, Any]:
    """What is in a checkpoint, as plain JSON.

    `keys` counts distinct fingerprints, which is the number of keys unless two of them collide;
    `rows` also counts older versions that are not compacted yet.
    """
    checkpoint = Checkpoint.open(path)
    batches, last = checkpoint.batches(), checkpoint.last()
    described: dict[str, Any] = {
        "checkpoint": checkpoint.location,
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
        "epochs": {str(epoch): described for epoch, described in sorted(last.owners.items())},
        "segments": len(segments),
        "rows": sum(segment.rows for segment in segments),
        "keys": _distinct_keys(checkpoint.storage, last),
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


def _distinct_keys(storage: Storage, manifest: Manifest) -> int:
    found = [np.zeros(0, np.uint64)]
    for segment in manifest.segments:
        found.append(open_segment(storage, segment).fingerprints())
    return len(np.unique(np.concatenate(found)))
