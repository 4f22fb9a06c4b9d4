"""Streams of keys, in chunks: synthetic ones, and columns of files."""

from evenflow.simulator.arrivals import HOURLY
from evenflow.simulator.workloads.files import KeyFile
from evenflow.simulator.workloads.folder import KeyFolder, keys_at
from evenflow.simulator.workloads.protocol import Workload
from evenflow.simulator.workloads.zipf import Zipf

__all__ = ["HOURLY", "KeyFile", "KeyFolder", "Workload", "Zipf", "keys_at"]
