"""Streams of keys, in chunks: synthetic ones, stand-ins for published ones, and real data.

One workload a file; `make_workload` finds it by name.
"""

from evenflow.simulator.workloads.cashtags import Cashtags
from evenflow.simulator.workloads.catalogue import make_workload, workloads
from evenflow.simulator.workloads.files import KeyFile
from evenflow.simulator.workloads.flights import Flights
from evenflow.simulator.workloads.fluctuating import Fluctuating
from evenflow.simulator.workloads.hourly import HOURLY
from evenflow.simulator.workloads.protocol import Workload
from evenflow.simulator.workloads.smalops import Smalops
from evenflow.simulator.workloads.twitter import Twitter
from evenflow.simulator.workloads.wikipedia import Wikipedia
from evenflow.simulator.workloads.words import Words
from evenflow.simulator.workloads.zipf import Zipf

__all__ = [
    "HOURLY",
    "Cashtags",
    "Flights",
    "Fluctuating",
    "KeyFile",
    "Smalops",
    "Twitter",
    "Wikipedia",
    "Words",
    "Workload",
    "Zipf",
    "make_workload",
    "workloads",
]
