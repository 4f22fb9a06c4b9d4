"""The schemes that the simulator knows by name."""

from __future__ import annotations

from evenflow.grouping import GroupingScheme, make
from evenflow.model.discovery import Catalogue

_SIMULATED = Catalogue[GroupingScheme]("grouping scheme", "evenflow.simulator", registered=True)


def make_scheme(spec: str) -> GroupingScheme:
    """A grouping scheme by its name, or one that exists in the simulator alone.

    The latter may replan by themselves, which no scheme on Spark can. Other packages register them
    under the entry point `evenflow.simulator`.

    Example:
        >>> make_scheme("greedy-d:d=3").d
        3
    """
    known = spec.partition(":")[0].strip() in _SIMULATED.all()
    return _SIMULATED.make(spec) if known else make(spec)
