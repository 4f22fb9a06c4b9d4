"""Which keys are hot: one sketch a file, one protocol for all. `sketches()` lists what is found.

`evenflow.sketches.named_keys` gives hot keys by their values, not only by their fingerprints.
"""

from evenflow.sketches.catalogue import make, sketch_class, sketches
from evenflow.sketches.protocol import HotKeys, Sketch

__all__ = ["HotKeys", "Sketch", "make", "sketch_class", "sketches"]
