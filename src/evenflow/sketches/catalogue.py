"""Finds every sketch: the files of this folder, and other packages' entry points."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import evenflow.sketches
from evenflow.model.discovery import build, discover, look_up
from evenflow.sketches.protocol import Sketch


@cache
def sketches() -> dict[str, type[Sketch]]:
    """Name → class of every sketch, by name.

    A sketch of this package is a class with a `name`, defined in a module of this folder: adding a
    file adds a sketch. Other packages register theirs under the entry point `evenflow.sketches`.
    """
    return discover("sketches", evenflow.sketches)


def sketch_class(name: str) -> type[Sketch]:
    """The class of that name."""
    return look_up("sketch", sketches(), name)


def make(spec: str, **parameters: Any) -> Sketch:
    """A sketch from its name, with parameters as keywords or after a colon.

    Example:
        >>> make("space-saving:capacity=100") == make("space-saving", capacity=100)
        True
    """
    return cast(Sketch, build("sketch", sketches(), spec, parameters))
