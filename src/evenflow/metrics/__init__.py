"""Imbalance, replication, worst windows, latency: one metric per file.

Every tracker takes a stream in chunks of any size; its numbers do not depend on the chunking.
"""

from evenflow.metrics.imbalance import ImbalanceTracker, imbalance
from evenflow.metrics.latency import LatencyHistogram
from evenflow.metrics.replication import ReplicationTracker
from evenflow.metrics.roster import WorkerNumbers, fair_shares
from evenflow.metrics.windows import WINDOW, WorstSlidingWindow, WorstWindow

__all__ = [
    "WINDOW",
    "ImbalanceTracker",
    "LatencyHistogram",
    "ReplicationTracker",
    "WorkerNumbers",
    "WorstSlidingWindow",
    "WorstWindow",
    "fair_shares",
    "imbalance",
]
