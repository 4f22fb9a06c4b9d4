"""Claims that need a Storm cluster, or a proof: open."""

from __future__ import annotations

from evenflow_lab.experiments import open_claim

_STORM = (
    "Needs a Storm cluster of 8 machines with 24 workers; simulation has no throughput of its own."
)


CLAIMS = (
    open_claim(
        "storm-latency",
        "Abstract, §I, §VIII",
        "On Storm, CG's latency is 3.44 times better than key grouping's.",
        f"{_STORM} The paper contradicts itself: abstract, §I and §VIII give 3.44× for latency (and "
        "2× for throughput, §I), §VII-B gives 3.44× for throughput and 2× for latency.",
    ),
    open_claim(
        "storm-throughput",
        "§I",
        "On Storm, CG's throughput is up to 2 times KG's.",
        f"{_STORM} §VII-B gives 3.44× for it; see storm-latency.",
    ),
    open_claim(
        "storm-memory",
        "§VII-B, Q4",
        "On TW and 24 workers KG takes 7 % of the cluster's memory, PKG and CG 8.5 %, SG 14 %.",
        f"{_STORM} The percentages include the JVM and Storm itself, and TW is not available; the "
        "order KG < PKG, CG < SG in replicas is tested by cg-memory-below-ch and potc-sg-more-memory.",
    ),
    open_claim(
        "storm-homogeneous",
        "§VII-B, Q4",
        "On equal machines PKG, SG and CG have higher throughput and lower latency than KG.",
        _STORM,
    ),
    open_claim(
        "storm-heterogeneous",
        "§VII-B, Q4",
        "With two executors at 30 % of their CPU, CG has the best throughput and latency of all.",
        _STORM,
    ),
    open_claim(
        "low-overhead",
        "§V-C",
        "Periodic aggregation and piggybacked signals have a very low overhead.",
        "The simulator has no network and no aggregation step; the cost of both is a matter of an "
        "engine and is not measured in the paper either.",
    ),
)
