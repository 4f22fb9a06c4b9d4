"""Keys → workers, one scheme a file. `schemes()` lists all that are found."""

from evenflow.grouping.catalogue import make, scheme_class, schemes
from evenflow.grouping.protocol import GroupingScheme, Scheme

__all__ = ["GroupingScheme", "Scheme", "make", "scheme_class", "schemes"]
