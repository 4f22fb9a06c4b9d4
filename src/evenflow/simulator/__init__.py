"""Simulations in virtual time: several sources route a stream, and the workers are measured."""

from evenflow.simulator.cluster import Cluster
from evenflow.simulator.engine import simulate
from evenflow.simulator.queue_result import QueueResult
from evenflow.simulator.queueing import simulate_queues
from evenflow.simulator.result import Result

__all__ = ["Cluster", "QueueResult", "Result", "simulate", "simulate_queues"]
