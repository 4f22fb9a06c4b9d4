"""Finds every grouping scheme: the files of this folder, and other packages' entry points."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import evenflow.grouping
from evenflow.grouping.protocol import GroupingScheme
from evenflow.model.discovery import build, discover, look_up


@cache
def schemes() -> dict[str, type[GroupingScheme]]:
    """Name → class of every scheme, by name.

    A scheme of this package is a class with a `name`, defined in a module of this folder: adding a
    file adds a scheme. Other packages register theirs under the entry point `evenflow.grouping`.
    """
    return discover("grouping schemes", evenflow.grouping)


def scheme_class(name: str) -> type[GroupingScheme]:
    """The class of that name."""
    return look_up("grouping scheme", schemes(), name)


def make(spec: str, **parameters: Any) -> GroupingScheme:
    """A scheme from its name, with parameters as keywords or after a colon.

    Example:
        >>> make("greedy-d:d=5").d
        5
    """
    return cast(GroupingScheme, build("grouping scheme", schemes(), spec, parameters))
