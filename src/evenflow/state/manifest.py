"""The manifest: one small file a batch that says what counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenflow.model import InputError
from evenflow.state.errors import damaged
from evenflow.state.segments import Segment

FORMAT = 1  #: of manifests, identity and segments


@dataclass(frozen=True)
class Manifest:
    """All that batch `batch` left behind, and all that the next batch starts from.

    Parameters:
        batch: the micro-batch that is committed by it.
        run: the identity of the run that committed it.
        plan: how the next batch is to be routed. JSON: the keys of dictionaries are strings.
        placements: epoch (a whole number) → description of the placement (`Owners.to_json`).
        segments: the state.
        output: the files or rows that were delivered.
        metrics: of this batch.
        event_time: how far event time has come, for state that expires (`event_time.Watermarks`).
        format: of the file.
    """

    batch: int
    run: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    placements: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    output: Sequence[Any] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    event_time: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "output", tuple(self.output))
        placements = {int(epoch): dict(place) for epoch, place in self.placements.items()}
        object.__setattr__(self, "placements", placements)

    @property
    def epoch(self) -> int | None:
        """The latest epoch; None if nothing has been placed."""
        return max(self.placements, default=None)


def dump(manifest: Manifest) -> bytes:
    """The content of a manifest's file.

    Example:
        >>> load(dump(Manifest(batch=3, plan={"scheme": "key"}))).plan["scheme"]
        'key'
    """
    event_time = {"event_time": manifest.event_time} if manifest.event_time else {}
    return seal(
        {
            **event_time,
            "format": manifest.format,
            "batch": manifest.batch,
            "run": manifest.run,
            "plan": manifest.plan,
            "placements": {str(epoch): place for epoch, place in manifest.placements.items()},
            "segments": [segment.to_json() for segment in manifest.segments],
            "output": list(manifest.output),
            "metrics": manifest.metrics,
        }
    )


def load(content: bytes, path: str | Path = "manifest") -> Manifest:
    """The manifest in a file's content; `DamagedState` if a single bit of it has changed."""
    body = unseal(content, Path(path))
    return Manifest(
        batch=body["batch"],
        run=body["run"],
        plan=body["plan"],
        placements=body["placements"],
        segments=[Segment.from_json(segment) for segment in body["segments"]],
        output=body["output"],
        metrics=body["metrics"],
        event_time=body.get("event_time", {}),
        format=body["format"],
    )


def seal(body: Mapping[str, Any]) -> bytes:
    """JSON with its own checksum, always written the same way."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"checksum":"{checksum}",\n"content":{text}}}\n'.encode()


def unseal(content: bytes, path: Path) -> dict[str, Any]:
    """What was sealed; `DamagedState` naming `path` if it is not byte for byte what `seal` wrote."""
    try:
        body: dict[str, Any] = json.loads(content)["content"]
        intact = seal(body) == content
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, "it is not JSON with a checksum") from error
    if not intact:
        raise damaged(path, "it does not match its checksum")
    if body.get("format", FORMAT) != FORMAT:
        raise InputError(
            f"{path} has format {body['format']}, but this version of evenflow reads format {FORMAT}; "
            "use the version that wrote it"
        )
    return body
