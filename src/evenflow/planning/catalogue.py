"""Finds every planner: the files of this folder, and other packages' entry points."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import evenflow.planning
from evenflow.model.discovery import build, discover, look_up
from evenflow.planning.protocol import Planner


@cache
def planners() -> dict[str, type[Planner]]:
    """Name → class of every planner, by name.

    A planner of this package is a class with a `name`, defined in a module of this folder: adding a
    file adds a planner. Other packages register theirs under the entry point `evenflow.planning`.
    """
    return discover("planners", evenflow.planning)


def planner_class(name: str) -> type[Planner]:
    """The class of that name."""
    return look_up("planner", planners(), name)


def make_planner(spec: str, **parameters: Any) -> Planner:
    """A planner from its name, with parameters as keywords or after a colon.

    Example:
        >>> make_planner("mixed:beta=1").beta
        1
    """
    return cast(Planner, build("planner", planners(), spec, parameters))
