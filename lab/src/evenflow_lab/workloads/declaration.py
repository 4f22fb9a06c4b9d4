"""A workload from its declaration: a name, and parameters as plain values."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from evenflow.model import InputError
from evenflow.model.discovery import Catalogue, is_required, parameters_of
from evenflow.simulator.workloads.protocol import CALLED, Workload

_CATALOGUE = Catalogue[Workload]("workload", "evenflow.simulator.workloads")
workloads = _CATALOGUE.all


def make_workload(spec: Mapping[str, Any]) -> Workload:
    """A workload from its declaration: `name`, and its parameters as plain values.

    A `drift` of 0 is no drift, where a stream can be without: a grid needs a number for it.

    Guarantee: what the workload does not know, lacks or cannot use is refused in one line.

    Example:
        >>> stream = make_workload({"name": "zipf", "zipf": 2.0, "messages": 1_000, "drift": 0})
        >>> stream.describe()["zipf"], stream.length()
        (2.0, 1000)
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise InputError(
            f'a workload is declared by its name, {{"name": "zipf", …}}; got {spec!r}; '
            f"known: {', '.join(workloads())}"
        )
    given = {key: value for key, value in spec.items() if key != "name"}
    name = spec["name"]
    chosen = _CATALOGUE.get(name)
    fields = {f.metadata.get(CALLED, f.name): f for f in parameters_of(chosen)}
    for key in given:
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            takes = ", ".join(fields) or "no parameters"
            raise InputError(f"the workload {name!r} has no {key!r}; {hint}it takes {takes}")
    for key, field in fields.items():
        if is_required(field) and key not in given:
            raise InputError(f"the workload {name!r} needs {key!r}; add it to the declaration")
    arguments = {fields[k].name: _value(name, k, fields[k], v) for k, v in given.items()}
    return chosen(**arguments)


def _value(name: str, key: str, field: dataclasses.Field[Any], value: Any) -> Any:
    """`value` where the field can hold it; numbers only are checked, by the field's annotation."""
    kinds = {kind.strip() for kind in str(field.type).split("|")}
    if key == "drift" and value == 0 and "None" in kinds:
        return None
    if not kinds & {"int", "float"} or (value is None and "None" in kinds):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = number and float(value).is_integer()
    if not (number if "float" in kinds else whole):
        wanted = "a number" if "float" in kinds else "a whole number"
        raise InputError(f"the workload {name!r}: {key!r} must be {wanted}, got {value!r}")
    return value if "float" in kinds else int(value)
