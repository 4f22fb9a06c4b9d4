"""Claims that need a cluster: throughput and latency on Apache Storm. §V-B Q4, Figures 13 and 14."""

from __future__ import annotations

from evenflow_lab.experiments import open_claim

NEEDS_A_CLUSTER = (
    "Measured by the authors on 9 machines running Apache Storm (48 sources, 80 workers, 1 ms a "
    "message). These experiments route messages and have no clock."
)

_CLAIMS = {
    "storm-throughput-over-pkg": "D-C and W-C improve throughput by up to 150 % (Abstract), or reach "
    "1.5 times that of PKG (§V-B): the two are not the same.",
    "storm-throughput-over-kg": "D-C and W-C improve throughput by 230 % over KG (§I), or reach 2.3 "
    "times that of KG (§V-B): the two are not the same.",
    "storm-latency-over-pkg": "D-C and W-C reduce the 99th percentile of latency by up to 60 % against "
    "PKG.",
    "storm-latency-over-kg": "D-C and W-C reduce latency by over 75 % against KG.",
    "storm-matches-sg": "D-C and W-C match the throughput and the latency of SG.",
    "storm-kg-lowest": "KG has the lowest throughput of all groupings; PKG is better, but does not "
    "match SG.",
    "storm-skew-harder-for-kg-and-pkg": "Increasing the skew makes the problem harder for KG and PKG.",
    "storm-pkg-latency-half-of-kg": "PKG's latency is about 50 % of KG's at the highest skew; SG's is "
    "up to 3 times smaller than PKG's.",
}

CLAIMS = tuple(open_claim(id, "§V-B Q4", says, NEEDS_A_CLUSTER) for id, says in _CLAIMS.items())
