"""Finds every placement algorithm: the files of this folder, and other packages' entry points."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import evenflow.placement
from evenflow.model.discovery import build, discover, look_up
from evenflow.placement.protocol import Placer


@cache
def placers() -> dict[str, type[Placer]]:
    """Name → class of every placement algorithm, by name.

    An algorithm of this package is a class with a `name`, defined in a module of this folder: adding a
    file adds an algorithm. Other packages register theirs under the entry point `evenflow.placement`.
    """
    return discover("placement algorithms", evenflow.placement)


def placer_class(name: str) -> type[Placer]:
    """The class of that name."""
    return look_up("placement algorithm", placers(), name)


def make_placer(spec: str, **parameters: Any) -> Placer:
    """A placement algorithm from its name, with parameters as keywords or after a colon.

    Example:
        >>> make_placer("cor-se-imp:exchange=0.3").exchange
        0.3
    """
    return cast(Placer, build("placement algorithm", placers(), spec, parameters))
