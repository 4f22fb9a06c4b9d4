"""Operators → nodes, by the correlation of their loads. `placers()` lists all algorithms."""

from evenflow.model.discovery import Catalogue
from evenflow.placement.protocol import Placer

_CATALOGUE = Catalogue[Placer]("placement algorithm", __name__)
placers, placer_class, make_placer = _CATALOGUE.all, _CATALOGUE.get, _CATALOGUE.make

__all__ = ["make_placer", "placer_class", "placers"]
