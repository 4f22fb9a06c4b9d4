"""Streams of keys, in chunks: synthetic ones, and columns of files.

One workload per file; `make_workload` finds it by name. Other packages register theirs under the entry
point `evenflow.simulator.workloads`.
"""

from evenflow.simulator.workloads.declaration import make_workload, workloads
from evenflow.simulator.workloads.files import KeyFile
from evenflow.simulator.workloads.hourly import HOURLY
from evenflow.simulator.workloads.protocol import Workload
from evenflow.simulator.workloads.zipf import Zipf

__all__ = ["HOURLY", "KeyFile", "Workload", "Zipf", "make_workload", "workloads"]
