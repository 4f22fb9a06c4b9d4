"""What a checkpoint says of an operator, and how a newer version of it goes on with its state.

State is found by name. For aggregates, the identity says what each of them computes and under which
name its state is kept; for other operators, the name of the operator, its parameters and the columns of
its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from evenflow.model import InputError
from evenflow.operators import Operator
from evenflow.operators.aggregate import Aggregate
from evenflow.operators.aggregates import Aggregates
from evenflow.operators.expiring import Expiring
from evenflow.operators.service_time import ServiceTime
from evenflow.state.checkpoint import SCHEMA
from evenflow.state.evolution import obstacle, schema_of, schema_text

_NEW = "start with a checkpoint location of its own"

Entry = dict[str, Any]  #: what an identity says of one aggregate


class Resumed(NamedTuple):
    """An operator that goes on with the state of a checkpoint.

    Parameters:
        operator: with the names under which its state is kept.
        identity: what the checkpoint is to say of it.
        changes: what has become of the state, one sentence each.
    """

    operator: Operator
    identity: dict[str, Any]
    changes: tuple[str, ...] = ()


def identity_of(operator: Operator, rows: pa.Schema) -> dict[str, Any]:
    """What a checkpoint says of an operator."""
    inner = operator.operator if isinstance(operator, ServiceTime | Expiring) else operator
    if isinstance(inner, Aggregates):
        return {
            "operator": inner.identity,
            "aggregates": {name: _entry(one, inner.state_name(name), rows) for name, one in inner},
            SCHEMA: _schemas(inner, rows),
        }
    return {
        "operator": inner.identity,
        "parameters": inner.parameters(),
        SCHEMA: schema_text(inner.state_schema(rows)),
    }


def resumed_operator(
    operator: Operator, stored: Mapping[str, Any], rows: pa.Schema, batch: int
) -> Resumed | None:
    """The operator, as it goes on with what an older version of it has kept; None if that was another
    kind of work; `InputError` that says what to do, if its state does not fit.

    Parameters:
        operator: as the user gave it.
        stored: the identity in the checkpoint.
        rows: the schema of the rows.
        batch: the number of the next batch.
    """
    if isinstance(operator, ServiceTime | Expiring):
        inner = resumed_operator(operator.operator, stored, rows, batch)
        if inner is None:
            return None
        return inner._replace(operator=replace(operator, operator=inner.operator))
    if "operator" not in stored or isinstance(operator, Aggregates) != ("aggregates" in stored):
        return None
    if isinstance(operator, Aggregates):
        return _Evolution(operator, stored, rows, batch).resumed()
    now = identity_of(operator, rows)
    name = operator.identity
    if stored["operator"] != name:
        raise _other(
            f"its operator was {stored['operator']!r} and is {name!r} now",
            f"if it is the same work, give it the name it had, name={stored['operator']!r} (an "
            f"argument of PerKey, an attribute of an Operator's class); if not, {_NEW}",
        )
    if stored.get("parameters") != now["parameters"]:
        raise _other(
            f"{name} had the parameters {stored.get('parameters')}, and has {now['parameters']} now",
            f"keep them, leave out of `parameters()` what its state does not depend on, or {_NEW}",
        )
    if wrong := obstacle(schema_of(str(stored[SCHEMA])), operator.state_schema(rows)):
        raise _other(
            f"the state of {name} does not fit: {wrong}",
            "columns may be added and numbers become wider; a column that is not needed any more can "
            f"stay, and be None; for all else {_NEW}",
        )
    return Resumed(operator, now)


class _Evolution:
    """Aggregates of today and what a checkpoint has kept of those before.

    Parameters:
        now: those of today.
        stored: the identity in the checkpoint.
        rows: the schema of the rows.
        batch: the number of the next batch.
    """

    def __init__(
        self, now: Aggregates, stored: Mapping[str, Any], rows: pa.Schema, batch: int
    ) -> None:
        self.now, self.rows, self.batch = now, rows, batch
        self.stored: dict[str, Entry] = stored["aggregates"]
        self.schemas: dict[str, str] = stored[SCHEMA]
        #: State that no batch has gone on without: its aggregate may come back.
        self.dropped: dict[str, Entry] = {
            kept: one for kept, one in stored.get("dropped", {}).items() if one["until"] == batch
        }

    def resumed(self) -> Resumed:
        if self.batch == 0:  # nothing is kept yet
            return Resumed(self.now, identity_of(self.now, self.rows))
        taken: dict[str, Entry] = {}
        for name, aggregate in self.now:
            if (entry := self._same_name(name, aggregate)) is not None:
                taken[name] = entry
        for name, aggregate in self.now:
            if name not in taken and (entry := self._renamed(aggregate, taken)) is not None:
                taken[name] = entry
        changes, entries = [], {}
        for name, aggregate in self.now:
            known = taken.get(name)
            if known is None:
                self._refuse_another(name, aggregate, taken)
                kept, since = f"{name}@{self.batch}", self.batch
                changes.append(f"{name} is new and starts empty with batch {since}")
            else:
                kept, since = known["kept"], known["since"]
                if self.stored.get(name) is not known:
                    changes.append(f"{name} goes on with the state of {self._was(known)}")
            entries[name] = _entry(aggregate, kept, self.rows, since)
        left = {one["kept"]: one for one in taken.values()}
        dropped = {kept: one for kept, one in self.dropped.items() if kept not in left}
        for name, entry in self.stored.items():
            if entry["kept"] not in left:
                dropped[entry["kept"]] = {**entry, "until": self.batch, "name": name}
                changes.append(f"{name} is dropped with batch {self.batch}")
        operator = self.now.stored_as({name: one["kept"] for name, one in entries.items()})
        schemas = {kept: self.schemas[kept] for kept in dropped} | _schemas(operator, self.rows)
        identity = {"operator": operator.identity, "aggregates": entries, SCHEMA: schemas}
        if dropped:
            identity["dropped"] = dropped
        return Resumed(operator, identity, tuple(changes))

    def _same_name(self, name: str, aggregate: Aggregate) -> Entry | None:
        """What is kept of an aggregate that has kept its name and its definition."""
        found = self.stored.get(name)
        if found is None or found["is"] != aggregate.definition():
            return None
        if wrong := self._misfit(found, aggregate):
            raise _other(
                f"the state of {name}={aggregate} does not fit: {wrong}",
                f"numbers may become wider; cast the column back, or {_NEW}",
            )
        return found

    def _renamed(self, aggregate: Aggregate, taken: Mapping[str, Entry]) -> Entry | None:
        """What is kept of the same aggregate under a name that is free now: the oldest."""
        used = {one["kept"] for one in taken.values()}
        free = [
            one
            for one in (*self.stored.values(), *self.dropped.values())
            if one["kept"] not in used
            and one["is"] == aggregate.definition()
            and not self._misfit(one, aggregate)
        ]
        return min(free, key=lambda one: (one["since"], "until" in one, one["kept"]), default=None)

    def _misfit(self, entry: Entry, aggregate: Aggregate) -> str | None:
        """Why an aggregate cannot go on with what is kept."""
        wrong = obstacle(schema_of(self.schemas[entry["kept"]]), aggregate.state_schema(self.rows))
        if wrong or aggregate.any_width:
            return wrong
        for column, kind in entry["of"].items():
            if (today := str(self.rows.field(column).type)) != kind:
                return f"{column} was {kind} and is {today} now, whose values it counts otherwise"
        return None

    def _refuse_another(self, name: str, aggregate: Aggregate, taken: Mapping[str, Entry]) -> None:
        """Refuse an aggregate in the place of another one: its column would change its meaning."""
        before = self.stored.get(name)
        if before is None or any(one is before for one in taken.values()):
            return
        raise _other(
            f"{name} was {before['is']} and is {aggregate.definition()} now",
            f"give the new one another name, under which it starts empty, or {_NEW}",
        )

    def _was(self, entry: Entry) -> str:
        names = [name for name, one in self.stored.items() if one is entry]
        return str(names[0] if names else entry["name"])


def _entry(aggregate: Aggregate, kept: str, rows: pa.Schema, since: int = 0) -> Entry:
    return {
        "is": aggregate.definition(),
        "of": {name: str(rows.field(name).type) for name in aggregate.columns()},
        "kept": kept,
        "since": since,
    }


def _schemas(operator: Aggregates, rows: pa.Schema) -> dict[str, str]:
    """The state of each aggregate, under the name by which it is kept."""
    return {
        operator.state_name(name): schema_text(one.state_schema(rows)) for name, one in operator
    }


def _other(what: str, remedy: str) -> InputError:
    return InputError(f"the checkpoint was made by another computation: {what}; {remedy}")
