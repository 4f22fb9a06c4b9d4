"""The sequence of a checkpoint's records: whoever adds the next one was the first to do so.

A record is the manifest of a batch, or the takeover by which a driver begins. Records are named
`manifests/BATCH-TURN.json`: the manifest of a batch is followed by turn 0 of the next batch, a takeover
by the next turn of the same one. So all who want to add a record want the same name, and
create-if-absent gives it to one of them: a driver that was taken over finds the place of its next
commit occupied. Of the records of one batch, that of the highest turn counts: a takeover makes those
before it void. They go with their batch, or when there are too many of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from evenflow.model import shapes
from evenflow.state.errors import damaged
from evenflow.state.manifest import FORMAT, Manifest, dump, manifest_of, seal, unseal
from evenflow.state.segments import batch_of
from evenflow.storage import Storage

RECORDS = "manifests/"  #: of the checkpoint's storage
_NAME = re.compile(r"manifests/(\d{10,})-(\d{4,})\.json(\..*)?")
_TAKEOVER = "takeover"
#: Takeovers of one batch that stay. A driver that was stopped wants the place of the takeover after its
#: own record; if that is free, only its clock tells it to look, and a paused machine's stands still.
TURNS = 16
MOST_SECONDS = 7 * 86_400.0  #: of a lease


class Place(NamedTuple):
    """Where a record is in the sequence."""

    batch: int
    turn: int = 0

    @property
    def name(self) -> str:
        """The name of the record in the checkpoint's storage.

        Example:
            >>> Place(12).name
            'manifests/0000000012-0000.json'
        """
        return f"{RECORDS}{self.batch:010d}-{self.turn:04d}.json"


@dataclass(frozen=True)
class Takeover:
    """The word of a driver that it commits from here on, and no other.

    Parameters:
        fence: one more than that of the record before.
        holder: the driver's process, by `model.processes.identity`, and since when it runs.
        token: of this start of the driver, which no other has.
        seconds: how long the driver must not be heard of for another to take over.
    """

    fence: int
    holder: Mapping[str, Any] = field(default_factory=dict)
    token: str = ""
    seconds: float = 0.0


Record = Manifest | Takeover
_SHAPE = shapes.fields(
    {"fence": shapes.whole(0)},
    {
        "holder": shapes.mapping(shapes.anything),
        "token": shapes.text,
        "seconds": shapes.number(0, MOST_SECONDS),
    },
)


def content_of_record(record: Record) -> bytes:
    """The content of a record's object."""
    if isinstance(record, Manifest):
        return dump(record)
    return seal({"format": FORMAT, _TAKEOVER: asdict(record)})


def record_in(content: bytes, place: Place, where: str) -> Record:
    """The record in an object's content; `DamagedState` if a single bit of it has changed, or if it is
    the manifest of another batch.

    Parameters:
        place: where it is in the sequence.
        where: its address, for messages.
    """
    body = unseal(content, where)
    if _TAKEOVER in body:
        taken = body[_TAKEOVER]
        wrong = _SHAPE(taken, _TAKEOVER)
        if wrong or set(taken) - {one.name for one in fields(Takeover)}:
            raise damaged(where, wrong or f"{_TAKEOVER} has unknown fields")
        return Takeover(**taken)
    manifest = manifest_of(body, where)
    if manifest.batch != place.batch:
        wrong = f"it is the manifest of batch {manifest.batch}, not of batch {place.batch}"
        raise damaged(where, wrong)
    return manifest


def place_after(place: Place, record: Record) -> Place:
    """Where the record after this one goes.

    Example:
        >>> place_after(Place(4), Manifest(4)), place_after(Place(5), Takeover(1))
        (Place(batch=5, turn=0), Place(batch=5, turn=1))
    """
    if isinstance(record, Manifest):
        return Place(place.batch + 1)
    return Place(place.batch, place.turn + 1)


def places(storage: Storage) -> list[Place]:
    """Where records are, in order, those that do not count among them."""
    found = map(_NAME.fullmatch, storage.list(RECORDS))
    return sorted(Place(int(match[1]), int(match[2])) for match in found if match and not match[3])


def counting(found: list[Place]) -> list[Place]:
    """Of each batch the place of its last turn.

    Example:
        >>> counting([Place(3, 0), Place(3, 1), Place(4, 0)])
        [Place(batch=3, turn=1), Place(batch=4, turn=0)]
    """
    return [Place(*last) for last in sorted(dict(sorted(found)).items())]


def is_over(name: str, latest: int) -> bool:
    """Whether an object is of a batch that is committed, so that nobody is writing it any more.

    Parameters:
        name: of a record or segment, unfinished or not.
        latest: the last batch that is committed.
    """
    record = _NAME.fullmatch(name)
    batch = int(record[1]) if record else batch_of(name)
    return batch is not None and batch <= latest
