"""One file adds one algorithm: what the layers that are open to extension have in common.

Grouping schemes, for instance, are the classes with a `name` in the modules of one package, and
those that other packages register as entry points. Nobody keeps a list by hand.
"""

from __future__ import annotations

import dataclasses
import difflib
import pkgutil
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getmembers, isclass
from types import ModuleType
from typing import Any

from evenflow.model.errors import InputError


def discover(kinds: str, package: ModuleType) -> dict[str, type[Any]]:
    """Name → class of everything of a kind, by name.

    Found are classes with a `name`, defined in a module of `package` or registered by another
    distribution as an entry point in the group of the package's name (`evenflow.grouping`). Two of
    one name are refused: which one ran would depend on luck.

    Parameters:
        kinds: what they are called in messages, "grouping schemes".
        package: the imported package whose modules are looked through.
    """
    classes: list[type[Any]] = []
    for module_info in pkgutil.iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{module_info.name}")
        classes += [c for _, c in getmembers(module, isclass) if c.__module__ == module.__name__]
    classes += [point.load() for point in entry_points(group=package.__name__)]
    found: dict[str, type[Any]] = {}
    for candidate in classes:
        name = candidate.__dict__.get("name")
        if isinstance(name, str):
            if name in found and found[name] is not candidate:
                raise InputError(
                    f"two {kinds} are called {name!r}: {found[name].__module__} and "
                    f"{candidate.__module__}; rename one"
                )
            found[name] = candidate
    return dict(sorted(found.items()))


def look_up(kind: str, known: Mapping[str, type[Any]], name: str) -> type[Any]:
    """The class of that name, or an error that tells which names there are."""
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise InputError(f"no {kind} is called {name!r}; {hint}")
    return known[name]


def build(
    kind: str, known: Mapping[str, type[Any]], spec: str, parameters: Mapping[str, Any]
) -> Any:
    """An instance from `name` or `name:parameter=number,…`, which goes before `parameters`.

    Numbers are read as Python reads them, `nan` and `inf` included: whether a value makes sense is
    for the class itself to say.
    """
    name, _, text = spec.partition(":")
    name = name.strip()
    chosen = look_up(kind, known, name)
    given = dict(parameters)
    for item in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise InputError(f"{spec!r}: expected parameter=value after the colon, got {item!r}")
        try:
            given[key] = _number(value)
        except ValueError:
            raise InputError(f"{spec!r}: {key} must be a number, got {value!r}") from None
    fields = dataclasses.fields(chosen) if dataclasses.is_dataclass(chosen) else ()
    fields = tuple(f for f in fields if f.init)
    names = [f.name for f in fields]
    unknown = given.keys() - set(names)
    if unknown:
        takes = ", ".join(names) or "no parameters"
        raise InputError(f"{name!r} has no parameter {min(unknown)!r}; it takes {takes}")
    for field in fields:
        optional = (field.default, field.default_factory) != (dataclasses.MISSING,) * 2
        if not optional and field.name not in given:
            raise InputError(f"{name!r} needs {field.name}: write '{name}:{field.name}=…'")
    return chosen(**given)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
