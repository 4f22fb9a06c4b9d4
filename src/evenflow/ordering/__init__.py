"""Message sets: a key's order, kept although the key moves between the partitions of a log."""

from evenflow.ordering.headers import (
    FIRST,
    LAST,
    MESSAGE,
    Header,
    HeaderColumns,
    marker_column,
    message_column,
    pack,
    set_number,
    unpack,
    unpack_column,
)
from evenflow.ordering.reader import DONE, Done, Effects, Item, Reader, Snapshot
from evenflow.ordering.writer import BatchMarkers, Place, Record, Writer, batch_markers

__all__ = [
    "DONE",
    "FIRST",
    "LAST",
    "MESSAGE",
    "BatchMarkers",
    "Done",
    "Effects",
    "Header",
    "HeaderColumns",
    "Item",
    "Place",
    "Reader",
    "Record",
    "Snapshot",
    "Writer",
    "batch_markers",
    "marker_column",
    "message_column",
    "pack",
    "set_number",
    "unpack",
    "unpack_column",
]
