"""The manifest: one small object per batch that says what counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from evenflow.state.errors import damaged, other_format
from evenflow.state.segments import Segment

FORMAT = 2  #: of manifests, identity and segments


@dataclass(frozen=True)
class Manifest:
    """All that batch `batch` left behind, and all that the next batch starts from.

    A field that is at its default is not written, so a new one can be added without a new format.

    Parameters:
        batch: the micro-batch that it commits.
        run: the identity of the run that committed it.
        plan: how the next batch is to be routed. JSON: the keys of dictionaries are strings.
        owners: epoch (a whole number) → who owned which key then, by `Owners.to_json`.
        segments: the state.
        output: the files or rows that were delivered.
        metrics: of this batch.
        event_time: how far event time has come, for state that expires (`event_time.Watermarks`).
        source: which rows the batch had, by `Source.to_json`.
        fence: the number of the driver that committed it; each one that takes over has a higher one.
        format: of the object.
    """

    batch: int
    run: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    owners: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    output: Sequence[Any] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    event_time: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    fence: int = 0
    format: int = FORMAT

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "output", tuple(self.output))
        owners = {int(epoch): dict(described) for epoch, described in self.owners.items()}
        object.__setattr__(self, "owners", owners)

    @property
    def epoch(self) -> int | None:
        """The latest epoch; None if no key has an owner yet."""
        return max(self.owners, default=None)


def dump(manifest: Manifest) -> bytes:
    """The content of a manifest's object.

    Example:
        >>> load(dump(Manifest(batch=3, plan={"scheme": "key"}))).plan["scheme"]
        'key'
    """
    body = {one.name: getattr(manifest, one.name) for one in fields(manifest)}
    body["owners"] = {str(epoch): described for epoch, described in manifest.owners.items()}
    body["segments"] = [segment.to_json() for segment in manifest.segments]
    always = {name: body.pop(name) for name in ("batch", "format")}
    return seal({**always, **{name: value for name, value in body.items() if value}})


def load(content: bytes, where: str = "manifest") -> Manifest:
    """The manifest in an object's content; `DamagedState` if a single bit of it has changed."""
    return manifest_of(unseal(content, where), where)


def manifest_of(body: dict[str, Any], where: str) -> Manifest:
    """The manifest with these fields; refused if a later version has added one."""
    unknown = set(body) - {one.name for one in fields(Manifest)}
    if unknown:
        raise other_format(where, f"{FORMAT} with {', '.join(sorted(unknown))}", FORMAT)
    segments = [Segment.from_json(segment) for segment in body.pop("segments", ())]
    return Manifest(segments=segments, **body)


def seal(body: Mapping[str, Any]) -> bytes:
    """JSON with its own checksum, always written the same way."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"checksum":"{checksum}",\n"content":{text}}}\n'.encode()


def unseal(content: bytes, where: str) -> dict[str, Any]:
    """What was sealed; `DamagedState` naming `where` if it is not byte for byte what `seal` wrote."""
    try:
        body: dict[str, Any] = json.loads(content)["content"]
        intact = seal(body) == content
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(where, "it is not JSON with a checksum") from error
    if not intact:
        raise damaged(where, "it does not match its checksum")
    if body.get("format", FORMAT) != FORMAT:
        raise other_format(where, body["format"], FORMAT)
    return body
