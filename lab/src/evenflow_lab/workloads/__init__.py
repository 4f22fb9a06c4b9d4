"""Stand-ins for the papers' streams, their generators, and real data."""

from evenflow_lab.workloads.cashtags import Cashtags
from evenflow_lab.workloads.flights import Flights
from evenflow_lab.workloads.fluctuating import Fluctuating
from evenflow_lab.workloads.smalops import Smalops
from evenflow_lab.workloads.twitter import Twitter
from evenflow_lab.workloads.wikipedia import Wikipedia
from evenflow_lab.workloads.words import Words

__all__ = ["Cashtags", "Flights", "Fluctuating", "Smalops", "Twitter", "Wikipedia", "Words"]
