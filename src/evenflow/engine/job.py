"""What a keyed query is: all that its tasks and its batches need to know, in one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from evenflow.engine.layout import FINGERPRINT, PARTITION, stored
from evenflow.model import InputError
from evenflow.model.plan import AUTO

if TYPE_CHECKING:
    # Tasks import this module and must not wait for a compiler that they do not use.
    from evenflow.engine.work import Work
    from evenflow.grouping.protocol import GroupingScheme
    from evenflow.planning.controller import Replanning
    from evenflow.planning.scaling import Scaling


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
        scaling: how the number of partitions follows the load of a stream, which begins with
            `partitions`; None to leave it as it is.
    """

    key: tuple[str, ...]
    rows: pa.Schema
    work: Work
    scheme: GroupingScheme | None
    partitions: int
    seed: int = 0
    replanning: Replanning | None = None
    scaling: Scaling | None = None

    @property
    def partitions_asked(self) -> int | str:
        """What the user asked for: a number of partitions, or `auto`."""
        return self.partitions if self.scaling is None else AUTO

    def key_schema(self) -> pa.Schema:
        """The key columns as they are stored: k0, k1, … for the user's own, then the work's.

        Where all rows of a key are written at once, the work's own columns are not part of what tells
        versions apart, and have other names: w0, w1, …

        Fingerprints are of the user's key alone, so that everything that belongs to a key lies together
        and moves together.
        """
        own = [self.rows.field(name).type for name in self.key]
        names = [f"k{i}" for i in range(len(own))]
        for i, _ in enumerate(self.work.key_types()):
            names.append(f"w{i}" if self.work.rewrites_keys else f"k{len(own) + i}")
        types = [*own, *self.work.key_types()]
        return pa.schema([pa.field(name, kind) for name, kind in zip(names, types, strict=True)])

    @property
    def expires(self) -> str | None:
        """The stored column that says when a row of state expires, if it does."""
        if not self.work.expires:
            return None
        own = self.key_schema().names[len(self.key) :]
        return own[0] if own else stored(self.state_schema().names[0])

    def state_schema(self) -> pa.Schema:
        """The state columns, as the work names them."""
        return self.work.state_schema(self.rows)

    def stored_names(self) -> list[str]:
        """The columns of a row of state, without its version."""
        return [FINGERPRINT, *self.key_schema().names, *map(stored, self.state_schema().names)]

    def output_schema(self) -> pa.Schema:
        """The output: the key columns under their own names, then the work's own."""
        emitted = self.work.output_schema(self.rows)
        own = self.key if self.work.puts_out_keys else ()
        twice = set(own) & set(emitted.names)
        if twice:
            raise InputError(
                f"the output would have two columns {min(twice)!r}, and one of them is the key; "
                "rename the key or the other one"
            )
        seen: dict[str, str] = {}
        for name in (*own, *emitted.names):
            other = seen.setdefault(name.lower(), name)
            if other != name:
                raise InputError(
                    f"the output would have the columns {other!r} and {name!r}, which differ only by "
                    "case, and Spark could not read them; rename one"
                )
        keys = [self.rows.field(name).with_nullable(True) for name in own]
        schema = pa.schema([*keys, *emitted])
        if self.work.order is None:
            return schema
        return pa.schema([schema.field(name) for name in self.work.order])

    def parts_schema(self) -> pa.Schema:
        """What tasks hand on where keys are split: parts of states, bound for the keys' owners."""
        return pa.schema(
            [
                pa.field(PARTITION, pa.int32()),
                pa.field(FINGERPRINT, pa.int64()),
                *self.key_schema(),
                *(pa.field(stored(f.name), f.type) for f in self.work.part_schema(self.rows)),
            ]
        )

    def resumed(
        self, stored: Mapping[str, Any], batch: int
    ) -> tuple[Job, dict[str, Any], tuple[str, ...]] | None:
        """The job, as it goes on with the state of a checkpoint that an older version of it has made;
        what the checkpoint is to say of it, and what has changed. None if that was another job.

        Parameters:
            stored: the identity in the checkpoint.
            batch: the number of the next batch.
        """
        if stored.get("key") != self.identity()["key"]:
            return None
        found = self.work.resumed(stored, self.rows, batch)
        if found is None:
            return None
        work, identity, changes = found
        job = replace(self, work=work)
        return job, {**job.identity(), **identity}, changes

    def identity(self) -> dict[str, Any]:
        """What must be the same for the state of a checkpoint to be used."""
        return {
            "key": {name: str(self.rows.field(name).type) for name in self.key},
            "state": {field.name: str(field.type) for field in self.state_schema()},
            **self.work.identity(self.rows),
        }


def check_fit(work: Work, scheme: GroupingScheme) -> None:
    """Refuse work whose keys cannot be split under a scheme that splits them."""
    if scheme.splits_keys and not work.mergeable:
        from evenflow.grouping import schemes

        fitting = [name for name, known in schemes().items() if not known.splits_keys]
        raise InputError(
            f"{scheme.name!r} sends the rows of one key to several partitions, and {work.describe()} "
            "has no `merge` to put their results together; define merge(a, b), or use "
            f"{', '.join(fitting[:-1])} or {fitting[-1]}, or leave it to auto"
        )
