"""The vocabulary that every other package speaks: workers, feedback, routing tables, errors."""

from evenflow.model.errors import EvenflowError, InputError
from evenflow.model.feedback import Feedback, Signal
from evenflow.model.key_counts import KeyCounts
from evenflow.model.plan import Plan
from evenflow.model.routing_table import RoutingTable
from evenflow.model.workers import Workers

__all__ = [
    "EvenflowError",
    "Feedback",
    "InputError",
    "KeyCounts",
    "Plan",
    "RoutingTable",
    "Signal",
    "Workers",
]
