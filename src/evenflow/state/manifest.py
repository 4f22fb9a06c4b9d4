"""The manifest: one small object per batch that says what counts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from evenflow.model import shapes
from evenflow.state.errors import damaged, other_format
from evenflow.state.past_owners import packed, unpacked
from evenflow.state.segments import SEGMENT_SHAPE, Segment

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
        memory: what the controller remembers of earlier batches, by `planning.memory.Memory.to_json`.
        scaling: what is known of the load, where the number of partitions follows it, by
            `planning.scaling.ScalingMemory.to_json`.
        due: which keys are to be looked at when, for state with timers or a TTL (`due_keys`).
        closings: how many batches up to here had no rows of the source, and put out what event time had
            passed; Spark's number of a batch is lower by as many.
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
    memory: Mapping[str, Any] = field(default_factory=dict)
    scaling: Mapping[str, Any] = field(default_factory=dict)
    due: Sequence[Segment] = ()
    closings: int = 0
    fence: int = 0
    format: int = FORMAT

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "due", tuple(self.due))
        object.__setattr__(self, "output", tuple(self.output))
        owners = {int(epoch): dict(described) for epoch, described in self.owners.items()}
        object.__setattr__(self, "owners", owners)

    def named(self) -> tuple[Segment, ...]:
        """All segments, of the state and of what is due."""
        return (*self.segments, *self.due)

    @property
    def source_batch(self) -> int:
        """The last batch of the source that it contains, as the source numbers them."""
        return self.batch - self.closings

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
    body["owners"] = packed(manifest.owners)
    for name in ("segments", "due"):
        body[name] = [segment.to_json() for segment in getattr(manifest, name)]
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
    if wrong := _SHAPE(body, "it"):
        raise damaged(where, wrong)
    owners = unpacked(body.pop("owners", {}))
    if isinstance(owners, str):
        raise damaged(where, owners)
    segments, due = (
        [Segment.from_json(segment) for segment in body.pop(name, ())]
        for name in ("segments", "due")
    )
    return Manifest(owners=owners, segments=segments, due=due, **body)


def _epoch(value: Any, what: str) -> str | None:
    return None if type(value) is str and _EPOCH.fullmatch(value) else f"{what} is not an epoch"


_EPOCH = re.compile(r"[0-9]{1,18}")
_PLAIN = shapes.mapping(shapes.anything)
_SHAPE = shapes.fields(
    {"batch": shapes.whole(0)},
    {
        "run": shapes.text,
        "plan": _PLAIN,
        "owners": shapes.mapping(_PLAIN, _epoch),
        "segments": shapes.a_list(SEGMENT_SHAPE),
        "output": shapes.a_list(shapes.anything),
        "metrics": _PLAIN,
        "event_time": _PLAIN,
        "source": shapes.mapping(shapes.text),
        "memory": _PLAIN,
        "scaling": _PLAIN,
        "due": shapes.a_list(SEGMENT_SHAPE),
        "closings": shapes.whole(0),
        "fence": shapes.whole(0),
    },
)


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
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(where, "it is not JSON with a checksum") from error
    if not intact:
        raise damaged(where, "it does not match its checksum")
    if not isinstance(body, dict):
        raise damaged(where, "its content is not an object")
    if body.get("format", FORMAT) != FORMAT:
        raise other_format(where, body["format"], FORMAT)
    return body
