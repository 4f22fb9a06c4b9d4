"""What a keyed query is: all that its tasks and its batches need to know, in one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.layout import FINGERPRINT, PARTITION, stored
from evenflow.model import InputError

if TYPE_CHECKING:
    # Tasks import this module and must not wait for a compiler that they do not use.
    from evenflow.engine.work import Work
    from evenflow.grouping.protocol import GroupingScheme
    from evenflow.planning.controller import Replanning

AUTO = "auto"


@dataclass(frozen=True)
class Job:
    """A keyed computation, without its data.

    Parameters:
        key: the key columns.
        rows: the schema of the rows: key columns and what the work reads.
        work: what happens to the rows of a key.
        scheme: which partition gets which row; None to choose by what the data shows.
        partitions: how many partitions share the work.
        seed: of the hash functions.
        replanning: when and how a routing table is replanned, where the scheme has one.
    """

    key: tuple[str, ...]
    rows: pa.Schema
    work: Work
    scheme: GroupingScheme | None
    partitions: int
    seed: int = 0
    replanning: Replanning | None = None

    def key_schema(self) -> pa.Schema:
        """The key columns as they are stored: k0, k1, … for the user's own, then the work's.

        Fingerprints are of the user's key alone, so that everything that belongs to a key lies together
        and moves together.
        """
        types = [self.rows.field(name).type for name in self.key] + self.work.key_types()
        return pa.schema([pa.field(f"k{i}", kind) for i, kind in enumerate(types)])

    @property
    def expires(self) -> str | None:
        """The stored key column that says when a row of state expires, if it does."""
        return f"k{len(self.key)}" if self.work.expires else None

    def state_schema(self) -> pa.Schema:
        """The state columns, as the work names them."""
        return self.work.state_schema(self.rows)

    def stored_names(self) -> list[str]:
        """The columns of a row of state, without its version."""
        return [FINGERPRINT, *self.key_schema().names, *map(stored, self.state_schema().names)]

    def output_schema(self) -> pa.Schema:
        """The output: the key columns under their own names, then the work's."""
        emitted = self.work.output_schema(self.rows)
        twice = set(self.key) & set(emitted.names)
        if twice:
            raise InputError(
                f"the output would have two columns {min(twice)!r}, and one of them is the key; "
                "rename the key or the other one"
            )
        seen: dict[str, str] = {}
        for name in (*self.key, *emitted.names):
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise InputError(
                    f"the output would have the columns {other!r} and {name!r}, which differ only by "
                    "case, and Spark could not read them; rename one"
                )
        keys = (self.rows.field(name).with_nullable(True) for name in self.key)
        return pa.schema([*keys, *emitted])

    def parts_schema(self) -> pa.Schema:
        """What tasks hand on where keys are split: parts of states, bound for the keys' owners."""
        return pa.schema(
            [
                pa.field(PARTITION, pa.int32()),
                pa.field(FINGERPRINT, pa.int64()),
                *self.key_schema(),
                *(pa.field(stored(f.name), f.type) for f in self.state_schema()),
            ]
        )

    def identity(self) -> dict[str, Any]:
        """What must be the same for the state of a checkpoint to be used."""
        return {
            "key": {name: str(self.rows.field(name).type) for name in self.key},
            "state": {field.name: str(field.type) for field in self.state_schema()},
            **self.work.signature(),
        }


def check_fit(work: Work, scheme: GroupingScheme) -> None:
    """Refuse work whose keys cannot be split under a scheme that splits them."""
    if scheme.splits_keys and not work.mergeable:
        from evenflow.grouping import schemes

        fitting = [name for name, known in schemes().items() if not known.splits_keys]
        raise InputError(
            f"{scheme.name!r} sends the rows of one key to several partitions, and {work.describe()} "
            "has no `merge` to put their results together; define merge(a, b), or use "
            f"{' or '.join(fitting)}, or leave it to auto"
        )
