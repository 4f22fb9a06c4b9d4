"""Keyed state on disk: immutable checked segments, one manifest a batch, a checkpoint around them.

NumPy and pyarrow alone: neither Spark nor a compiler is needed to read a checkpoint.
"""

from evenflow.state.checkpoint import Checkpoint, Lock
from evenflow.state.errors import AlreadyCommitted, CheckpointError, DamagedState
from evenflow.state.folding import fold, newest
from evenflow.state.manifest import Manifest
from evenflow.state.segments import (
    FINGERPRINT,
    VERSION,
    Segment,
    StateReader,
    look_up,
    read_segment,
    write_segment,
)

__all__ = [
    "FINGERPRINT",
    "VERSION",
    "AlreadyCommitted",
    "Checkpoint",
    "CheckpointError",
    "DamagedState",
    "Lock",
    "Manifest",
    "Segment",
    "StateReader",
    "fold",
    "look_up",
    "newest",
    "read_segment",
    "write_segment",
]
