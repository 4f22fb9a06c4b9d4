"""What flows back from the workers to the routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from evenflow.model.key_counts import KeyCounts
from evenflow.model.routing_table import RoutingTable


class Signal(IntEnum):
    """A worker's binary wish (consistent grouping, §V-C "Worker Delegation")."""

    INCREASE = 1  #: idle: give me more
    DECREASE = -1  #: busy: take some away


@dataclass(frozen=True)
class Feedback:
    """One acknowledgement's worth of news for a source.

    Parameters:
        time: the clock of the caller (messages, seconds, batches: any unit that only grows); time
            slots are counted in it.
        signals: worker id → its signal, in order of arrival.
        plan: a new routing table, where the scheme routes by one.
        hot: what all sources together have seen of the most frequent keys, where the scheme treats hot
            keys apart: it takes the place of what this source has seen itself.
    """

    time: float = 0.0
    signals: Mapping[int, Signal] = field(default_factory=dict)
    plan: RoutingTable | None = None
    hot: KeyCounts | None = None
