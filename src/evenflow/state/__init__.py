"""Keyed state on a storage: immutable checked segments, one manifest per batch, a checkpoint.

NumPy and pyarrow alone: neither Spark nor a compiler is needed to read a checkpoint.
"""

from evenflow.state.checkpoint import Checkpoint
from evenflow.state.compaction import compact, newest
from evenflow.state.errors import AlreadyCommitted, CheckpointError, DamagedState, LostLease
from evenflow.state.manifest import Manifest
from evenflow.state.segments import (
    FINGERPRINT,
    VERSION,
    Segment,
    read_segment,
    write_segment,
)
from evenflow.state.state_reader import StateReader, look_up

__all__ = [
    "FINGERPRINT",
    "VERSION",
    "AlreadyCommitted",
    "Checkpoint",
    "CheckpointError",
    "DamagedState",
    "LostLease",
    "Manifest",
    "Segment",
    "StateReader",
    "compact",
    "look_up",
    "newest",
    "read_segment",
    "write_segment",
]
