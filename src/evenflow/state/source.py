"""Which rows a batch has, in the words of whoever numbers the batches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.model import InputError

PROGRESS = "spark"  #: the folder of Spark's own log in a checkpoint location, beside ours

_REMEDY = (
    "restore the whole checkpoint location, with the folder `spark` in it, from one backup, or start "
    "with a new location"
)


@dataclass(frozen=True)
class Source:
    """The rows of one batch, as its source's log has them.

    A batch's number alone does not say which rows it has: a log that was deleted, or that lost its
    last entries in a crash, gives old numbers to new rows.

    Parameters:
        query: whose log it is; another one after the log was begun again. Empty if it is not kept.
        offsets: the log's entry for the batch.
        waiting: how many rows the source held back, as far as it says so. That is no part of which rows
            the batch has, and is not kept.

    Example:
        >>> first, second = Source("q", "0 to 5"), Source("q", "0 to 9")
        >>> first.origin(3) == first.origin(3), first.origin(3) == second.origin(3)
        (True, False)
    """

    query: str = ""
    offsets: str = ""
    waiting: int | None = field(default=None, compare=False)

    @property
    def moment(self) -> int | None:
        """When the batch began, in milliseconds since 1970; None where the log does not say.

        Spark writes it down with the offsets, so a batch that is run again has the same.

        Example:
            >>> Source("q", 'v1\\n{"batchTimestampMs":1700000000000}\\n{}').moment
            1700000000000
        """
        return moment_in(self.offsets)

    def origin(self, batch: int) -> str:
        """A digest that only a rerun of this very batch has; empty where the source has no log."""
        if not self.query:
            return ""
        text = "\n".join((self.query, str(batch), self.offsets))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, str]:
        """Plain values; nothing where the source has no log."""
        kept = {"query": self.query, "offsets": self.offsets}
        return kept if self.query or self.offsets else {}

    @classmethod
    def from_json(cls, plain: Mapping[str, str]) -> Source:
        """From the result of `to_json`."""
        return cls(plain.get("query", ""), plain.get("offsets", ""))


def moment_in(offsets: str) -> int | None:
    """When a batch began, by its log's entry."""
    lines = offsets.splitlines()
    try:
        found = json.loads(lines[1])["batchTimestampMs"] if len(lines) > 1 else None
    except (ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int else None


def topic_offsets(offsets: str) -> dict[str, dict[int, int]]:
    """The topics of Kafka in an entry of a log: topic → partition → next offset.

    Example:
        >>> topic_offsets('v1\\n{"batchWatermarkMs":0}\\n{"clicks":{"0":12,"1":7}}')
        {'clicks': {0: 12, 1: 7}}
        >>> topic_offsets('v1\\n{}\\n{"logOffset":3}')
        {}
    """
    found: dict[str, dict[int, int]] = {}
    for line in offsets.splitlines()[2:]:
        try:
            for topic, places in json.loads(line).items():
                found[topic] = {int(partition): int(at) for partition, at in places.items()}
        except (ValueError, AttributeError, TypeError):
            continue  # another source's
    return found


def check_same_rows(
    batch: int, source: Source, committed: Mapping[str, str] | None, where: str
) -> None:
    """Refuse a batch that has a committed one's number and other rows.

    Parameters:
        batch: its number.
        source: its rows.
        committed: those of the committed batch, by `Source.to_json`; None if no longer known.
        where: the checkpoint, for the message.
    """
    if not source.query or committed == source.to_json() or committed == {}:
        return
    raise InputError(
        f"batch {batch} is committed in {where}, and Spark has given its number to other rows: Spark's "
        f"log was deleted, or has lost its last entries; {_REMEDY}"
    )


def check_same_log(batch: int, source: Source, before: Mapping[str, str], where: str) -> None:
    """Refuse a batch of another log than that of the batch before it.

    Parameters:
        batch: its number.
        source: its rows.
        before: those of the batch before it, by `Source.to_json`.
        where: the checkpoint, for the message.
    """
    if source.query and before and before["query"] != source.query:
        raise InputError(
            f"batch {batch} comes from the log of another query than the batches in {where}: the "
            f"folder `spark` was replaced or begun again; {_REMEDY}"
        )
