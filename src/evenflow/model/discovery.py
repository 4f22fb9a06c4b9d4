"""One file adds one algorithm: discovery for the packages that are open to extension.

Grouping schemes, for instance, are the classes with a `name` in the modules of one package, plus those
that other packages register as entry points. There is no list to maintain.
"""

from __future__ import annotations

import dataclasses
import difflib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import getmembers, isclass
from typing import Any, Generic, TypeVar, cast

from evenflow.model.errors import InputError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Catalogue(Generic[T]):
    """Every algorithm of one kind, found by name.

    Adding a file to the package adds an algorithm; other distributions register theirs under an
    entry point of the package's name.

    Parameters:
        kind: the name in messages, "grouping scheme".
        package: the package whose modules are searched, "evenflow.grouping".
        base: consider only subclasses of this; None for every class with a `name`.
        registered: consider only what other distributions have registered; no module is imported.
        plural: of `kind`; with an s if not given.

    Example:
        >>> from evenflow.grouping import GroupingScheme
        >>> schemes = Catalogue[GroupingScheme]("grouping scheme", "evenflow.grouping")
        >>> schemes.get("greedy-d").name, schemes.make("greedy-d:d=5").d
        ('greedy-d', 5)
    """

    kind: str
    package: str
    base: type[Any] | None = None
    plural: str = ""
    registered: bool = False

    def all(self) -> dict[str, type[T]]:
        """Name → class of every algorithm of this kind, by name."""
        return _found(self)

    def get(self, name: str) -> type[T]:
        """The class of that name."""
        return look_up(self.kind, self.all(), name)

    def make(self, spec: str, **parameters: Any) -> T:
        """An instance from its name, with parameters as keywords or after a colon."""
        return cast(T, build(self.kind, self.all(), spec, parameters))


@cache
def _found(catalogue: Catalogue[Any]) -> dict[str, type[Any]]:
    plural = catalogue.plural or f"{catalogue.kind}s"
    found = discover(plural, catalogue.package, catalogue.registered)
    return {n: c for n, c in found.items() if not catalogue.base or issubclass(c, catalogue.base)}


def discover(kinds: str, package: str, registered: bool = False) -> dict[str, type[Any]]:
    """Name → class of everything of a kind, sorted by name.

    Finds classes with a `name` that are defined in a module of `package` or registered by another
    distribution as an entry point in the group of the package's name (`evenflow.grouping`). Rejects
    duplicate names: which one ran would be arbitrary.

    Parameters:
        kinds: their name in messages, "grouping schemes".
        package: the package whose modules are searched.
        registered: leave the modules alone.
    """
    classes: list[type[Any]] = []
    path = [] if registered else import_module(package).__path__
    for module_info in pkgutil.iter_modules(path):
        module = import_module(f"{package}.{module_info.name}")
        classes += [c for _, c in getmembers(module, isclass) if c.__module__ == module.__name__]
    classes += [point.load() for point in entry_points(group=package)]
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
    """The class of that name, or an error that lists the known names."""
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise InputError(f"no {kind} is called {name!r}; {hint}")
    return known[name]


def build(
    kind: str, known: Mapping[str, type[Any]], spec: str, parameters: Mapping[str, Any]
) -> Any:
    """An instance from `name` or `name:parameter=value,…`, which takes precedence over `parameters`.

    A value is `true`, `false` or a number. Numbers are parsed as in Python, including `nan` and `inf`:
    the class itself validates values.
    """
    name, _, text = spec.partition(":")
    name = name.strip()
    chosen = look_up(kind, known, name)
    given = dict(parameters)
    fields = {field.name: field for field in parameters_of(chosen)}
    for item in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise InputError(f"{spec!r}: expected parameter=value after the colon, got {item!r}")
        try:
            given[key] = _TRUTH[value] if value in _TRUTH else _number(value)
        except ValueError:
            raise InputError(
                f"{spec!r}: {key} must be {_kind(fields, key)}, got {value!r}"
            ) from None
    unknown = given.keys() - fields.keys()
    if unknown:
        takes = ", ".join(fields) or "no parameters"
        raise InputError(f"{name!r} has no parameter {min(unknown)!r}; it takes {takes}")
    for field in fields.values():
        if is_required(field) and field.name not in given:
            raise InputError(f"{name!r} needs {field.name}: write '{name}:{field.name}=…'")
    return chosen(**given)


def parameters_of(chosen: type[Any]) -> list[dataclasses.Field[Any]]:
    """The parameters that a class takes, as its dataclass fields."""
    fields = dataclasses.fields(chosen) if dataclasses.is_dataclass(chosen) else ()
    return [field for field in fields if field.init]


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a parameter has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


_TRUTH = {"true": True, "false": False}


def _kind(fields: Mapping[str, dataclasses.Field[Any]], name: str) -> str:
    truth = name in fields and isinstance(fields[name].default, bool)
    return "true or false" if truth else "a number"


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
