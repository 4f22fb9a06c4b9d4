"""What a keyed query is: all that its tasks and its batches need to know, in one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators import Operator, WindowJoin
from evenflow.operators.windows import END, START, Window

if TYPE_CHECKING:
    # Work tasks import this module, and must not wait for a compiler that they do not use.
    from evenflow.grouping.protocol import GroupingScheme
    from evenflow.planning.controller import Replanning

# Columns that travel beside the user's own.
WORKER = "__evenflow_worker"
FINGERPRINT = "__fingerprint"
REPORT = "__evenflow_report"
AUTO = "auto"


@dataclass(frozen=True)
class Job:
    """A keyed computation, without its data.

    Parameters:
        key: the key columns.
        rows: the schema of the rows: key columns and what the operator reads.
        operator: what happens to a key.
        scheme: who gets which message; None to choose by what the data shows.
        workers: how many workers.
        seed: of the hash functions.
        replanning: when and how a routing table is planned anew, where the scheme has one.
        window: the event-time windows that the operator works in; None for all of time.
    """

    key: tuple[str, ...]
    rows: pa.Schema
    operator: Operator
    scheme: GroupingScheme | None
    workers: int
    seed: int = 0
    replanning: Replanning | None = None
    window: Window | None = None

    def key_schema(self) -> pa.Schema:
        """The key columns, as they are stored: k0, k1, …

        For state that expires, the moment when it does follows: a window's end (in parts of states
        the beginning of a pane), or the last moment at which a row of a join can still have a
        partner, and a number that tells such rows apart. Fingerprints are of the user's key alone, so
        that all that belongs to a key lies together and moves together.
        """
        types = [self.rows.field(name).type for name in self.key]
        types += [pa.int64()] * ((self.window is not None) + 2 * self.joins)
        return pa.schema([pa.field(f"k{i}", kind) for i, kind in enumerate(types)])

    @property
    def joins(self) -> bool:
        """Whether rows are paired, rather than folded into one state a key."""
        return isinstance(self.operator, WindowJoin)

    @property
    def delay(self) -> int:
        """How long rows may be late, in microseconds of event time."""
        if self.window is not None:
            return self.window.delay
        return self.operator.delay if isinstance(self.operator, WindowJoin) else 0

    @property
    def expires(self) -> str | None:
        """The stored key column that says when a row of state expires, if it does."""
        return f"k{len(self.key)}" if self.window is not None or self.joins else None

    def state_schema(self) -> pa.Schema:
        """The state columns, as the operator names them."""
        return self.operator.state_schema(self.rows)

    def output_schema(self) -> pa.Schema:
        """The output: the key columns under their own names, then what the operator emits."""
        emitted = self.operator.output_schema(self.rows)
        twice = set(self.key) & set(emitted.names)
        if twice:
            raise InputError(
                f"the output would have two columns {min(twice)!r}, the key and an aggregate; "
                "name the aggregate otherwise"
            )
        bounds: list[pa.Field] = []
        if self.window is not None:
            kind = self.window.time_type(self.rows)
            bounds = [pa.field(START, kind), pa.field(END, kind)]
            taken = {START, END} & {*self.key, *emitted.names}
            if taken:
                raise InputError(
                    f"the output would have two columns {min(taken)!r}: the windows' bounds are called "
                    f"{START} and {END}; rename the key or the aggregate"
                )
        keys = (self.rows.field(name).with_nullable(True) for name in self.key)
        return pa.schema([*keys, *bounds, *emitted])

    def parts_schema(self) -> pa.Schema:
        """What workers hand on where keys are split: parts of states, bound for the keys' owners."""
        return pa.schema(
            [
                pa.field(WORKER, pa.int32()),
                pa.field(FINGERPRINT, pa.int64()),
                *self.key_schema(),
                *(pa.field(stored(f.name), f.type) for f in self.state_schema()),
            ]
        )


def quoted(name: str) -> str:
    """A column's name as Spark's expressions write it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def stored(name: str) -> str:
    """The name of a state column in parts and segments, which no key column has."""
    return f"s_{name}"


def check_fit(operator: Operator, scheme: GroupingScheme) -> None:
    """Refuse an operator whose keys cannot be split under a scheme that splits them."""
    if scheme.splits_keys and not operator.mergeable:
        from evenflow.grouping import schemes

        fitting = [name for name, known in schemes().items() if not known.splits_keys]
        raise InputError(
            f"{scheme.name!r} sends one key to several workers, and {type(operator).__name__} has no "
            f"`merge` to put the parts together; define merge(a, b), or use {' or '.join(fitting)}"
        )
