"""Keys → workers, one scheme per file. `schemes()` lists every scheme; the classes are here by name.

    scheme = evenflow.grouping.DChoices(epsilon=0.01)

A class is imported when it is first used, and with it its kernel.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evenflow.grouping.protocol import GroupingScheme, Scheme
from evenflow.model.discovery import Catalogue

if TYPE_CHECKING:
    from evenflow.grouping.bounded_hashing import BoundedHashing
    from evenflow.grouping.consistent import ConsistentGrouping
    from evenflow.grouping.d_choices import DChoices
    from evenflow.grouping.dalton import Dalton
    from evenflow.grouping.fish import Fish
    from evenflow.grouping.greedy_d import GreedyD
    from evenflow.grouping.key import KeyGrouping
    from evenflow.grouping.key_isolator import KeyIsolator
    from evenflow.grouping.partial_key import PartialKeyGrouping
    from evenflow.grouping.random_choices import RandomChoices
    from evenflow.grouping.round_robin_head import RoundRobinHead
    from evenflow.grouping.shuffle import ShuffleGrouping
    from evenflow.grouping.table import TableRouting
    from evenflow.grouping.two_choices import TwoChoices
    from evenflow.grouping.w_choices import WChoices

_CATALOGUE = Catalogue[GroupingScheme]("grouping scheme", __name__)
schemes, scheme_class, make = _CATALOGUE.all, _CATALOGUE.get, _CATALOGUE.make

# Class → the file of this folder that has it.
_CLASSES = {
    "BoundedHashing": "bounded_hashing",
    "ConsistentGrouping": "consistent",
    "DChoices": "d_choices",
    "Dalton": "dalton",
    "Fish": "fish",
    "GreedyD": "greedy_d",
    "KeyGrouping": "key",
    "KeyIsolator": "key_isolator",
    "PartialKeyGrouping": "partial_key",
    "RandomChoices": "random_choices",
    "RoundRobinHead": "round_robin_head",
    "ShuffleGrouping": "shuffle",
    "TableRouting": "table",
    "TwoChoices": "two_choices",
    "WChoices": "w_choices",
}

__all__ = [
    "BoundedHashing",
    "ConsistentGrouping",
    "DChoices",
    "Dalton",
    "Fish",
    "GreedyD",
    "GroupingScheme",
    "KeyGrouping",
    "KeyIsolator",
    "PartialKeyGrouping",
    "RandomChoices",
    "RoundRobinHead",
    "Scheme",
    "ShuffleGrouping",
    "TableRouting",
    "TwoChoices",
    "WChoices",
    "make",
    "scheme_class",
    "schemes",
]

if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> Any:
        if name in _CLASSES:
            return getattr(import_module(f"{__name__}.{_CLASSES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
