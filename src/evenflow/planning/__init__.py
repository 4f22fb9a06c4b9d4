"""From statistics to routing tables. `planners()` lists every planner."""

from evenflow.model.discovery import Catalogue
from evenflow.planning.protocol import Planner

_CATALOGUE = Catalogue[Planner]("planner", __name__)
planners, make_planner = _CATALOGUE.all, _CATALOGUE.make

__all__ = ["make_planner", "planners"]
