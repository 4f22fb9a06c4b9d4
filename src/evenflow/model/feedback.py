"""Feedback from the workers to the routers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from evenflow.model.key_counts import KeyCounts
from evenflow.model.routing_table import RoutingTable


class Signal(IntEnum):
    """A worker's binary signal (consistent grouping, §V-C "Worker Delegation"), or that it has none."""

    INCREASE = 1  #: idle: give me more
    DECREASE = -1  #: busy: take some away
    NEITHER = 0  #: neither idle nor busy: what was signalled before no longer holds


@dataclass(frozen=True)
class Feedback:
    """One acknowledgement's worth of feedback for a source.

    Parameters:
        time: the caller's clock (messages, seconds, batches: any unit that only grows), in which time
            slots are measured.
        signals: worker id → its signal, in order of arrival.
        plan: a new routing table, if the scheme uses one.
        hot: the most frequent keys of all sources together, if the scheme treats hot keys separately;
            replaces this source's own counts.
    """

    time: float = 0.0
    signals: Mapping[int, Signal] = field(default_factory=dict)
    plan: RoutingTable | None = None
    hot: KeyCounts | None = None
