"""Hot keys of a stream: one sketch per file, one protocol. `sketches()` lists every sketch.

`evenflow.sketches.named_keys` returns hot keys by value, not only by fingerprint.
"""

from evenflow.model.discovery import Catalogue
from evenflow.sketches.protocol import FrequentKeys, Sketch

_CATALOGUE = Catalogue[Sketch]("sketch", __name__, plural="sketches")
sketches, sketch_class, make = _CATALOGUE.all, _CATALOGUE.get, _CATALOGUE.make

__all__ = ["FrequentKeys", "Sketch", "make", "sketch_class", "sketches"]
