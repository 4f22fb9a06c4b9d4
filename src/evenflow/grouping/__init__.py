"""Keys → workers, one scheme per file. `schemes()` lists every scheme."""

from evenflow.grouping.protocol import GroupingScheme, Scheme
from evenflow.model.discovery import Catalogue

_CATALOGUE = Catalogue[GroupingScheme]("grouping scheme", __name__)
schemes, scheme_class, make = _CATALOGUE.all, _CATALOGUE.get, _CATALOGUE.make

__all__ = ["GroupingScheme", "Scheme", "make", "scheme_class", "schemes"]
